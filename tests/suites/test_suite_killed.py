"""A night of runs on two kinds of hosts, killed in its middle, and gone on with."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from harness.suites.journal import load_journal
from harness.suites.night import NightState, Phase
from harness.suites.nights import NightFolder, nights_of
from results.nights import read_night
from results.record.clock import wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.store import Store, is_alive
from results.verdict_json import read_verdict

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
LIMIT_S = 560
SUITE = """
name = "killed"
budget = "1h"
parallel = 2
engine = "local"
[plan]
system = "reference"
warmup_s = 3
time_limit_s = 8
rate = 100
topics = 1
partitions = 1
concurrency = 6
workers = 1
[plan.minimums]
ok_sends = 10
ok_polls = 10
around_faults = 0
[[plan.faults]]
at_s = 1
kind = "pause"
target = "n1"
hold_s = 2
[repeat]
same_seed = 0
fresh_seeds = 0
[axes]
hosts = ["process", "namespace"]
seeds = 2
[[exclude]]
hosts = "process"
entry = "*#2"
"""
pytestmark = [
    pytest.mark.everything,
    pytest.mark.night,  # By day a hunt is killed, which is gone on with in the same way.
    pytest.mark.namespaces,
    pytest.mark.timeout(2 * LIMIT_S),
]


def begun(suite: Path, store: Path, log: Path) -> "subprocess.Popen[bytes]":
    argv = [LOGQUAKE, "suite", "run", str(suite), "--store", str(store)]
    with log.open("ab") as said:
        return subprocess.Popen(argv, stdout=said, stderr=said)


def the_night(store: Path) -> NightFolder | None:
    return next(iter(nights_of(store, "killed")), None)


def middle(state: NightState, store: Path) -> bool:
    """Tell whether one run is judged, and the main phase of another is under way."""
    under_way = [RunPaths(store / item.run_id) for item in state.having(Phase.UNDER_WAY)]
    reached = [each.name for paths in under_way for each in load_milestones(paths.milestones)]
    return bool(state.having(Phase.JUDGED)) and "main" in reached


def test_a_killed_night_loses_no_run_and_judges_none_twice(tmp_path: Path) -> None:
    suite, store, log = tmp_path / "suite.toml", tmp_path / "store", tmp_path / "said"
    suite.write_text(SUITE, encoding="utf-8")
    first = begun(suite, store, log)

    def half_played() -> bool:
        assert first.poll() is None, log.read_text()
        folder = the_night(store)
        return folder is not None and middle(folder.state(), store)

    wait_until(half_played, timeout_s=LIMIT_S, what="the middle of the night", interval_s=0.05)
    folder = the_night(store)
    assert folder is not None
    children = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(signal.SIGKILL)
    first.wait()
    psutil.wait_procs(children, timeout=60)
    killed = folder.state()
    second = begun(suite, store, log)
    assert second.wait(LIMIT_S) in {0, 2}, log.read_text()
    everything_is_there(folder, store, killed)
    assert f"killed resumes the night {folder.night}" in log.read_text()
    assert not [each for each in psutil.process_iter() if belongs_to(each, tmp_path)]


def everything_is_there(folder: NightFolder, store: Path, killed: NightState) -> None:
    """No run is lost, judged twice, or left half."""
    state = folder.state()
    assert state.ended
    assert [item.phase for item in state.items.values()] == [Phase.JUDGED] * 3
    assert Counter(type(line).__name__ for line in load_journal(folder.journal))["Judged"] == 3
    before = {item.run_id for item in killed.having(Phase.JUDGED)}
    after = {item.run_id for item in state.items.values()}
    assert before <= after, "what was judged before is not played again"
    cut = {run for item in state.items.values() for run in item.cut_short}
    assert cut, "it was killed in the middle of a run"
    assert {paths.run_id for paths in Store(store).runs()} == after | cut
    for paths in Store(store).runs():
        assert not is_alive(paths)
        night = read_night(paths.night)
        assert night is not None
        assert (night.suite, night.night) == ("killed", folder.night)
        reached = load_milestones(paths.milestones)
        if paths.run_id in cut:
            assert reached[-1].detail["kind"] == "cut-short"
            assert read_verdict(paths.verdict) is None
        else:
            assert any(each.name == "audited" for each in reached)
            assert read_verdict(paths.verdict) is not None
            assert paths.report.exists()
    text = folder.junit.read_text(encoding="utf-8")
    assert 'tests="3"' in text
    assert "was interrupted and rerun" in text
    assert json.loads(folder.journal.read_text().splitlines()[-1])["event"] == "ended"


def belongs_to(process: psutil.Process, root: Path) -> bool:
    try:
        words = [*process.cmdline(), *process.environ().values()]
    except psutil.Error:
        return False
    return any(str(root) in word for word in words) and process.pid != os.getpid()
