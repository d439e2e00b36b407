"""phantom: a reader received a value that no client of this run sent to the partition.

Definition: a reader got a value that was not sent, or that belongs to another partition, or a
record without a value. If a stream of the run's record is incomplete, the row of a send may be
missing. Then a value counts only if it is also outside of all ranges that workers reserved for the
partition, and the anomaly is not trusted.

Why it proves something: a worker reserves values on disk before it uses them. The worker also
records each send before the client sends the message. A value names its partition. So if the value
is unknown, some component between writer and reader invented or moved the value.

What would not prove it:

- A value whose send ended `fail` or `info`, or never ended. Such a value was still sent by this
  run.
- A topic to which another program writes.
- A reservation that was lost because a stream is incomplete.
"""

import numpy as np

from checkers.client_reasons import (
    doubt,
    final_logs,
    held_at,
    hold,
    leader_of,
    server,
    value_at,
    written_by,
)
from checkers.columns import NONE, Ints, Mask, ints, present, runs_of, within
from checkers.findings import anomaly_at, findings, known, number_in
from checkers.group import Group, ReplicaLog
from checkers.protocol import Chapter, Checker, Findings, Premise, Promise
from checkers.reads import others, reads_of
from results.record.terms import AnomalyClass
from results.record.values import SEQUENCE_BITS
from results.record.verdict import Anomaly, Words

NAME = "phantom"


def sent_here(group: Group, values: Ints) -> Mask:
    """Return a mask of the values that were sent, or may have been sent, to a partition."""
    sent = within(values, ints(group.table("sends"), "value"))
    if not (group.facts.cut_streams or group.facts.history):
        return np.asarray(sent, dtype=np.bool_)
    number = _number(group)
    inside = np.zeros(len(values), dtype=np.bool_)
    for start, end in group.facts.reservations:
        if start >> SEQUENCE_BITS <= number <= end >> SEQUENCE_BITS:
            inside |= (values >= start) & (values < end)
    return inside | sent


def _number(group: Group) -> int:
    """Return the partition's number (the first part of its values), or `NONE` if unknown."""
    return group.facts.numbers.get((group.topic, group.partition), NONE)


def _phantoms(group: Group) -> Ints:
    """Return the row numbers of phantoms in `polls`, one row for each offset and value."""
    polls = group.table("polls")
    values, offsets = ints(polls, "value"), ints(polls, "offset")
    ours = present(polls, "value") & (values >> SEQUENCE_BITS == _number(group))
    strange = np.flatnonzero(~(ours & sent_here(group, values)))
    order = strange[np.lexsort((values[strange], offsets[strange]))]
    return order[runs_of(offsets[order], values[order])[:-1]]


def _check(group: Group) -> Findings:
    broken = (Premise.WHOLE_RECORD.value,) if group.facts.cut_streams else ()
    return findings(
        group.table("polls").num_rows,
        _phantoms(group).tolist(),
        lambda row: _describe(group, row),
        lambda _row: ((), broken),
    )


def _describe(group: Group, row: int) -> Anomaly:
    polls = group.table("polls")
    offset, value, op_id, time_ns = (
        int(ints(polls, name)[row]) for name in ("offset", "value", "op_id", "complete_ns")
    )
    home = group.facts.home_of(value)
    what = (
        group.facts.name_of(value)
        if value >= 0
        else "a record that is not one of this run's messages"
    )
    why = "was never sent"
    if home not in {"", group.place}:
        why = f"belongs to {home}"
    return anomaly_at(
        group,
        NAME,
        sentence=f"op {op_id} read {what} at offset {offset} of {group.place}; it {why}",
        evidence={
            "value": known(value),
            "offset": offset,
            "op_id": op_id,
            "time_ns": known(time_ns),
            "belongs_to": home or None,
        },
        offset=offset,
    )


def _why(group: Group, found: Anomaly) -> str:
    """Explain which broker stored the value, or who delivered it although no log holds it."""
    home, offset = found.evidence.get("belongs_to"), number_in(found, "offset")
    value, op_id = number_in(found, "value"), number_in(found, "op_id")
    strange = home and home != group.place
    origin = f"its value belongs to {home} only" if strange else "no recorded client sent it"
    logs = [log for log in final_logs(group) if _has(log, offset, value)]
    if logs:
        whence = f"; {origin}" if strange else ""  # Otherwise the anomaly's sentence has it.
        return f"{hold([log.node for log in logs])} it: {_stored(logs[0], offset, group)}{whence}"
    instead = held_at(group, offset)
    if not instead:
        return f"{origin}, so a broker stored or served it here; no log that was read holds it"
    right = others(reads_of(group, offset, [value_at(group, offset)]), op_id, what="that")
    who = server(group, value, {op_id: number_in(found, "time_ns")})
    why_not = doubt(group, offset, NONE)
    stored = f", or it was stored there and was then lost: {why_not}" if why_not else ""
    return (
        f"{who} or the client returned it to the reader{stored}: the logs hold {instead}"
        f" there{f', and {right}' if right else ''}; {origin}"
    )


def _has(log: ReplicaLog, offset: int, value: int) -> bool:
    """Return whether a log has a value at an offset. -1 stands for a record without a value."""
    at = log.at(offset)
    return at is not None and int(log.values[at]) == value and not log.controls[at]


def _stored(log: ReplicaLog, offset: int, group: Group) -> str:
    """Return a phrase that names the leader that stored a record, and the record's producer id."""
    at = log.at(offset)
    if at is None:
        return ""
    leader, (producer, epoch, sequence) = leader_of(group, int(log.epochs[at])), written_by(log, at)
    same = (log.producer_ids == producer) & (log.producer_epochs == epoch)
    twins = np.flatnonzero(same & (log.sequences == sequence) & (log.offsets != offset))
    if producer >= 0 and len(twins):
        return (
            f"{leader} stored it under sequence {sequence} of producer {producer}, which the"
            f" record at offset {int(log.offsets[twins[0]])} also has"
        )
    ours = producer >= 0 and bool(sent_here(group, log.values[same]).any())
    if ours:
        return (
            f"{leader} stored it as sequence {sequence} of producer {producer}, whose other"
            " records this run's clients sent: that client's library or the broker created it"
        )
    return f"{leader} stored it; an unrecorded client or the broker created it"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="value was read that no client sent",
        many="values were read that no client sent",
        means="A reader got a value that no client had sent to this partition.",
        promise="Readers get only what clients sent.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=(
        "polls",
        "sends",
        "assignments",
        "leadership",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    check=_check,
    promise=Promise.LOG,
    compares="polled records, searched for among the sent messages",
    chapter=Chapter.CLIENTS,
    looks_for="a value that was read although no client sent it, or that belongs to another"
    " partition; also a record that is not of this run. If a stream is cut off, a value"
    " counts only if it is outside of all ranges that workers had reserved",
    waits="a late reader may get a value that has left the window",
)
