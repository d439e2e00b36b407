"""Ends what a dead run left running.

Normally that is nothing: agents end with the harness, and processes with their agent. What is
found all the same (an agent that was stopped, a process that went its own way) is known by the
run's ledger, or by the mark that everything of a run carries in its environment. The run's
namespaces have no names: they go with the last process in them, and with them the bridge, the veth
pairs and the nft tables.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from cluster.hosts.ledger import RUN_MARK, boot_id, mark, read_ledger
from cluster.hosts.signals import is_running, process_id, send_signal, wait_gone
from cluster.protocol import ProcessId, UserError
from results.record.clock import pause_until, stopwatch_s, unix_s

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
        WaitTimeoutError: A killed process is still there after some seconds.
    """
    said: list[str] = []
    while (found := leftovers(processes_file)) or (left_s := _starting_s(processes_file)) > 0:
        for leftover in found:
            _kill(leftover.process)
            said.append(f"killed {leftover.what} (process {leftover.process.pid})")
        # Once more afterwards: a process may have been starting another one meanwhile.
        wait_gone([leftover.process for leftover in found], timeout_s=GONE_TIMEOUT_S)
        if not found:
            pause_until(stopwatch_s() + min(left_s, LOOK_AGAIN_S))
    return said


def _starting_s(processes_file: Path) -> float:
    """Return for how long a process may still appear whose start was announced and not confirmed.

    Between fork and exec it has its parent's environment, and nobody has written down its number.
    """
    boot, since_s = boot_id(), dict[tuple[str, str], float]()
    for entry in read_ledger(processes_file):
        if entry.boot == boot:
            since_s[entry.what, entry.node] = entry.since_s if entry.pid is None else 0.0
    age_s = unix_s() - max(since_s.values(), default=0.0)
    return START_S - age_s if age_s >= 0 else 0.0


def leftovers(processes_file: Path) -> list[Leftover]:
    """Return the processes of a run that still run, this process excepted."""
    found = {leftover.process: leftover for leftover in _marked(processes_file)}
    found |= {leftover.process: leftover for leftover in _written_down(processes_file)}
    return [leftover for process, leftover in found.items() if process.pid != os.getpid()]


def _written_down(processes_file: Path) -> list[Leftover]:
    boot = boot_id()
    written = read_ledger(processes_file)
    entries = [entry for entry in written if entry.boot == boot and not entry.machine]
    return [
        Leftover(process=entry.process, what=f"{entry.what} of {entry.node}")
        for entry in entries
        if entry.process is not None and is_running(entry.process)
    ]


def _marked(processes_file: Path) -> list[Leftover]:
    """Find processes by the run's mark in their environment (man 5 proc, `/proc/PID/environ`)."""
    wanted = os.fsencode(f"{RUN_MARK}={mark(processes_file)[RUN_MARK]}")
    marked = [
        Leftover(process=process_id(int(folder.name)), what=_command(folder))
        for folder in Path("/proc").glob("[0-9]*")
        if wanted in _environment(folder)
    ]
    return [leftover for leftover in marked if is_running(leftover.process)]


def _environment(folder: Path) -> list[bytes]:
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # It has ended meanwhile, or is another user's.
        return []


def _command(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return "a process"


def _kill(process: ProcessId) -> None:
    """SIGKILL it, and its group if it leads one."""
    try:
        if not send_signal(process, signal.SIGKILL) and is_running(process):
            os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # It ended by itself meanwhile.
    except PermissionError as error:
        raise UserError(
            f"process {process.pid} of the run is another user's: heal as the one who ran it"
        ) from error
