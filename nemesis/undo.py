"""Undo steps of faults, as plain data. They are written to the ledger before the fault begins.

If a run is dead, only `Resume` and `FlipBack` are taken from its ledger. All other changes end with
the run's machines and processes, or the heal of the hosts removes them. For an attached cluster,
`cluster.systems.attached.mending` undoes faults without the ledger.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, Field

from cluster.protocol import Link, ProcessId

_Place = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A position in a file, in bytes. The limit is the size of the largest possible file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Continue a process that may be paused by SIGSTOP."""

    kind: Literal["resume"] = "resume"
    node: str
    pid: Annotated[int, Field(gt=1, strict=True)]
    start_ticks: int

    @property
    def process(self) -> ProcessId:
        """Return the process in the form that hosts use."""
        return ProcessId(pid=self.pid, start_ticks=self.start_ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Start a node's broker again."""

    kind: Literal["restart"] = "restart"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Remove a cut. A dead run's cuts end with its machines, or its ssh hosts remove them."""

    kind: Literal["join"] = "join"
    cut_id: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unshape:
    """Remove the shape of links. A dead run's shapes end with its agents."""

    kind: Literal["unshape"] = "unshape"
    shape_id: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblock:
    """Stop dropping packets of some connections. For a dead run, see `Join`."""

    kind: Literal["unblock"] = "unblock"
    block_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipBack:
    """Flip a bit back, if its batch still exists. This is also done in a dead run.

    Attributes:
        node: The node of the file.
        segment: The segment file, relative to the node's folder.
        position: The position of the batch in the file, in bytes.
        byte, bit: The position of the byte in the file, and of the bit in the byte (0 is the
            lowest).
        base_offset: The batch's first offset. The file may now have another batch at this position.
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
    """Delete the ballast file on a disk. A dead run's disks end with its machines."""

    kind: Literal["empty-disk"] = "empty-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockDisk:
    """Make a node's disk writable. A dead run's disks end with its machines."""

    kind: Literal["unlock-disk"] = "unlock-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickenDisk:
    """Make a node's disk as fast as before. A dead run's disks end with its machines."""

    kind: Literal["quicken-disk"] = "quicken-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeResources:
    """Restore a broker's resources. A dead run's limits end with its brokers and control groups."""

    kind: Literal["free-resources"] = "free-resources"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MendDisk:
    """Make a node's disk work again. A dead run's file systems end with its agents."""

    kind: Literal["mend-disk"] = "mend-disk"
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """Restore the replicas of a partition. A dead run's cluster or topics are removed."""

    kind: Literal["reassign"] = "reassign"
    topic: str
    partition: int
    replicas: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTopics:
    """Delete all topics with a prefix. For a dead run, see `Reassign`."""

    kind: Literal["drop-topics"] = "drop-topics"
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueClock:
    """Set a broker's clock to the true time. A dead run's clocks end with its brokers."""

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
