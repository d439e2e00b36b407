"""Copy the replicas' files at a step to `snapshots/<step>/<node>/data`.

The copies have the layout of `nodes/<node>`. Brokers write their files during the copy, so a copied
segment may be cut off in a batch. Readers handle such segments like files after a crash.
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
"""Which files are copied: segments, snapshots of the metadata log, and other state files, but no
indexes."""


def copy_replicas(
    disk_of: Callable[[str], Disk], snapshot: Path, *, nodes: Sequence[str], places: Sequence[Place]
) -> None:
    """Copy the files of some partitions from some nodes, and the checkpoint files of these nodes.

    Args:
        disk_of: The function that returns the files of a node.
        snapshot: The step's folder.
        nodes: The nodes. Nodes without a log folder are skipped.
        places: The partitions.
    """
    for node in nodes:
        disk = disk_of(node)
        for file in _worth_keeping(disk, places):
            # A checkpoint file may be replaced, or a segment deleted, during the copy.
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
