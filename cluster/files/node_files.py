"""One node's folder, and what of it turned out to be unreadable."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cluster.files.batches import Segment, read_segment
from cluster.files.checkpoints import offset_checkpoint, properties
from cluster.files.damage import DamagedFileError, Problem
from results.record.reading import read_bytes, read_text

MAX_SEGMENT_BYTES = 1 << 30
"""Of a segment: Kafka's own `log.segment.bytes`."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """A node's folder; what cannot be read is noted as a problem, and the rest is read.

    Attributes:
        root: `nodes/<node>` of a run, with `data/` and `logs/`, or a copy of it.
        node: The node's name.
        snapshot: How this state of the replicas is called.
        problems: Gets what could not be read.
        live: Whether it was copied from under a broker that ran. The end of a segment may be half
            a batch then, which was being written, and is no problem.
    """

    root: Path
    node: str
    snapshot: str
    problems: list[Problem]
    live: bool = False
    _noted: set[tuple[Path, str]] = field(default_factory=set)

    @property
    def run(self) -> Path:
        """The run's folder, or the one of its copies of nodes: below it no folder is a link."""
        return self.root.parent.parent

    @property
    def data(self) -> Path:
        """Kafka's log folder."""
        return self.root / "data"

    def note(self, path: Path, what: str) -> None:
        """Tell of a problem, once."""
        if (path, what) not in self._noted:
            self._noted.add((path, what))
            shown = str(path.relative_to(self.root))
            self.problems.append(Problem(node=self.node, path=shown, what=what))

    def note_all(self, path: Path, damage: list[str]) -> None:
        """Tell of everything that is wrong with a file."""
        for what in damage:
            self.note(path, what)

    def parsed(
        self, path: Path, reader: Callable[[str], T], *, may_be_missing: bool = False
    ) -> T | None:
        """Return a text file as its reader returns it; None, and a problem, if it cannot.

        Args:
            path: The file.
            reader: Of `checkpoints`.
            may_be_missing: Whether a node may well be without it.
        """
        try:
            return reader(read_text(path, root=self.run))
        except FileNotFoundError:
            if not may_be_missing:
                self.note(path, "the file is missing")
        except (OSError, UnicodeDecodeError, DamagedFileError) as broken:
            self.note(path, f"the file cannot be read: {broken}")
        return None

    def segment(self, path: Path) -> Segment:
        """Return the batches of a segment; none, and a problem, if it cannot be read at all."""
        try:
            segment = read_segment(read_bytes(path, max_bytes=MAX_SEGMENT_BYTES, root=self.run))
        except OSError as broken:
            self.note(path, f"the file cannot be read: {broken}")
            return Segment(batches=(), damage=())
        damage = list(segment.damage)
        self.note_all(path, damage[:-1] if self.live and segment.torn else damage)
        return segment

    def offsets(self, name: str) -> Mapping[tuple[str, int], int]:
        """Return a checkpoint file of offsets; controllers of their own have none."""
        path = self.data / name
        return self.parsed(path, offset_checkpoint, may_be_missing=not self.is_broker) or {}

    @property
    def is_broker(self) -> bool:
        """Whether any partition but the quorum's own lies here."""
        return any(
            folder.name.rpartition("-")[2].isdecimal()
            and not folder.name.startswith("__cluster_metadata-")
            for folder in self.data.glob("*-*")
            if folder.is_dir()
        )

    @property
    def by_zookeeper(self) -> bool:
        """Whether the node is a broker whose cluster's metadata are kept by ZooKeeper."""
        meta = self.parsed(self.data / "meta.properties", properties, may_be_missing=True) or {}
        return "broker.id" in meta and "node.id" not in meta
