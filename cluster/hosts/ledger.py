"""What a run started, written down before and after, so that a dead run can be cleaned up."""

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
"""Environment variable of all that a run starts on its hosts: the path of the run's ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the ledger.

    Attributes:
        what: What it is: "agent", or the program's name.
        node: On which node.
        pid: None in the line that announces the start; a number in the one that confirms it.
        start_ticks: As in `ProcessId`.
        world: As `results.record.world` has it: in another one the number says nothing.
        machine: As in `ProcessId`: a number of another machine says nothing on this one.
        since_s: When its start was announced, in seconds since 1970 by this machine's clock as it
            was then; 0: not known. Files that the process made have times of the same clock.
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
        """The process, if the line has one."""
        if self.pid is None:
            return None
        return ProcessId(pid=self.pid, start_ticks=self.start_ticks, machine=self.machine)


class ProcessLedger:
    """Appends to `RunPaths.processes`; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._world = world()
        self._announced: dict[tuple[str, str], float] = {}

    def intend(self, what: str, node: str) -> None:
        """Write that a process is about to be started."""
        since_s = unix_s()
        self._announced[what, node] = since_s
        self._append(
            Entry(what=what, node=node, pid=None, start_ticks=0, world=self._world, since_s=since_s)
        )

    def started(self, what: str, node: str, process: ProcessId) -> None:
        """Write which process it became."""
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
    """Return the lines of a ledger; none if there is no file.

    Torn lines, as a crash or a full disk leaves them, are left out wherever they stand: what the
    others name must be cleaned up all the same. So are lines that no ledger of ours has.

    Raises:
        UnsafeFileError: It is no regular file, or too large.
    """
    return [entry for line in read_lines(path) if (entry := _entry(line))]


def _entry(line: bytes) -> Entry | None:
    try:
        return _LINE.validate_json(line)
    except ValidationError:
        return None


def mark(path: Path) -> dict[str, str]:
    """Return the environment that marks processes as a run's."""
    return {RUN_MARK: os.fspath(path.resolve())}
