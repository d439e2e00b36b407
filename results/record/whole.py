"""Write a large file in pieces, so that it appears completely or not at all."""

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
    """Yield a temporary file. If the block ends without error, the file replaces the target.

    Raises:
        StoreError: The file cannot be written: no permission, no space, or another disk error.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_draft(target), dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            # mkstemp makes files that only their owner can read.
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as refused:
        raise store_error(target, refused) from refused


def drafts(target: Path) -> str:
    """Return a glob pattern for the temporary files next to a target that a killed process left."""
    return f"{glob.escape(_draft(target))}*"


def _draft(target: Path) -> str:
    return f".{target.name}."
