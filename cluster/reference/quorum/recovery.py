"""Find the snapshots in a member's folder after a start."""

import re
from collections.abc import Iterable, Mapping

from cluster.files.batches import read_segment
from cluster.files.damage import DamagedFileError
from cluster.reference.quorum.member import Snapshot
from cluster.reference.quorum.state import FOLDER

_NAME = re.compile(rf"{FOLDER}/(?P<end>\d{{20}})-(?P<epoch>\d{{10}})\.checkpoint", re.ASCII)


def snapshot_paths(paths: Iterable[str]) -> list[str]:
    """Return which of some paths are paths of snapshots; the latest snapshot is last."""
    return sorted(path for path in paths if _NAME.fullmatch(path))


def latest_snapshot(files: Mapping[str, bytes]) -> Snapshot | None:
    """Return the latest snapshot (KIP-630); None if there is none.

    Args:
        files: File contents by path in the log dir. Other files are ignored.

    Raises:
        DamagedFileError: The latest snapshot is incomplete. A node writes snapshots atomically, so
            the disk must have lost a part of the file. The records that the snapshot replaces may
            no longer be in any log.
    """
    paths = snapshot_paths(files)
    if not paths:
        return None
    path = paths[-1]
    named = _NAME.fullmatch(path)
    assert named is not None
    if not _is_whole(files[path]):
        raise DamagedFileError(f"the snapshot {path} is incomplete")
    return Snapshot(end_offset=int(named["end"]), epoch=int(named["epoch"]), data=files[path])


def _is_whole(data: bytes) -> bool:
    """Return whether a snapshot is complete: it begins and ends with a control batch (KIP-630)."""
    segment = read_segment(data)
    batches = segment.batches
    return not segment.damage and len(batches) > 1 and batches[0].control and batches[-1].control
