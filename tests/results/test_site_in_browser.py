"""The site as somebody meets it who comes to work in the morning: a real browser, a real server."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page

from results.nights import write_night
from results.record.clock import wait_until
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.stream import StreamWriter
from results.record.terms import AnomalyClass
from results.store import lock_run
from results.tables import STATISTICS, statistics_path
from tests.results.browser import NARROW, PATIENCE_MS, WIDE, Reader, Sight
from tests.results.conftest import TOPIC, fill_run, statistics_rows, write_rows
from tests.results.planted import (
    LEADERLESS,
    LEADERLESS_EVIDENCE,
    NIGHTS,
    SECOND,
    anomaly,
    judgement,
    night_of,
    plant,
    planted_nights,
)
from tests.results.serving import WAIT_S, served

pytestmark = pytest.mark.everything

BAD = {"error", "warning"}
LOSS_RUN = "/run/loss-acks-1/20261122T013000Z-1/"
LATE_RUN = "late/20261122T015700Z-8"
LIVE_RUN, EVIL_RUN = "live/20261101T020000Z-7", "evil/20261101T010000Z-7"


def planted_store(store: Path) -> None:
    planted_nights(store)
    plant(
        store, "20261122T015800Z", plan={"nemesis": "stop"}, night=night_of(NIGHTS[-1], "log"),
        anomalies={"lost-write": anomaly(1, allowed=True)},
    )  # fmt: skip
    # A failure to recover with a whole record, so that its page has time lines and plots.
    paths = RunPaths(store / LATE_RUN)
    late = {
        "slow-election": anomaly(
            1, of=AnomalyClass.LIVENESS, sentence=LEADERLESS, evidence=LEADERLESS_EVIDENCE
        )
    }
    fill_run(paths, verdict=judgement(paths, late), statistics=True, topic="log-0")
    leaders = [row for row in statistics_rows(TOPIC)["leaders"] if row["leader_epoch"] != 5]
    place = {"topic": TOPIC, "partition": 1, "leader_epoch": 5}
    leaders += [
        {**place, "leader": 2, "from_ns": 23 * SECOND, "to_ns": 52_500_000_000},
        {**place, "leader": -1, "from_ns": 52_500_000_000, "to_ns": 66 * SECOND},
    ]
    write_rows(statistics_path(paths, "leaders"), STATISTICS["leaders"], leaders, paths.run_id)
    whole = paths.plan.read_text(encoding="utf-8")
    paths.plan.write_text(whole.replace('"auto"', '"namespace"'), encoding="utf-8")
    write_night(paths.night, night_of(NIGHTS[-1], "late"))
    plant(
        store, "20261101T020000Z", plan={"name": "live"}, judged=False,
        milestones=("started", "ready", "warmup"),
    )  # fmt: skip
    planted_evil(plant(store, "20261101T010000Z", plan={"name": "evil"}))


def planted_evil(paths: RunPaths) -> None:
    """Put files in a run's folder that would like to run."""
    run = "document.querySelector('title').textContent='run'"
    page = f'<title>calm</title><script>{run}</script><img src=x onerror="{run}">'
    svg = f"<svg xmlns='http://www.w3.org/2000/svg'><title>calm</title><script>{run}</script></svg>"
    asking = (
        "<title>calm</title><script>let said = 'nothing';"
        "try { said = parent.localStorage.length } catch (e) { said = e.name }"
        "fetch('/').then(() => said += ' fetched', () => said += ' refused')"
        ".then(() => document.title = said)</script>"
    )
    for name, text in (
        ("report.html", page), ("evil.log", page), ("evil.svg", svg), ("timeline.html", asking),
    ):  # fmt: skip
        (paths.root / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    planted_store(folder)
    return folder


@pytest.fixture(scope="module")
def url(store: Path) -> Iterator[str]:
    with served(store, store.parent / "serve.log") as (address, _):
        yield address


@contextmanager
def strict(browser: Reader, where: str, *, scripts: bool = True) -> Iterator[Sight]:
    """Open a page with its own policy in force, as readers have it."""
    context = browser.browser.new_context(java_script_enabled=scripts)
    context.set_default_timeout(PATIENCE_MS)
    sight = Sight(page=context.new_page())
    sight.page.on(
        "console",
        lambda said: sight.complaints.append(said.text) if said.type in BAD else None,
    )
    sight.page.on("pageerror", lambda error: sight.complaints.append(str(error)))
    sight.page.on("request", lambda request: sight.requests.append(request.url))
    try:
        sight.page.goto(where)
        yield sight
    finally:
        context.close()


class Clicks:
    """A reader's clicks on a page, counted."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def on(self, name: str) -> None:
        """Click a link by its words, and wait for the page that it leads to."""
        with self.page.expect_navigation():
            self.page.get_by_role("link", name=name).first.click()
        self.count += 1


@pytest.mark.parametrize(
    ("failure", "sentence", "cause"),
    [
        (
            "Acknowledged writes were lost, with acks=1, under isolate.",
            "Invalid: 980 acknowledged writes were lost.",
            "n2 truncated offset 263 (follower of n3: epoch 0 ends at offset 263 there)",
        ),
        (
            "leader-epoch-1",  # It ended as it is told, and stands with such stories.
            "Invalid: 1 acknowledged write was lost.",
            "n2 truncated offset 1 (follower of n1: local high watermark 1)",
        ),
        (
            "A partition had no leader for too long",
            "Invalid: 1 period in which a partition had no leader was too long.",
            "Nobody led log-0-1 from 52.500 s to 66.000 s, 13.5 s",
        ),
    ],
    ids=["acks-1", "leader-epoch-1", "liveness"],
)
def test_from_the_front_page_to_a_cause_in_three_clicks_at_most(
    browser: Reader, url: str, failure: str, *, sentence: str, cause: str
) -> None:
    with strict(browser, url) as sight:
        clicks = Clicks(sight.page)
        clicks.on(failure)
        assert sight.page.locator("h1").inner_text() == sentence
        assert cause in sight.page.locator("#content").inner_text()
        clicks.on("The whole page")
        assert cause.lower() in sight.page.locator("body").inner_text().lower()
        assert clicks.count <= 3
        assert sight.complaints == []
        assert sight.strangers(url) == []


PAGES = {
    "front": "/",
    "night": f"/night/nightly/{NIGHTS[-1]}",
    "run": LOSS_RUN,
    "runs": "/runs?verdict=invalid",
    "failures": "/failures",
    "trends": "/trends",
    "reached": "/reached",
    "compare": "/compare?left=log/20261122T011000Z-102&right=log/20261122T011200Z-202",
    "files": "/files/loss-acks-1/20261122T013000Z-1",
    "live": "/live/loss-acks-1/20261122T013000Z-1",
    "wrong": "/nothing",
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_readable_in_light_and_dark_and_on_a_telephone(
    browser: Reader, url: str, name: str
) -> None:
    with browser.opened(url + PAGES[name], width=WIDE) as sight:
        assert sight.violations() == []
        assert not sight.scrolls_sideways()
        sight.page.set_viewport_size({"width": NARROW, "height": 800})
        sight.page.emulate_media(color_scheme="dark")
        assert sight.violations() == []
        assert not sight.scrolls_sideways()
        missing = ["404 (NOT FOUND)" in each for each in sight.complaints]
        assert missing == ([True] if name == "wrong" else [])
        assert sight.strangers(url) == []


def test_a_time_line_works_in_an_origin_of_its_own(browser: Reader, url: str) -> None:
    with strict(browser, url + LOSS_RUN) as sight:
        Clicks(sight.page).on("Time line")
        sight.page.wait_for_selector("canvas")
        assert sight.page.evaluate("self.origin") == "null"
        assert sight.complaints == []
        assert sight.strangers(url) == []


def test_it_works_without_scripts(browser: Reader, url: str) -> None:
    with strict(browser, f"{url}/runs", scripts=False) as sight:
        sight.page.get_by_label("Anomaly").select_option("unavailable")
        with sight.page.expect_navigation():
            sight.page.get_by_role("button", name="Show").click()
        assert "1 run with anomaly unavailable" in sight.page.locator("#content").inner_text()


@pytest.mark.parametrize("name", ["report.html", "evil.log", "evil.svg"])
def test_scripts_in_stored_files_do_not_run(browser: Reader, url: str, name: str) -> None:
    with strict(browser, f"{url}/run/{EVIL_RUN}/{name}") as sight:
        title = sight.page.evaluate("document.querySelector('title')?.textContent ?? ''")
        assert title == ("" if name == "evil.log" else "calm")
        assert sight.page.evaluate("self.origin") == "null"


def test_a_script_that_is_let_run_reaches_nothing(browser: Reader, url: str) -> None:
    with strict(browser, f"{url}/run/{EVIL_RUN}/timeline.html") as sight:
        sight.page.wait_for_function("document.title != 'calm'")
        assert sight.page.title() == "SecurityError refused"


def test_a_run_is_watched_without_loading_the_page_again(
    browser: Reader, url: str, store: Path
) -> None:
    paths = RunPaths(store / LIVE_RUN)
    paths.live.mkdir(parents=True)
    ended = StreamWriter(paths.live, "op_completions", "worker-0")
    with lock_run(paths) as lock:
        wait_until(
            lambda: b"watch it" in urlopen(f"{url}/runs?text=live").read(),  # noqa: S310 - ours
            timeout_s=WAIT_S,
            what="the site to see that the run lives",
        )
        with strict(browser, f"{url}/live/{LIVE_RUN}") as sight:
            page = sight.page
            assert page.locator("h1").inner_text() == "Warming up"
            page.evaluate("window.sameDocument = true")
            ended.append((1, 1, "ok", None))
            ended.flush()
            append_milestone(paths.milestones, Milestone(name="main", at_ns=20 * SECOND))
            page.wait_for_selector("h1:text('Clients and faults side by side')")
            page.wait_for_selector("dt:text-is('ok') + dd:text-is('1')")
            lock.release()
            page.wait_for_selector("h1:text('The run died')")
            assert page.evaluate("window.sameDocument") is True
            assert sight.complaints == []
    ended.close()


def raw(url: str, request: bytes) -> bytes:
    """Return what the server answers to bytes as they are."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        answer = b""
        with suppress(OSError):  # It does not read to its end what it refuses.
            connection.sendall(request)
        with suppress(ConnectionResetError):
            while chunk := connection.recv(65_536):
                answer += chunk
        return answer


@pytest.mark.parametrize(
    ("request_line", "headers", "statuses"),
    [
        (b"GET /run/../../../../etc/passwd HTTP/1.1", b"Host: localhost", {404}),
        (b"GET /run/log/%2e%2e/%2e%2e/%2e%2e/etc/passwd HTTP/1.1", b"Host: localhost", {404}),
        (b"GET //etc/passwd HTTP/1.1", b"Host: localhost", {404}),
        (b"GET http://evil.example/ HTTP/1.1", b"Host: evil.example", {400}),
        (b"GET / HTTP/1.1", b"Host: evil.example", {400}),
        (b"GET / HTTP/1.1", b"X-Forwarded-Host: localhost\r\nHost: evil.example", {400}),
        (b"GET / HTTP/1.1", b"No: host", {400}),
        (b"GET / HTTP/1.1", b"Host: localhost\r\nX: " + b"x" * 100_000, {431, 400}),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1", b"Host: localhost", {431, 414, 400}),
        (b"POST / HTTP/1.1", b"Host: localhost\r\nContent-Length: 99999999", {413}),
        (b"GET / HTTP/1.1", b"Host: localhost\r\nContent-Length: 99999999", {413}),
        (b"POST / HTTP/1.1", b"Host: localhost\r\nContent-Length: -1", {400}),
        (b"BREW / HTTP/1.1", b"Host: localhost", {405}),
        (b"\x00\xff\xfe / HTTP/1.1", b"Host: localhost", {400, 405}),
        (b"GET / HTTP/1.1", b"Host: localhost", {200}),
    ],
    ids=lambda part: part[:34].decode("latin-1") if isinstance(part, bytes) else "",
)
def test_the_server_refuses_what_is_not_for_it(
    url: str, request_line: bytes, headers: bytes, statuses: set[int]
) -> None:
    answer = raw(url, request_line + b"\r\n" + headers + b"\r\nConnection: close\r\n\r\n")
    assert int(answer.split(b" ", 2)[1]) in statuses
    assert b"root:" not in answer
    assert b"Traceback" not in answer
    assert b"waitress" not in answer.split(b"\r\n\r\n")[0].lower()


def test_an_empty_store_is_served_with_a_sentence_that_says_so(tmp_path: Path) -> None:
    store, log = tmp_path / "runs", tmp_path / "log"
    store.mkdir()
    with served(store, log):
        pass
    assert f"{store} has no runs yet; start one with: logquake run\n" in log.read_text()
    plant(store, "20261122T010000Z")
    with served(store, log):
        pass
    assert "no runs yet" not in log.read_text()


def test_a_port_that_is_taken_is_told_in_a_sentence(url: str, tmp_path: Path) -> None:
    port = url.rsplit(":", 1)[1]
    command = "import sys; from harness.cli import main; main()"
    told = subprocess.run(
        [sys.executable, "-c", command, "serve", "--port", port, "--store", str(tmp_path)],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert told.returncode == 254
    assert f"port {port} of 127.0.0.1 is in use" in told.stderr
    assert "Traceback" not in told.stderr


def test_an_index_is_made_anew_on_demand(tmp_path: Path) -> None:
    plant(tmp_path / "runs", "20261122T010000Z")
    command = "import sys; from harness.cli import main; main()"
    told = subprocess.run(
        [sys.executable, "-c", command, "reindex", "--store", str(tmp_path / "runs")],
        capture_output=True, text=True, timeout=WAIT_S, check=True, env={**os.environ},
    )  # fmt: skip
    assert told.stdout == f"1 run in {tmp_path / 'runs'}\n"
