"""log-divergence: two replicas of a partition hold different records where they must agree.

Definition: at some offset, the records of two replicas differ in (epoch, hash, control), or only
one of the replicas has a record. On a compacted topic, it does not count if only one of the
replicas has a record. The compared range begins at the larger of the two log starts. The range ends
at the lower of the two replicas' own high watermarks. Copies of a step are compared only up to the
end of the shorter copy. In the final snapshot, after recovery, two ISR members are compared at
least up to the end of the shorter log.

Why it proves something: with its high watermark, a replica claims that all records below it are
committed. Committed records are the same on every replica. If a leader's log no longer grows, an
ISR member that has caught up holds the leader's whole log.

What would not prove it:

- Different bytes of a batch (compression, CRC of another producer id) with equal records.
- A follower's records above its high watermark, because the follower will truncate them.
- A pair of replicas of which one has an unknown high watermark. Such a pair is checked only in the
  final snapshot, if both replicas are in the ISR.
- A record that only one replica has, if a file of either replica could not be read to its end.
- A transaction's marker above a high watermark, of an epoch that began during the stop, and all
  records behind it. Two leaders may each write a marker there, and stop before they replicate it.

After an unclean election a replica may differ, but only until it is back in the ISR. In a run that
did not recover, a replica may lack the end of its log if a power loss or a flipped bit took it.
Records that an old leader wrote twice in one epoch are allowed (`checkers/reused_epochs.py`).

The steps of a scenario copy the files of live brokers. A step asks the brokers first. Then it
copies one node after another, checkpoint files first. It asks for the ISR last. The different times
do not cause a false alarm, for these reasons:

- Records below a replica's own high watermark are committed and never change. If two copies were
  taken after both brokers had reported their high watermarks, these copies agree below both high
  watermarks.
- A copy that ends below a high watermark is compared up to its own end.
- For a dead or paused broker, the high watermark comes from its checkpoint file, which lags behind.

Only an unclean election changes committed records. A replica with such a change is excused until it
returns to the ISR. A copy may be older than that return, because a step asks for the ISR after it
has copied the files. So the excuse ends only under two conditions. One of the offsets already
differed in the previous step. Also, both replicas were in the ISR at the end of both steps.

Several snapshots may show the same divergence. If two replicas differ at the same offset in several
snapshots, this counts as one anomaly. The report uses the most serious finding. The anomaly is
allowed only if every snapshot's finding is allowed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise

import numpy as np

from checkers.columns import NONE, Ints, Mask, ints, present, shared, stack, within
from checkers.corrupt_record import damaged_parts
from checkers.divergence_reasons import compared_logs, cut_short, why_it_kept, why_it_lacks
from checkers.excuses import TAKES_RECORDS
from checkers.facts import CRASH, FINAL, RunFacts
from checkers.findings import anomaly_at, findings, texts_in
from checkers.group import Group, ReplicaLog, claimed_mark, final_isr
from checkers.keeper import keeper_lost
from checkers.protocol import (
    Chapter,
    Checker,
    During,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
    Proof,
    Proved,
)
from checkers.replica_reasons import (
    verb,
    wrong_copy,
)
from checkers.reused_epochs import all_reused, reuse
from checkers.symptoms import LACKING, OF_READERS
from checkers.unclean_elections import unclean_elections
from checkers.witnesses import holds
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "log-divergence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two replicas in one snapshot, and the offsets at which they must agree.

    Attributes:
        low, high: The offsets to compare: from the larger log start up to the bound, which is
            excluded.
        in_isr: Whether both replicas are in the ISR after recovery. Then the bound is the end of
            the shorter log, or the lower high watermark if that is higher.
        bound_is: A description of the bound, for the report.
    """

    snapshot: str
    one: ReplicaLog
    other: ReplicaLog
    low: int
    high: int
    in_isr: bool = False
    bound_is: str = "both high watermarks"

    @property
    def key(self) -> tuple[str, str, str]:
        """The snapshot and the two nodes."""
        return self.snapshot, self.one.node, self.other.node

    @property
    def of_step(self) -> bool:
        """Whether a scenario's step made the copies."""
        return self.snapshot not in {FINAL, CRASH}

    @property
    def when(self) -> tuple[bool, str]:
        """A sort key for snapshots.

        The snapshots of steps come before the snapshot after the stop.
        """
        return not self.of_step, self.snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Look:
    """A divergence of two replicas in one snapshot.

    Attributes:
        offsets: The offsets at which the replicas differ, ascending.
        labels: Excuses and broken premises that apply in this snapshot.
    """

    pair: Pair
    offsets: Ints
    labels: Labels

    @property
    def weight(self) -> tuple[bool, bool, tuple[bool, str]]:
        """A sort key.

        Findings without an excuse come first, then the final ISR, then early steps.
        """
        return bool(self.labels[0]), not self.pair.in_isr, self.pair.when


def _pairs(group: Group) -> Iterator[Pair]:
    isr = final_isr(group) if group.facts.recovered else frozenset()
    led = group.table("leadership")
    told = int(ints(led, "leader_epoch")[present(led, "observed_ns")].max(initial=NONE))
    for snapshot, logs in sorted(group.logs.items()):
        marks = {node: claimed_mark(group, snapshot, node) for node in logs}
        for one, other in combinations(sorted(logs), 2):
            a, b = logs[one], logs[other]
            in_isr = snapshot == FINAL and {one, other} <= isr
            low, high = max(a.start, b.start), min(marks[one], marks[other])
            pair = Pair(snapshot=snapshot, one=a, other=b, low=low, high=high, in_isr=in_isr)
            if pair.of_step:
                high = min(high, a.read_end, b.read_end)
            elif in_isr:
                high = max(high, min(_end_up_to(each, told) for each in (a, b)))
                pair = replace(
                    pair,
                    bound_is=("the end of the shorter log, because both replicas are in the ISR"),
                )
            if high > low:
                yield replace(pair, high=high)


def _end_up_to(log: ReplicaLog, epoch: int) -> int:
    """Return the offset of a log's first marker of an epoch after `epoch`, or else its end."""
    later = log.offsets[(log.epochs > epoch) & (log.controls == 1)]
    return int(later.min(initial=log.end)) if epoch >= 0 else log.end


def _between(log: ReplicaLog, low: int, high: int) -> slice:
    return slice(*np.searchsorted(log.offsets, [low, high]).tolist())


def differing(pair: Pair, *, compacted: bool) -> Ints:
    """Return the offsets at which two replicas differ, in ascending order."""
    a, b = pair.one, pair.other
    here, there = _between(a, pair.low, pair.high), _between(b, pair.low, pair.high)
    mine, theirs = a.offsets[here], b.offsets[there]
    left, right = shared(mine, theirs)
    both = mine[left]
    unequal = np.zeros(len(both), dtype=np.bool_)
    for name in ("epochs", "hashes", "controls"):
        unequal |= getattr(a, name)[here][left] != getattr(b, name)[there][right]
    found = both[unequal]
    if not compacted and len(mine) + len(theirs) > 2 * len(both):
        alone = stack([mine[~np.isin(mine, theirs)], theirs[~np.isin(theirs, mine)]])
        found = np.union1d(found, alone)
    return np.asarray(found, dtype=np.int64)


def _check(group: Group) -> Findings:
    return divergences(
        group, list(_pairs(group)), compacted=group.facts.compacted, gaps=_gaps(group)
    )


def divergences(
    group: Group,
    pairs: list[Pair],
    *,
    compacted: bool,
    gaps: tuple[str, ...],
    name: str = NAME,
) -> Findings:
    """Compare pairs of replicas, and count each divergence once.

    Args:
        group: The partition of the replicas.
        pairs: Pairs of replicas, each with the offsets at which it must agree.
        compacted: Whether it is allowed that only one of the two replicas has a record.
        gaps: Sentences that name the replicas that could not be compared.
        name: The anomaly's name.
    """
    compared = [(pair, differing(pair, compacted=compacted)) for pair in pairs]
    diverged = [(pair, offsets) for pair, offsets in compared if len(offsets)]
    lasting = _lasting(group, diverged)
    looks = [
        Look(
            pair=pair,
            offsets=offsets,
            labels=_labels(group, pair, offsets, lasting=pair.key in lasting),
        )
        for pair, differ in diverged
        for offsets in _split(group, pair, differ)
    ]
    return findings(
        sum(pair.high - pair.low for pair in pairs),
        sorted((sorted(each, key=lambda look: look.weight) for each in _joined(looks)), key=_place),
        lambda looks: _describe(group, looks, name),
        lambda looks: looks[0].labels,
        gaps=gaps,
    )


def _joined(looks: list[Look]) -> list[list[Look]]:
    """Group the findings about one divergence.

    Two findings are about one divergence if they have the same two replicas and a common offset.
    Findings with different broken premises (a log that could not be read) stay in separate groups.
    Otherwise, an untrusted finding would weaken a trusted finding.
    """
    joined: list[list[Look]] = []
    for look in sorted(looks, key=_when):
        same = [each for each in joined if any(_shares(look, other) for other in each)]
        joined = [each for each in joined if each not in same]
        joined.append([*chain.from_iterable(same), look])
    return joined


def _shares(look: Look, other: Look) -> bool:
    (_, *nodes), (_, *others) = look.pair.key, other.pair.key
    together = nodes == others and look.labels[1] == other.labels[1]
    return together and bool(np.isin(look.offsets, other.offsets).any())


def _lasting(group: Group, diverged: list[tuple[Pair, Ints]]) -> frozenset[tuple[str, str, str]]:
    """Return the pairs that differ at the same offset in two successive steps.

    In both steps, both replicas were in the ISR at the step's end.
    """
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
    """Return a sentence for each replica that was in the ISR at the end but left no log."""
    if group.facts.snapshot != FINAL:
        return ()
    if keeper_lost(group.table("leadership")):
        why = f"ZooKeeper did not answer to the end, so the last ISR of {group.place} is unknown"
        return (why,)
    absent = sorted(final_isr(group) - set(group.logs.get(FINAL, {})))
    return tuple(
        f"the log of {group.place} on {node}, which is in the ISR, is missing" for node in absent
    )


def _unit(pair: Pair, log: ReplicaLog) -> str:
    return f"{pair.snapshot}/{log.node}" if pair.of_step else log.node


def _place(looks: list[Look]) -> tuple[int, tuple[bool, str], str, str]:
    pair = looks[0].pair
    return int(looks[0].offsets[0]), pair.when, pair.one.node, pair.other.node


def _labels(group: Group, pair: Pair, offsets: Ints, *, lasting: bool) -> Labels:
    # The records' epochs do not matter. A high watermark written to disk before the election
    # may cover later records, although no leader committed them.
    unclean = unclean_elections(group).took_one(int(offsets[0]))
    excused = unclean and not pair.in_isr and not lasting
    reused, doubts = _reused(group, pair, offsets)
    unread = not _is_readable(group, pair) and not _both_have(pair, offsets).all()
    broken = (Premise.READABLE_LOGS.value,) if unread else ()
    # For the recovery, each replica was in the ISR, and had fetched everything again.
    come_back = pair.of_step or group.facts.recovered
    lost = () if come_back else cut_short(group, (pair.one, pair.other), offsets)
    return ((Excuse.UNCLEAN.value,) if excused else ()) + reused + lost, broken + doubts


def _split(group: Group, pair: Pair, offsets: Ints) -> Iterator[Ints]:
    """Yield the offsets that prove a divergence, and apart from these the doubtful offsets.

    A log with files that could not be read may have a record that seems to be only in the other
    log. So an offset at which both logs have a record proves more.
    """
    both = _both_have(pair, offsets)
    parts = [offsets] if _is_readable(group, pair) else [offsets[both], offsets[~both]]
    yield from (part for part in parts if len(part))


def _is_readable(group: Group, pair: Pair) -> bool:
    return all(
        (log.whole or pair.of_step) and _unit(pair, log) not in group.facts.unreadable_nodes
        for log in (pair.one, pair.other)
    )


def _both_have(pair: Pair, offsets: Ints) -> Mask:
    """Return a mask of the offsets at which both replicas have a record."""
    return within(offsets, pair.one.offsets) & within(offsets, pair.other.offsets)


def _reused(group: Group, pair: Pair, offsets: Ints) -> Labels:
    """Return the reason, if any, that allows two different records of one leader epoch."""
    mine, theirs = (log.epochs[np.isin(log.offsets, offsets)] for log in (pair.one, pair.other))
    if len(mine) != len(offsets) or not np.array_equal(mine, theirs):
        return (), ()
    spans = {epoch: offsets[mine == epoch] for epoch in np.unique(mine).tolist()}
    return all_reused(
        reuse(group, epoch, int(span[0]), int(span[-1])) for epoch, span in spans.items()
    )


def _describe(group: Group, looks: list[Look], name: str) -> Anomaly:
    pair, offsets = looks[0].pair, looks[0].offsets
    first, a, b = int(offsets[0]), pair.one, pair.other
    when = f"at the end of {pair.snapshot}, " if pair.of_step else ""
    return anomaly_at(
        group,
        name,
        sentence=f"{when}the logs of {a.node} and {b.node} differ at {_at(offsets)} of"
        f" {group.place}, below offset {pair.high} ({pair.bound_is}):"
        f" {holds(group, a, first)}; {holds(group, b, first)}{_elsewhere(looks[1:])}",
        evidence={
            "snapshot": pair.snapshot,
            "snapshots": [look.pair.snapshot for look in sorted(looks, key=_when)],
            "nodes": [a.node, b.node],
            "first_offset": first,
            "last_offset": int(offsets[-1]),
            "differing": len(offsets),
            "bound": pair.high,
            "bound_is": pair.bound_is,
            "records": [_record(a, first), _record(b, first)],
        },
        offset=first,
    )


def _when(look: Look) -> tuple[bool, str]:
    return look.pair.when


def _elsewhere(looks: list[Look]) -> str:
    """Return a phrase that names the other snapshots with the same difference."""
    told = sorted(looks, key=_when)
    steps = [look.pair.snapshot for look in told if look.pair.of_step]
    also = (
        [f"at the end of {' and '.join(filter(None, (', '.join(steps[:-1]), steps[-1])))}"]
        if steps
        else []
    )
    also += ["after all brokers had stopped" for look in told if not look.pair.of_step]
    return f"; they also differ {', and '.join(also)}" if also else ""


def _at(offsets: Ints) -> str:
    if len(offsets) == 1:
        return f"offset {offsets[0]}"
    return f"{len(offsets)} offsets, first at {offsets[0]},"


_NOTHING, _EPOCHLESS = "nothing", "no epoch"
_EPOCH = re.compile(r"epoch (\d+),")


def _record(log: ReplicaLog, offset: int) -> str:
    index = log.at(offset)
    if index is None:
        return _NOTHING
    epoch, mark, control = log.epochs[index], log.hashes[index], log.controls[index]
    return f"{f'epoch {epoch}' if epoch >= 0 else _EPOCHLESS}, hash {mark}, control {control}"


def _applies(facts: RunFacts) -> bool:
    return facts.plan.replication > 1


def _why(group: Group, found: Anomaly) -> str:
    if Excuse.REUSED in found.excuses:
        return (
            "a leader returned before its session ended, and continued in its old epoch (KIP-380)"
        )
    held = dict(zip(texts_in(found, "nodes"), texts_in(found, "records"), strict=False))
    lacking = [node for node, record in held.items() if record == _NOTHING]
    if Premise.READABLE_LOGS.value in found.broken_premises:
        return f"{lacking[0]} may hold the record: its log could not be read to its end"
    if lacking:
        return Proved(why_it_lacks(group, found, lacking[0]))
    told = {node: _EPOCH.match(record) for node, record in held.items()}
    epochs = {node: int(each.group(1)) for node, each in told.items() if each}
    return _by_epochs(group, found, held, epochs)


def _by_epochs(
    group: Group, found: Anomaly, held: Mapping[str, str], epochs: Mapping[str, int]
) -> str:
    """Use the leader epochs of two records at one offset to explain why the records differ."""
    if not epochs:
        return (
            "the records have no leader epochs, so a follower truncates its log to its own high"
            " watermark and keeps different records below it (KIP-101)"
        )
    if len(epochs) < len(held):
        return "one record has no leader epoch: the two records have different message formats"
    if len(set(epochs.values())) == 1:
        logs, first = compared_logs(group, found)
        which = wrong_copy(group, logs, first, list(held))
        if not which:
            return "the run's record does not show which of the copies is wrong"
        return Proved(f"{which}{_damaged(logs, first, list(held))}")
    return why_it_kept(group, found, epochs)


def _damaged(logs: Mapping[str, ReplicaLog], offset: int, nodes: Sequence[str]) -> str:
    """Return a phrase that names the replica with the damaged copy and the damaged fields.

    If both copies differ from the sent record, or both are equal to it, the phrase is "".
    """
    parts = {node: damaged_parts(logs[node], offset) for node in nodes}
    wrong = [node for node in nodes if parts[node]]
    if len(wrong) != 1:
        return ""
    what = parts[wrong[0]]
    return f"; {verb(what, 'differs', 'differ')} from the sent message in the copy of {wrong[0]}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="difference between replicas was found",
        many="differences between replicas were found",
        means="Two replicas hold different records at one offset that both regard as committed.",
        promise="All replicas hold the same committed records.",
        explains={
            **OF_READERS,
            "inconsistent-offsets": (
                "two successive leaders return the different records that they hold"
            ),
            "incomplete-leader": (
                "if two logs differ, one replica lacks records that the other had committed"
            ),
            "high-watermark-regression": LACKING,
        },
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.REPLICA_LOGS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.LOG,
    compares="offsets, compared between two replicas",
    chapter=Chapter.REPLICAS,
    looks_for="records of two replicas where they must agree: below both high watermarks in any"
    " snapshot; at the end, for replicas in the ISR, below the shorter log's end",
    meanwhile=Proof.COPIED,
    excuses=TAKES_RECORDS | {Excuse.REUSED},
    during=During.AT_END,
)
