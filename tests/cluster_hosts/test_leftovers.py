"""Leftovers: found by ledger or by mark, and nobody else's."""

import os
import subprocess
from pathlib import Path

from cluster.hosts.ledger import ProcessLedger, boot_id, mark, read_ledger
from cluster.hosts.leftovers import kill_leftovers
from cluster.hosts.signals import is_running, process_id
from cluster.protocol import ProcessId


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


def test_a_recycled_number_and_one_of_an_earlier_boot_are_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        file = tmp_path / "processes.jsonl"
        process = process_id(stranger.pid)
        recycled = ProcessId(pid=process.pid, start_ticks=process.start_ticks - 1)
        ProcessLedger(file).started("sleep", "n1", recycled)
        ProcessLedger(file).started("sleep", "n1", process)
        lines = file.read_text().splitlines()
        earlier = lines[1].replace(boot_id(), "an-earlier-boot")
        file.write_text(f"{lines[0]}\n{earlier}\n")
        assert kill_leftovers(file) == []
        assert is_running(process)
        file.write_text(f"{lines[1]}\n")
        assert kill_leftovers(file) == [f"killed sleep of n1 (process {process.pid})"]
    finally:
        stranger.kill()
        stranger.wait()


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
