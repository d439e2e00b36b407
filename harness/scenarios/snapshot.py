"""Copies of the replicas' files at a step: `snapshots/<step>/<node>/data`, as in `nodes/<node>`.

Brokers go on writing meanwhile, so a copied segment may be torn at its end: readers cope with
that, as they do with what a crash leaves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from cluster.protocol import Disk
from harness.scenarios.sight import Place, partition_folder

OF_NODE = ("*-checkpoint", "meta.properties")
OF_PARTITION = (
    "*.log",
    "*.checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "quorum-state",
)
"""Segments, the metadata log's snapshots, and what else tells of a replica. No indexes."""


def copy_replicas(
    disk_of: Callable[[str], Disk], snapshot: Path, *, nodes: Sequence[str], places: Sequence[Place]
) -> None:
    """Copy what some nodes hold of some partitions, and the checkpoint files of their log folders.

    Args:
        disk_of: Returns the files of a node.
        snapshot: The step's folder.
        nodes: Whose files; of a node without a log folder nothing is copied.
        places: Partitions.
    """
    for node in nodes:
        disk = disk_of(node)
        for file in _worth_keeping(disk, places):
            # A checkpoint file that is replaced, or a segment that is deleted, at this moment.
            with suppress(FileNotFoundError):
                held = disk.read(file)
                copy = snapshot / node / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(held)


def _worth_keeping(disk: Disk, places: Sequence[Place]) -> Iterator[PurePosixPath]:
    for pattern in OF_NODE:
        yield from disk.files(f"data/{pattern}")
    for place in places:
        for pattern in OF_PARTITION:
            yield from disk.files(f"data/{partition_folder(place)}/{pattern}")
