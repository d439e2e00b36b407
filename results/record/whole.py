"""A file that is written piece by piece and appears as a whole, or not at all."""

import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from results.record.atomic import store_error


@contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the target's place when the block ends well.

    Raises:
        StoreError: No permission, no space, or another refusal of the disk.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_draft(target), dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            # mkstemp makes files that only their owner reads.
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as refused:
        raise store_error(target, refused) from refused


def drafts(target: Path) -> str:
    """Return the pattern of what a process leaves beside a target if it is killed meanwhile."""
    return f"{glob.escape(_draft(target))}*"


def _draft(target: Path) -> str:
    return f".{target.name}."
