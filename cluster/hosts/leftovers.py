"""Kill processes of a dead run that still exist.

Normally there are no such processes: agents end with the harness, and processes end with their
agent. But a stopped agent, or a process that detached itself, may still exist. Only the run's mark
in a process's environment identifies such a process. The run's ledger may be forged, so the ledger
is only used to name the processes that were found. The run's namespaces have no names. A namespace
vanishes with its last process. The namespace's bridge, veth pairs and nft tables vanish too.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import psutil

from cluster.hosts.ledger import Entry, mark, read_ledger
from cluster.hosts.signals import (
    environment_of,
    is_running,
    process_id,
    signal_marked,
    wait_gone,
)
from cluster.protocol import ProcessId, UserError
from results.record.clock import pause_until, stopwatch_s, unix_s, wait_until
from results.record.world import is_of_this_world, world

GONE_TIMEOUT_S = 10.0
START_S = 2.0
"""The maximum time from the announcement of a start until the process has the run's mark."""
LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A process that still runs, although the run has died.

    Attributes:
        process: The process.
        what: A description of the process that fits into a sentence.
    """

    process: ProcessId
    what: str


def kill_leftovers(processes_file: Path) -> list[str]:
    """Kill all processes of a dead run, and wait until all have ended. Idempotent.

    Args:
        processes_file: `RunPaths.processes` of the run. The run's controller process must have
            ended.

    Returns:
        A sentence for each killed process.

    Raises:
        UserError: A process belongs to another user.
        UnsafeFileError: The ledger is not a file that a run writes.
        WaitTimeoutError: A killed process still exists after some seconds.
    """
    said: list[str] = []
    marked = run_mark(processes_file)
    while (found := leftovers(processes_file)) or (left_s := _starting_s(processes_file)) > 0:
        for leftover in found:
            _kill(leftover.process, marked)
        # Search again after the kill: a process may have started another one meanwhile.
        wait_gone([leftover.process for leftover in found], timeout_s=GONE_TIMEOUT_S)
        # A process may end because another one was killed, as a broker ends with its agent.
        said += [f"killed {leftover.what} (process {leftover.process.pid})" for leftover in found]
        if not found:
            pause_until(stopwatch_s() + min(left_s, LOOK_AGAIN_S))
    return said


def run_mark(processes_file: Path) -> bytes:
    """Return the mark in the environment of a run's processes: `NAME=value`."""
    ((name, value),) = mark(processes_file).items()
    return os.fsencode(f"{name}={value}")


def _starting_s(processes_file: Path) -> float:
    """Return for how many seconds another process with the run's mark may still appear.

    A start may be announced but not confirmed. Between fork and exec, a process has the parent's
    environment, and the pid of the process is not recorded. A start may also be confirmed just
    before exec. For a moment the process then has no environment.
    """
    since_s = dict[tuple[str, str], float]()
    for entry in _of_this_world(processes_file):
        bare = entry.pid is None or (
            entry.process is not None
            and is_running(entry.process)
            and environment_of(entry.pid) == []
        )
        since_s[entry.what, entry.node] = entry.since_s if bare else 0.0
    age_s = unix_s() - max(since_s.values(), default=0.0)
    return START_S - age_s if age_s >= 0 else 0.0


def leftovers(processes_file: Path) -> list[Leftover]:
    """Return the running processes of a run, except this process."""
    marked = run_mark(processes_file)
    pids = [pid for pid in psutil.pids() if marked in (environment_of(pid) or [])]
    processes = [process_id(pid) for pid in pids if pid != os.getpid() and is_of_this_world(pid)]
    found = [process for process in processes if is_running(process)]
    named = {each.process: f"{each.what} of {each.node}" for each in _named(processes_file, found)}
    return [Leftover(process=each, what=named.get(each) or _command(each)) for each in found]


def _named(processes_file: Path, found: list[ProcessId]) -> list[Entry]:
    return _of_this_world(processes_file) if found else []


def _of_this_world(processes_file: Path) -> list[Entry]:
    here = world()
    return [
        entry for entry in read_ledger(processes_file) if entry.world == here and not entry.machine
    ]


def _command(process: ProcessId) -> str:
    try:
        return psutil.Process(process.pid).name()
    except psutil.Error:
        return "a process"


def _kill(process: ProcessId, marked: bytes) -> None:
    """Kill a process of the run, even if it is just starting another program.

    At that moment the process has no environment, and thus no mark. Then the function retries the
    kill.
    """

    def is_done() -> bool:
        if signal_marked(process, signal.SIGKILL, mark=marked) or not is_running(process):
            return True
        environment = environment_of(process.pid)
        return environment != [] and marked not in (environment or [])

    what = f"process {process.pid} to have an environment"
    try:
        wait_until(is_done, timeout_s=GONE_TIMEOUT_S, what=what, interval_s=0.02)
    except PermissionError as error:
        raise UserError(
            f"process {process.pid} of the run belongs to another user: heal as the user who"
            " started the run"
        ) from error
