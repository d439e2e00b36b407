"""Summarize `quorum_states`: the reports of the quorum's leaders, and the nodes' votes.

`quorum_states` has no partition and grows with the run. The checks of the controllers' log need
only this summary.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from checkers.columns import NONE, equal, ints, present, select, texts, unique_pairs
from checkers.reigns import UNENDED_NS, commits
from results.record.terms import Source

Marks = Mapping[str, int]
"""For each node: the offset below which the node's log was known to be committed."""

Committed = tuple[int, int, int]
"""A high watermark and two times (see `QuorumFacts.commits`)."""


Disputed = Mapping[str, Mapping[str, str]]
"""For each field of a record, such as `ISR of log-0-0`: the value in each node's copy."""

ENTRY_COLUMNS = (
    "topic", "partition", "source", "observer", "leader", "leader_epoch", "isr", "log_offset",
)  # fmt: skip
_NAMED = {"leader": "leader", "leader_epoch": "leader epoch", "isr": "ISR"}
_ENTRY = ("log_offset", "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFacts:
    """The reports of the quorum's leaders, the votes, and the records whose copies differ.

    A quorum leader reports its high watermark and each node's fetch offset. The leader compares its
    own log with the node's log before it advances the node's fetch offset. Both logs then agree up
    to that offset. So a node's log is committed below the smaller of the two offsets. That part of
    the log must never change again.

    Attributes:
        marks: For each node: the highest such committed offset in the run.
        step_marks: For each scenario step: `marks` from the reports before the step began. The
            step's file copies are younger than these reports.
        announced: For each epoch: the highest high watermark that was reported.
        leaders: For each epoch: every node that at least one node named as the quorum's leader.
        votes: The recorded votes, as (epoch, node, candidate).
        commits: For each reported high watermark, ascending: the high watermark, and two times. The
            entry just below the high watermark was committed between these times. The high
            watermark in the last item is higher than all offsets.
        disputed: For each offset: the fields in which copies of the record at that offset differ.
    """

    marks: Marks = field(default_factory=dict)
    step_marks: Mapping[str, Marks] = field(default_factory=dict)
    announced: Mapping[int, int] = field(default_factory=dict)
    leaders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    votes: frozenset[tuple[int, str, str]] = frozenset()
    commits: tuple[Committed, ...] = ()
    disputed: Mapping[int, Disputed] = field(default_factory=dict)

    def committed(self, offset: int) -> tuple[int, int]:
        """Return the earliest and the latest time at which an entry may have been committed."""
        at = bisect_right(self.commits, offset, key=lambda each: each[0])
        return self.commits[at][1:] if at < len(self.commits) else (0, UNENDED_NS)


def quorum_facts(
    states: pa.Table, step_begins_ns: Mapping[str, int], leadership: pa.Table | None = None
) -> QuorumFacts:
    """Summarize the reports of the quorum's leaders, the votes, and the differing copies.

    Args:
        states: Rows of `quorum_states`.
        step_begins_ns: When each step of a scenario began, by the step's name.
        leadership: The `ENTRY_COLUMNS` of the table `leadership`. The function finds the fields in
            which copies of a record differ.
    """
    told = select(states, present(states, "high_watermark") & (ints(states, "epoch") >= 0))
    times = ints(told, "observed_ns")
    steps = {
        name: _marks(select(told, (times >= 0) & (times < begun_ns)))
        for name, begun_ns in step_begins_ns.items()
    }
    epochs, marks = ints(told, "epoch"), ints(told, "high_watermark")
    return QuorumFacts(
        marks=_marks(told),
        step_marks=steps,
        announced={
            epoch: int(marks[epochs == epoch].max()) for epoch in np.unique(epochs).tolist()
        },
        leaders=_leaders(states),
        votes=votes_of(states),
        commits=commits(states),
        disputed=_disputed(leadership) if leadership is not None else {},
    )


def _disputed(leadership: pa.Table) -> dict[int, dict[str, dict[str, str]]]:
    """Return, by offset, the fields in which copies of a record of the controllers' log differ."""
    rows = select(leadership, equal(leadership, "source", Source.METADATA_LOG))
    rows = select(rows, present(rows, "log_offset"))
    found: dict[int, dict[str, dict[str, str]]] = {}
    words = ["" if isr is None else str(sorted(isr)) for isr in rows["isr"].to_pylist()]
    isrs = pa.array(words, pa.string())
    told = rows.select(["observer", *_ENTRY, "leader", "leader_epoch"]).append_column("isr", isrs)
    counts = told.group_by([*_ENTRY]).aggregate([(name, "count_distinct") for name in _NAMED])
    for name, called in _NAMED.items():
        differing = select(counts, ints(counts, f"{name}_count_distinct") > 1)
        for entry in differing.select([*_ENTRY]).to_pylist():
            here = (ints(told, "log_offset") == entry["log_offset"]) & (
                ints(told, "partition") == entry["partition"]
            )
            mine = select(told, here & equal(told, "topic", entry["topic"])).to_pylist()
            by_node = {each["observer"]: str(each[name]) for each in mine}
            what = f"{called} of {entry['topic']}-{entry['partition']}"
            found.setdefault(entry["log_offset"], {})[what] = by_node
    return found


def _leaders(states: pa.Table) -> dict[int, tuple[str, ...]]:
    led = select(states, (ints(states, "leader") >= 0) & (ints(states, "epoch") >= 0))
    pairs = unique_pairs(ints(led, "epoch"), ints(led, "leader"))
    found: dict[int, tuple[str, ...]] = {}
    for epoch, leader in zip(*(each.tolist() for each in pairs), strict=True):
        found[epoch] = (*found.get(epoch, ()), f"n{leader}")
    return found


def votes_of(states: pa.Table) -> frozenset[tuple[int, str, str]]:
    """Return the votes in the nodes' own files and logs, as (epoch, node, candidate)."""
    voted = select(states, present(states, "voted_for") & (ints(states, "epoch") >= 0))
    columns = (ints(voted, "epoch").tolist(), texts(voted, "node"), ints(voted, "voted_for"))
    return frozenset(
        (epoch, node, f"n{candidate}") for epoch, node, candidate in zip(*columns, strict=True)
    )


def _marks(told: pa.Table) -> dict[str, int]:
    ends = ints(told, "log_end_offset")
    sure = np.where(ends >= 0, np.minimum(ends, ints(told, "high_watermark")), NONE)
    nodes = np.array(texts(told, "node"), dtype=object)
    highest = {node: int(sure[nodes == node].max()) for node in sorted(set(nodes.tolist()))}
    return {node: mark for node, mark in highest.items() if mark >= 0}
