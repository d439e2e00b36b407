"""What would undo a fault, written to the ledger before the fault: plain data."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, Field

from cluster.protocol import Link, ProcessId

_Place = Annotated[int, Field(ge=0, lt=1 << 63)]
"""In a file, in bytes: as far as a file can reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Continue a process that may have been stopped by SIGSTOP."""

    kind: Literal["resume"] = "resume"
    node: str
    pid: Annotated[int, Field(gt=1, strict=True)]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unshape:
    """Take away what makes links bad. A dead run's shapers end with its agents."""

    kind: Literal["unshape"] = "unshape"
    shape_id: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblock:
    """Drop the packets of some connections no more. A dead run's blocks go with its machines."""

    kind: Literal["unblock"] = "unblock"
    block_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipBack:
    """Put a flipped bit right, where the batch is still there. A dead run's files are evidence.

    Attributes:
        node: Whose file.
        segment: The file, in the node's folder.
        position: Where the batch begins in it, in bytes.
        byte, bit: Which bit: the byte's place in the file, and the bit's in it (0: the lowest).
        base_offset: The batch's first offset: a file may have another one there by now.
    """

    kind: Literal["flip-back"] = "flip-back"
    node: Annotated[str, Field(pattern="^[a-z0-9]+$")]
    segment: str
    position: _Place
    byte: _Place
    bit: Annotated[int, Field(ge=0, lt=8)]
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDisk:
    """Give back the room that a ballast took. A dead run's disks go with its machines."""

    kind: Literal["empty-disk"] = "empty-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockDisk:
    """Make a node's disk writable. A dead run's disks go with its machines."""

    kind: Literal["unlock-disk"] = "unlock-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickenDisk:
    """Have a node's disk be as quick as it was. Those of a dead run go with its machines."""

    kind: Literal["quicken-disk"] = "quicken-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeResources:
    """Give a broker what it got before. Limits of a dead run end with its brokers and groups."""

    kind: Literal["free-resources"] = "free-resources"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MendDisk:
    """Have a node's disk break no request. A dead run's file systems end with its agents."""

    kind: Literal["mend-disk"] = "mend-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """Give a partition its replicas back. A dead run's cluster goes with its hosts."""

    kind: Literal["reassign"] = "reassign"
    topic: str
    partition: int
    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTopics:
    """Delete the topics whose names begin so. A dead run's cluster goes with its hosts."""

    kind: Literal["drop-topics"] = "drop-topics"
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueClock:
    """Have a broker see the true time. A dead run's brokers end, and take their clocks along."""

    kind: Literal["true-clock"] = "true-clock"
    node: str


Undo = Annotated[
    Resume
    | Restart
    | Join
    | Unshape
    | Unblock
    | FlipBack
    | EmptyDisk
    | UnlockDisk
    | QuickenDisk
    | FreeResources
    | MendDisk
    | Reassign
    | DropTopics
    | TrueClock,
    Discriminator("kind"),
]
