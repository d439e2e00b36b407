"""A hunt that is killed at random moments, and goes on each time.

It finds a bug that is switched on, repeats it, and plays it on a control system. That one has the
bug, too: it is the same cluster by its longer name.
"""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import psutil
import pytest

from harness.exit_codes import INVALID
from harness.suites.hunting.failures import FAILURES, failures, owed
from harness.suites.journal import Judged, Planned, Reached, load_journal
from harness.suites.night import NightState, Phase
from harness.suites.nights import NightFolder, nights_of
from harness.suites.suite import load_suite
from results.export.bundle import SUFFIX
from results.record.clock import pause_until, stopwatch_s, wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.store import Store, is_alive
from results.verdict_json import read_verdict

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
LIMIT_S = 600
HUNT = """
name = "killed"
budget = "1h"
parallel = 2
engine = "local"
[plan]
bug = "one-assignment-for-all"
warmup_s = 2
time_limit_s = 8
rate = 100
topics = 1
partitions = 3
concurrency = 6
workers = 1
[plan.minimums]
ok_sends = 10
ok_polls = 10
around_faults = 0
confirmed_faults = 0
[hunt]
systems = ["reference"]
hosts = "{hosts}"
workloads = ["groups"]
families = ["kill"]
escalate = false
guided = false
seed = 5
repeats = {repeats}
main = "{main}"
[hunt.controls]
reference = "reference:combined"
"""
CONTROL = "reference:combined"
MAIN_S = 8
pytestmark = [pytest.mark.night, pytest.mark.timeout(10 * LIMIT_S)]


def begun(hunt: Path, store: Path, log: Path) -> "subprocess.Popen[bytes]":
    argv = [LOGQUAKE, "hunt", str(hunt), "--store", str(store)]
    with log.open("ab") as said:
        return subprocess.Popen(argv, stdout=said, stderr=said)


def kill(leader: "subprocess.Popen[bytes]") -> None:
    """Kill a leader, and wait for all that it started to die with it."""
    children = psutil.Process(leader.pid).children(recursive=True)
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    psutil.wait_procs(children, timeout=60)


def lines_of(store: Path) -> int:
    """Return how many lines the journals of the hunt have."""
    return sum(len(load_journal(each.journal)) for each in nights_of(store, "killed"))


def lasts_until(leader: "subprocess.Popen[bytes]", store: Path, moment: Random) -> bool:
    """Wait for a random moment: some lines of the journal later, and up to two seconds."""
    least = lines_of(store) + moment.randint(1, 5)

    def is_over() -> bool:
        return leader.poll() is not None

    wait_until(lambda: is_over() or lines_of(store) >= least, timeout_s=LIMIT_S, what="lines")
    pause_until(stopwatch_s() + moment.uniform(0, 2))
    return not is_over()


@pytest.mark.parametrize(
    ("hosts", "kills", "drawn", "repeats"),
    [
        ("simulated", 1, 1, 0),
        ("simulated", 10, 8, 3),
        ("process", 10, 4, 2),
    ],
)
def test_a_killed_hunt_loses_nothing_and_judges_nothing_twice(
    tmp_path: Path, *, hosts: str, kills: int, drawn: int, repeats: int
) -> None:
    hunt, store, log = tmp_path / "hunt.toml", tmp_path / "store", tmp_path / "said"
    text = HUNT.format(hosts=hosts, repeats=repeats, main=f"{drawn * MAIN_S - 1}s")
    hunt.write_text(text, encoding="utf-8")
    moment, leader = Random(kills), begun(hunt, store, log)
    try:
        for _ in range(kills):
            assert lasts_until(leader, store, moment), "it is too short for all its kills"
            kill(leader)
            leader = begun(hunt, store, log)
        assert leader.wait(LIMIT_S) == INVALID, log.read_text()
    finally:
        if leader.poll() is None:
            kill(leader)
    folders = nights_of(store, "killed")
    assert len(folders) == 1, "it went on with the same part"
    everything_is_there(folders[0], store, drawn=drawn, repeats=repeats)
    assert not [each for each in psutil.process_iter() if belongs_to(each, tmp_path)]


def everything_is_there(folder: NightFolder, store: Path, *, drawn: int, repeats: int) -> None:
    """Each run has one verdict and one line of what it reached; the others are cut short."""
    state, journal = folder.state(), load_journal(folder.journal)
    assert state.ended
    assert {each.phase for each in state.items.values()} == {Phase.JUDGED}
    for kind in (Planned, Judged, Reached):
        lines = [each.item for each in journal if isinstance(each, kind)]
        assert sorted(lines) == sorted(state.items), kind
    assert len(state.planned) == drawn
    runs = [(each.planned.why, each.planned.repeats, each.planned.seed)
            for each in state.items.values()]  # fmt: skip
    assert len({*runs}) == len(runs), "nothing is owed twice"
    found = failures([state])
    assert found
    for failure in found:
        for again in (failure.repeats, failure.controls_on(CONTROL)):
            assert len(again) >= repeats, "more, if some had no fault in so short a time"
    suite = load_suite(folder.suite)
    assert suite.hunt is not None
    assert owed([state], suite.hunt) == []
    files = {each.name for each in (folder.root / FAILURES).iterdir()}
    assert files == {f"{each.file_name}{end}" for each in found for end in (".toml", SUFFIX)}
    nothing_is_left(state, store)


def nothing_is_left(state: NightState, store: Path) -> None:
    """The store has the judged runs, and those that died with a leader, which are healed."""
    judged = {each.run_id for each in state.items.values()}
    cut = {run for each in state.items.values() for run in each.cut_short}
    assert Counter(paths.run_id for paths in Store(store).runs()) == Counter([*judged, *cut])
    for paths in Store(store).runs():
        assert not is_alive(paths)
        reached = load_milestones(paths.milestones)
        if paths.run_id in cut:
            assert reached[-1].detail["kind"] == "cut-short"
            assert read_verdict(paths.verdict) is None
        else:
            assert any(each.name == "audited" for each in reached)
            assert RunPaths(paths.root).verdict.exists()


def belongs_to(process: psutil.Process, folder: Path) -> bool:
    try:
        return any(str(folder) in word for word in process.cmdline())
    except psutil.Error:
        return False
