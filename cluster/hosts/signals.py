"""Send signals to processes; never send one to a new process that reuses the pid of an old one."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import psutil

from cluster.protocol import ProcessId
from results.record.clock import wait_until

_STATES = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_SLEEPING: "S",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "t",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_DEAD: "X",
}
_GONE = frozenset("ZX")
"""The state letters (`Z`, `X`) of a process that has ended."""


def process_id(pid: int) -> ProcessId:
    """Return the identity (pid and start time) of a process that runs now."""
    if not Path("/proc/self/stat").exists():
        return ProcessId(pid=pid, start_ticks=started_elsewhere(pid))
    fields = _stat_fields(pid)
    return ProcessId(pid=pid, start_ticks=int(fields[19]) if fields else 0)


def state_of(process: ProcessId) -> str | None:
    """Return a process's state letter, as in `/proc/PID/stat`.

    Args:
        process: The process.

    Returns:
        "R", "S" or "D" if the process runs, "T" if it is stopped, "Z" or "X" if it has ended. None
        if the process no longer exists, or if the pid now belongs to another process.
    """
    if not Path("/proc/self/stat").exists():
        return state_elsewhere(process)
    fields = _stat_fields(process.pid)
    if fields is None or int(fields[19]) != process.start_ticks:
        return None
    return fields[0]


def is_running(process: ProcessId) -> bool:
    """Return whether the process still runs. A stopped process counts as running."""
    state = state_of(process)
    return state is not None and state not in _GONE


def is_stopped(process: ProcessId) -> bool:
    """Return whether SIGSTOP has stopped the process."""
    return state_of(process) == "T"


def send_signal(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal to the process group that a process leads.

    Args:
        process: The leader of the group. Nothing is sent if the pid now belongs to another process.
        number: The signal.

    Returns:
        False if the process had already ended, so that nothing was sent.
    """
    if not is_running(process):
        return False
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def environment_of(pid: int) -> list[bytes] | None:
    """Return the environment that a process was started with, as `NAME=value` items.

    Return None if the process has ended, or belongs to another user. While the process is being
    started, the result is empty for a moment (man 2 execve).
    """
    try:
        if Path("/proc/self/environ").exists():
            return [each for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if each]
        return [f"{key}={value}".encode() for key, value in psutil.Process(pid).environ().items()]
    except (OSError, psutil.Error):
        return None


def signal_marked(process: ProcessId, number: signal.Signals, *, mark: bytes) -> bool:
    """Send a signal to a single process if the environment of the process contains a mark.

    Args:
        process: The process. Nothing is sent if the pid now belongs to another process.
        number: The signal.
        mark: The mark, `NAME=value`.

    Returns:
        False if nothing was sent, because the process has ended or does not have the mark.

    Raises:
        PermissionError: The process belongs to another user.
    """
    try:
        held = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    try:
        # The check comes after the handle was taken, so it concerns the handle's process.
        if not is_running(process) or mark not in (environment_of(process.pid) or []):
            return False
        if held is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(held, number)
    except ProcessLookupError:
        return False
    finally:
        if held is not None:
            os.close(held)
    return True


def wait_gone(processes: Iterable[ProcessId], *, timeout_s: float) -> None:
    """Wait until all processes have ended.

    Raises:
        WaitTimeoutError: A process still runs after `timeout_s` seconds.
    """
    remaining = list(processes)

    def none_runs() -> bool:
        remaining[:] = [process for process in remaining if is_running(process)]
        return not remaining

    what = f"the end of processes {', '.join(str(process.pid) for process in remaining)}"
    wait_until(none_runs, timeout_s=timeout_s, what=what, interval_s=0.02)


def _stat_fields(pid: int) -> list[str] | None:
    """Return the third field (the state) of `/proc/PID/stat`, and all fields after it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command's name in parentheses. It may contain blanks and parentheses.
    return stat.rpartition(")")[2].split()


def state_elsewhere(process: ProcessId) -> str | None:
    """Return a process's state letter on systems without `/proc`; see `state_of`."""
    try:
        if started_elsewhere(process.pid) != process.start_ticks:
            return None
        return _STATES.get(psutil.Process(process.pid).status(), "S")
    except psutil.NoSuchProcess:
        return None


def started_elsewhere(pid: int) -> int:
    """Return a process's start time, in microseconds since 1970; 0 if there is no process."""
    try:
        return round(psutil.Process(pid).create_time() * 1_000_000)
    except psutil.NoSuchProcess:
        return 0
