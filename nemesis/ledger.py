"""The ledger of a run: the undo of each fault, on disk before the fault, struck after its heal.

`ledger.jsonl` has a line when a fault is about to start, `{"fault_id": 3, "undo": [...]}`, and one
when its heal was confirmed, `{"fault_id": 3, "struck": true}`. Each line is synced to disk before
anything else happens, so that whatever a dead controller left in force is found there.
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
    """A fault that may be in force, and what would undo it."""

    fault_id: int
    undo: tuple[Undo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """A fault that is over, confirmed."""

    fault_id: int
    struck: Literal[True] = True


_LINE: TypeAdapter[Entry | Stroke] = TypeAdapter(Entry | Stroke)


class Ledger:
    """Appends to `RunPaths.ledger`; used by several faults' threads.

    Args:
        path: The file; made if there is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = new_lock()
        if read_lines(path)[-1:] not in ([], [b""]):
            # Whoever wrote the last line died of it; ours must not be glued to it.
            self._append_bytes(b"\n")

    def write(self, fault_id: int, undo: Sequence[Undo]) -> None:
        """Write what would undo a fault; it is on disk when this returns."""
        self._append(Entry(fault_id=fault_id, undo=tuple(undo)))

    def strike(self, fault_id: int) -> None:
        """Write that a fault is over, confirmed."""
        self._append(Stroke(fault_id=fault_id))

    def _append(self, line: Entry | Stroke) -> None:
        self._append_bytes(_LINE.dump_json(line) + b"\n")

    def _append_bytes(self, text: bytes) -> None:
        with self._lock, self._path.open("ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def open_entries(path: Path) -> tuple[Entry, ...]:
    """Return the entries that were never struck, in order; none if there is no ledger.

    A line that was cut off by a crash belongs to a fault that had not begun yet: it is left out.
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
    """Undo what a run left behind whose controller is dead. Idempotent.

    Paused processes are continued; then everything that the run started is killed, and all that it
    made on its hosts is removed (`heal_hosts`), and with it cuts, shapes, clocks and disks. If all
    of that was done, the ledger's entries are struck.

    Args:
        paths: The run's; the caller has seen that its controller is dead.
        logs: Knows its nodes' files.
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
    """Strike entries; return why that could not be done, if so."""
    try:
        for entry in entries:
            Ledger(path).strike(entry.fault_id)
    except OSError as refused:
        return [f"all faults are healed, but {path} cannot be written: {refused.strerror}"]
    return []


def _righted(undo: Undo, paths: RunPaths, logs: Logs) -> str | None:
    """Put a flipped bit right in the files of a dead run: they are evidence of Kafka's, not ours.

    Args:
        undo: The entry.
        paths: The run's; no broker of it runs any more.
        logs: Knows the files.
    """
    if not isinstance(undo, FlipBack):
        return None
    file = confined(paths.node(undo.node), undo.segment)
    if file is None:
        return None  # It is gone; or it never was a file of this node.
    try:
        righted = put_right(LocalDisk(file.parent), replace(undo, segment=file.name), logs)
    except (ClusterError, OSError):
        return None  # Whatever it is now, it is not our bit alone: the record shows it.
    return f"flipped a bit of {undo.node} back, in {undo.segment}" if righted else None


def _undone(undo: Undo, left: Collection[ProcessId], marked: bytes) -> str | None:
    """Undo what does not go with the processes and the machines of a dead run.

    Args:
        undo: The entry.
        left: The processes of the run that still run on this machine: nobody else's is touched.
        marked: What they carry in their environment.
    """
    match undo:
        case Resume(node=node, process=process):
            if process not in left or state_of(process) not in STOPPED:
                return None
            if not signal_marked(process, signal.SIGCONT, mark=marked):
                return None
            return f"continued the paused broker of {node} (pid {process.pid})"
        case _:
            return None  # The dead run needs no broker; the rest goes with its machines.
