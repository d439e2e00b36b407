"""Hits processes by number, and never a later one that was given the same number."""

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
"""States of a process that runs no more, though its parent has not taken note yet."""


def process_id(pid: int) -> ProcessId:
    """Return what identifies a process that runs now."""
    if not Path("/proc/self/stat").exists():
        return ProcessId(pid=pid, start_ticks=started_elsewhere(pid))
    fields = _stat_fields(pid)
    return ProcessId(pid=pid, start_ticks=int(fields[19]) if fields else 0)


def state_of(process: ProcessId) -> str | None:
    """Return the letter of its state, as in `/proc/PID/stat`.

    Args:
        process: The process.

    Returns:
        "R", "S" or "D" if it runs, "T" if it is stopped, "Z" or "X" if it has ended; None if there
        is no such process any more (also when its number belongs to another one by now).
    """
    if not Path("/proc/self/stat").exists():
        return state_elsewhere(process)
    fields = _stat_fields(process.pid)
    if fields is None or int(fields[19]) != process.start_ticks:
        return None
    return fields[0]


def is_running(process: ProcessId) -> bool:
    """Return whether the process exists and has not ended; a stopped one is running."""
    state = state_of(process)
    return state is not None and state not in _GONE


def is_stopped(process: ProcessId) -> bool:
    """Return whether the process is stopped by SIGSTOP."""
    return state_of(process) == "T"


def send_signal(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal to the process group which the process leads.

    Args:
        process: The leader of the group; nothing is sent if its number was given to another.
        number: The signal.

    Returns:
        False if the process has ended already, so that nothing was sent.
    """
    if not is_running(process):
        return False
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def environment_of(pid: int) -> list[bytes] | None:
    """Return the environment that a process was started with, `NAME=value` each.

    None: it has ended, or is another user's. Empty: it was started this very moment (man 2 execve).
    """
    try:
        if Path("/proc/self/environ").exists():
            return [each for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if each]
        return [f"{key}={value}".encode() for key, value in psutil.Process(pid).environ().items()]
    except (OSError, psutil.Error):
        return None


def signal_marked(process: ProcessId, number: signal.Signals, *, mark: bytes) -> bool:
    """Send a signal to a process, and to none else, if it carries a mark in its environment.

    Args:
        process: The process; nothing is sent if its number was given to another.
        number: The signal.
        mark: `NAME=value`.

    Returns:
        False if nothing was sent: it has ended already, or does not carry the mark.

    Raises:
        PermissionError: It is another user's.
    """
    try:
        held = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    try:
        # Looked at after the handle was taken, so that it is the handle's process.
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
    """Wait until none of the processes runs any more.

    Raises:
        WaitTimeoutError: One still runs after `timeout_s` seconds.
    """
    remaining = list(processes)

    def none_runs() -> bool:
        remaining[:] = [process for process in remaining if is_running(process)]
        return not remaining

    what = f"the end of processes {', '.join(str(process.pid) for process in remaining)}"
    wait_until(none_runs, timeout_s=timeout_s, what=what, interval_s=0.02)


def _stat_fields(pid: int) -> list[str] | None:
    """Return the fields of `/proc/PID/stat` from the third (the state) on."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the command's name in parentheses, may hold blanks and parentheses.
    return stat.rpartition(")")[2].split()


def state_elsewhere(process: ProcessId) -> str | None:
    """Return the same as `state_of` where there is no `/proc`."""
    try:
        if started_elsewhere(process.pid) != process.start_ticks:
            return None
        return _STATES.get(psutil.Process(process.pid).status(), "S")
    except psutil.NoSuchProcess:
        return None


def started_elsewhere(pid: int) -> int:
    """Return when a process began, in microseconds since 1970; 0 if there is none."""
    try:
        return round(psutil.Process(pid).create_time() * 1_000_000)
    except psutil.NoSuchProcess:
        return 0
