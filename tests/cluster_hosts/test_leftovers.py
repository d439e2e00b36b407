"""Leftovers: found by ledger or by mark, and nobody else's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.ledger import ProcessLedger, mark, read_ledger
from cluster.hosts.leftovers import kill_leftovers, leftovers
from cluster.hosts.signals import environment_of, is_running, process_id
from cluster.protocol import ProcessId
from results.record.clock import wait_until
from results.record.world import boot_id, is_of_this_world


def test_a_marked_process_is_found_without_a_line_in_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "processes.jsonl"
    other_mark = mark(tmp_path / "other.jsonl")
    ours = subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark(file)})
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, **other_mark})
    try:
        other_way = tmp_path / "latest"
        other_way.symlink_to(tmp_path)
        said = kill_leftovers(other_way / file.name)
        assert said == [f"killed sleep (process {ours.pid})"]
        assert ours.wait() == -9
        assert is_running(process_id(other.pid))
    finally:
        other.kill()
        other.wait()


def test_a_process_that_begins_another_program_meanwhile_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an exec on it has no environment for a moment, as a JVM that its script begins."""
    file = tmp_path / "processes.jsonl"
    looks: Iterator[list[bytes] | None] = iter([list[bytes](), None])

    def look(pid: int) -> list[bytes] | None:
        found = next(looks, None)
        return environment_of(pid) if found is None else found

    monkeypatch.setattr("cluster.hosts.signals.environment_of", look)
    monkeypatch.setattr("cluster.hosts.leftovers.GONE_TIMEOUT_S", 1.0)
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark(file)}) as ours:
        assert kill_leftovers(file) == [f"killed sleep (process {ours.pid})"]


def test_a_process_that_the_ledger_names_and_that_has_no_mark_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "processes.jsonl"
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        process = process_id(stranger.pid)
        ProcessLedger(file).started("sleep", "n1", process)
        assert kill_leftovers(file) == []
        assert is_running(process)
        stranger.kill()


def test_a_marked_process_has_the_name_of_its_line_in_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "processes.jsonl"
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark(file)}) as ours:
        process = process_id(ours.pid)
        recycled = ProcessId(pid=process.pid, start_ticks=process.start_ticks - 1)
        ProcessLedger(file).started("java", "n2", recycled)
        ProcessLedger(file).started("sleep", "n1", process)
        earlier = file.read_text().splitlines()[1].replace(boot_id(), "an-earlier-boot")
        with file.open("a") as ledger:
            ledger.write(earlier.replace("n1", "n3") + "\n")
        assert kill_leftovers(file) == [f"killed sleep of n1 (process {process.pid})"]


@pytest.mark.parametrize("pid", ["1", "0", "-1", '"../../x"', "true", "7.5", "[7]", 'null, "x": 1'])
def test_4_a_line_that_no_ledger_of_ours_has_is_left_out(pid: str, tmp_path: Path) -> None:
    file = tmp_path / "processes.jsonl"
    ProcessLedger(file).started("java", "n1", ProcessId(pid=4711, start_ticks=8))
    whole = file.read_text()
    file.write_text(whole.replace("4711", pid) + whole)
    assert [entry.pid for entry in read_ledger(file)] == [4711]


def test_a_line_nested_too_deep_hides_none_of_the_others(tmp_path: Path) -> None:
    file = tmp_path / "processes.jsonl"
    file.write_text("[" * 100_000 + "\n")
    ProcessLedger(file).started("java", "n1", ProcessId(pid=4711, start_ticks=8))
    assert [entry.pid for entry in read_ledger(file)] == [4711]


def test_11_processes_in_a_namespace_of_their_own_are_left_alone(tmp_path: Path) -> None:
    """Another container that shares the store: its processes carry the mark of the same path."""
    file = tmp_path / "processes.jsonl"
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    environment = {**os.environ, **mark(file)}
    with subprocess.Popen([*inside, "sleep", "1000"], env=environment) as outside:
        wait_until(lambda: child_of(outside.pid), timeout_s=20, what="its child")
        (child,) = child_of(outside.pid)
        wait_until(lambda: environment_of(child), timeout_s=20, what="the child's environment")
        assert not is_of_this_world(child)
        assert [each.process.pid for each in leftovers(file)] == [outside.pid]
        outside.kill()


def child_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_no_ledger_means_no_leftovers(tmp_path: Path) -> None:
    assert kill_leftovers(tmp_path / "none.jsonl") == []


def test_a_torn_line_in_the_middle_hides_none_of_the_others(tmp_path: Path) -> None:
    file = tmp_path / "processes.jsonl"
    ledger = ProcessLedger(file)
    first, last = ProcessId(pid=7, start_ticks=8), ProcessId(pid=9, start_ticks=10)
    ledger.started("java", "n1", first)
    with file.open("a") as torn:
        torn.write('{"what": "ja\n')
    ledger.started("java", "n2", last)
    assert [entry.process for entry in read_ledger(file)] == [first, last]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "processes.jsonl"
    ledger = ProcessLedger(file)
    ledger.intend("java", "n1")
    ledger.started("java", "n1", ProcessId(pid=7, start_ticks=8))
    whole = file.read_text()
    file.write_text(whole + whole.splitlines()[1][:20])
    assert [entry.process for entry in read_ledger(file)] == [
        None,
        ProcessId(pid=7, start_ticks=8),
    ]
