"""The index of a store, `STORE/.index.sqlite`: a row a run, a cache of the folders and no more.

It may be removed at any time; a damaged one, or one of another version, is made anew. Where it
cannot be written it lives in memory. Pages, suites and reports ask it what would otherwise need all
runs to be read: filters, nights, and whether a failure was seen before.
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
