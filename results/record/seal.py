"""Seals of a record's tables: what a Parquet file says of itself at its end, as a digest."""

import os
from hashlib import blake2b
from pathlib import Path

from results.record.reading import open_file

_LENGTH_BYTES = 4
_TAIL_BYTES = _LENGTH_BYTES + len(b"PAR1")
"""A file ends with what lies where, how long that is, and the format's name."""


def seal(path: Path) -> str:
    """Return a digest of a file's end, which says where in it everything lies.

    Pages have checksums of their own, the end has none: one bit flipped there makes another row
    group's values those of this one.

    Raises:
        OSError: The file cannot be read.
    """
    with open_file(path, root=path.parent.parent) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        told = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        file.seek(max(0, size - _TAIL_BYTES - told))
        return blake2b(file.read(told + _TAIL_BYTES), digest_size=8).hexdigest()
