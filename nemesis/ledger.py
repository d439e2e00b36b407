"""The ledger of a run: the undo steps of each fault, on disk before the fault begins.

`ledger.jsonl` gets a line before a fault starts, `{"fault_id": 3, "undo": [...]}`. It gets another
line when the fault has ended, `{"fault_id": 3, "struck": true}`: usually when the heal is
confirmed. Each line is synced to disk before the next action. So if the controller process dies,
the file lists every fault that is still active.
"""

import os
import signal
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from cluster.hosts.disk import LocalDisk
from cluster.hosts.heal import Healed, heal_hosts
from cluster.hosts.leftovers import leftovers, run_mark
from cluster.hosts.signals import signal_marked, state_of
from cluster.protocol import ClusterError, Logs, ProcessId
from nemesis.bits import put_right
from nemesis.brokers import STOPPED
from nemesis.undo import FlipBack, Resume, Undo
from results.record.paths import RunPaths
from results.record.reading import read_lines
from results.record.runtime import new_lock
from results.trust import confined


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The entry of a fault that may be active, with its undo steps."""

    fault_id: int
    undo: tuple[Undo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """The entry that marks a fault as ended, usually because its heal is confirmed.

    A fault also ends if another fault replaces its effect, or if a scenario leaves its nodes down.
    """

    fault_id: int
    struck: Literal[True] = True


_LINE: TypeAdapter[Entry | Stroke] = TypeAdapter(Entry | Stroke)


class Ledger:
    """Appends entries to `RunPaths.ledger`. Threads of several faults can use it at the same time.

    Args:
        path: The file. It is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = new_lock()
        if read_lines(path)[-1:] not in ([], [b""]):
            # The last writer died in the middle of a line. Start a new line.
            self._append_bytes(b"\n")

    def write(self, fault_id: int, undo: Sequence[Undo]) -> None:
        """Write the undo steps of a fault, and wait until they are on disk."""
        self._append(Entry(fault_id=fault_id, undo=tuple(undo)))

    def strike(self, fault_id: int) -> None:
        """Write that a fault has ended, usually because its heal is confirmed."""
        self._append(Stroke(fault_id=fault_id))

    def _append(self, line: Entry | Stroke) -> None:
        self._append_bytes(_LINE.dump_json(line) + b"\n")

    def _append_bytes(self, text: bytes) -> None:
        with self._lock, self._path.open("ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def open_entries(path: Path) -> tuple[Entry, ...]:
    """Return the entries of faults that have not ended, in order. Empty if there is no ledger.

    A line that a crash cut off is ignored. If this line is an `Entry`, its fault had not begun. If
    it is a `Stroke`, the entry of its fault is returned.
    """
    entries: dict[int, Entry] = {}
    for text in read_lines(path):
        try:
            line = _LINE.validate_json(text)
        except ValidationError:
            continue
        match line:
            case Entry():
                entries[line.fault_id] = line
            case Stroke():
                entries.pop(line.fault_id, None)
    return tuple(entries.values())


def heal_dead_run(paths: RunPaths, logs: Logs) -> Healed:
    """Undo all faults and changes of a run whose controller process is dead. Idempotent.

    First, paused processes are continued. Then all processes that the run started are killed. Then
    all changes to its hosts are removed (`heal_hosts`), such as cuts, shapes, clocks and disks.
    Then flipped bits are flipped back. If the hosts are healed, the ledger's entries are marked as
    ended, even if a bit could not be flipped back.

    Args:
        paths: The paths of the run. The caller has checked that the run's controller process is
            dead.
        logs: The reader of the nodes' log files.
    """
    entries = open_entries(paths.ledger)
    left = {leftover.process for leftover in leftovers(paths.processes)} if entries else set()
    marked = run_mark(paths.processes)
    undone = [
        said for entry in entries for each in entry.undo if (said := _undone(each, left, marked))
    ]
    healed = heal_hosts(paths)
    undone += [
        said for entry in entries for each in entry.undo if (said := _righted(each, paths, logs))
    ]
    failed = healed.failed or _not_struck(paths.ledger, entries)
    return Healed(done=(*undone, *healed.done), failed=tuple(failed))


def _not_struck(path: Path, entries: Iterable[Entry]) -> list[str]:
    """Mark entries as ended. Return the errors, if any."""
    try:
        for entry in entries:
            Ledger(path).strike(entry.fault_id)
    except OSError as refused:
        return [f"all faults are healed, but {path} cannot be written: {refused.strerror}"]
    return []


def _righted(undo: Undo, paths: RunPaths, logs: Logs) -> str | None:
    """Flip a bit back in the files of a dead run, so that only Kafka's own changes remain.

    Args:
        undo: The undo step.
        paths: The paths of the run. All brokers of the run have ended.
        logs: The reader of the log files.
    """
    if not isinstance(undo, FlipBack):
        return None
    file = confined(paths.node(undo.node), undo.segment)
    if file is None:
        return None  # The file was deleted, or never belonged to this node.
    try:
        righted = put_right(LocalDisk(file.parent), replace(undo, segment=file.name), logs)
    except (ClusterError, OSError):
        return None  # There is other damage besides the flipped bit. The run's record shows it.
    return f"flipped a bit back in {undo.segment} of {undo.node}" if righted else None


def _undone(undo: Undo, left: Collection[ProcessId], marked: bytes) -> str | None:
    """Continue a paused process of a dead run. Return what was done as text, or None.

    Args:
        undo: The undo step.
        left: Processes of the run that are still alive on this machine. Logquake signals only these
            processes.
        marked: The marker in the environment of these processes.
    """
    match undo:
        case Resume(node=node, process=process):
            if process not in left or state_of(process) not in STOPPED:
                return None
            if not signal_marked(process, signal.SIGCONT, mark=marked):
                return None
            return f"continued the paused broker of {node} (pid {process.pid})"
        case _:
            return None  # A dead run needs no broker. All other changes end with its machines.
