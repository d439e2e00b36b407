"""Copy a run to judge the copy, if the run itself must not be changed."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from results.export.contents import contents_of
from results.record.atomic import StoreError, store_error
from results.record.paths import RunPaths
from results.record.reading import open_file

_BLOCK_BYTES = 512
"""The unit of `st_blocks` (man 2 stat)."""
_CHUNK_BYTES = 1 << 20


def copy_plain(paths: RunPaths, folder: Path) -> RunPaths:
    """Copy the files that are needed to judge a run: the files of a bundle with the nodes' files.

    Symbolic links are not followed. Sparse files stay sparse: a file may have a size of 1 TiB, but
    contain no data.

    Args:
        paths: The run. Logquake does not trust the run's files.
        folder: The parent of the new `<name>/<run>` folder, so that the copy keeps the run's id.

    Raises:
        StoreError: The folder cannot be written or is full, or a file cannot be read.
    """
    copy = RunPaths(folder / paths.run_id)
    contents = contents_of(paths, with_nodes=True)
    held = sum((paths.root / each).stat().st_blocks * _BLOCK_BYTES for each in contents.files)
    if held > (free := shutil.disk_usage(folder).free):
        raise StoreError(
            f"the run belongs to another user, so Logquake judges a copy. The copy needs {held:,}"
            f" bytes, but {folder.parent} has only {free:,} free; set TMPDIR to a folder with"
            " more free space"
        )
    try:
        for below in contents.folders:
            (copy.root / below).mkdir(parents=True, exist_ok=True)
        for below in contents.files:
            target = copy.root / below
            target.parent.mkdir(parents=True, exist_ok=True)
            source = open_file(paths.root / below, root=paths.root)
            with source, target.open("xb") as file:
                _copy(source, file)
    except OSError as refused:
        raise store_error(paths.root, refused) from refused
    return copy


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    handle = source.fileno()
    end = os.fstat(handle).st_size
    for begin, hole in _data(handle, end):
        at = target.seek(begin)
        while data := os.pread(handle, min(hole - at, _CHUNK_BYTES), at):
            target.write(data)
            at += len(data)
    target.truncate(end)


def _data(handle: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the (begin, end) of each data extent of a sparse file (man 2 lseek)."""
    hole = 0
    while hole < end:
        try:
            begin = os.lseek(handle, hole, os.SEEK_DATA)
        except OSError as nothing:
            if nothing.errno == errno.ENXIO:
                return
            raise
        hole = os.lseek(handle, begin, os.SEEK_HOLE)
        yield begin, hole
