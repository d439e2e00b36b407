"""A store of hostile runs, served to a real browser and shown in a real terminal: all of it inert.

Topics, errors, reasons, effects, settings, nights and log lines hold scripts, terminal escapes,
bytes that are no UTF-8, and texts of ten megabytes; a verdict has thousands of anomalies.
"""

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.request import urlopen

import pytest

from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.story import Story, dump_story
from results.record.stream import StreamWriter
from results.store import lock_run
from results.verdict_json import read_verdict, write_verdict
from tests.results.browser import Reader
from tests.results.conftest import fill_run, ns, verdict_of
from tests.results.hostile import FORBIDDEN, HOSTILE, LONG, MARKUP, TOPIC, hostile
from tests.results.planted import plant
from tests.results.serving import WAIT_S, served

pytestmark = pytest.mark.everything

EVIL, HUGE, LIVE = "log/20261122T010000Z-7", "log/20261122T010100Z-8", "log/20261122T010200Z-9"
LOG = f"/run/{EVIL}/nodes/n1/logs/server.log"
MAX_PAGE = 5_000_000
MAX_MIB = 900
"""Of a process that has made pages and time lines: their libraries take a third of it."""
ANOMALIES = 5000
DEEP = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A server over a store of hostile runs."""

    url: str
    pid: int

    def page(self, path: str) -> str:
        with urlopen(self.url + path, timeout=WAIT_S) as answer:  # noqa: S310 - ours
            assert answer.status == 200
            told = answer.read().decode("utf-8")
        assert isinstance(told, str)
        return told

    def peak_mib(self) -> int:
        return peak_mib(Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8"))


def peak_mib(status: str) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) // 1024


def huge(paths: RunPaths) -> None:
    """Make a run of more than anybody can read: anomalies, reasons, settings, stories, errors."""
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    one = verdict.anomalies["lost-write"]
    many = {f"{number} {MARKUP * 4}": one for number in range(ANOMALIES)}
    reasons = tuple(f"{number} {HOSTILE}" for number in range(ANOMALIES))
    faults = {name: {"confirmed": 1} for name in many}
    write_verdict(paths, dataclasses.replace(
        verdict, anomalies={**many, "lost-write": one}, unknown_because=reasons,
        stats={"faults": faults, "latency_ms": {LONG: {LONG: 1.0}}},
    ))  # fmt: skip
    deep = ".".join(["a"] * DEEP)
    with paths.plan.open("a", encoding="utf-8") as plan:
        plan.write(f'\n[broker]\n"x" = "{LONG}"\n{deep} = 1\n')
    dump_story(Story(name=TOPIC, title=LONG, as_expected=False, differs=(LONG, TOPIC)), paths.story)
    append_milestone(
        paths.milestones, Milestone(name="failed", at_ns=ns(70), detail={"sentence": LONG})
    )


def under_way(paths: RunPaths) -> None:
    """Write the streams of a run that is under way."""
    faults = StreamWriter(paths.live, "faults", "nemesis")
    for number, kind in enumerate((TOPIC, LONG), 1):
        faults.append((number, kind, "{}", [kind], ns(1), ns(2), None, LONG, None))
    faults.flush()
    ended = StreamWriter(paths.live, "op_completions", "worker-0")
    for number in range(ANOMALIES):
        ended.append((number, number, f"{number} {TOPIC}", LONG[:1000]))
    ended.flush()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "runs"
    for run_id in (EVIL, HUGE):
        paths = RunPaths(folder / run_id)
        hostile(fill_run(paths, verdict=verdict_of(run_id), statistics=True, topic=TOPIC))
        (paths.record / "ingest.json").write_text('{"problems": []}', encoding="utf-8")
    huge(RunPaths(folder / HUGE))
    under_way(fill_run(RunPaths(folder / LIVE), verdict=None, statistics=False, topic=TOPIC))
    plant(folder, "20261122T020000Z")
    return folder


@pytest.fixture(scope="module")
def site(store: Path) -> Iterator[Site]:
    with (
        lock_run(RunPaths(store / LIVE)),
        served(store, store.parent / "serve.log") as (url, pid),
    ):
        yield Site(url=url, pid=pid)


def paths_of(site: Site) -> list[str]:
    (night,) = {*re.findall(r'href="(/night/[^"]*)"', site.page("/nights"))}
    failures = {*re.findall(r'href="(/failure/[^"]*)"', site.page("/failures"))}
    runs = [
        f"/{what}/{run}{rest}"
        for run in (EVIL, HUGE, LIVE)
        for what, rest in (("run", "/"), ("live", ""), ("live", "?part=1"), ("files", ""))
    ]
    return [
        "/", "/runs", "/runs?verdict=invalid", "/nights", unescape(night), "/failures",
        *sorted(failures), "/trends", f"/compare?left={EVIL}&right={HUGE}", *runs,
    ]  # fmt: skip


PAGES = [f"/run/{run}/{name}" for run in (EVIL, HUGE) for name in ("report.html", "timeline.html")]


@pytest.mark.night
def test_every_page_is_small_and_holds_nothing_that_anybody_obeys(site: Site) -> None:
    for path in (*paths_of(site), *PAGES):
        page = site.page(path)
        assert len(page) < MAX_PAGE, path
        assert not [each for each in FORBIDDEN if each in page], path
        if not path.endswith("timeline.html"):
            assert "<script>window" not in page, path
            assert "<img" not in page, path
    with urlopen(f"{site.url}/bundle/{EVIL}", timeout=WAIT_S) as bundle:  # noqa: S310 - ours
        assert bundle.read(2) == b"\x1f\x8b"
    assert site.peak_mib() < MAX_MIB


@pytest.mark.night
def test_a_browser_runs_nothing_of_it(site: Site, browser: Reader) -> None:
    (night,) = (path for path in paths_of(site) if path.startswith("/night/"))
    shown = ("/", night, "/trends", f"/compare?left={EVIL}&right={HUGE}", f"/run/{HUGE}/")
    for path in (*shown, f"/live/{LIVE}", *PAGES[:-1], LOG):
        with browser.opened(site.url + path) as sight:
            assert sight.page.evaluate("window.ran") is None, path
            assert sight.strangers(site.url) == [], path
            assert sight.complaints == [], path


def test_ten_megabytes_on_a_line_are_served_as_text(site: Site) -> None:
    with urlopen(site.url + LOG, timeout=WAIT_S) as answer:  # noqa: S310 - ours
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert len(answer.read()) > len(LONG)


@pytest.mark.parametrize("run", [EVIL, HUGE])
def test_a_terminal_obeys_nothing_of_it(store: Path, run: str) -> None:
    # getrusage's maximum counts what the worker held that started this: ask for this image's own.
    command = (
        "import sys; from harness.cli import main\n"
        "try: main()\n"
        "finally: print(open('/proc/self/status').read(), file=sys.stderr)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", command, "show", str(store / run)],
        capture_output=True, timeout=WAIT_S, check=True,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100"},
    )  # fmt: skip
    text = shown.stdout.decode("utf-8")
    assert not [each for each in FORBIDDEN if each in text]
    # Styles of our own are all that a terminal may obey.
    escapes = re.findall(r"\x1b([^a-zA-Z]*[a-zA-Z])", text)
    assert escapes
    assert not [each for each in escapes if not re.fullmatch(r"\[[0-9;]*m", each)]
    assert len(text) < MAX_PAGE / 10
    assert peak_mib(shown.stderr.decode("utf-8")) < MAX_MIB
