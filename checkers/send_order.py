"""nonmonotonic-send: a process's later send got an offset that is not higher.

Definition: compare the last send of an op to a partition with the first send of the process's next
op to this partition. The offset of the later send is not higher. `int-nonmonotonic-send` is the
same anomaly in two neighbouring sends of one op. `int-send-skip`: other known records of the log
(`version_order`) lie between two neighbouring sends of one op. The checks compare only sends whose
acknowledgement contains an offset. They ignore aborted sends.

Why it proves something: a process begins an op only after every send of its previous op was
answered. So the earlier record was in the log before the later one was sent. This is also true with
shared producers and with retries. A log only grows. Inside of one op, the producer keeps the order.

What would not prove it:

- acks=1 or an unclean election, if one of the two records was dropped. Two leaders that did not
  know of each other may have acknowledged the records.
- Retries without idempotence inside of one op. A later request may overtake a retried request.
- Inside of one op, a resend in a new producer epoch (`duplicate`).
- A sequence number that librdkafka used twice, or a loss on the disks of every replica.

Several writers may cause `int-send-skip` at any time, so this anomaly is always allowed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.acknowledger import read_whole
from checkers.changes import was_left_alone
from checkers.client_reasons import (
    LIBRARY,
    answerer,
    doubt,
    final_logs,
    hold,
    leader_of,
    log_with,
    misplaced,
    nodes_at,
    offset_of,
    record_at,
    sent,
    written_by,
)
from checkers.columns import NONE, Ints, Mask, equal, first_match, ints, present, within
from checkers.cuts import cut_off
from checkers.dropped import dropped, earliest_acks, taken_by_disks
from checkers.excuses import TAKES_ACKNOWLEDGED, WRITES_TWICE
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, number_in, seconds
from checkers.group import Group
from checkers.positions import Steps, inner_send_steps, send_steps, written_rows
from checkers.protocol import Chapter, Checker, Excuse, Findings, Premise, Promise, Proved
from checkers.reads import reads_of
from checkers.resent import in_epochs_of_their_own
from checkers.step_findings import step_findings
from checkers.symptoms import SAME_OP
from checkers.unclean_elections import unclean_elections
from checkers.used_sequences import masks_of
from checkers.version_order import version_order
from checkers.weak_acks import hidden_cuts
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NONMONOTONIC, INT_NONMONOTONIC = "nonmonotonic-send", "int-nonmonotonic-send"
INT_SKIP = "int-send-skip"


def _check_order(group: Group) -> Findings:
    steps = send_steps(group)
    found = _findings(group, NONMONOTONIC, _backward(group, steps), rows=len(steps.at))
    why = (
        "no process sent to one partition in two ops, so sends in the wrong order could not be"
        " detected"
    )
    return could_not_show(found, why, given=_written(group))


def _check_inner_order(group: Group) -> Findings:
    steps = _inside(group)
    found = _findings(group, INT_NONMONOTONIC, _backward(group, steps), rows=len(steps.at))
    why = (
        "no op sent two messages to one partition, so a wrong order inside of an op could not be"
        " detected"
    )
    return could_not_show(found, why, given=_written(group))


def _check_inner_skips(group: Group) -> Findings:
    steps = _inside(group)
    offsets = ints(group.table("sends"), "offset")[steps.at]
    skips = group.view(version_order).between(steps.after, offsets) > 0
    found = _findings(group, INT_SKIP, steps.where(skips), rows=len(steps.at))
    why = (
        "no op sent two messages to one partition, so other messages between them could not be"
        " detected"
    )
    return could_not_show(found, why, given=_written(group))


def _written(group: Group) -> bool:
    """Return whether any send can be compared. A run without such sends proves nothing."""
    return bool(written_rows(group).any())


def _inside(group: Group) -> Steps:
    return inner_send_steps(group, written_rows(group))


def _backward(group: Group, steps: Steps) -> Steps:
    return steps.where(ints(group.table("sends"), "offset")[steps.at] <= steps.after)


def _findings(group: Group, name: str, steps: Steps, *, rows: int) -> Findings:
    excuses = _excuses(group, steps)
    if name == INT_NONMONOTONIC:
        again = group.facts.retries and not group.facts.idempotent
        excuses[Excuse.RETRIES] = np.full(len(steps.at), again)
        if group.shows_logs:
            unknown = _lacking(group, steps) & _may_be_resent(group, steps.since)
            apart = _in_epochs_of_their_own(group, steps, unknown)
            excuses[Excuse.NEW_EPOCH] = _sent_again(group, steps) | apart
            excuses[Premise.SHOWN_CAUSE] = excuses[Premise.SHOWN_CAUSE] | (unknown & ~apart)
        else:
            unknown = excuses[Premise.SHOWN_CAUSE] | _may_be_resent(group, steps.since)
            excuses[Premise.SHOWN_CAUSE] = unknown
    story = _Story(group=group, name=name, steps=steps)
    return step_findings(
        rows,
        ints(group.table("sends"), "offset")[steps.at],
        story.describe,
        excuses,
    )


def _sent_again(group: Group, steps: Steps) -> Mask:
    """Return a mask of the pairs with two producer ids, or whose first send has the later epoch.

    When an idempotent client increases its epoch, it resends unacknowledged records. These get
    higher offsets than the records that were written meanwhile (sources: `duplicate`).
    """
    log = group.final_log
    if not group.facts.idempotent or log is None:
        return np.zeros(len(steps.at), dtype=np.bool_)
    offsets = ints(group.table("sends"), "offset")
    earlier, later = (first_match(offsets[rows], log.offsets) for rows in (steps.since, steps.at))
    ids, epochs = (np.append(each, NONE) for each in (log.producer_ids, log.producer_epochs))
    bumped = (ids[earlier] != ids[later]) | (epochs[earlier] > epochs[later])
    told = (np.minimum(earlier, later) >= 0) & ~_in_transactions(group, steps.since)
    return np.asarray(told & bumped, dtype=np.bool_)


def _in_transactions(group: Group, rows: Ints) -> Mask:
    """Return a mask of sends in transactions. Coordinators fence older producer epochs."""
    plan = group.facts.plan
    if plan.transactional and not plan.keys:
        return np.ones(len(rows), dtype=np.bool_)
    return np.asarray(present(group.table("sends"), "txn_id")[rows], dtype=np.bool_)


def _lacking(group: Group, steps: Steps) -> Mask:
    """Return a mask of pairs of which the final log lacks a record: cleaned away, or not read."""
    log, values = group.final_log, ints(group.table("sends"), "value")
    if log is not None and log.whole and not group.facts.compacted:
        return np.zeros(len(steps.at), dtype=np.bool_)
    stand = np.empty(0, np.int64) if log is None else log.values
    both = within(values[steps.since], stand) & within(values[steps.at], stand)
    return np.asarray(~both, dtype=np.bool_)


def _in_epochs_of_their_own(group: Group, steps: Steps, some: Mask) -> Mask:
    """Return a mask of the pairs that certainly have two different producer epochs."""
    offsets = ints(group.table("sends"), "offset")
    apart = np.zeros(len(some), np.bool_)
    for row in np.flatnonzero(some).tolist():
        later = int(steps.at[row])
        pair = int(offsets[later]), int(offsets[steps.since[row]])
        apart[row] = pair[0] < pair[1] and in_epochs_of_their_own(group, later, pair)
    return apart


def _may_be_resent(group: Group, rows: Ints) -> Mask:
    """Return a mask of the sends that a client may have resent, although no log can show it."""
    if not group.facts.idempotent:
        return np.zeros(len(rows), dtype=np.bool_)
    sends = group.table("sends")
    times = zip(*(ints(sends, name)[rows].tolist() for name in ("invoke_ns", "complete_ns")),
                strict=True)  # fmt: skip
    after_ns = group.facts.resends_after_ns
    told = [
        end - start >= after_ns or not was_left_alone(group.facts, start, end)
        for start, end in times
    ]
    return np.array(told, dtype=np.bool_) & ~_in_transactions(group, rows)


def _excuses(group: Group, steps: Steps) -> dict[Excuse | Premise, Mask]:
    """Return, for each excuse, a mask of the pairs with a send to which the excuse applies."""
    fits: dict[Excuse | Premise, Mask] = {}
    for rows in (steps.since, steps.at):
        for excuse, mask in send_excuses(group, rows).items():
            fits[excuse] = fits[excuse] | mask if excuse in fits else mask
    return fits


def send_excuses(group: Group, rows: Ints) -> dict[Excuse | Premise, Mask]:
    """Return, for each excuse and each broken premise, a mask of the sends concerned."""
    sends = group.table("sends")
    offsets, values, begun, ended = (
        ints(sends, name)[rows] for name in ("offset", "value", "invoke_ns", "complete_ns")
    )
    lost = dropped(group, offsets, values)
    by_disks = taken_by_disks(group, offsets, ended, since_ns=earliest_acks(group, sends)[rows])
    weak = lost & equal(sends, "acks", "1")[rows]
    cut = hidden_cuts(group, begun)
    twice, unknown = masks_of(group, values)
    return {
        Excuse.ACKS: weak if group.shows_cuts else weak & cut.may_be,
        Excuse.SEQUENCE: twice,
        Premise.SHOWN_CAUSE: weak & cut.unknown | unknown,
        Excuse.UNCLEAN: lost & unclean_elections(group).took(offsets, begun),
        **{excuse: lost & gone for excuse, gone in by_disks.items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Story:
    """Describes anomalies in pairs of consecutive sends."""

    group: Group
    name: str
    steps: Steps

    def describe(self, index: int) -> Anomaly:
        """Return the anomaly for one pair of consecutive sends."""
        sends, name_of = self.group.table("sends"), self.group.facts.name_of
        earlier, later = (
            _row(sends, int(rows[index])) for rows in (self.steps.since, self.steps.at)
        )
        inside = earlier["op_id"] == later["op_id"]
        then = "in the same op" if inside else f"in op {later['op_id']}"
        return anomaly_at(
            self.group,
            self.name,
            sentence=f"process {later['process']} sent {name_of(earlier['value'])} in op"
            f" {earlier['op_id']}, acknowledged at offset {earlier['offset']} of"
            f" {self.group.place}, and then {name_of(later['value'])} {then},"
            f" acknowledged at offset {later['offset']} at"
            f" {seconds(later['complete_ns'])}",
            evidence={
                "process": later["process"],
                "op_id": later["op_id"],
                "previous_op_id": earlier["op_id"],
                "value": later["value"],
                "previous_value": earlier["value"],
                "offset": later["offset"],
                "previous_offset": earlier["offset"],
                "acknowledged_ns": later["complete_ns"],
            },
            offset=later["offset"],
        )


def _row(table: pa.Table, row: int) -> dict[str, int]:
    names = ("op_id", "process", "offset", "value", "complete_ns")
    return {name: ints(table.slice(row, 1), name).item() for name in names}


def _acknowledges(facts: RunFacts) -> bool:
    return not facts.no_acks


_TABLES = ("sends", "polls", "leadership", "replica_records", "replica_states", "truncations")
_ASKED_FOR = {
    Excuse.RETRIES: (
        "its producer is not idempotent, so a later request may overtake one that is retried"
    ),
    Excuse.NEW_EPOCH: (
        "its producer changed to another epoch, and resent the message after later messages"
    ),
    Excuse.SEQUENCE: (
        "librdkafka used a sequence number twice, so a broker acknowledged the message as if it"
        " were an earlier record"
    ),
}
_NAMED = 3
"""The maximum number of processes that a sentence names."""
_INSIDE = "pairs of acknowledged sends that follow one another in an op"


def _between(group: Group, found: Anomaly) -> str:
    """Return a phrase about messages of other writers (allowed) between two messages of an op."""
    low, high = number_in(found, "previous_offset"), number_in(found, "offset")
    sends = group.table("sends")
    offsets, processes = ints(sends, "offset"), ints(sends, "process")
    among = set(processes[(offsets > low) & (offsets < high)].tolist())
    theirs = sorted(among - {number_in(found, "process"), NONE})
    if not theirs:
        return "messages of other writers are in between; no promise prevents this"
    more = f" and {len(theirs) - _NAMED} more" if len(theirs) > _NAMED else ""
    named = ", ".join(map(str, theirs[:_NAMED]))
    return (
        f"messages of process {named}{more} are in between: several writers write to one log, and"
        " no promise prevents this"
    )


def out_of_order(group: Group, found: Anomaly) -> str:
    """Explain why two acknowledged records of one log are in the wrong order."""
    for excuse, reason in _ASKED_FOR.items():
        if excuse in found.excuses:
            return reason
    first, second = _pair(found)
    for value, offset in (first, second):
        if reason := _not_there(group, value, offset):
            taken = "" if isinstance(reason, Proved) else _took(group, first, second)
            return type(reason)(f"{reason}{taken}")
    holders = [nodes_at(group, offset, value) for value, offset in (first, second)]
    both = [node for node in holders[0] if node in holders[1]]
    if both:
        return _as_told(group, found, both, (first[1], second[1]))
    if all(holders):
        (one, at), (two, lower) = first, second
        return (
            f"two logs diverged: {hold(holders[0])} {group.facts.name_of(one)} at offset {at},"
            f" and {hold(holders[1])} {group.facts.name_of(two)} at offset {lower}"
        )
    if all(reads_of(group, offset, [value]) for value, offset in (first, second)):
        return (
            "readers got both messages at these offsets, so the acknowledgements were right"
            " and the log is wrong"
        )
    return (
        "the log was truncated in between, or an answer had a wrong offset; without the last"
        " leader's log, the run's record does not show which"
    )


def _pair(found: Anomaly) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (value, offset) of the record that was sent first, and of the later record."""
    was = "earlier" if "earlier_value" in found.evidence else "previous"
    first, second = f"{was}_value", f"{was}_offset"
    return (
        (number_in(found, first), number_in(found, second)),
        (number_in(found, "value"), number_in(found, "offset")),
    )


def _not_there(group: Group, value: int, offset: int) -> str:
    """Explain why a record is not at its acknowledged offset; "" if it is there."""
    log, name = group.final_log, group.facts.name_of(value)
    whole = log is not None and log.whole and read_whole(group, log.node)
    if log is None or not whole or offset < group.log_start or nodes_at(group, offset, value):
        return ""
    if there := offset_of(group, value) + 1:
        return misplaced(group, value, offset, there - 1)
    if gone := cut_off(group, record_at(group, value, offset)):
        return f"{name} {gone}"
    mine = sent(group, value)
    if mine and log_with(group, offset, value) is None and not doubt(group, offset, mine.sent_ns):
        return Proved(
            f"{answerer(group, mine.sent_ns, mine.acked_ns)} or {LIBRARY} acknowledged {name} at"
            f" offset {offset}, although no log holds it and no log was truncated there"
        )
    return (
        f"{name} is not in the log of {log.node}, the last leader: it was truncated or never stored"
    )


def _took(group: Group, first: tuple[int, int], second: tuple[int, int]) -> str:
    """Name the leader that wrote the later record, if the earlier record is missing."""
    gone = group.final_log is not None and offset_of(group, first[0]) < 0
    there = log_with(group, second[1], second[0]) if gone else None
    if there is None:
        return ""
    log, at = there
    return (
        f"; {leader_of(group, int(log.epochs[at]))} wrote the later message at offset {second[1]}"
    )


def _as_told(group: Group, found: Anomaly, nodes: Sequence[str], pair: tuple[int, int]) -> str:
    """Explain who wrote two records in the wrong order; both are at their acknowledged offsets.

    Args:
        group: The run's rows of one partition.
        found: The anomaly.
        nodes: The nodes whose logs contain both records.
        pair: The offset of the record that was sent first, and of the later record.
    """
    told = f"{hold(nodes)} both messages at their acknowledged offsets"
    log = next(each for each in final_logs(group) if each.node == nodes[0])
    one, two = (log.at(offset) for offset in pair)
    if one is None or two is None:
        return told
    leaders = [leader_of(group, int(log.epochs[at])) for at in (two, one)]
    if leaders[0] != leaders[1]:
        return Proved(
            f"{told}: {leaders[0]} wrote the message at the lower offset, and"
            f" {leaders[1]} the message at the higher offset"
        )
    inside = number_in(found, "op_id") == number_in(found, "previous_op_id")
    (producer, epoch, before), (*other, after) = (written_by(log, at) for at in (one, two))
    if [producer, epoch] == other and producer >= 0:
        if before < after:
            return Proved(
                f"{told}: {leaders[0]} stored sequence {after} of producer {producer} at a lower"
                f" offset than its sequence {before}"
            )
        if inside:
            return Proved(
                f"{told}: {LIBRARY} assigned their sequence numbers in that order"
                f" ({after}, {before})"
            )
    if inside:
        return (
            f"{told}: {leaders[0]} stored them in that order, or {LIBRARY} sent them in that order"
        )
    return Proved(
        f"{told}: {leaders[0]} stored a message at a lower offset than one that was"
        " acknowledged earlier"
    )


def _checker(
    check: Callable[[Group], Findings],
    words: Words,
    *,
    name: str,
    looks_for: str,
    waits: str,
    excuses: frozenset[Excuse] = frozenset(),
    compares: str = _INSIDE,
) -> Checker:
    return Checker(
        name=name,
        words=words,
        why=_between if name == INT_SKIP else out_of_order,
        anomaly_class=AnomalyClass.SAFETY,
        tables=_TABLES,
        check=check,
        applies=_acknowledges,
        promise=None if name == INT_SKIP else Promise.LOG,
        always_allowed=name == INT_SKIP,
        compares=compares,
        chapter=Chapter.ORDER,
        looks_for=looks_for,
        excuses=excuses,
        waits=waits,
        of_histories=True,
    )


NONMONOTONIC_CHECKER = _checker(
    _check_order,
    Words(
        one="send went backwards",
        many="sends went backwards",
        means="A writer's later message was acknowledged at an earlier offset.",
        promise="A writer's later messages get higher offsets.",
        explains={"int-nonmonotonic-send": SAME_OP},
    ),
    name=NONMONOTONIC,
    looks_for="the last send of a process's op and the first send of its next op; only sends"
    " count that were acknowledged at an offset and not undone",
    excuses=TAKES_ACKNOWLEDGED | {Excuse.SEQUENCE},
    waits="offset-order finds the same anomaly by the clock",
    compares="pairs of ops of a process with acknowledged sends",
)
INT_NONMONOTONIC_CHECKER = _checker(
    _check_inner_order,
    Words(
        one="operation's sends went backwards",
        many="operations' sends went backwards",
        means="A later message of one operation was acknowledged at an earlier offset.",
        promise="A writer's later messages get higher offsets.",
    ),
    name=INT_NONMONOTONIC,
    looks_for="neighbouring sends of one op",
    excuses=TAKES_ACKNOWLEDGED | WRITES_TWICE | {Excuse.SEQUENCE},
    waits="only the last log shows which of two copies remains",
)
INT_SKIP_CHECKER = _checker(
    _check_inner_skips,
    Words(
        one="operation's messages are not adjacent",
        many="operations' messages are not adjacent",
        means=(
            "Messages of other operations are between the messages of one operation, which is"
            " always allowed."
        ),
    ),
    name=INT_SKIP,
    looks_for="neighbouring sends of one op",
    waits="this anomaly is always allowed",
)
CHECKERS = (NONMONOTONIC_CHECKER, INT_NONMONOTONIC_CHECKER, INT_SKIP_CHECKER)
