"""Once the tables of a run are worked out, its live streams are packed.

They are kept, because a later version of ingest may make other tables of them (`checkers.stored`).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from checkers.stored import needs_ingest
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.stream import STREAM_SUFFIX, pack_stream

_MOST_THREADS = 8
"""Each holds a group of rows; Arrow does their work side by side."""


def pack_streams(paths: RunPaths) -> None:
    """Pack the live streams of a run that is over; leave those of a run without sound tables.

    A stream that is cut stays as it is, and so does each one that the disk has no room for.

    Args:
        paths: The run. Nobody writes to it.
    """
    if needs_ingest(paths):
        return
    for left in _left_over(paths.live):
        with suppress(OSError):
            left.unlink()
    streams = sorted(paths.live.glob(f"*{STREAM_SUFFIX}"), key=lambda each: -each.lstat().st_size)
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        list(pool.map(_pack, streams))


def _pack(stream: Path) -> None:
    with suppress(StoreError, OSError, ValueError, pa.ArrowException):
        pack_stream(stream)


def _left_over(live: Path) -> list[Path]:
    """Return what is left of packings that were killed: hidden files beside their streams."""
    return [path for path in live.glob(f".*{STREAM_SUFFIX}.*") if path.is_file()]
