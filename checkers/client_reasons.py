"""Find the broker, log or client library that caused a wrong answer to a client.

A response names no broker, but the leaders' reports of their leadership leave few candidates. A
record's leader epoch shows which leader wrote the record. If every log was read to its end and lost
nothing from an offset on, the logs show all values that were ever at these offsets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkers.acknowledger import (
    Acked,
    Acknowledger,
    acknowledgers,
    cut_at,
    led_between,
    looks_at,
    may_be_resent,
    moved,
    read_whole,
    shrank,
)
from checkers.columns import NEVER, NONE, Ints, equal, ints, present
from checkers.facts import CRASH, FINAL
from checkers.group import Group, ReplicaLog, once
from checkers.group_reasons import followers_serve
from checkers.positions import ASSIGN, DEALT, SEEK, SUBSCRIBE
from checkers.protocol import Proved
from checkers.reads import reads_of, rows_with
from checkers.witnesses import cut_alike, truncations_of, which_cut

LIBRARY = "the client's library"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One send of a value.

    Attributes:
        op_id, offset: The op and the acknowledged offset; -1 if unknown.
        sent_ns, acked_ns: When the op began and ended, -1 if unknown.
        acked: Whether the send was acknowledged.
        weak: Whether the send asked for less than acks=all.
        in_txn: Whether the send belongs to a transaction.
    """

    op_id: int
    offset: int
    sent_ns: int
    acked_ns: int
    acked: bool
    weak: bool
    in_txn: bool


@once
def sent(group: Group, value: int) -> Sent | None:
    """Return the send of a value, or None if no row has this value."""
    sends = group.table("sends")
    rows = rows_with(ints(sends, "value"), value, group.view(_sends_by_value))
    if value < 0 or not len(rows):
        return None  # In an imported history, a send may hold no value.
    row = sends.slice(int(rows[0]), 1)
    op_id, offset, sent_ns, acked_ns = (
        ints(row, name).item() for name in ("op_id", "offset", "invoke_ns", "complete_ns")
    )
    return Sent(
        op_id=op_id,
        offset=offset,
        sent_ns=sent_ns,
        acked_ns=acked_ns,
        acked=bool(equal(row, "acked", True)[0]),  # noqa: FBT003 - a value
        weak=bool(equal(row, "acks", "0", "1")[0]),
        in_txn=bool(present(row, "txn_id")[0]),
    )


def record_at(group: Group, value: int, offset: int) -> Acked:
    """Return a value as a record at an offset. The times are -1 if no send has the value."""
    mine = sent(group, value)
    times = (mine.sent_ns, mine.acked_ns) if mine else (NONE, NONE)
    return Acked(value=value, offset=offset, sent_ns=times[0], acked_ns=times[1])


def _sends_by_value(group: Group) -> Ints:
    return np.argsort(ints(group.table("sends"), "value"), kind="stable")


def final_logs(group: Group) -> list[ReplicaLog]:
    """Return the replicas' logs that were read after the stop or a crash, sorted by node."""
    logs = group.logs.get(FINAL) or group.logs.get(CRASH, {})
    return [log for _, log in sorted(logs.items())]


def nodes_at(group: Group, offset: int, value: int) -> list[str]:
    """Return the nodes whose final log holds a value at an offset."""
    logs = final_logs(group) if value >= 0 else []
    places = ((log, log.at(offset)) for log in logs)
    return [log.node for log, at in places if at is not None and int(log.values[at]) == value]


def log_with(group: Group, offset: int, value: int) -> tuple[ReplicaLog, int] | None:
    """Return a log that holds a value at an offset, and the index.

    The last leader's log is preferred.
    """
    logs = [group.final_log, *final_logs(group)]
    for log in logs:
        at = log.at(offset) if log is not None else None
        if log is not None and at is not None and int(log.values[at]) == value:
            return log, at
    return None


def offset_of(group: Group, value: int) -> int:
    """Return the first offset at which the last leader's log holds a value, or -1."""
    log = group.final_log
    if log is None or value < 0:
        return NONE
    at = np.flatnonzero(log.values == value)
    return int(log.offsets[at[0]]) if len(at) else NONE


def hold(nodes: Sequence[str], verb: str = "hold") -> str:
    """Return a phrase such as `the logs of n1 and n2 hold`; "" if there are no nodes."""
    if len(nodes) <= 1:
        return "".join(f"the log of {node} {verb}s" for node in nodes)
    return f"the logs of {', '.join(nodes[:-1])} and {nodes[-1]} {verb}"


def doubt(group: Group, offset: int, since_ns: int) -> str:
    """Return why an offset may have held another record earlier, although no log shows that record.

    Args:
        group: The run's rows of one partition.
        offset: The offset.
        since_ns: The earliest time at which the record can have been written.

    Returns:
        The first reason, for a report. "" if the offset never held another record.
    """
    logs = group.logs.get(FINAL, {})
    record = Acked(value=NONE, offset=offset, sent_ns=since_ns, acked_ns=NONE)
    if len(logs) < group.facts.plan.replication:
        return "not every replica's log was read" if logs else "no replica's log was read"
    if moved(group):
        return "a fault may have recreated replicas in this run"
    return next(
        filter(None, (_doubt_of(group, log, record) for _, log in sorted(logs.items()))), ""
    )


def _doubt_of(group: Group, log: ReplicaLog, record: Acked) -> str:
    if not (log.whole and read_whole(group, log.node)):
        return f"the log of {log.node} was not read to its end"
    if log.start > record.offset:
        return f"the log of {log.node} begins above this offset"
    cut = cut_at(group, record, log.node)
    if cut is not None:
        return f"{log.node} may have lost its log from offset {cut} on"
    if shrank(group, record, log.node):
        return f"the log of {log.node} ended above this offset, and later at or below it"
    return ""


def marker_doubt(group: Group, offset: int, since_ns: int, *, below: int = NEVER) -> str:
    """Return why a transaction's marker may have been written above an offset, and later lost.

    Args:
        group: The run's rows of one partition.
        offset: The offset of a record of the transaction.
        since_ns: When that record was sent; -1 if unknown.
        below: The marker's offset was below this offset.

    Returns:
        The first reason, for a report. "" if no marker was lost.
    """
    own = _of_one_writer(group, offset, below)
    record = Acked(value=NONE, offset=below, sent_ns=since_ns, acked_ns=NONE)
    if why := _doubt_of(group, own, record) if own else doubt(group, below, since_ns):
        return why
    for log in [own] if own else final_logs(group):
        for (_, one), (at_ns, two) in pairwise(looks_at(group, log.node)):
            if one > max(two, offset + 1) and two <= below and at_ns >= since_ns:
                return f"the log end offset of {log.node} was {one}, and later {two}"
    return ""


def _of_one_writer(group: Group, first: int, last: int) -> ReplicaLog | None:
    """Return the log of the leader that wrote all records between two offsets, or None."""
    log, unclean = group.final_log, group.facts.plan.unclean_elections or group.facts.unclean_orders
    if log is None or log.at(last) is None or moved(group) or unclean or group.facts.disk_losses:
        return None
    epochs = set(log.epochs[(log.offsets >= first) & (log.offsets <= last)].tolist())
    brokers = group.view(_leaders).get(max(epochs), set()) if len(epochs) == 1 else set()
    node = f"n{max(brokers, default=NONE)}" if len(brokers) == 1 else ""
    return group.logs.get(FINAL, {}).get(node)


def never_reached(group: Group, offset: int) -> bool:
    """Return whether all observed logs always ended at or below an offset."""
    return all(
        log.end <= offset and all(end <= offset for _, end in looks_at(group, log.node))
        for log in final_logs(group)
    )


def leader_of(group: Group, epoch: int) -> str:
    """Return the leader of an epoch, for a report: `n2, leader of epoch 0,`."""
    brokers = group.view(_leaders).get(epoch, set())
    if epoch < 0:
        return "a leader"
    if len(brokers) != 1:
        return f"the leader of epoch {epoch}"
    return f"n{min(brokers)}, leader of epoch {epoch},"


def _leaders(group: Group) -> dict[int, set[int]]:
    """Return, for each epoch, all brokers that any source named as leader."""
    rows = group.table("leadership")
    found: dict[int, set[int]] = {}
    columns = (ints(rows, name).tolist() for name in ("leader_epoch", "leader"))
    for epoch, broker in {*zip(*columns, strict=True)}:
        if broker >= 0:
            found.setdefault(epoch, set()).add(broker)
    return found


def answerer(group: Group, from_ns: int, until_ns: int, *, otherwise: str = "its leader") -> str:
    """Return the brokers that may have led in a time span, for a report.

    Args:
        group: The run's rows of one partition.
        from_ns: The earliest possible time of the answer; -1 if unknown.
        until_ns: The latest possible time of the answer; -1 if unknown.
        otherwise: The text if the leader is unknown, or if more than two brokers are possible.
    """
    return in_words(led_between(group, from_ns, until_ns), otherwise=otherwise)


def in_words(led: Sequence[Acknowledger], *, otherwise: str = "a broker") -> str:
    """Return leaders as text for a report, with a trailing comma: `n2, leader of epoch 0,`."""
    nodes = list(dict.fromkeys(each.node for each in led if each.broker >= 0))
    if not nodes or len(nodes) > 2 or any(each.broker < 0 for each in led):  # noqa: PLR2004 - a pair
        return otherwise
    if len(nodes) == 1:
        epochs = {each.epoch for each in led}
        known = len(epochs) == 1 and min(epochs) >= 0
        return (
            f"{nodes[0]}, leader of epoch {min(epochs)}," if known else f"{nodes[0]}, its leader,"
        )
    return f"{nodes[0]} or {nodes[1]}, each of which may have led then,"


def server(group: Group, value: int, reads: Mapping[int, int], *, behind: int = NONE) -> str:
    """Return, for a report, the brokers that may have answered the given polls; see `servers`."""
    return in_words(servers(group, value, reads, behind=behind))


def servers(
    group: Group, value: int, reads: Mapping[int, int], *, behind: int = NONE, by_epoch: bool = True
) -> tuple[Acknowledger, ...]:
    """Return the leaders that may have answered the given polls.

    The result is empty if followers serve reads. A client may fetch before its poll, but only after
    the value was sent and the partition was assigned.

    Args:
        group: The run's rows of one partition.
        value: The value that the polls returned, or that the offset holds.
        reads: The ops of the polls, each with its end time.
        behind: A value that the reader got earlier. A client fetches values in the order of their
            offsets.
        by_epoch: Whether the leader epochs in the answers limit the candidates.
    """
    if followers_serve(group):
        return ()
    sends = [sent(group, each) for each in (value, behind)]
    ended_ns = max(reads.values(), default=NONE)
    since_ns = max((each.sent_ns for each in sends if each), default=NONE)
    if len(reads) == 1:
        since_ns = max(since_ns, _placed_ns(group, min(reads), ended_ns))
    led, polls = led_between(group, since_ns, ended_ns), group.table("polls")
    # Another answer to the op may have come from a later leader.
    mine = np.isin(ints(polls, "op_id"), list(reads)) & (ints(polls, "value") == value)
    given = ints(polls, "leader_epoch")[mine]
    epoch = int(given.min()) if len(given) and by_epoch else NONE
    # A broker that serves a record of an epoch knows that epoch.
    return tuple(each for each in led if each.epoch < 0 or each.epoch >= epoch) or led


def _placed_ns(group: Group, op_id: int, until_ns: int) -> int:
    """Return the time of the last assignment of the partition to an op's process, or -1."""
    polls, moves = group.table("polls"), group.table("assignments")
    process = ints(polls, "process")[ints(polls, "op_id") == op_id]
    if not len(process):
        return NONE
    times = ints(moves, "time_ns")
    placed = equal(moves, "kind", ASSIGN, SUBSCRIBE, DEALT, SEEK) & (times <= until_ns)
    return int(max(times[placed & (ints(moves, "process") == process[0])], default=NONE))


def passed_over(group: Group, values: Sequence[int], op_id: int, *, behind: int, epoch: int) -> str:
    """Return the brokers whose answer to a reader may have left out the given records.

    The broker may have led long before the op, because a client fetches ahead of its polls.

    Args:
        group: The run's rows of one partition.
        values: The values that the reader did not get.
        op_id: The first op that got a later value.
        behind: The value that the op got.
        epoch: The epoch of the record before these values. The broker that answers knows that
            epoch.
    """
    if followers_serve(group):
        return "a broker"
    known, polls = [sent(group, value) for value in values], group.table("polls")
    mine = (ints(polls, "op_id") == op_id) & (ints(polls, "value") == behind)
    ended_ns = int(ints(polls, "complete_ns")[mine].max(initial=NONE))
    first_ns = min((each.sent_ns if each else NONE for each in known), default=NONE)
    led = led_between(group, max(first_ns, _placed_ns(group, op_id, ended_ns)), ended_ns)
    return in_words([each for each in led if each.epoch < 0 or each.epoch >= epoch] or led)


def misplaced(group: Group, value: int, offset: int, there: int) -> str:
    """Explain why a value is not at the offset that its acknowledgement named.

    Args:
        group: The run's rows of one partition.
        value: The value.
        offset: The offset that the acknowledgement named.
        there: The offset that holds the value.
    """
    mine = sent(group, value)
    sent_ns, acked_ns = (mine.sent_ns, mine.acked_ns) if mine else (NONE, NONE)
    name, holders = group.facts.name_of(value), nodes_at(group, there, value)
    record = Acked(value=value, offset=there, sent_ns=sent_ns, acked_ns=acked_ns)
    once = bool(holders) and not may_be_resent(group, record)
    led = acknowledgers(group, record) if once else ()
    if not led or any(_first_told_ns(group, each.epoch) > acked_ns for each in led):
        led = led_between(group, sent_ns, acked_ns)  # Its leader may have led too late.
    wrong = f"{in_words(led, otherwise='its leader')} or {LIBRARY} reported offset {offset}"
    why_not = doubt(group, offset, sent_ns)
    readers = reads_of(group, offset, [value])
    if readers and why_not and not once:
        return (
            f"op {min(readers)} read {name} at offset {offset}: the message was truncated there,"
            f" and a retry of its send was kept at offset {there}"
        )
    if once or not why_not:
        within_ms = (acked_ns - sent_ns) // 1_000_000 + 1
        single = f"it was sent only once, within {within_ms} ms"
        why = single if why_not else "no log was truncated there"
        instead = _instead(group, offset, mine, there=there, why=why)
        held = f"{hold(holders)} {name} at offset {there}{instead}"
        if readers:  # Both answers were wrong, or the logs are.
            return f"{wrong}, and op {min(readers)} also read the message there, although {held}"
        return Proved(f"{wrong} wrongly: {held}{cut_alike(group, offset, sent_ns)}")
    cuts = which_cut(truncations_of(group, offset, since_ns=sent_ns), offset)
    return (
        f"{wrong} wrongly, or {name} was truncated there and a retry of its send was kept at"
        f" offset {there}; {cuts or why_not}"
    )


def _first_told_ns(group: Group, epoch: int) -> int:
    rows = group.table("leadership")
    times = ints(rows, "observed_ns")
    return int(times[(times >= 0) & (ints(rows, "leader_epoch") >= epoch)].min(initial=NEVER))


def _instead(group: Group, offset: int, mine: Sent | None, *, there: int, why: str) -> str:
    """Return the end of a sentence, which names the record that the logs hold at an offset.

    Args:
        group: The run's rows of one partition.
        offset: The offset.
        mine: The send of the value whose record is at another offset.
        there: The offset of that record.
        why: Why that record was never at `offset`.
    """
    if never_reached(group, offset) and not doubt(group, offset, mine.sent_ns if mine else NONE):
        return f"; no log ever reached offset {offset}"
    log = next((each for each in final_logs(group) if each.at(offset) is not None), None)
    at = log.at(offset) if log is not None else None
    if log is None or at is None:
        return f" and nothing at offset {offset}; {why}"
    if log.controls[at]:
        return f" and {_whose_marker(log, at, there)} at offset {offset}; {why}"
    instead = sent(group, int(log.values[at]))
    since = ""
    if instead and mine and instead.acked and instead.offset == offset:
        before = 0 <= instead.acked_ns < mine.sent_ns
        since = " (acknowledged before this message was sent)" * before
    return f" and {held_at(group, offset)}{since} at offset {offset}; {why}"


def _whose_marker(log: ReplicaLog, at: int, there: int) -> str:
    """Return a phrase that says whether a marker belongs to the transaction of a given record."""
    own, producers = log.at(there), log.producer_ids
    if own is None or own >= at or not producers[own] == producers[at] >= 0:
        return "a transaction's marker"
    mine = (producers[own:at] == producers[at]) & (log.controls[own:at] == 1)
    return "a transaction's marker" if mine.any() else "the marker of its own transaction"


def value_at(group: Group, offset: int) -> int:
    """Return the value at an offset in a final log, or -1. The last leader's log is preferred."""
    for log in (group.final_log, *final_logs(group)):
        at = log.at(offset) if log is not None else None
        if log is not None and at is not None and int(log.values[at]) >= 0:
            return int(log.values[at])
    return NONE


def held_at(group: Group, offset: int) -> str:
    """Return the name of the value that a final log holds at an offset; "" if there is no value."""
    value = value_at(group, offset)
    return group.facts.name_of(value) if value >= 0 else ""


def final_server(group: Group) -> str:
    """Return the broker that may have answered the final reads, for a report."""
    begun, ended = (ints(group.final_polls, name) for name in ("invoke_ns", "complete_ns"))
    if not len(begun) or followers_serve(group):
        return "a broker"
    return answerer(group, int(begun.min()), int(ended.max()), otherwise="a broker")


def written_by(log: ReplicaLog, at: int) -> tuple[int, int, int]:
    """Return the producer id, the producer epoch and the sequence of a record in a log."""
    columns = (log.producer_ids, log.producer_epochs, log.sequences)
    producer, epoch, sequence = (int(each[at]) for each in columns)
    return producer, epoch, sequence


def fetched_after_ns(group: Group, value: int, op_id: int, until_ns: int) -> int:
    """Return the earliest time at which a client may have fetched the value that an op returned.

    Args:
        group: The run's rows of one partition.
        value: The value that the op returned.
        op_id: The op of the read.
        until_ns: When the op ended.
    """
    mine = sent(group, value)
    return max(mine.sent_ns if mine else NONE, _placed_ns(group, op_id, until_ns))
