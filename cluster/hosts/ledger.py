"""For the later cleanup, record each process that a run starts: before and after the start."""

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from cluster.protocol import ProcessId
from results.record.clock import unix_s
from results.record.reading import read_lines
from results.record.world import world

RUN_MARK = "LOGQUAKE_PROCESSES"
"""The environment variable of all processes that a run starts. The variable contains the ledger's
path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the ledger: the start of a process, announced or confirmed.

    Attributes:
        what: "agent", or the program's name.
        node: The node of the process.
        pid: None in the line that announces the start; the pid in the line that confirms the start.
        start_ticks: As in `ProcessId`.
        world: As in `results.record.world`. The pid is valid only in this world.
        machine: As in `ProcessId`. The pid is valid only on this machine.
        since_s: The time of the announcement, in seconds since 1970 by this machine's clock; 0 if
            unknown. The times of the process's files come from the same clock.
    """

    what: str
    node: str
    pid: Annotated[int, Field(gt=1)] | None
    start_ticks: Annotated[int, Field(ge=0)]
    world: str
    machine: str = ""
    since_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    @property
    def process(self) -> ProcessId | None:
        """The process, if the line confirms a start."""
        if self.pid is None:
            return None
        return ProcessId(pid=self.pid, start_ticks=self.start_ticks, machine=self.machine)


class ProcessLedger:
    """A writer of lines to a run's ledger, `RunPaths.processes`. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._world = world()
        self._announced: dict[tuple[str, str], float] = {}

    def intend(self, what: str, node: str) -> None:
        """Record that a process is about to start."""
        since_s = unix_s()
        self._announced[what, node] = since_s
        self._append(
            Entry(what=what, node=node, pid=None, start_ticks=0, world=self._world, since_s=since_s)
        )

    def started(self, what: str, node: str, process: ProcessId) -> None:
        """Record the identity of a process that has started."""
        self._append(
            Entry(
                what=what,
                node=node,
                pid=process.pid,
                start_ticks=process.start_ticks,
                world=self._world,
                machine=process.machine,
                since_s=self._announced.get((what, node), 0.0),
            )
        )

    def _append(self, entry: Entry) -> None:
        line = json.dumps(asdict(entry)) + "\n"
        with self._lock, self.path.open("a") as file:
            file.write(line)


_LINE = TypeAdapter(Entry)


def read_ledger(path: Path) -> list[Entry]:
    """Return the lines of a ledger; an empty list without a file.

    The function skips incomplete lines (after a crash, or on a full disk) and foreign lines. The
    processes in all other lines must still be cleaned up.

    Raises:
        UnsafeFileError: The path is not a regular file, or the file is too large.
    """
    return [entry for line in read_lines(path) if (entry := _entry(line))]


def _entry(line: bytes) -> Entry | None:
    try:
        return _LINE.validate_json(line)
    except ValidationError:
        return None


def mark(path: Path) -> dict[str, str]:
    """Return the environment variable that marks the processes of a run."""
    return {RUN_MARK: os.fspath(path.resolve())}
