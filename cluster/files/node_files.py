"""This module reads the files in one node's folder, and lists the unreadable files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from cluster.files.batches import Segment, read_segment
from cluster.files.checkpoints import offset_checkpoint, properties
from cluster.files.damage import DamagedFileError, Problem
from results.record.reading import read_bytes, read_text

MAX_SEGMENT_BYTES = 1 << 30
"""The largest size of a segment, Kafka's default for `log.segment.bytes`."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """A node's folder, and the list of unreadable files in that folder.

    Attributes:
        root: The folder `nodes/<node>` of a run, with `data/` and `logs/`, or a copy of this
            folder.
        node: The node's name.
        snapshot: The label for this state of the replicas.
        problems: A list to which unreadable files are added.
        live: Whether the folder was copied while the broker was running. A segment may then end
            with an incomplete batch, which is not a problem.
    """

    root: Path
    node: str
    snapshot: str
    problems: list[Problem]
    live: bool = False
    _noted: set[tuple[Path, str]] = field(default_factory=set)

    @property
    def run(self) -> Path:
        """The folder of the run or of the copied nodes. Its subfolders must not be links."""
        return self.root.parent.parent

    @property
    def data(self) -> Path:
        """Kafka's log folder."""
        return self.root / "data"

    def note(self, path: Path, what: str) -> None:
        """Add a problem to the list if the list does not contain it yet."""
        if (path, what) not in self._noted:
            self._noted.add((path, what))
            shown = str(path.relative_to(self.root))
            self.problems.append(Problem(node=self.node, path=shown, what=what))

    def note_all(self, path: Path, damage: list[str]) -> None:
        """Add several problems of one file to the list."""
        for what in damage:
            self.note(path, what)

    def parsed(
        self, path: Path, reader: Callable[[str], T], *, may_be_missing: bool = False
    ) -> T | None:
        """Parse a text file with a reader; if this fails, note a problem and return None.

        Args:
            path: The file.
            reader: A function of `checkpoints`.
            may_be_missing: Whether the file may be missing without a problem.
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
        """Return a segment; if the file is unreadable, note a problem and return no batches."""
        try:
            segment = read_segment(read_bytes(path, max_bytes=MAX_SEGMENT_BYTES, root=self.run))
        except OSError as broken:
            self.note(path, f"the file cannot be read: {broken}")
            return Segment(batches=(), damage=())
        damage = list(segment.damage)
        self.note_all(path, damage[:-1] if self.live and segment.torn else damage)
        return segment

    def offsets(self, name: str) -> Mapping[tuple[str, int], int]:
        """Read a checkpoint file of offsets; a missing file is a problem only on a broker."""
        path = self.data / name
        return self.parsed(path, offset_checkpoint, may_be_missing=not self.is_broker) or {}

    @property
    def is_broker(self) -> bool:
        """Whether the node is a broker: the folder has a partition that is not the quorum's."""
        return any(
            folder.name.rpartition("-")[2].isdecimal()
            and not folder.name.startswith("__cluster_metadata-")
            for folder in self.data.glob("*-*")
            if folder.is_dir()
        )

    @property
    def by_zookeeper(self) -> bool:
        """Whether the node is a broker of a cluster with ZooKeeper."""
        meta = self.parsed(self.data / "meta.properties", properties, may_be_missing=True) or {}
        return "broker.id" in meta and "node.id" not in meta
