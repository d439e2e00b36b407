"""Ends what a dead run left running.

Normally that is nothing: agents end with the harness, and processes with their agent. What is
found all the same (an agent that was stopped, a process that went its own way) is known by the
mark that everything of a run carries in its environment, and by nothing else: the run's ledger may
be a stranger's, and only gives what is found a name. The run's namespaces have no names: they go
with the last process in them, and with them the bridge, the veth pairs and the nft tables.
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
"""From the announcement of a start to a process that carries its run's mark."""
LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A process of a run that still runs.

    Attributes:
        process: The process.
        what: What it is, as in a sentence.
    """

    process: ProcessId
    what: str


def kill_leftovers(processes_file: Path) -> list[str]:
    """Kill every process of a dead run, and wait until all are gone. Idempotent.

    Args:
        processes_file: `RunPaths.processes` of the run; its controller must not be alive any more.

    Returns:
        A sentence for each process that was killed.

    Raises:
        UserError: One belongs to another user.
        UnsafeFileError: The file is not what a run writes.
        WaitTimeoutError: A killed process is still there after some seconds.
    """
    said: list[str] = []
    marked = run_mark(processes_file)
    while (found := leftovers(processes_file)) or (left_s := _starting_s(processes_file)) > 0:
        for leftover in found:
            _kill(leftover.process, marked)
        # Once more afterwards: a process may have been starting another one meanwhile.
        wait_gone([leftover.process for leftover in found], timeout_s=GONE_TIMEOUT_S)
        # Some go with another that was killed, as a broker with its agent.
        said += [f"killed {leftover.what} (process {leftover.process.pid})" for leftover in found]
        if not found:
            pause_until(stopwatch_s() + min(left_s, LOOK_AGAIN_S))
    return said


def run_mark(processes_file: Path) -> bytes:
    """Return the mark of a run's processes as it stands in their environment."""
    ((name, value),) = mark(processes_file).items()
    return os.fsencode(f"{name}={value}")


def _starting_s(processes_file: Path) -> float:
    """Return for how long a process may still appear that carries the mark.

    Its start was announced and not confirmed: between fork and exec it has its parent's
    environment, and its number is not written down. Or it was, just before its exec: for a moment
    it has no environment at all.
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
    """Return the processes of a run that still run, this process excepted."""
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
    """Kill a process, also one that begins another program: it has no environment for a moment."""

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
            f"process {process.pid} of the run is another user's: heal as the one who ran it"
        ) from error
