"""log-divergence: two replicas of a partition hold different records where they must agree.

Definition: at an offset from the larger log start on, (epoch, hash, control) differ, or only one
side has a record (the latter not with compaction): below both replicas' own high watermarks in any
snapshot, as far as both copies reach; in the final one, after recovery, among ISR members, below
the smaller log end.

Why it proves something: a replica's high watermark is its claim that everything below is committed,
and so the same on every replica. An ISR member that has caught up with a leader whose log no longer
grows holds the leader's log, to the end.

What would not prove it: different bytes of a batch (compression, CRC of another producer id) with
equal records; a follower's tail above its high watermark, which it will truncate; no high watermark
known on either side (then not checked); a log that could not be read to its noted end. After an
unclean election a replica may differ until it is back in the ISR: allowed, not longer.

A scenario's steps copy the files of live brokers, one node after the other, and ask brokers and
metadata at other moments still. That is no reason for a false alarm. What lies below a replica's
own high watermark is committed and never changes again, so copies of different moments agree there;
a copy that ends below a high watermark is merely short, and is compared up to its end; the high
watermark of a broker that is dead or paused is that of its checkpoint file, which lags behind. Only
an unclean election changes what was committed. Its excuse ends with the return to the ISR, but a
copy may be older than the return, and the ISR was asked for after it: so the excuse falls where the
same offsets differed in the step before, and both replicas were in the ISR at the end of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from checkers.columns import Ints, equal, ints, present, select
from checkers.facts import CRASH, FINAL, RunFacts
from checkers.findings import anomaly_at, findings
from checkers.group import Group, ReplicaLog
from checkers.protocol import Checker, Excuse, Findings, Labels, Premise
from checkers.witnesses import holds
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly

NAME = "log-divergence"
_ISR_FROM = ("zookeeper", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two replicas in one snapshot, and the offsets at which they must agree.

    Attributes:
        low, high: From the larger log start to the bound, exclusive.
        in_isr: Whether the bound comes from both being in the ISR after recovery.
    """

    snapshot: str
    one: ReplicaLog
    other: ReplicaLog
    low: int
    high: int
    in_isr: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """Snapshot and nodes."""
        return self.snapshot, self.one.node, self.other.node


def final_isr(group: Group) -> frozenset[str]:
    """Return the nodes of the last known ISR: of the highest epoch, seen last.

    ZooKeeper has the ISR itself; Metadata is what some broker knows of it, and old ones no epoch.
    """
    rows = group.table("leadership")
    told = (select(rows, equal(rows, "source", name) & present(rows, "isr")) for name in _ISR_FROM)
    known = next((each for each in told if each.num_rows), None)
    if known is None:
        return frozenset()
    last = int(np.lexsort((ints(known, "observed_ns"), ints(known, "leader_epoch")))[-1])
    return frozenset(f"n{broker}" for broker in known["isr"][last].as_py())


def _high_watermark(group: Group, snapshot: str, node: str) -> int:
    states = group.table("replica_states")
    mine = equal(states, "snapshot", snapshot) & equal(states, "node", node)
    stated = ints(select(states, mine & present(states, "high_watermark")), "high_watermark")
    return int(stated.max(initial=-1))  # A step's may be told twice: by the broker, and its file.


def _pairs(group: Group) -> Iterator[Pair]:
    isr = final_isr(group) if group.facts.recovered else frozenset()
    for snapshot, logs in sorted(group.logs.items()):
        marks = {node: _high_watermark(group, snapshot, node) for node in logs}
        for one, other in combinations(sorted(logs), 2):
            a, b = logs[one], logs[other]
            in_isr = snapshot == FINAL and {one, other} <= isr
            low, high = max(a.start, b.start), min(marks[one], marks[other])
            if snapshot in group.facts.step_isrs:
                high = min(high, a.read_end, b.read_end)
            elif in_isr:
                high = max(high, min(a.end, b.end))
            if high > low:
                yield Pair(snapshot=snapshot, one=a, other=b, low=low, high=high, in_isr=in_isr)


def _between(log: ReplicaLog, low: int, high: int) -> slice:
    return slice(*np.searchsorted(log.offsets, [low, high]).tolist())


def differing(pair: Pair, *, compacted: bool) -> Ints:
    """Return the offsets at which a pair differs, ascending."""
    a, b = pair.one, pair.other
    here, there = _between(a, pair.low, pair.high), _between(b, pair.low, pair.high)
    _, left, right = np.intersect1d(a.offsets[here], b.offsets[there], return_indices=True)
    unequal = np.zeros(len(left), dtype=np.bool_)
    for name in ("epochs", "hashes", "controls"):
        unequal |= getattr(a, name)[here][left] != getattr(b, name)[there][right]
    found = a.offsets[here][left][unequal]
    if not compacted:
        found = np.union1d(found, np.setxor1d(a.offsets[here], b.offsets[there]))
    return np.asarray(found, dtype=np.int64)


def _check(group: Group) -> Findings:
    pairs = list(_pairs(group))
    compared = [(pair, differing(pair, compacted=group.facts.compacted)) for pair in pairs]
    diverged = [(pair, offsets) for pair, offsets in compared if len(offsets)]
    lasting = _lasting(group, diverged)
    return findings(
        sum(pair.high - pair.low for pair in pairs),
        sorted(diverged, key=_place),
        lambda item: _describe(group, *item),
        lambda item: _labels(group, *item, lasting=item[0].key in lasting),
        gaps=_gaps(group),
    )


def _lasting(group: Group, diverged: list[tuple[Pair, Ints]]) -> frozenset[tuple[str, str, str]]:
    """Return the pairs that differ in a step as in the step before, in the ISR at both ends."""
    isrs, found = group.facts.step_isrs, {pair.key: offsets for pair, offsets in diverged}
    lasting = set()
    for before, step in pairwise(isrs):
        for pair, offsets in diverged:
            both = {pair.one.node, pair.other.node}
            earlier = found.get((before, pair.one.node, pair.other.node))
            back = both <= isrs[before] and both <= isrs[step]
            still = earlier is not None and bool(np.isin(offsets, earlier).any())
            if pair.snapshot == step and back and still:
                lasting.add(pair.key)
    return frozenset(lasting)


def _gaps(group: Group) -> tuple[str, ...]:
    """A replica that was in the ISR at the end must have left a log."""
    if group.facts.snapshot != FINAL:
        return ()
    absent = sorted(final_isr(group) - set(group.logs.get(FINAL, {})))
    return tuple(f"the log of {group.place} on {node}, in its ISR, is not there" for node in absent)


def _unit(pair: Pair, log: ReplicaLog) -> str:
    return log.node if pair.snapshot in {FINAL, CRASH} else f"{pair.snapshot}/{log.node}"


def _place(item: tuple[Pair, Ints]) -> tuple[int, str, str, str]:
    pair, offsets = item
    return int(offsets[0]), pair.snapshot, pair.one.node, pair.other.node


def _labels(group: Group, pair: Pair, offsets: Ints, *, lasting: bool) -> Labels:
    excused = group.unclean_election_seen and not pair.in_isr and not lasting
    step = pair.snapshot in group.facts.step_isrs
    readable = all(
        (log.whole or step) and _unit(pair, log) not in group.facts.unreadable_nodes
        for log in (pair.one, pair.other)
    )
    one_sided = any(log.at(int(at)) is None for log in (pair.one, pair.other) for at in offsets)
    broken = (Premise.READABLE_LOGS.value,) if one_sided and not readable else ()
    return (Excuse.UNCLEAN.value,) if excused else (), broken


def _describe(group: Group, pair: Pair, offsets: Ints) -> Anomaly:
    first, a, b = int(offsets[0]), pair.one, pair.other
    when = f"at the end of {pair.snapshot}, " if pair.snapshot in group.facts.step_isrs else ""
    bound = "the end of the shorter log, both in the ISR" if pair.in_isr else "both high watermarks"
    return anomaly_at(
        group,
        NAME,
        sentence=f"{when}the logs of {a.node} and {b.node} differ at {_at(offsets)} of"
        f" {group.place}, below {bound} ({pair.high}):"
        f" {holds(group, a, first)}; {holds(group, b, first)}",
        evidence={
            "snapshot": pair.snapshot,
            "nodes": [a.node, b.node],
            "first_offset": first,
            "last_offset": int(offsets[-1]),
            "differing": len(offsets),
            "bound": pair.high,
            "bound_is": bound,
            "records": [_record(a, first), _record(b, first)],
        },
        offset=first,
    )


def _at(offsets: Ints) -> str:
    if len(offsets) == 1:
        return f"offset {offsets[0]}"
    return f"{len(offsets)} offsets, first at {offsets[0]},"


def _record(log: ReplicaLog, offset: int) -> str:
    index = log.at(offset)
    if index is None:
        return "nothing"
    epoch, mark, control = log.epochs[index], log.hashes[index], log.controls[index]
    return f"epoch {epoch}, hash {mark}, control {control}"


def _applies(facts: RunFacts) -> bool:
    return facts.plan.replication > 1


CHECKER = Checker(
    name=NAME,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("leadership", "replica_records", "replica_states"),
    check=_check,
    premises=(),
    applies=_applies,
)
