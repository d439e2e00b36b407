"""The site's routes: what they show, what they refuse, and that nothing makes them fail."""

import html
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from results.export.bundle import read_bundle
from results.export.contents import contents_of
from results.index.catalogue import FILE_NAME
from results.record.milestones import Milestone, append_milestone
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.story import Story, dump_story
from results.record.stream import StreamWriter
from results.site import make_site
from results.site.guard import hosts_of
from results.site.tallies import MAX_WORDS, Tallies
from results.store import Store, lock_run
from results.verdict_json import read_verdict, write_verdict
from tests.results.planted import (
    LATE,
    LOSS,
    NIGHTS,
    SECOND,
    anomaly,
    night_of,
    plant,
    planted_nights,
    planted_sample,
)

NIGHT = f"/night/nightly/{NIGHTS[-1]}"
LOSS_RUN = "/run/loss-acks-1/20261122T013000Z-1/"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\u202e\ud83d"


class Reading(FlaskClient):
    """A client that reads answers to their ends, and closes the files they came from."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:  # noqa: ANN401 - werkzeug's own
        return super().open(*args, **{"buffered": True, **kwargs})


def site(store: Path) -> FlaskClient:
    app = make_site(Store(store))
    app.test_client_class = Reading
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app.test_client()


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("site") / "runs"
    planted_nights(store)
    return store


@pytest.fixture(scope="module")
def client(nights: Path) -> FlaskClient:
    return site(nights)


def text_of(client: FlaskClient, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return answer.get_data(as_text=True)


def words_of(page: str) -> str:
    """Return what a reader reads, on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def links_of(page: str, url: str) -> Iterator[str]:
    for link in re.findall(r'(?:href|src)="([^"]+)"', page):
        whole = urlsplit(urljoin(f"http://localhost{url}", html.unescape(link)))
        if whole.scheme == "http" and whole.netloc == "localhost":
            yield f"{whole.path}?{whole.query}" if whole.query else whole.path


def test_every_link_of_the_site_leads_somewhere_and_nothing_is_written(
    client: FlaskClient, nights: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in nights.rglob("*")}
    seen, ahead, files = set[str](), ["/"], 0
    while ahead:
        url = ahead.pop(0)
        # Of files and filters there are many, and all alike.
        stored = re.fullmatch(r"/run/[^/]+/[^/]+/.+|/runs\?.*|/compare\?.*", url) is not None
        files += stored
        if url in seen or (stored and files > 15):
            continue
        seen.add(url)
        answer = client.get(url)
        assert answer.status_code == 200, url
        # Pages of runs link to their files; the site's own pages are what is walked here.
        if answer.mimetype == "text/html" and not url.endswith(".html"):
            ahead += links_of(answer.get_data(as_text=True), url)
    assert len(seen) > 100
    assert {
        "/nights",
        "/runs",
        "/failures",
        "/trends",
        "/reached",
        "/compare",
        NIGHT,
        LOSS_RUN,
    } <= seen
    after = {path: path.stat().st_mtime_ns for path in nights.rglob("*")}
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path.name for path in changed - {nights}} <= {FILE_NAME, f"{FILE_NAME}-journal"}


def test_the_front_page_tells_what_is_new_in_the_last_night_first(client: FlaskClient) -> None:
    words = words_of(text_of(client, "/"))
    told = [
        "2 new failures in the last night",
        "and 1 new reason for a verdict that is unknown",
        "New in the last night",
        "Acknowledged writes were lost, with acks=1, under isolate.",
        "Known failures that recurred in the last night",
        "Acknowledged writes were lost, under kill and partition.",
        "2 runs of the night repeats: same seed: 3 of 3 (44 % to 100 %); new seeds: 0 of 3",
        "first seen 20 Nov 2026, 01:00 6 times in all",
        "Stories of the last night that ended as expected T as told leader-epoch-1 Invalid:",
        "Newest runs",
    ]
    places = [words.find(each) for each in told]
    assert -1 not in places, words
    assert places == sorted(places)
    for each in (
        "A partition accepted no messages for too long, under pause.",
        "Parts of the run had too little traffic, under kill and partition.",
        LATE[:80].capitalize(),
    ):
        assert each in words


def test_the_cause_stands_on_the_page_of_the_run(client: FlaskClient) -> None:
    words = words_of(text_of(client, LOSS_RUN))
    assert "Invalid: 980 acknowledged writes were lost." in words
    assert "acknowledged at offset 263 of log-0-0" in words
    assert (
        "acknowledged at 17.490 s value log-0-0:v131198 acknowledged by broker 2 (n2), epoch 0"
        in words
    )
    assert '<abbr title="value 4295098494">log-0-0:v131198</abbr>' in text_of(client, LOSS_RUN)
    assert "times 1 repeats, same seed not repeated repeats, new seeds not repeated" in words
    assert f"logquake repro runs/{LOSS_RUN.strip('/').removeprefix('run/')} --times 10" in words
    valid = words_of(text_of(client, "/run/log/20261122T012000Z-5/"))
    assert "logquake repro" not in valid
    story = words_of(text_of(client, "/run/leader-epoch-1-high-watermark/20261122T014000Z-1/"))
    assert "message2 , acknowledged at offset 1" in story


def test_a_night_is_a_matrix_with_letters_and_rates(client: FlaskClient) -> None:
    page = text_of(client, NIGHT)
    words = words_of(page)
    assert "workload faults 2.8.2 3.9.1, zookeeper 4.2.0 4.3.1" in words
    assert "log kill, partition not run U 1 of 1 I 1 of 1 2 repeats not run" in words
    assert "groups pause not run V 1 of 1 V 1 of 1 I 1 of 2" in words
    assert "leader-epoch-1 the steps of the story T 1 of 1" in words
    assert '<td class="cell invalid">' in page
    assert "3 invalid 1 unknown 9 valid 1 as told and 2 repeats" in words


def test_one_broken_build_is_one_failure_over_three_nights(client: FlaskClient) -> None:
    table = words_of(text_of(client, "/failures"))
    assert table.count("Acknowledged writes were lost, under kill and partition.") == 1
    (url,) = {
        each
        for each in links_of(text_of(client, "/run/log/20261122T011000Z-102/"), "/")
        if each.startswith("/failure/")
    }
    words = words_of(text_of(client, url))
    told = "repeats, same seed 3 of 3 (44 % to 100 %) repeats, new seeds 0 of 3 (0 % to 56 %)"
    assert f"seen 6 times {told}" in words
    assert (
        f"6 {told.replace('repeats, same seed ', '').replace('repeats, new seeds ', '')}" in table
    )
    assert "first night 20 Nov 2026, 01:00 last night 22 Nov 2026, 01:00" in words
    assert "log, kill, partition, kafka:4.2.0, namespace acks=all 5 of 8 (31 % to 86 %)" in words


def test_a_repeated_run_says_how_often_its_failure_recurred(client: FlaskClient) -> None:
    words = words_of(text_of(client, "/run/log/20261122T011000Z-102/"))
    told = "repeats, same seed 3 of 3 (44 % to 100 %) repeats, new seeds 0 of 3 (0 % to 56 %)"
    assert f"times 6 {told}" in words
    again = words_of(text_of(client, "/run/log/20261122T011200Z-202/"))
    assert "every promise was kept" in again


def test_runs_are_filtered_by_forms(client: FlaskClient) -> None:
    def found(**fields: str) -> int:
        page = words_of(client.get("/runs", query_string=fields).get_data(as_text=True))
        match = re.search(r"([\d,]+) runs? ", page)
        assert match
        return int(match[1])

    assert found() == 3 * 12 + 5
    assert found(verdict="invalid") == 9
    assert found(anomaly="lost-write") == 8
    assert found(workload="txn", version="4.3.1") == 3
    assert found(fault="isolate", suite="nightly") == 3 * 12 + 3
    assert found(seed="100") == 2
    assert found(text="story high") == 1
    assert found(seed="1e3") == found(nonsense="x") == 3 * 12 + 5
    page = text_of(client, "/runs?verdict=invalid&seed=100")
    assert "<option selected>invalid</option>" in page
    assert 'value="100"' in page
    assert "older" in words_of(text_of(client, "/runs")) or found() <= 50


def test_pages_of_runs_follow_each_other(tmp_path: Path) -> None:
    for number in range(120):
        plant(tmp_path, f"20261122T{number // 60:02}{number % 60:02}00Z")
    client = site(tmp_path)
    ids: list[str] = []
    url: str | None = "/runs?verdict=valid"
    while url:
        page = text_of(client, url)
        ids += re.findall(r'<td class="id"><a href="([^"]+)"', page)
        after = re.search(r'rel="next" href="([^"]+)"', page)
        url = html.unescape(after[1]) if after else None
    assert len(ids) == len(set(ids)) == 120
    assert "the last page has a smaller number" in text_of(client, "/runs?page=999")


def test_trends_are_drawn_by_the_server(client: FlaskClient) -> None:
    page = text_of(client, "/trends")
    assert page.count('<svg class="trend"') == 4
    assert "<title>22 Nov: 3 invalid</title>" in page
    assert "<title>20 Nov: 10 s</title>" in page
    words = words_of(page)
    assert "22 Nov 2026, 01:00 14" in words
    assert "lost-write 2, " in words


def test_two_runs_stand_side_by_side(client: FlaskClient) -> None:
    left, right = "log/20261122T011000Z-102", "log/20261122T011200Z-202"
    words = words_of(text_of(client, f"/compare?left={left}&right={right}"))
    assert "lost-write 12 none" in words
    assert "seed 102 202" in words
    assert "faults: kill 3 3" in words
    assert "latency of send, p99 40 ms 40 ms" in words
    assert "no run nothing/here in this store" in words_of(
        text_of(client, "/compare?left=nothing/here")
    )


def test_large_plans_are_compared_on_a_page_of_a_bearable_size(tmp_path: Path) -> None:
    left, right = (plant(tmp_path, f"2026112{day}T010000Z") for day in (1, 2))
    many = "".join(f'"k{number}" = "{"v" * 600}"\n' for number in range(400))
    with right.plan.open("a", encoding="utf-8") as plan:
        plan.write(f"\n[more]\n{many}\n{'.'.join(['deep'] * 30)} = 1\n")
    page = text_of(site(tmp_path), f"/compare?left={left.run_id}&right={right.run_id}")
    assert len(page) < 1_000_000
    words = words_of(page)
    assert "Not shown: 101 more." in words
    assert "(100 more characters)" in words


def test_files_are_served_as_what_they_are_and_nothing_more(client: FlaskClient) -> None:
    for name, kind in (
        ("verdict.json", "text/plain; charset=utf-8"),
        ("plan.toml", "text/plain; charset=utf-8"),
        ("record/sends.parquet", "application/octet-stream"),
        ("report.html", "text/html; charset=utf-8"),
    ):
        answer = client.get(LOSS_RUN + name)
        assert answer.status_code == 200, name
        assert answer.headers["Content-Type"] == kind
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("sandbox ")
        assert "allow-scripts" not in policy
        assert "allow-same-origin" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "980 acknowledged writes were lost" in text_of(client, f"{LOSS_RUN}report.html")


def test_only_a_time_line_may_have_scripts_and_none_of_the_sites_origin(tmp_path: Path) -> None:
    paths = plant(tmp_path, "20261122T010000Z")
    (paths.root / "timeline.html").write_text("<script>1</script>", encoding="utf-8")
    (paths.root / "nodes").mkdir()
    (paths.root / "nodes" / "timeline.html").write_text("<script>1</script>", encoding="utf-8")
    client = site(tmp_path)
    policy = client.get(f"/run/{paths.run_id}/timeline.html").headers["Content-Security-Policy"]
    assert "allow-scripts" in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "allow-same-origin" not in policy
    policy = client.get(f"/run/{paths.run_id}/nodes/timeline.html").headers[
        "Content-Security-Policy"
    ]
    assert "allow-scripts" not in policy
    assert "Time line" in words_of(text_of(client, f"/run/{paths.run_id}/"))


def test_a_bundle_is_the_run(client: FlaskClient, nights: Path, tmp_path: Path) -> None:
    answer = client.get("/bundle/loss-acks-1/20261122T013000Z-1")
    assert answer.mimetype == "application/gzip"
    assert "loss-acks-1-20261122T013000Z-1" in answer.headers["Content-Disposition"]
    file = tmp_path / "bundle.tar.gz"
    file.write_bytes(answer.data)
    taken = read_bundle(file, Store(tmp_path / "other"))
    original = RunPaths(nights / "loss-acks-1" / "20261122T013000Z-1")
    assert taken.verdict.read_bytes() == original.verdict.read_bytes()
    assert taken.table("sends").read_bytes() == original.table("sends").read_bytes()


def test_a_reader_who_leaves_in_the_middle_of_a_bundle_leaves_no_thread(tmp_path: Path) -> None:
    paths = planted_sample(tmp_path, "loss-acks-1", "20261122T010000Z")
    paths.table("sends").write_bytes(os.urandom(3_000_000))
    answer = site(tmp_path).get(f"/bundle/{paths.run_id}", buffered=False)
    chunks = answer.iter_encoded()
    assert next(iter(chunks))[:2] == b"\x1f\x8b"
    answer.close()
    for thread in threading.enumerate():
        if thread.name == "bundle":
            thread.join(timeout=30)
            assert not thread.is_alive()


def test_files_that_vanish_while_they_are_listed_are_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = planted_sample(tmp_path, "valid", "20261122T010000Z")
    real = os.walk

    def late(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for folder, folders, names in real(root):
            yield folder, folders, [*names, "gone.tmp"]

    monkeypatch.setattr(os, "walk", late)
    assert "gone.tmp" not in text_of(site(tmp_path), f"/files/{paths.run_id}")
    assert "gone.tmp" not in text_of(site(tmp_path), f"/run/{paths.run_id}/report.html")


def live_run(store: Path) -> RunPaths:
    paths = plant(store, "20261122T010000Z", judged=False, milestones=("started", "ready"))
    for number, name in enumerate(("warmup", "main"), 3):
        append_milestone(paths.milestones, Milestone(name=name, at_ns=number * SECOND))
    paths.live.mkdir(parents=True)
    begun = StreamWriter(paths.live, "op_invocations", "worker-0")
    ended = StreamWriter(paths.live, "op_completions", "worker-0")
    for number in range(1000):
        begun.append((number, 1, 0, "send", "main", number))
        if number < 990:
            ended.append((number, number, "ok" if number % 10 else "info", None))
    faults = StreamWriter(paths.live, "faults", "nemesis")
    spec = '{"family": "kill"}'
    faults.append((1, "kill", spec, ["n1"], SECOND, 2 * SECOND, 3 * SECOND, None, None))
    faults.append((2, HOSTILE.replace("\ud83d", ""), spec, ["n2", "n3"], 4 * SECOND, None, None,
                   None, None))  # fmt: skip
    faults.flush()
    faults.append((2, "pause", spec, ["n2", "n3"], 4 * SECOND, 5 * SECOND, None, None, None))
    for stream in (begun, ended, faults):
        stream.flush()  # As while it is under way: no stream is ended.
    return paths


def test_a_run_is_watched_while_it_is_under_way(tmp_path: Path) -> None:
    paths = live_run(tmp_path)
    with lock_run(paths):
        client = site(tmp_path)
        assert "watch it" in words_of(text_of(client, "/"))
        page = text_of(client, f"/live/{paths.run_id}")
        assert '<noscript><meta http-equiv="refresh" content="3"></noscript>' in page
        part = text_of(client, f"/live/{paths.run_id}?part=1")
        assert "<html" not in part
        for words in (words_of(page), words_of(part)):
            assert "Clients and faults side by side" in words
            assert "operations 990 ok 891 info 99 under way 10 faults in force 1" in words
            assert "pause n2, n3 in force 4 s - kill n1 over 1 s 3 s" in words
    over = text_of(site(tmp_path), f"/live/{paths.run_id}")
    assert "refresh" not in over
    assert "The run died" in words_of(over)


def test_a_stream_of_garbage_is_no_trouble(tmp_path: Path) -> None:
    paths = live_run(tmp_path)
    (paths.live / "op_completions.worker-1.arrows").write_bytes(os.urandom(5000))
    (paths.live / "faults.garbage.arrows").write_bytes(b"\xff\xff\xff\xff" + b"\0" * 100)
    os.mkfifo(paths.live / "faults.fifo.arrows")
    assert "operations 990" in words_of(text_of(site(tmp_path), f"/live/{paths.run_id}"))


def test_lists_say_which_runs_were_interrupted(tmp_path: Path) -> None:
    doubtful = plant(tmp_path, "20261122T010000Z", because=("the run failed: n1 died",))
    lost = plant(tmp_path, "20261122T020000Z", anomalies={"lost-write": anomaly()})
    for paths in (doubtful, lost):
        verdict = read_verdict(paths.verdict)
        assert verdict is not None
        write_verdict(paths, replace(verdict, stats={"interrupted_at_s": 2.5}))
    words = words_of(text_of(site(tmp_path), "/runs"))
    assert "Interrupted at 2.5 s. The run failed: n1 died" in words
    assert "Interrupted at 2.5 s. 3 acknowledged writes were lost." in words


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    client = site(tmp_path / "none")
    assert "logquake run" in text_of(client, "/")
    for url in ("/runs", "/nights", "/failures", "/trends", "/reached", "/compare"):
        assert client.get(url).status_code == 200
    assert not (tmp_path / "none").exists()


def test_a_run_that_starts_later_shows_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("results.site.shelf.FRESH_S", 0.0)
    monkeypatch.setattr("results.site.shelf._SHARE", 0)
    store = tmp_path / "runs"
    client = site(store)
    assert "There are no runs yet" in text_of(client, "/")
    plant(store, "20261122T010000Z")
    assert "1 run" in words_of(text_of(client, "/"))


def test_a_store_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_text("no folder", encoding="utf-8")
    answer = site(file).get("/")
    assert answer.status_code == 503
    assert "is a file, not a folder" in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("127.0.0.1:8420", 200), ("[::1]:1", 200), ("LOCALHOST", 200),
        ("evil.example", 400), ("evil.example:8420", 400), ("127.0.0.1.evil.example", 400),
        ("localhost@evil.example", 400), ("10.0.0.1", 400), ("", 400), ("a b", 400),
        ("localhost/x", 400), ("127.0.0.1:99999999", 400), ("127.0.0.1:", 400), ("[::1", 400),
        ("localhost, evil.example", 400), ("127.1", 400), ("2130706433", 400),
    ],
)  # fmt: skip
@pytest.mark.parametrize("url", ["/", "/nothing", "/assets/site.css"])
def test_only_our_own_hosts_are_answered(
    client: FlaskClient, url: str, host: str, status: int
) -> None:
    answer = client.get(url, headers={"Host": host})
    assert answer.status_code == (404 if status == 200 and url == "/nothing" else status)


def test_an_address_is_known_by_its_names() -> None:
    assert hosts_of("127.0.0.1") == ("localhost", "127.0.0.1", "[::1]")
    assert "[2001:db8::1]" in hosts_of("2001:db8::1")
    assert "broker.example" in hosts_of("broker.example")
    everywhere = hosts_of("0.0.0.0")  # noqa: S104 - a name, nothing listens
    assert "127.0.0.1" in everywhere
    assert "evil.example" not in everywhere


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_the_site_only_reads(client: FlaskClient, method: str) -> None:
    for url in ("/", "/runs", LOSS_RUN + "plan.toml", "/nothing"):
        assert client.open(url, method=method).status_code == 405


def test_large_requests_are_refused(client: FlaskClient) -> None:
    assert client.get("/runs?text=" + "x" * 5000).status_code == 414
    assert client.get("/runs?text=" + "x" * 4000).status_code == 200
    assert client.post("/", data=b"x" * 100_000).status_code == 405


@pytest.mark.parametrize("url", ["/", "/nothing", LOSS_RUN, LOSS_RUN + "plan.toml"])
def test_pages_forbid_what_they_do_not_need(client: FlaskClient, url: str) -> None:
    headers = client.get(url).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert "Set-Cookie" not in headers
    assert "Access-Control-Allow-Origin" not in headers


def test_our_own_pages_have_no_inline_script_or_style(client: FlaskClient) -> None:
    for url in ("/", "/runs", NIGHT, LOSS_RUN, "/trends", "/compare"):
        page = text_of(client, url)
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", page), url


OUTSIDE = (
    "../../../../../../../../etc/passwd", "%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "..%2f..%2f..%2fsecret.txt", "....//secret.txt", "..\\..\\secret.txt", "/etc/passwd",
    "//etc/passwd", "nodes/../../../../secret.txt", "linked.txt", "linked/secret.txt",
    ".hidden", "nodes/.hidden/x.txt", "nodes", "nodes/", "fifo", "%00", "plan.toml%00.txt",
    "plan.toml/", "%ff%fe", "\u202eplan.toml", "x" * 3000,
)  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path[:30].replace("\\", "/"))
def test_no_path_leaves_the_run(tmp_path: Path, path: str) -> None:
    store = tmp_path / "runs"
    paths = plant(store, "20261122T010000Z")
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0:secret", encoding="utf-8")
    (paths.root / "linked.txt").symlink_to(secret)
    (paths.root / "linked").symlink_to(tmp_path)
    (paths.root / ".hidden").write_text("root:secret", encoding="utf-8")
    (paths.nodes / ".hidden").mkdir(parents=True)
    (paths.nodes / ".hidden" / "x.txt").write_text("root:secret", encoding="utf-8")
    os.mkfifo(paths.root / "fifo")
    answer = site(store).get(f"/run/{paths.run_id}/{path}", follow_redirects=True)
    assert answer.status_code in {404, 405, 414}
    assert b"secret" not in answer.data.replace(path.encode(errors="replace"), b"")
    assert b"root:" not in answer.data
    listing = words_of(text_of(site(store), f"/files/{paths.run_id}"))
    assert "secret" not in listing
    assert "hidden" not in listing


def test_a_run_or_store_behind_a_link_that_leads_out_is_none(tmp_path: Path) -> None:
    other = plant(tmp_path / "other", "20261122T010000Z")
    store = tmp_path / "runs"
    (store / "log").mkdir(parents=True)
    (store / "log" / other.root.name).symlink_to(other.root)
    client = site(store)
    assert client.get(f"/run/{other.run_id}/").status_code == 404
    assert client.get(f"/run/{other.run_id}/plan.toml").status_code == 404
    assert client.get(f"/bundle/{other.run_id}").status_code == 404
    assert client.get(f"/live/{other.run_id}").status_code == 404


def test_a_bundle_takes_nothing_along_from_behind_links(tmp_path: Path) -> None:
    paths = planted_sample(tmp_path / "runs", "loss-acks-1", "20261122T010000Z")
    secret = tmp_path / "secret"
    secret.write_text("top secret", encoding="utf-8")
    paths.topics.unlink()
    paths.topics.symlink_to(secret)
    file = tmp_path / "bundle.tar.gz"
    file.write_bytes(site(tmp_path / "runs").get(f"/bundle/{paths.run_id}").data)
    taken = read_bundle(file, Store(tmp_path / "other"))
    assert not taken.topics.exists()


@pytest.mark.parametrize("top", ["record", "nodes", "statistics"])
def test_a_bundle_takes_nothing_along_from_behind_a_link_to_a_folder(
    tmp_path: Path, top: str
) -> None:
    paths = planted_sample(tmp_path / "runs", "loss-acks-1", "20261122T010000Z")
    shutil.move(paths.root / top, tmp_path / "outside")
    (paths.root / top).symlink_to(tmp_path / "outside")
    assert not [each for each in contents_of(paths).files if each.parts[0] == top]


def test_hostile_texts_do_nothing(tmp_path: Path) -> None:
    shown = anomaly(3, sentence=f"value 1 {HOSTILE}", topic=HOSTILE)
    paths = plant(
        tmp_path, "20261122T010000Z", anomalies={f"x{HOSTILE}": shown, "lost-write": shown}
    )
    failed = plant(tmp_path, "20261122T020000Z", because=[f"the run failed: {HOSTILE}"])
    (paths.root / f"{HOSTILE.replace('/', '')[:40]}.log").write_text(HOSTILE[:20], encoding="utf-8")
    (paths.root / "evil.log").write_bytes(HOSTILE.encode(errors="surrogatepass") + b"\xff" * 99)
    (paths.root / "evil.svg").write_text(f"<svg>{HOSTILE[:24]}</svg>", encoding="utf-8")
    client = site(tmp_path)
    for url in (
        "/", "/runs", "/failures", f"/run/{paths.run_id}/", f"/run/{failed.run_id}/",
        f"/compare?left={paths.run_id}&right={failed.run_id}", f"/files/{paths.run_id}",
        f"/live/{failed.run_id}", f"/runs?text={HOSTILE[:25]}&anomaly={HOSTILE[:25]}",
    ):  # fmt: skip
        page = text_of(client, url)
        assert "<script>alert" not in page, url
        assert "<img" not in page, url
        assert "\x1b" not in page, url
        assert "\u202e" not in page, url
    assert (
        client.get(f"/run/{paths.run_id}/evil.log").headers["Content-Type"].startswith("text/plain")
    )
    assert (
        "sandbox" in client.get(f"/run/{paths.run_id}/evil.svg").headers["Content-Security-Policy"]
    )


def test_a_damaged_record_is_a_page_that_says_so(tmp_path: Path) -> None:
    paths = planted_sample(tmp_path, "loss-acks-1", "20261122T010000Z")
    for file in sorted(paths.record.glob("*.parquet")):
        file.write_bytes(file.read_bytes()[:-100])
    paths.plan.write_bytes(b"\xff")
    client = site(tmp_path)
    assert client.get(f"/run/{paths.run_id}/").status_code == 200
    assert client.get(f"/run/{paths.run_id}/report.html").status_code in {200, 503}
    assert client.get(f"/bundle/{paths.run_id}").status_code == 200


@pytest.mark.parametrize(
    "text",
    [b'{"name": "\xff"}', b"[" * 200_000, b'{"name": "main", "at_ns": 1%s}' % (b"0" * 400),
     b'{"name": "main", "at_ns": 1%s}' % (b"0" * 5000)],
    ids=["not UTF-8", "deep", "a wild time", "a wilder one"],
)  # fmt: skip
def test_milestones_of_any_kind_take_no_page_from_anybody(tmp_path: Path, text: bytes) -> None:
    paths = planted_sample(tmp_path, "loss-acks-1", "20261122T010000Z")
    paths.milestones.write_bytes(text)
    client = site(tmp_path)
    run = paths.run_id
    for path in ("/", "/runs", f"/run/{run}/", f"/run/{run}/report.html", f"/live/{run}"):
        assert client.get(path).status_code == 200, path


SEGMENTS = st.one_of(
    st.sampled_from([
        "run", "runs", "night", "nights", "failure", "failures", "live", "files", "bundle",
        "assets", "compare", "trends", "nightly", "log", "loss-acks-1", NIGHTS[0],
        "20261122T013000Z-1", "verdict.json", "report.html", "site.css", "nodes", "..", ".", "",
        "../..", "\0", "latest", "?", "//", "\\",
        ".index.sqlite", "0" * 12,
    ]),
    st.text(max_size=12),
)  # fmt: skip
FIELDS = st.sampled_from([
    "page", "seed", "text", "verdict", "left", "right", "suite", "anomaly", "part", "signature",
])  # fmt: skip
VALUES = st.one_of(
    st.text(max_size=30), st.integers().map(str),
    st.sampled_from(["loss-acks-1/20261122T013000Z-1", "log/20261122T011000Z-102", "nightly",
                     "9" * 300, "' OR 1=1 --", "%", "\0", "1"]),
)  # fmt: skip


@settings(max_examples=200, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    segments=st.lists(SEGMENTS, max_size=6),
    asked=st.dictionaries(FIELDS, VALUES, max_size=4),
    headers=st.dictionaries(
        st.sampled_from(["Host", "Range", "If-None-Match", "If-Modified-Since", "Accept", "Cookie",
                         "Content-Length", "X-Forwarded-Host"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20), max_size=2,
    ),
    method=st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "OPTIONS"]),
)  # fmt: skip
def test_no_request_makes_the_site_fail(
    client: FlaskClient, *, segments: list[str], asked: dict[str, str], headers: dict[str, str],
    method: str,
) -> None:  # fmt: skip
    # As a server has decoded it: the client would take "//" for a host, and "?" for a query.
    path = ("/" + "/".join(segments)).encode().decode("latin-1")
    answer = client.open(
        "/", query_string=asked, headers=headers, method=method,
        environ_overrides={"PATH_INFO": path},
    )  # fmt: skip
    assert answer.status_code < 500
    assert b"root:x:0" not in answer.get_data()


def test_the_cause_in_the_card_is_what_the_checker_said(client: FlaskClient) -> None:
    words = words_of(text_of(client, "/"))
    assert LOSS.startswith("value 4294967298, acknowledged at offset 121 of log-0-1 at 22.300 s")
    assert "Value log-0-0:v2, acknowledged at offset 121 of log-0-1 at 22.300 s by op 4711" in words


def night_run(store: Path, minute: int, **changes: Any) -> RunPaths:  # noqa: ANN401 - `plant`'s own
    return plant(store, f"20261122T01{minute:02}00Z", night=night_of(NIGHTS[-1], "log"), **changes)


def test_a_night_in_which_runs_died_is_no_quiet_one(tmp_path: Path) -> None:
    night_run(tmp_path, 1)
    assert "No failure in the last night" in words_of(text_of(site(tmp_path), "/"))
    night_run(tmp_path, 2, judged=False, milestones=("started", "main"))
    page = text_of(site(tmp_path), "/")
    told = "No failure among the judged runs of the last night 1 run ended without"
    assert told in words_of(page)
    assert '<section class="tonight unjudged">' in page
    # That one is valid does not make the cell so.
    assert '<td class="cell unjudged">' in text_of(site(tmp_path), NIGHT)
    assert "log kill, partition - 1 of 2" in words_of(text_of(site(tmp_path), NIGHT))


def test_what_is_allowed_is_not_green_and_is_named_wherever_a_run_is_shown(tmp_path: Path) -> None:
    night_run(tmp_path, 1)
    row = night_run(tmp_path, 2, anomalies={"lost-write": anomaly(1, allowed=True)})
    client = site(tmp_path)
    front, night, trends = (text_of(client, url) for url in ("/", NIGHT, "/trends"))
    runs, run = text_of(client, "/runs"), text_of(client, f"/run/{row.run_id}/")
    assert '<section class="tonight allowed">' in front
    assert "1 allowed 1 valid" in words_of(front)
    assert '<td class="cell allowed">' in night
    assert "log kill, partition A 1 of 2" in words_of(night)
    assert "A valid with allowed anomalies" in words_of(night)
    assert '<rect class="allowed"' in trends
    assert '<span class="key allowed">allowed</span>' in trends
    chip = '<span class="chip allowed"><b aria-hidden="true">A</b>allowed</span>'
    for page in (front, night, runs, run):
        assert page.count(chip) == 1, page
    assert "1 acknowledged write was lost, and that is allowed." in words_of(runs)
    assert words_of(text_of(client, "/runs?verdict=allowed")).count("A allowed") == 1


def test_a_night_of_known_failures_is_not_coloured_as_a_good_one(tmp_path: Path) -> None:
    lost = {"lost-write": anomaly()}
    plant(tmp_path, "20261120T010000Z", anomalies=lost, night=night_of(NIGHTS[0], "log"))
    night_run(tmp_path, 1, anomalies=lost)
    page = text_of(site(tmp_path), "/")
    assert "No new failure in the last night" in page
    assert '<section class="tonight invalid">' in page


def test_a_story_that_ended_otherwise_is_a_failure_though_every_promise_was_kept(
    tmp_path: Path,
) -> None:
    told = Story(name="s", title="t", as_expected=False, differs=("message2 is not lost",))
    dump_story(told, night_run(tmp_path, 1).story)
    words = words_of(text_of(site(tmp_path), "/"))
    assert "1 new reason for a verdict that is unknown" in words
    assert (
        "Another result than the one that the story describes, under kill and partition." in words
    )
    assert "is not lost." in words
    assert "U 1 of 1" in words_of(text_of(site(tmp_path), NIGHT))


def test_a_failure_that_somebody_saw_before_any_night_is_as_old_as_that(tmp_path: Path) -> None:
    lost = {"lost-write": anomaly()}
    by_hand = plant(tmp_path, "20261119T120000Z", anomalies=lost)
    last = night_run(tmp_path, 1, anomalies=lost)
    client = site(tmp_path)
    assert "first seen 19 Nov 2026, 12:00" in words_of(text_of(client, "/"))
    page = words_of(text_of(client, f"/run/{last.run_id}/"))
    assert "Yes, since 19 Nov 2026, 12:00." in page
    assert "first 19 Nov 2026, 12:00 last 22 Nov 2026, 01:00 : this run" in page
    assert by_hand.run_id in text_of(client, f"/run/{last.run_id}/")


def test_suites_of_one_night_stand_together_and_a_failure_is_told_once(tmp_path: Path) -> None:
    lost = {"lost-write": anomaly()}
    for suite, night in (("weekly", "20261121T230000Z"), ("nightly", "20261122T010000Z"),
                         ("old", "20261120T010000Z")):  # fmt: skip
        plant(
            tmp_path, night, plan={"name": suite}, anomalies={} if suite == "old" else lost,
            night=Night(suite=suite, night=night, entry="log"),
        )  # fmt: skip
    page = words_of(text_of(site(tmp_path), "/"))
    when = "nightly, 22 Nov 2026, 01:00 weekly, 21 Nov 2026, 23:00"
    assert f"{when} 1 new failure in the last night" in page
    assert page.count("Acknowledged writes were lost, under kill and partition.") == 1
    assert "Known failures" not in page


def test_a_run_without_tables_has_no_bundle(tmp_path: Path) -> None:
    paths = plant(tmp_path, "20261122T010000Z")
    running = plant(tmp_path, "20261122T020000Z", judged=False)
    client = site(tmp_path)
    for each in (paths, running):
        assert client.get(f"/bundle/{each.run_id}").status_code == 404
        assert "Bundle" not in words_of(text_of(client, f"/run/{each.run_id}/"))


def test_no_page_is_made_of_what_lies_behind_links(tmp_path: Path) -> None:
    paths = plant(tmp_path / "runs", "20261122T010000Z")
    secret = tmp_path / "secret"
    secret.write_text("name = 'top secret'", encoding="utf-8")
    client = site(tmp_path / "runs")
    assert client.get(f"/run/{paths.run_id}/report.html").status_code == 200
    paths.environment.symlink_to(secret)
    answer = client.get(f"/run/{paths.run_id}/report.html")
    assert answer.status_code == 404
    assert b"top secret" not in answer.data


def test_pipes_in_the_place_of_files_stop_nobody(tmp_path: Path) -> None:
    paths = plant(tmp_path, "20261122T010000Z", judged=False)
    for file in (paths.milestones, paths.plan):
        file.unlink()
    for file in (paths.milestones, paths.plan, paths.verdict, paths.environment, paths.night):
        os.mkfifo(file)
    client = site(tmp_path)
    for url in (f"/run/{paths.run_id}/", f"/live/{paths.run_id}", f"/files/{paths.run_id}",
                f"/compare?left={paths.run_id}&right={paths.run_id}"):  # fmt: skip
        assert client.get(url).status_code == 200, url
    assert client.get(f"/run/{paths.run_id}/report.html").status_code == 404


def test_many_readers_at_once_are_answered(nights: Path) -> None:
    app = make_site(Store(nights))
    app.config["PROPAGATE_EXCEPTIONS"] = True
    urls = ["/", "/runs", NIGHT, "/failures", "/trends", LOSS_RUN] * 8

    def ask(url: str) -> int:
        return app.test_client().get(url, buffered=True).status_code

    with ThreadPoolExecutor(8) as readers:
        assert set(readers.map(ask, urls)) == {200}


@pytest.mark.namespaces
def test_a_store_that_cannot_be_written_is_served_from_memory(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plant(runs, "20261122T010000Z", anomalies={"lost-write": anomaly()})
    script = (
        "import sys; from pathlib import Path\n"
        "from results.site import make_site; from results.store import Store\n"
        "page = make_site(Store(Path(sys.argv[1]))).test_client().get('/').get_data(as_text=True)\n"
        "print('Acknowledged writes were lost' in page)\n"
    )
    mounted = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$0" -c "$2" "$1"'
    argv = [sys.executable, "-c", script, str(runs)]
    if os.geteuid() == 0:  # No mode keeps root from writing.
        argv = ["unshare", "--mount", "sh", "-c", mounted, sys.executable, str(runs), script]
    runs.chmod(0o555)
    told = subprocess.run(
        argv,
        capture_output=True, text=True, timeout=120, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    runs.chmod(0o755)
    assert told.stdout == "True\n"
    assert not (runs / FILE_NAME).exists()


def test_what_was_counted_once_is_not_read_again(tmp_path: Path) -> None:
    tallies, rows = Tallies(), 0
    stream = StreamWriter(tmp_path, "op_completions", "worker-0")
    file = tmp_path / "op_completions.worker-0.arrows"
    for number in range(1, 4):
        for op in range(number * 10):
            stream.append((op, op, "ok" if op else "fail", None))
        stream.flush()
        rows += number * 10
        assert tallies.rows(tmp_path, "op_completions") == rows
        counted = tallies.words(tmp_path, "op_completions", column="outcome")
        assert counted == {"ok": rows - number, "fail": number}
    # What is counted may change: nobody looks at it again.
    damaged = bytearray(file.read_bytes())
    damaged[:400] = bytes(400)
    file.write_bytes(damaged)
    assert tallies.rows(tmp_path, "op_completions") == rows
    stream.append((1, 1, "ok", None))
    stream.close()
    assert tallies.rows(tmp_path, "op_completions") == rows + 1


def test_words_of_others_are_counted_in_bounded_memory(tmp_path: Path) -> None:
    stream = StreamWriter(tmp_path, "op_completions", "worker-0")
    for op in range(1000):
        stream.append((op, op, f"{op} {'x' * 10_000}", None))
    stream.close()
    counted = Tallies().words(tmp_path, "op_completions", column="outcome")
    assert sum(counted.values()) == 1000
    assert len(counted) <= MAX_WORDS + 1
    assert sum(map(len, counted)) < 10_000


def test_a_message_that_is_half_written_is_counted_when_it_is_whole(tmp_path: Path) -> None:
    stream = StreamWriter(tmp_path / "", "op_completions", "all")
    for op in range(100):
        stream.append((op, op, "ok", None))
    stream.close()
    whole = (tmp_path / "op_completions.all.arrows").read_bytes()
    (tmp_path / "live").mkdir()
    file, tallies, seen = tmp_path / "live" / "op_completions.a.arrows", Tallies(), set[int]()
    for end in range(0, len(whole) + 1, 7):
        with file.open("ab") as growing:
            growing.write(whole[growing.tell() : end])
        seen.add(tallies.rows(tmp_path / "live", "op_completions"))
    assert seen == {0, 100}


@pytest.mark.parametrize("swapped", ["run", "parent"])
def test_a_run_that_became_a_link_since_the_index_saw_it_is_none(
    swapped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results.site.shelf.FRESH_S", 3600.0)
    paths = plant(tmp_path / "runs", "20261122T010000Z")
    elsewhere = tmp_path / "log" / paths.root.name
    elsewhere.mkdir(parents=True)
    for name in ("shadow", "plan.toml", "report.html"):
        (elsewhere / name).write_text("secret", encoding="utf-8")
    client = site(tmp_path / "runs")
    assert client.get(f"/run/{paths.run_id}/plan.toml").status_code == 200
    there, other = (
        (paths.root, elsewhere) if swapped == "run" else (paths.root.parent, elsewhere.parent)
    )
    there.rename(tmp_path / "gone")
    there.symlink_to(other)
    urls = [f"/run/{paths.run_id}/{name}" for name in ("shadow", "plan.toml", "report.html")]
    for url in (*urls, f"/files/{paths.run_id}", f"/bundle/{paths.run_id}"):
        answer = client.get(url)
        assert answer.status_code == 404, url
        assert b"secret" not in answer.data
        assert b"shadow" not in answer.data


def test_a_file_is_sent_from_where_it_was_opened(tmp_path: Path) -> None:
    """By the name again, another file could be sent; length, etag and parts stay as they were."""
    paths = plant(tmp_path / "runs", "20261122T010000Z")
    (paths.root / "notes.txt").write_text("0123456789", encoding="utf-8")
    client = site(tmp_path / "runs")
    answer = client.get(f"/run/{paths.run_id}/notes.txt")
    assert (answer.data, answer.headers["Content-Length"]) == (b"0123456789", "10")
    again = {"If-None-Match": answer.headers["ETag"]}
    assert client.get(f"/run/{paths.run_id}/notes.txt", headers=again).status_code == 304
    part = client.get(f"/run/{paths.run_id}/notes.txt", headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.data) == (206, b"234")
