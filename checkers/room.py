"""Warn, before the checks, about partitions that need more memory than this machine has.

The task that judges a partition keeps the partition's arrays in memory. Tables with more than
4,000,000 rows are read column by column (`checkers/shelf.py`). This limits the memory for each row,
but not the memory for a whole partition.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from checkers.facts import RunFacts
from checkers.groups import reader_of
from checkers.layout import RUN, DamagedError, Place

ROW_BYTES = 125
"""Memory for each row of a partition, in bytes.

Measured: 945 MiB for 6.0 million rows in memory, and 2130 MiB for 18.0 million rows read by column.
Both numbers include 220 MiB for the process itself.
"""
OP_BYTES = 55
"""Memory for each op of the whole run, in bytes. Measured: 2605 MiB for 50.0 million ops."""

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The files with the memory limit of a container, for both versions of cgroup."""


def too_large(runs: Mapping[Path, RunFacts], free_bytes: int | None = None) -> Iterator[str]:
    """Yield a warning for each run with a group of rows that needs more memory than is free.

    Such a group has the rows of one partition, or all ops of the run.

    Args:
        runs: The runs, with tables already made by ingest.
        free_bytes: Free memory. None means that the function measures the free memory of this
            machine or container.
    """
    free = _free_bytes() if free_bytes is None else free_bytes
    for root, facts in runs.items():
        try:
            rows = reader_of(root, facts).rows()
        except DamagedError:
            continue  # The judge reports the damage.
        needs = {place: count * _bytes_of(place) for place, count in rows.items()}
        place = max(needs, key=needs.__getitem__, default=RUN)
        if needs.get(place, 0) > free:
            topic, _, partition = place
            what = f"partition {topic}-{partition}" if partition >= 0 else "the list of operations"
            yield (
                f"{facts.run_id}: {what} has {rows[place]:,} rows, which need about"
                f" {needs[place] / 2**30:.1f} GiB of memory, but only {free / 2**30:.1f} GiB are"
                " free: the kernel may kill the check. Check the run on a machine with more"
                " memory; next time, spread the load over more partitions"
            )


def _bytes_of(place: Place) -> int:
    return OP_BYTES if place == RUN else ROW_BYTES


def _free_bytes() -> int:
    limits = [int(file.read_text()) for file in _LIMITS if file.exists() and _is_limit(file)]
    return min([psutil.virtual_memory().available, *limits])


def _is_limit(file: Path) -> bool:
    return file.read_text().strip().isdecimal()
