"""Says before it begins which partitions are larger than this machine's memory.

Who judges a partition holds its arrays. Tables of more than 4,000,000 rows are read column by
column (`checkers/shelf.py`), which bounds what a million rows cost, but not what a partition does.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from checkers.facts import RunFacts
from checkers.groups import reader_of
from checkers.layout import RUN, DamagedError, Place

ROW_BYTES = 125
"""Of memory, for a row of a partition: measured, 945 MiB for 6.0 million rows that lie in memory
whole, 2130 MiB for 18.0 million that do not, 220 MiB of each the process itself."""
OP_BYTES = 55
"""For an op of the whole run: 2605 MiB for 50.0 million, of which most is worked on in pieces."""

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Of the container that this is, if it is one: of cgroup's two versions."""


def too_large(runs: Mapping[Path, RunFacts], free_bytes: int | None = None) -> Iterator[str]:
    """Yield a sentence for each run whose largest partition takes more memory than is free.

    Args:
        runs: Whose tables are there.
        free_bytes: Of memory; None: what this machine, or container, has now.
    """
    free = _free_bytes() if free_bytes is None else free_bytes
    for root, facts in runs.items():
        try:
            rows = reader_of(root, facts).rows()
        except DamagedError:
            continue  # That is told by who judges it.
        needs = {place: count * _bytes_of(place) for place, count in rows.items()}
        place = max(needs, key=needs.__getitem__, default=RUN)
        if needs.get(place, 0) > free:
            topic, _, partition = place
            what = f"partition {topic}-{partition}" if partition >= 0 else "the list of operations"
            yield (
                f"{facts.run_id}: {what} has {rows[place]:,} rows, which take some"
                f" {needs[place] / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are"
                " free: the kernel may kill the check. Judge it on a machine with more memory; next"
                " time, spread the load over more partitions"
            )


def _bytes_of(place: Place) -> int:
    return OP_BYTES if place == RUN else ROW_BYTES


def _free_bytes() -> int:
    limits = [int(file.read_text()) for file in _LIMITS if file.exists() and _is_limit(file)]
    return min([psutil.virtual_memory().available, *limits])


def _is_limit(file: Path) -> bool:
    return file.read_text().strip().isdecimal()
