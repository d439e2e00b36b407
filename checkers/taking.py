"""Find partitions that accepted records after the last heal, so their leaders were reachable.

Suppose that one partition accepted no records, while another partition of the same leader accepted
records. Then the broker and the broker's links work, so the reason is elsewhere. A check explains
an anomaly with rows of one partition only. So this module collects the facts about all partitions
in advance.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.columns import codes, equal, ints, runs_of, select
from results.record.terms import Source

MARK_COLUMNS = [
    "topic", "partition", "observer", "source", "leader", "observed_ns", "high_watermark",
]  # fmt: skip
_MOST = 4096
"""The approximate maximum number of high watermarks that are kept for a run. Each task receives all
of these. If there are more, only every n-th high watermark of each partition and leader is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """The high watermarks that one leader reported for one partition after the last heal.

    Attributes:
        topic, partition: The partition.
        node: The leader.
        marks: (time, high watermark) of each report that is kept, by time.
    """

    topic: str
    partition: int
    node: str
    marks: tuple[tuple[int, int], ...]

    def grew(self, span: tuple[int, int]) -> tuple[int, int] | None:
        """Return the first and last high watermark in a time span; None if it did not rise."""
        inside = [mark for at_ns, mark in self.marks if span[0] <= at_ns <= span[1]]
        return (inside[0], inside[-1]) if inside and inside[-1] > inside[0] else None


def taking(leadership: pa.Table, since_ns: int | None) -> tuple[Taking, ...]:
    """Return the high watermarks that leaders reported after the last heal (`RunFacts.taking`).

    Args:
        leadership: Rows of `leadership` with `MARK_COLUMNS`.
        since_ns: When the last fault was healed. None if unknown: then the result is empty.
    """
    if since_ns is None:
        return ()
    told = equal(leadership, "source", Source.LIST_OFFSETS) & (ints(leadership, "leader") >= 0)
    told &= ints(leadership, "observed_ns") >= since_ns
    told &= ints(leadership, "high_watermark") >= 0
    rows = select(leadership, told)
    (topics, names), (nodes, observers) = codes(rows, "topic"), codes(rows, "observer")
    partitions, times, marks = (
        ints(rows, name) for name in ("partition", "observed_ns", "high_watermark")
    )
    order = np.lexsort((times, nodes, partitions, topics))
    topics, partitions, nodes = topics[order], partitions[order], nodes[order]
    found = []
    for start, end in pairwise(runs_of(topics, partitions, nodes).tolist()):
        kept = order[start : end : len(order) // _MOST + 1]
        found.append(Taking(
            topic=[*names, ""][topics[start]], partition=int(partitions[start]),
            node=[*observers, ""][nodes[start]],
            marks=tuple(zip(times[kept].tolist(), marks[kept].tolist(), strict=True)),
        ))  # fmt: skip
    return tuple(found)
