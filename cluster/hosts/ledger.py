"""What a run started, written down before and after, so that a dead run can be cleaned up."""

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.protocol import ProcessId
from results.record.clock import unix_s

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
        boot: The kernel's boot id: numbers of processes say nothing after a reboot.
        machine: As in `ProcessId`: a number of another machine says nothing on this one.
        since_s: When its start was announced, in seconds since 1970 by this machine's clock as it
            was then; 0: not known. Files that the process made have times of the same clock.
    """

    what: str
    node: str
    pid: int | None
    start_ticks: int
    boot: str
    machine: str = ""
    since_s: float = 0.0

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
        self._boot = boot_id()
        self._announced: dict[tuple[str, str], float] = {}

    def intend(self, what: str, node: str) -> None:
        """Write that a process is about to be started."""
        since_s = unix_s()
        self._announced[what, node] = since_s
        self._append(
            Entry(what=what, node=node, pid=None, start_ticks=0, boot=self._boot, since_s=since_s)
        )

    def started(self, what: str, node: str, process: ProcessId) -> None:
        """Write which process it became."""
        self._append(
            Entry(
                what=what,
                node=node,
                pid=process.pid,
                start_ticks=process.start_ticks,
                boot=self._boot,
                machine=process.machine,
                since_s=self._announced.get((what, node), 0.0),
            )
        )

    def _append(self, entry: Entry) -> None:
        line = json.dumps(asdict(entry)) + "\n"
        with self._lock, self.path.open("a") as file:
            file.write(line)


def read_ledger(path: Path) -> list[Entry]:
    """Return the lines of a ledger; none if there is no file.

    Torn lines, as a crash or a full disk leaves them, are left out wherever they stand: what the
    others name must be cleaned up all the same.
    """
    if not path.exists():
        return []
    return [entry for line in path.read_bytes().split(b"\n") if (entry := _entry(line))]


def _entry(line: bytes) -> Entry | None:
    try:
        return Entry(**json.loads(line))
    except (ValueError, TypeError):
        return None


def boot_id() -> str:
    """Return what tells this boot of the machine from others; empty where it is not known."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""


def mark(path: Path) -> dict[str, str]:
    """Return the environment that marks processes as a run's."""
    return {RUN_MARK: os.fspath(path.resolve())}
