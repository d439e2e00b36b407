"""What would undo a fault, written to the ledger before the fault: plain data."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator

from cluster.protocol import Link, ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Continue a process that may have been stopped by SIGSTOP."""

    kind: Literal["resume"] = "resume"
    node: str
    pid: int
    start_ticks: int

    @property
    def process(self) -> ProcessId:
        """The process, as hosts call it."""
        return ProcessId(pid=self.pid, start_ticks=self.start_ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Start a node's broker again. A dead run needs no broker: nothing to undo for it."""

    kind: Literal["restart"] = "restart"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Remove a cut. A dead run's cuts go with its machines."""

    kind: Literal["join"] = "join"
    cut_id: str
    links: tuple[Link, ...]


Undo = Annotated[Resume | Restart | Join, Discriminator("kind")]
