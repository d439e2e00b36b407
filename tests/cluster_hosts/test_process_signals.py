"""Signals: to the process that was meant, or to none."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.signals import (
    is_running,
    is_stopped,
    process_id,
    send_signal,
    started_elsewhere,
    state_elsewhere,
    state_of,
    wait_gone,
)
from cluster.protocol import ProcessId
from results.record.clock import WaitTimeoutError, wait_until

Sleeper = subprocess.Popen[bytes]


@pytest.fixture
def child() -> Iterator[Sleeper]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_recycled_pid_is_not_signalled(child: Sleeper) -> None:
    process = process_id(child.pid)
    earlier = ProcessId(pid=process.pid, start_ticks=process.start_ticks - 1)
    assert not send_signal(earlier, signal.SIGKILL)
    assert state_of(earlier) is None
    assert not is_running(earlier)
    assert is_running(process)
    assert send_signal(process, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_a_recycled_pid_is_told_apart_without_proc_too(child: Sleeper) -> None:
    process = ProcessId(pid=child.pid, start_ticks=started_elsewhere(child.pid))
    # Just started, it may still be on its way to its sleep.
    wait_until(lambda: state_elsewhere(process) == "S", timeout_s=20, what="its sleep")
    earlier = ProcessId(pid=child.pid, start_ticks=process.start_ticks - 1)
    assert state_elsewhere(earlier) is None
    child.kill()
    child.wait()
    assert state_elsewhere(process) is None


def test_a_stopped_process_is_seen_as_such_and_continues(child: Sleeper) -> None:
    process = process_id(child.pid)
    send_signal(process, signal.SIGSTOP)
    wait_until(lambda: is_stopped(process), timeout_s=20, what="the stop", interval_s=0.01)
    assert is_running(process)
    send_signal(process, signal.SIGCONT)
    wait_until(lambda: state_of(process) == "S", timeout_s=20, what="its end", interval_s=0.01)


def test_a_zombie_is_gone_and_is_not_signalled(child: Sleeper) -> None:
    process = process_id(child.pid)
    child.kill()
    wait_gone([process], timeout_s=20)
    assert state_of(process) == "Z"
    assert not send_signal(process, signal.SIGCONT)
    child.wait()
    assert state_of(process) is None


def test_waiting_for_the_end_of_what_runs_on_has_a_limit(child: Sleeper) -> None:
    with pytest.raises(WaitTimeoutError, match=str(child.pid)):
        wait_gone([process_id(child.pid)], timeout_s=0.05)


def test_the_whole_group_is_signalled(tmp_path: Path) -> None:
    script = "import subprocess; subprocess.run(['sh', '-c', 'echo $$ > pid; exec sleep 1000'])"
    leader = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, start_new_session=True)
    file = tmp_path / "pid"
    wait_until(lambda: file.exists() and file.read_text(), timeout_s=20, what="the grandchild")
    grandchild = process_id(int(file.read_text()))
    assert send_signal(process_id(leader.pid), signal.SIGKILL)
    leader.wait()
    wait_gone([grandchild], timeout_s=20)


def test_a_name_with_parentheses_and_blanks_is_read_right(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "1000"]) as child:
        process = process_id(child.pid)
        assert process.start_ticks > 1
        assert state_of(process) in {"S", "R", "D"}
        child.kill()
