"""Compress the live streams of a run after ingest has made the run's tables from them.

The streams are kept, because a later version of ingest may make different tables from them
(`checkers.stored`).
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
"""The maximum number of parallel threads. Each thread holds one row group in memory."""


def pack_streams(paths: RunPaths) -> None:
    """Compress the live streams of a finished run, if its tables are complete.

    A truncated stream stays unchanged. If the disk has no room for a compressed stream, the stream
    stays unchanged, too. If another check is reading the run, all streams stay unchanged, because
    packing changes the byte positions in a stream.

    Args:
        paths: The run. No process writes to it any more.
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
        except BaseException:  # On Ctrl-C, do not wait: a stream may have gigabytes.
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
    """Return the hidden temporary files that were left when an earlier packing was killed."""
    return [path for path in live.glob(f".*{STREAM_SUFFIX}.*") if path.is_file()]
