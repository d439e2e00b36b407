"""Seals of a record's tables. A seal is a digest of the footer of a Parquet file."""

import os
from hashlib import blake2b
from pathlib import Path

from results.record.reading import open_file

_LENGTH_BYTES = 4
_TAIL_BYTES = _LENGTH_BYTES + len(b"PAR1")
"""Bytes at the end of a Parquet file, which contain the footer's length and the format's name."""


def seal(path: Path) -> str:
    """Return a digest of a Parquet file's footer, which lists the position of all data.

    Pages have their own checksums, but the footer has none. If a bit in the footer flips, a reader
    could take the values from another row group.

    Raises:
        OSError: The file cannot be read.
    """
    with open_file(path, root=path.parent.parent) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        told = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        file.seek(max(0, size - _TAIL_BYTES - told))
        return blake2b(file.read(told + _TAIL_BYTES), digest_size=8).hexdigest()
