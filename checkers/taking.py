"""Which partitions took records once all was healed: whoever led them was up, and was reached.

What a partition did not take while another one of its leader did was kept out by neither the
broker's end nor a link. A cause sees one partition's rows, so this is worked out for a whole run.
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
"""Of a run no more marks are kept, of each leader every other one, say: each task is sent them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """The high watermarks of a partition, as a leader told them after the last heal.

    Attributes:
        topic, partition: Which.
        node: The leader.
        marks: When each was told, and it, by time.
    """

    topic: str
    partition: int
    node: str
    marks: tuple[tuple[int, int], ...]

    def grew(self, span: tuple[int, int]) -> tuple[int, int] | None:
        """Return the first and the last mark that were told in a time; None if it did not grow."""
        inside = [mark for at_ns, mark in self.marks if span[0] <= at_ns <= span[1]]
        return (inside[0], inside[-1]) if inside and inside[-1] > inside[0] else None


def taking(leadership: pa.Table, since_ns: int | None) -> tuple[Taking, ...]:
    """Return `RunFacts.taking`.

    Args:
        leadership: Its `MARK_COLUMNS`.
        since_ns: When the last fault was healed; None: not known, and nothing is told.
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
