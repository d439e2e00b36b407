"""Copies of the replicas' files at a step: `snapshots/<step>/<node>/data`, as in `nodes/<node>`.

Brokers go on writing meanwhile, so a copied segment may be torn at its end: readers cope with
that, as they do with what a crash leaves.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from harness.scenarios.sight import Place, partition_folder
from results.record.paths import RunPaths

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
    paths: RunPaths, snapshot: str, *, nodes: Sequence[str], places: Sequence[Place]
) -> None:
    """Copy what some nodes hold of some partitions, and the checkpoint files of their log folders.

    Args:
        paths: The run.
        snapshot: The step's name.
        nodes: Whose files; of a node without a log folder nothing is copied.
        places: Partitions.
    """
    for node in nodes:
        data = paths.node(node) / "data"
        target = paths.snapshots / snapshot / node / "data"
        for file in _worth_keeping(data, places):
            copy = target / file.relative_to(data)
            copy.parent.mkdir(parents=True, exist_ok=True)
            # A checkpoint file that is replaced, or a segment that is deleted, at this moment.
            with suppress(FileNotFoundError):
                shutil.copyfile(file, copy)


def _worth_keeping(data: Path, places: Sequence[Place]) -> Iterator[Path]:
    for pattern in OF_NODE:
        yield from data.glob(pattern)
    for place in places:
        for pattern in OF_PARTITION:
            yield from (data / partition_folder(place)).glob(pattern)
