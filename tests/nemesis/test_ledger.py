"""The ledger: written ahead, struck at the end, replayed after a crash."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.hosts.heal import Healed
from cluster.hosts.ledger import ProcessLedger, mark
from cluster.hosts.signals import environment_of, process_id, state_of
from cluster.systems.registry import LOGS
from nemesis.ledger import Entry, Ledger, heal_dead_run, open_entries
from nemesis.undo import Join, Restart, Resume, Undo
from results.record.clock import wait_until
from results.record.paths import RunPaths

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = st.sampled_from(["n1", "n2", "n3"])
UNDOS: st.SearchStrategy[Undo] = st.one_of(
    st.builds(Resume, node=NODES, pid=st.integers(2, 2**22), start_ticks=st.integers(0, 2**40)),
    st.builds(Restart, node=NODES),
    st.builds(Join, cut_id=st.text(), links=st.lists(st.tuples(NODES, NODES)).map(tuple)),
)
ENTRIES = st.dictionaries(st.integers(1, 99), st.lists(UNDOS, max_size=3).map(tuple), max_size=5)


@settings(deadline=None)  # It syncs to a disk.
@given(ENTRIES, st.data())
def test_what_was_written_and_not_struck_is_open(
    tmp_path_factory: pytest.TempPathFactory,
    entries: dict[int, tuple[Undo, ...]],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    ledger = Ledger(path)
    for fault_id, undo in entries.items():
        ledger.write(fault_id, undo)
    struck = data.draw(st.sets(st.sampled_from(sorted(entries)))) if entries else set()
    for fault_id in struck:
        ledger.strike(fault_id)
    assert open_entries(path) == tuple(
        Entry(fault_id=fault_id, undo=undo)
        for fault_id, undo in entries.items()
        if fault_id not in struck
    )


def test_a_line_that_a_crash_cut_off_is_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.write(1, [Restart(node="n1")])
    ledger.write(2, [Restart(node="n2")])
    path.write_bytes(path.read_bytes()[:-9])
    assert [entry.fault_id for entry in open_entries(path)] == [1]
    Ledger(path).strike(1)
    assert open_entries(path) == ()


def test_no_ledger_has_no_entries(tmp_path: Path) -> None:
    assert open_entries(tmp_path / "ledger.jsonl") == ()


@pytest.fixture
def sleeper(tmp_path: Path) -> "Iterator[subprocess.Popen[bytes]]":
    marked = os.environ | mark(RunPaths(tmp_path).processes)
    with subprocess.Popen(["sleep", "600"], start_new_session=True, env=marked) as process:
        wait_until(lambda: environment_of(process.pid), timeout_s=20, what="its environment")
        yield process
        process.kill()


@pytest.fixture
def stranger() -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_process_that_a_dead_run_left_paused_is_continued(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    paths = RunPaths(tmp_path)
    broker = process_id(sleeper.pid)
    undo = Resume(node="n2", pid=broker.pid, start_ticks=broker.start_ticks)
    ledger = Ledger(paths.ledger)
    ledger.write(1, [Restart(node="n1")])
    ledger.write(2, [undo, Join(cut_id="fault-2", links=(("n1", "n2"),))])
    sleeper.send_signal(19)
    wait_until(lambda: state_of(broker) == "T", timeout_s=60, what="the process to stop")

    ProcessLedger(paths.processes).started("java", "n2", broker)

    assert heal_dead_run(paths, LOGS).done == (
        f"continued the paused broker of n2 (pid {broker.pid})",
        f"killed java of n2 (process {broker.pid})",
    )

    assert open_entries(paths.ledger) == ()
    assert heal_dead_run(paths, LOGS) == Healed()


@pytest.mark.parametrize("older", [1, 0], ids=["a-later-one-of-its-number", "the-one-named"])
def test_a_paused_process_that_the_run_did_not_start_stays_paused(
    tmp_path: Path, stranger: "subprocess.Popen[bytes]", older: int
) -> None:
    paths = RunPaths(tmp_path)
    other = process_id(stranger.pid)
    undo = Resume(node="n1", pid=other.pid, start_ticks=other.start_ticks - older)
    Ledger(paths.ledger).write(1, [undo])
    stranger.send_signal(19)
    wait_until(lambda: state_of(other) == "T", timeout_s=60, what="the process to stop")
    assert heal_dead_run(paths, LOGS) == Healed()
    assert state_of(other) == "T"


def test_a_process_that_is_named_as_the_run_s_and_is_not_is_not_continued(
    tmp_path: Path, stranger: "subprocess.Popen[bytes]"
) -> None:
    """Its number is right and in both files; but it does not carry the run's mark."""
    paths = RunPaths(tmp_path)
    other = process_id(stranger.pid)
    ProcessLedger(paths.processes).started("java", "n1", other)
    Ledger(paths.ledger).write(1, [Resume(node="n1", pid=other.pid, start_ticks=other.start_ticks)])
    stranger.send_signal(19)
    wait_until(lambda: state_of(other) == "T", timeout_s=60, what="the process to stop")
    assert heal_dead_run(paths, LOGS) == Healed()
    assert state_of(other) == "T"
