"""What a member's folder holds of snapshots after a start, whatever else is there."""

import re
from collections.abc import Iterable, Mapping

from cluster.files.batches import read_segment
from cluster.files.damage import DamagedFileError
from cluster.reference.quorum.member import Snapshot
from cluster.reference.quorum.state import FOLDER

_NAME = re.compile(rf"{FOLDER}/(?P<end>\d{{20}})-(?P<epoch>\d{{10}})\.checkpoint", re.ASCII)


def snapshot_paths(paths: Iterable[str]) -> list[str]:
    """Return the snapshots among some files, by their paths below the log dir; the latest last."""
    return sorted(path for path in paths if _NAME.fullmatch(path))


def latest_snapshot(files: Mapping[str, bytes]) -> Snapshot | None:
    """Return the latest snapshot (KIP-630), None if there is none.

    Args:
        files: By their paths below the log dir; those that are no snapshots are passed over.

    Raises:
        DamagedFileError: The latest is not whole. It was written aside and renamed, so the disk has
            lost some of it; what an older one stands for may be in no log any more.
    """
    paths = snapshot_paths(files)
    if not paths:
        return None
    path = paths[-1]
    named = _NAME.fullmatch(path)
    assert named is not None
    if not _is_whole(files[path]):
        raise DamagedFileError(f"the snapshot {path} is not whole")
    return Snapshot(end_offset=int(named["end"]), epoch=int(named["epoch"]), data=files[path])


def _is_whole(data: bytes) -> bool:
    """Whether a snapshot has its foot, a control batch as its head is (KIP-630)."""
    segment = read_segment(data)
    batches = segment.batches
    return not segment.damage and len(batches) > 1 and batches[0].control and batches[-1].control
