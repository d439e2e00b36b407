"""The index of a store, `STORE/.index.sqlite`: a cache with one row for each run.

The file may be deleted at any time. A damaged index, or one of another version, is rebuilt. If the
file cannot be written, the index is kept in memory. Pages, suites and reports query the index
instead of reading all runs. They ask for filters, nightly runs and earlier failures.
"""

from results.index.catalogue import Index, open_index
from results.index.query import RunQuery
from results.index.rows import (
    Ending,
    Facets,
    NightRow,
    Occurrence,
    Reach,
    RunRow,
    RunState,
    Seen,
)

__all__ = [
    "Ending", "Facets", "Index", "NightRow", "Occurrence", "Reach", "RunQuery", "RunRow",
    "RunState", "Seen", "open_index",
]  # fmt: skip
