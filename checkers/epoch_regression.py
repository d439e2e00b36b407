"""epoch-regression: a leader epoch became smaller, although leader epochs only grow.

Definition: the epoch decreases in one of these places.

- In metadata: within one process of a broker, in ZooKeeper, or along the metadata log below the
  quorum's high watermark.
- In a log: a batch has a smaller epoch than an earlier batch. Batches without an epoch (-1) are
  ignored.
- In a checkpoint after a clean stop: a record's offset is below the start of its epoch, or reaches
  the start of the next line. It also counts if the checkpoint has no line for the record's epoch.

Why it proves something: only leader epochs show the order of leaders without a clock. A leader
appends with its own epoch, which is larger than all earlier epochs. A follower's log is a copy of
the leader's log. If checkpoint and records disagree, a follower that asks where an epoch ends gets
a wrong answer. Then the follower truncates too much or too little.

What would not prove it: a restarted broker (another incarnation) forgets the epoch. Answers that
overlap in time have no order. Another broker may still know an older epoch. Records in message
formats without an epoch do not count. Checkpoint lines without records are normal. Records below
the log's start are not compared with the checkpoint: these records and their checkpoint lines are
deleted, even if the file still exists. The checkpoint of a killed broker does not count. An empty
checkpoint does not count if a fault hit the disk.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.acknowledger import led_between
from checkers.announcements import first_highest, latest
from checkers.changes import TOLD_LATE_NS
from checkers.columns import NEVER, Ints, equal, ints, present, select, texts
from checkers.controllers_log import controllers_log, undisputed
from checkers.epoch_starts import checkpoints
from checkers.facts import FINAL
from checkers.findings import anomaly_at, could_not_show, findings, known, number_in, seconds
from checkers.group import Group, ReplicaLog
from checkers.protocol import Chapter, Checker, Findings, Labels, Premise, Promise, Proof, Proved
from checkers.replica_reasons import (
    Side,
    leaders_of,
    listed,
    sides,
    told_ns,
    verb,
)
from results.record.declared import Sight
from results.record.terms import QUORUM_TOPIC, AnomalyClass, Source
from results.record.verdict import Anomaly, Evidence, Words

NAME = "epoch-regression"
_TOLD = (Source.METADATA, Source.ZOOKEEPER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """An epoch that is smaller than an earlier one.

    Attributes:
        source: metadata, zookeeper, metadata-log, log, or checkpoint.
        node: The node that answered, or the node of the log.
        epoch: The epoch that is too small; for a checkpoint, the record's epoch.
        after: The larger epoch that came before; -1 for a checkpoint.
        offset: The first record's offset; -1 for answers and for the metadata log.
        count: The number of such rows or records.
        where: A phrase for reports: the times of the two answers, the record of the metadata log,
            the snapshot of the log, or the offsets that the checkpoint assigns to the epoch.
        times_ns: Only for answers: the time at which the larger epoch was observed, and the time of
            the request whose answer has the smaller epoch.
    """

    source: str
    node: str
    epoch: int
    after: int
    offset: int
    count: int
    where: str
    times_ns: tuple[int, ...] = ()


def _told(rows: pa.Table, source: str) -> tuple[int, list[Regression]]:
    """Count the answers of one observer's process that were compared; find the first decrease."""
    observed_ns, epochs = ints(rows, "observed_ns"), ints(rows, "leader_epoch")
    order = np.argsort(observed_ns, kind="stable")
    done = np.searchsorted(observed_ns[order], ints(rows, "asked_ns"), side="left")
    highest = latest(order[first_highest(epochs[order])], done)
    low = np.flatnonzero((highest >= 0) & (epochs < epochs[highest]))
    compared = int((highest >= 0).sum())
    if not len(low):
        return compared, []
    at = int(low[np.argmin(ints(rows, "asked_ns")[low])])
    before = int(highest[at])
    asked_ns = int(ints(rows, "asked_ns")[at])
    fell = Regression(
        source=source,
        node=texts(rows, "observer")[at],
        epoch=int(epochs[at]),
        after=int(epochs[before]),
        offset=-1,
        count=len(low),
        where=(
            f"reported at {seconds(int(observed_ns[before]))} and asked again at"
            f" {seconds(asked_ns)}"
        ),
        times_ns=(int(observed_ns[before]), asked_ns),
    )
    return compared, [fell]


def _observers(group: Group, source: str) -> Iterator[pa.Table]:
    """Yield, for each process of each observer, the rows that have a time and an epoch."""
    rows = group.table("leadership")
    timed = present(rows, "observed_ns")
    named = select(rows, equal(rows, "source", source) & timed & (ints(rows, "leader_epoch") >= 0))
    for node in sorted(set(texts(named, "observer"))):
        mine = select(named, equal(named, "observer", node))
        for life in np.unique(ints(mine, "incarnation")).tolist():
            yield select(mine, ints(mine, "incarnation") == life)


def _along_metadata(group: Group) -> Iterator[tuple[int, list[Regression]]]:
    """Yield how many rows of each node's metadata log were compared, and any decrease in them.

    Only rows below the quorum's high watermark count.
    """
    rows, end = group.table("leadership"), group.facts.quorum_high_watermark or 0
    written = present(rows, "log_offset") & (ints(rows, "leader_epoch") >= 0)
    logged = select(
        rows,
        equal(rows, "source", Source.METADATA_LOG) & written & (ints(rows, "log_offset") < end),
    )
    for node in sorted(set(texts(logged, "observer"))):
        mine = select(logged, equal(logged, "observer", node))
        order = np.argsort(ints(mine, "log_offset"), kind="stable")
        places = ints(mine, "log_offset")[order]
        fell = [
            Regression(
                source=Source.METADATA_LOG, node=node, epoch=fall.epoch, after=fall.after,
                offset=-1, count=fall.count, where=f"record {places[fall.at]} of the quorum's log",
            )
            for fall in _fall(ints(mine, "leader_epoch")[order])
        ]  # fmt: skip
        yield max(len(order) - 1, 0), fell


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fall:
    """The first epoch in a sequence that is smaller than an earlier epoch.

    Attributes:
        at: The index of that epoch.
        count: The number of epochs that are smaller than an earlier one.
    """

    at: int
    epoch: int
    after: int
    count: int


def _fall(epochs: Ints) -> Iterator[_Fall]:
    """Yield the first decrease in a sequence of epochs, if there is one."""
    top = np.maximum.accumulate(epochs)
    low = np.flatnonzero(epochs < top)
    if len(low):
        at = int(low[0])
        yield _Fall(at=at, epoch=int(epochs[at]), after=int(top[at]), count=len(low))


def _along(log: ReplicaLog, snapshot: str) -> Iterator[Regression]:
    with_epoch = log.epochs >= 0
    offsets = log.offsets[with_epoch]
    for fall in _fall(log.epochs[with_epoch]):
        yield Regression(
            source="log", node=log.node, epoch=fall.epoch, after=fall.after,
            offset=int(offsets[fall.at]), count=fall.count, where=snapshot,
        )  # fmt: skip


def _outside(log: ReplicaLog, lines: list[tuple[int, int]]) -> tuple[int, list[Regression]]:
    """Count the records that have an epoch, and find the records that contradict the checkpoint."""
    epochs, starts = np.array(lines, dtype=np.int64).reshape(-1, 2).T
    with_epoch = (log.epochs >= 0) & (log.offsets >= log.start)
    written, offsets = log.epochs[with_epoch], log.offsets[with_epoch]
    line = np.searchsorted(epochs, written)
    known = np.append(epochs, -1)[line] == written
    start = np.append(starts, 0)[line]
    end = np.append(starts, [NEVER] * 2)[line + 1]
    out = np.flatnonzero(~known | (offsets < start) | (offsets >= end))
    found = []
    for epoch in np.unique(written[out]).tolist():
        mine = out[written[out] == epoch]
        at = int(mine[0])
        span = f"offsets from {start[at]} on" if known[at] else "no offset"
        if known[at] and line[at] + 1 < len(starts):
            span = f"offsets {start[at]} to {end[at] - 1}"
        found.append(
            Regression(
                source="checkpoint",
                node=log.node,
                epoch=epoch,
                after=-1,
                offset=int(offsets[at]),
                count=len(mine),
                where=span,
            )
        )
    return len(written), found


def _along_logs(group: Group) -> tuple[int, list[Regression]]:
    """Count the compared records of all logs, and find each decrease of the epoch once."""
    rows, fallen = 0, dict[tuple[str, int, int], Regression]()
    for snapshot, logs in sorted(group.logs.items()):
        for log in logs.values():
            rows += max(int((log.epochs >= 0).sum()) - 1, 0)
            for each in _along(log, snapshot):
                fallen.setdefault((each.node, each.offset, each.epoch), each)
    return rows, list(fallen.values())


def _check(group: Group) -> Findings:
    parts = [_along_logs(group), *_along_metadata(group)]
    for source in _TOLD:
        parts += [_told(told, source) for told in _observers(group, source)]
    final = group.logs.get(FINAL, {})
    lines = checkpoints(group)
    parts += [_outside(final[node], lines[node]) for node in sorted(lines) if node in final]
    compared = findings(
        sum(rows for rows, _ in parts),
        sorted(
            (regression for _, found in parts for regression in found),
            key=lambda each: (each.offset, each.source, each.node, each.epoch),
        ),
        lambda regression: _describe(group, regression),
        lambda regression: _labels(group, regression),
    )
    why = (
        "no leader epoch was reported after another one, so an epoch that went back could not"
        " be detected"
    )
    return could_not_show(compared, why, given=bool(group.table("leadership").num_rows))


def _labels(group: Group, regression: Regression) -> Labels:
    # A node that never came back may keep metadata records that the others truncated.
    left_behind = regression.source == Source.METADATA_LOG and not group.facts.recovered
    return (), (Premise.RECOVERED.value,) if left_behind else ()


def _sentence(group: Group, fell: Regression) -> str:
    more = f" ({fell.count} in all)" if fell.count > 1 else ""
    match fell.source:
        case "log":
            return (
                f"in {fell.node}'s log of {group.place}, the record at offset {fell.offset} has"
                f" epoch {fell.epoch}, and a record before it has epoch {fell.after}{more}"
                f" ({fell.where})"
            )
        case "checkpoint":
            return (
                f"in {fell.node}'s log of {group.place}, the record at offset {fell.offset} has"
                f" epoch {fell.epoch}, to which its checkpoint assigns"
                f" {fell.where}{f' ({fell.count} records of that epoch)' if fell.count > 1 else ''}"
            )
        case Source.ZOOKEEPER:
            who = "ZooKeeper"
        case Source.METADATA_LOG:
            who = f"{fell.node}'s metadata log"
        case _:
            who = f"{fell.node}'s metadata"
    return (
        f"the leader epoch of {group.place} went back from {fell.after} to {fell.epoch} in {who}"
        f"{more}: {fell.where}"
    )


def _describe(group: Group, fell: Regression) -> Anomaly:
    evidence: Evidence = {
        "source": fell.source,
        "node": fell.node,
        "epoch": fell.epoch,
        "after": known(fell.after),
        "offset": known(fell.offset),
        "count": fell.count,
        "where": fell.where,
        "times_ns": list(fell.times_ns),
    }
    return anomaly_at(
        group, NAME, sentence=_sentence(group, fell), evidence=evidence, offset=fell.offset
    )


def _why(group: Group, found: Anomaly) -> str:
    node = str(found.evidence.get("node"))
    match found.evidence.get("source"):
        case "checkpoint":
            return Proved(_by_checkpoints(group, found, node))
        case "log":
            return Proved(_by_copies(group, found, node))
        case Source.METADATA_LOG:
            fell = {each.node for _, told in _along_metadata(group) for each in told}
            copies = {*controllers_log(group).copies} | fell
            if fell == {node} and len(copies) > 1:
                return Proved(f"only {node}'s copy of the controllers' log shows this")
            return "the controllers wrote a smaller epoch than they had assigned before"
        case Source.ZOOKEEPER:
            return "the controller wrote a smaller epoch than it had assigned before"
        case _:
            return _by_metadata(group, found, node)


def _by_metadata(group: Group, found: Anomaly, node: str) -> str:
    """Explain which of a broker's two reports of an epoch was wrong.

    The controllers' log has every epoch that is larger than its own smallest epoch. Older epochs
    may be in a snapshot. A disk fault may have removed any epoch.
    """
    after, known = number_in(found, "after"), {each.epoch for each in undisputed(group)}
    if min(known, default=after) < after and after not in known:
        told = f"the controllers' log has no epoch {after}: {node}'s first report was wrong"
        if any(each.concerns(QUORUM_TOPIC, 0) for each in group.facts.disk_losses):
            return f"{told}, or a fault removed that epoch from the controllers' disks"
        return Proved(told)
    fell = {each.node for rows in _observers(group, Source.METADATA) for each in _told(rows, "")[1]}
    alone = ", and no other broker did" if fell == {node} else ""
    return f"{node} went back to an older view of the leaders while it ran{alone}"


def _fits(lines: list[tuple[int, int]], epoch: int, offset: int) -> bool:
    """Return whether a checkpoint assigns an offset to an epoch."""
    behind = [line for line in lines if line[1] <= offset]
    return bool(behind) and behind[-1][0] == epoch


def _by_checkpoints(group: Group, found: Anomaly, node: str) -> str:
    """Explain, from the other replicas, whether a record or its checkpoint is wrong."""
    epoch, offset = number_in(found, "epoch"), found.offset
    held = sides(group.logs.get(FINAL, {}), offset)
    mine = next((each for each in held if node in each.nodes), None)
    lines = checkpoints(group)
    fit = [each for each in lines if each != node and _fits(lines[each], epoch, offset)]
    others = [each for each in lines if each != node and each not in fit]
    if mine is None or len(held) != 1 or len(mine.nodes) == 1:
        return _by_copies(group, found, node)
    alike = f"{listed(mine.nodes)} hold the same record"
    if fit:
        places = f"{verb(fit, 'has', 'have')} checkpoints that assign this offset to epoch {epoch}"
        return f"{node}'s checkpoint is wrong: {alike}, and {places}"
    if early := _too_early(group, mine, offset):
        return f"{alike}, so the checkpoint is right: {early}"
    log = group.logs[FINAL][node]
    at = log.at(offset) or 0
    if (np.diff(log.epochs[max(at - 1, 0) : at + 2]) >= 0).all() and not any(
        lines[each] for each in (node, *others)
    ):
        outside = (
            f"all {int((log.epochs >= 0).sum())} records of {node}'s log are outside of its"
            " checkpoint"
        )
        return f"{alike}, and their checkpoints have no epoch at all: {outside}"
    return (
        f"{alike}, and no checkpoint matches it; the run's record does not show whether the"
        " record or the checkpoints are wrong"
    )


def _by_copies(group: Group, found: Anomaly, node: str) -> str:
    """Explain, from a record's copies, which node wrote the record's epoch out of order."""
    source = str(found.evidence.get("where"))
    logs = group.logs.get(source if source in group.logs else FINAL, {})
    log, after = logs.get(node), number_in(found, "after")
    if log is None:
        return f"{node} has a record of an earlier leader after a record of a later leader"
    before = log.offsets[(log.epochs == after) & (log.offsets < found.offset)]
    odd = int(before[0]) if after >= 0 and len(before) else found.offset
    held = sides(logs, odd)
    mine = next((each for each in held if node in each.nodes), None)
    if mine is None or len(held) != 1 or len(mine.nodes) == 1:
        others = [each for each in held if node not in each.nodes and not each.lacks]
        if mine is not None and len(others) == 1 and others[0].epoch != mine.epoch:
            return (
                f"{verb(others[0].nodes, 'holds', 'hold')} the record at offset {odd} with epoch"
                f" {others[0].epoch}, but {listed(mine.nodes)} alone with epoch {mine.epoch}:"
                " that copy was changed"
            )
        return f"no other copy shows whether {node} received the record in this form or changed it"
    alike = f"{listed(mine.nodes)} hold the same record at offset {odd}, with epoch {mine.epoch}"
    early = _too_early(group, mine, odd)
    return f"{alike}: {early or 'a leader wrote it in this form, and the others copied it'}"


def _too_early(group: Group, held: Side, offset: int) -> str:
    """Return a clause on the leader that used an epoch before the epoch had begun; "" if unknown.

    Args:
        group: The run's rows of one partition.
        held: The record that the logs hold at the offset. An acknowledged record at the offset must
            be this record.
        offset: The offset.
    """
    sends, epoch = group.table("sends"), held.epoch
    mine = (ints(sends, "offset") == offset) & (ints(sends, "value") == held.value)
    mine &= equal(sends, "acked", True) & (ints(sends, "complete_ns") >= 0)  # noqa: FBT003 - a value
    there = select(sends, mine)
    if held.value < 0 or there.num_rows != 1:
        return ""
    sent_ns, acked_ns = int(ints(there, "invoke_ns")[0]), int(ints(there, "complete_ns")[0])
    by, first_ns = led_between(group, sent_ns, acked_ns), told_ns(group, epoch)
    by = tuple(each for each in by if 0 <= each.epoch < epoch)
    known = leaders_of(group, epoch)
    if len(by) != 1 or by[0].broker < 0 or (known and first_ns <= acked_ns + TOLD_LATE_NS):
        return ""
    when = f"epoch {epoch} was first observed at {seconds(first_ns)}" if known else (
        f"no leader of epoch {epoch} is known"
    )  # fmt: skip
    return (
        f"{by[0].node}, leader of epoch {by[0].epoch}, acknowledged it at {seconds(acked_ns)},"
        f" and {when}: that leader assigned a wrong epoch"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="leader epoch went down",
        many="leader epochs went down",
        means="Leader epochs only ever grow.",
        promise="Leader epochs only ever grow.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.LEADER_EPOCHS}),
    check=_check,
    premises=(Premise.KNOWN_EVENTS,),
    promise=Promise.EPOCHS,
    compares="epochs compared with an earlier one, and records compared with checkpoints",
    chapter=Chapter.REPLICAS,
    looks_for="leader epochs in their order: as one process of a broker reported them, in"
    " ZooKeeper, in the metadata log (below the quorum's high watermark), and along"
    " each log. Also the epoch of each record, compared with the checkpoint",
    meanwhile=Proof.OBSERVED,
)
