"""What a member's folder holds after a start, as far as it is sound."""

import re
from collections.abc import Mapping

from cluster.files.batches import read_segment
from cluster.reference.quorum.member import Snapshot
from cluster.reference.quorum.state import FOLDER

_NAME = re.compile(rf"{FOLDER}/(?P<end>\d{{20}})-(?P<epoch>\d{{10}})\.checkpoint")


def latest_snapshot(files: Mapping[str, bytes]) -> Snapshot | None:
    """Return the latest whole snapshot, None if there is none.

    Args:
        files: By their paths below the log dir; those that are no snapshots are passed over.
    """
    for path in sorted(files, reverse=True):
        named = _NAME.fullmatch(path)
        if named is not None and _is_whole(files[path]):
            return Snapshot(
                end_offset=int(named["end"]), epoch=int(named["epoch"]), data=files[path]
            )
    return None


def _is_whole(data: bytes) -> bool:
    """Whether a snapshot has its foot, a control batch as its head is (KIP-630)."""
    segment = read_segment(data)
    batches = segment.batches
    return not segment.damage and len(batches) > 1 and batches[0].control and batches[-1].control
