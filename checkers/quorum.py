"""What the quorum's leaders told of it while the run went on: `quorum_states` in short.

`quorum_states` has no partition, and grows with the run; the checks of the controllers' log need
only this of it.
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
"""A node's name, and the offset below which its log was known to be committed."""

Committed = tuple[int, int, int]
"""A high watermark, and two times: see `QuorumFacts.commits`."""


Disputed = Mapping[str, Mapping[str, str]]
"""What a record names, as `ISR of log-0-0`, and by node what its copy has for it."""

ENTRY_COLUMNS = (
    "topic", "partition", "source", "observer", "leader", "leader_epoch", "isr", "log_offset",
)  # fmt: skip
_NAMED = {"leader": "leader", "leader_epoch": "leader epoch", "isr": "ISR"}
_ENTRY = ("log_offset", "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFacts:
    """What the leaders of the quorum told.

    A leader that describes the quorum tells its high watermark, and how far each node had fetched
    when the leader had last made sure that their logs are the same up to there. So below the
    smaller of both, that node's log is committed: it must never change again.

    Attributes:
        marks: By node, the highest such offset of the run.
        step_marks: The same by a scenario's step, of what was told before the step began: its
            copies of files are younger.
        announced: The highest high watermark that was told in an epoch, by epoch.
        leaders: Everyone that any node named as the quorum's leader in an epoch, by epoch.
        votes: Who voted for whom, as (epoch, node, candidate).
        commits: By each high watermark that was told, in their order: before when nothing just
            below it was committed, and by when all was; the last one's offset is beyond all.
        disputed: What copies of that log have in different words, by the record's offset.
    """

    marks: Marks = field(default_factory=dict)
    step_marks: Mapping[str, Marks] = field(default_factory=dict)
    announced: Mapping[int, int] = field(default_factory=dict)
    leaders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    votes: frozenset[tuple[int, str, str]] = frozenset()
    commits: tuple[Committed, ...] = ()
    disputed: Mapping[int, Disputed] = field(default_factory=dict)

    def committed(self, offset: int) -> tuple[int, int]:
        """Return before when an entry of the log was not committed, and by when it was."""
        at = bisect_right(self.commits, offset, key=lambda each: each[0])
        return self.commits[at][1:] if at < len(self.commits) else (0, UNENDED_NS)


def quorum_facts(
    states: pa.Table, step_begins_ns: Mapping[str, int], leadership: pa.Table | None = None
) -> QuorumFacts:
    """Sum up what the quorum's leaders told.

    Args:
        states: Rows of `quorum_states`.
        step_begins_ns: When each step of a scenario began, by its name.
        leadership: `ENTRY_COLUMNS` of `leadership`, for what the copies have in different words.
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
    """Return in what copies of a record of the controllers' log differ."""
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
    """Return who voted for whom by their own files and logs, as (epoch, node, candidate)."""
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
