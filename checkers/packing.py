"""Once the tables of a run are worked out, its live streams are packed.

They are kept, because a later version of ingest may make other tables of them (`checkers.stored`).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event

import pyarrow as pa

from checkers.compaction import alone
from checkers.stored import needs_ingest
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.stream import STREAM_SUFFIX, pack_stream

_MOST_THREADS = 8
"""Each holds a row group in memory; Arrow lets them run in parallel."""


def pack_streams(paths: RunPaths) -> None:
    """Pack the live streams of a run that is over; leave those of a run without sound tables.

    A stream that is cut stays as it is, and so does each one that the disk has no room for. All
    stay where another check works on the run: a place in a stream is another one once it is packed.

    Args:
        paths: The run. Nobody writes to it.
    """
    if needs_ingest(paths):
        return
    with suppress(OSError), alone(paths.root, wait=False):
        _pack_all(paths)


def _pack_all(paths: RunPaths) -> None:
    for left in _left_over(paths.live):
        with suppress(OSError):
            left.unlink()
    streams = sorted(paths.live.glob(f"*{STREAM_SUFFIX}"), key=_bytes, reverse=True)
    stopped = Event()
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        try:
            list(pool.map(partial(_pack, stopped), streams))
        except BaseException:  # Ctrl-C: a stream may have gigabytes.
            stopped.set()
            raise


def _bytes(stream: Path) -> int:
    with suppress(OSError):
        return stream.lstat().st_size
    return 0


def _pack(stopped: Event, stream: Path) -> None:
    with suppress(StoreError, OSError, ValueError, pa.ArrowException):
        pack_stream(stream, stopped)


def _left_over(live: Path) -> list[Path]:
    """Return what is left of packings that were killed: hidden files beside their streams."""
    return [path for path in live.glob(f".*{STREAM_SUFFIX}.*") if path.is_file()]
