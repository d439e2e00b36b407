"""duplicate: one value stands at two or more offsets of a partition.

Definition: among polls and the leader's final log, one value at two or more offsets.

Why it proves something: every value is sent once, by one send. With an idempotent producer the
broker must recognise what the client sends again by (producer id, epoch, sequence), and keep one
copy. The evidence gives that triple for each copy: the same triple twice is the broker's fault;
another epoch means that the client itself sent again.

What idempotence does not promise: an idempotent producer without transactions may ask for another
epoch of its id, or another id, when it no longer knows what its brokers have (librdkafka does on
some OUT_OF_ORDER_SEQUENCE_NUMBER answers while a leader changes, librdkafka#4953, and after
messages that timed out), and sends again what was not acknowledged. Brokers recognise repetitions
within one epoch only (KIP-98, KIP-360): such a copy is labelled `new-producer-epoch`, if every copy
has an epoch of its own, each copy of an id a later one than the copy before it, as brokers refuse
an older one after it; and if no copy but the last is the acknowledged one, for a client sends again
only what it has no answer for. In a transaction it is not: there the coordinator fences the older
epoch.

Both are allowed only where something may have cost the client its answer: a fault, an election, a
restart, a machine asleep. In a quiet time nobody can tell who is to blame: it is told, and not
trusted.

What would not prove it: retries without idempotence, which may write twice by design (allowed); a
value polled twice at the same offset, which is merely a second read; what the harness sent twice
(that is `malformed-history`); after an unclean election, a copy that was read, then truncated, and
sent again to the new leader, who cannot know it: allowed as long as one copy at most is left in the
final log. (Seen on 4.3.1: a reader saw offset 292, the leader from outside of the ISR got 296.)
"""

import re

import numpy as np

from checkers.changes import NEVER_NS, was_quiet
from checkers.columns import NONE, Ints, equal, ints, repeated, stack, unique_pairs
from checkers.disk_losses import all_lost, lost_on_disks
from checkers.facts import CRASH, FINAL
from checkers.findings import anomaly_at, findings, number_in, texts_in
from checkers.group import Group, ReplicaLog
from checkers.protocol import Checker, Excuse, Findings, Labels, Premise, Promise
from checkers.unclean_elections import took_value_at
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "duplicate"


def copies(group: Group) -> tuple[Ints, Ints]:
    """Return the distinct (value, offset) among polls and the leader's final log, by value."""
    polls, log = group.table("polls"), group.final_log
    values, offsets = [ints(polls, "value")], [ints(polls, "offset")]
    if log is not None:
        values.append(log.values)
        offsets.append(log.offsets)
    value, offset = stack(values), stack(offsets)
    real = (value >= 0) & (offset >= 0)
    return unique_pairs(value[real], offset[real])


def _check(group: Group) -> Findings:
    values, offsets = copies(group)
    doubled = repeated(values)
    begin, end = np.searchsorted(values, doubled), np.searchsorted(values, doubled, "right")
    places = [
        (offsets[first:last].tolist(), int(value))
        for value, first, last in zip(doubled, begin, end, strict=True)
    ]
    return findings(
        len(values),
        sorted(places),
        lambda place: _describe(group, place[1], place[0]),
        lambda place: _labels(group, place[1], place[0]),
    )


def _labels(group: Group, value: int, offsets: list[int]) -> Labels:
    again = []
    if group.facts.retries and not group.facts.idempotent:
        again.append(Excuse.RETRIES.value)
    if _sent_in_other_epochs(group, value, offsets):
        again.append(Excuse.NEW_EPOCH.value)
    doubtful = bool(again) and _sent_in_quiet(group, value)
    excuses = [] if doubtful else again
    if _copies_left(group, value, offsets) <= 1:
        excuses += [Excuse.UNCLEAN.value] if _dropped_uncleanly(group, value, offsets) else []
        excuses += _lost_copies(group, value, offsets)
    return tuple(excuses), (Premise.KNOWN_CAUSE.value,) if doubtful else ()


def _sent_in_quiet(group: Group, value: int) -> bool:
    """Tell whether nothing is known that could have cost the sender of a value its answer."""
    sends = group.table("sends")
    mine = ints(sends, "value") == value
    begun, ended = (ints(sends, name)[mine].tolist() for name in ("invoke_ns", "complete_ns"))
    return bool(begun) and all(
        was_quiet(group, start, end if end >= 0 else NEVER_NS)
        for start, end in zip(begun, ended, strict=True)
    )


def _sent_in_other_epochs(group: Group, value: int, offsets: list[int]) -> bool:
    """Tell whether an idempotent client sent again, in a later epoch, what it had no answer for."""
    if not group.facts.idempotent or group.facts.plan.transactional:
        return False
    newest: dict[int, int] = {}
    for offset in offsets:
        written = _written(group, value, offset)
        if written is None:
            return False
        producer, epoch, _sequence = written
        if epoch <= newest.get(producer, NONE):
            return False
        newest[producer] = epoch
    return _acknowledged(group, value) <= {offsets[-1]}


def _acknowledged(group: Group, value: int) -> set[int]:
    """Return the offsets at which a value was acknowledged, as far as they are known."""
    sends = group.table("sends")
    acked = equal(sends, "acked", True) & (ints(sends, "value") == value)  # noqa: FBT003 - a value
    return {offset for offset in ints(sends, "offset")[acked].tolist() if offset >= 0}


def _dropped_uncleanly(group: Group, value: int, offsets: list[int]) -> bool:
    """Tell whether an unclean leader may have lacked every copy that is not in the final log."""
    gone = [at for at in offsets if not _copies_left(group, value, [at])]
    return all(took_value_at(group, at, [value]) for at in gone)


def _lost_copies(group: Group, value: int, offsets: list[int]) -> tuple[str, ...]:
    """Return by which faults of disks every copy went that is not in the leader's final log."""
    if not group.facts.disk_losses:
        return ()
    gone = [at for at in offsets if not _copies_left(group, value, [at])]
    return all_lost([lost_on_disks(group, at, _first_read_ns(group, value, at)) for at in gone])


def _first_read_ns(group: Group, value: int, offset: int) -> int:
    polls = group.table("polls")
    here = (ints(polls, "value") == value) & (ints(polls, "offset") == offset)
    return int(min(ints(polls, "complete_ns")[here], default=NONE))


def _copies_left(group: Group, value: int, offsets: list[int]) -> int:
    log = group.final_log
    if log is None:
        return len(offsets)  # Nothing tells that a copy is gone.
    indices = [log.at(offset) for offset in offsets]
    return sum(index is not None and int(log.values[index]) == value for index in indices)


def _describe(group: Group, value: int, offsets: list[int]) -> Anomaly:
    written = [_writer(group, value, offset) for offset in offsets]
    at = " and ".join(str(offset) for offset in offsets)
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(value)} stands at offsets {at} of {group.place};"
        f" written by {'; '.join(written)}",
        evidence={
            "value": value,
            "offsets": offsets,
            "writers": written,
            "copies_left": _copies_left(group, value, offsets),
        },
        offset=offsets[0],
    )


def _writer(group: Group, value: int, offset: int) -> str:
    match _written(group, value, offset):
        case (producer, epoch, sequence):
            return f"producer {producer} epoch {epoch} sequence {sequence}"
        case _:
            return "a producer that no replica's log tells"


def _written(group: Group, value: int, offset: int) -> tuple[int, int, int] | None:
    """Return producer id, epoch and sequence of a copy, by the latest log that has it."""
    newest = sorted(group.logs, key=lambda name: (name in {FINAL, CRASH}, name), reverse=True)
    for snapshot in newest:
        for node in sorted(group.logs[snapshot]):
            log: ReplicaLog = group.logs[snapshot][node]
            index = log.at(offset)
            if index is not None and int(log.values[index]) == value:
                columns = (log.producer_ids, log.producer_epochs, log.sequences)
                producer, epoch, sequence = (int(each[index]) for each in columns)
                return producer, epoch, sequence
    return None


_WRITER = re.compile(r"producer (-?\d+) epoch (-?\d+) sequence (-?\d+)")


def _why(_group: Group, found: Anomaly) -> str:
    """Tell who wrote the value twice, from (producer, epoch, sequence) of its copies."""
    writers = [_WRITER.fullmatch(each) for each in texts_in(found, "writers")]
    known = [tuple(map(int, each.groups())) for each in writers if each]
    if not known or len(known) < len(writers):
        return "no replica's log shows the producer of each copy, so who wrote it twice is unknown"
    producers, epochs, sequences = (set(column) for column in zip(*known, strict=True))
    if producers == {NONE} or Excuse.RETRIES in found.excuses:
        return (
            "its producer is not idempotent: the client sent it again, as it does without an"
            " answer, and a broker cannot recognise that"
        )
    if len(producers) > 1 or len(epochs) > 1:
        which = "ids" if len(producers) > 1 else "epochs"
        return (
            f"the copies have different producer {which}: the client sent it again, and brokers"
            " recognise a repetition within one epoch of one id only"
        )
    if len(sequences) > 1:
        return "the client gave it two sequence numbers, so brokers took it for two messages"
    if 0 <= number_in(found, "copies_left") <= 1:
        return (
            "all copies have one producer, epoch and sequence number, and the last leader's log"
            " holds one at most: the other was cut off after it was read, and sent again"
        )
    return (
        "all copies have one producer, epoch and sequence number, so a broker stored again what"
        " it had to recognise as stored"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="value is in the log twice",
        many="values are in the log twice",
        means="One value that was sent once lies at two or more offsets.",
        promise="What an idempotent producer sends once is stored once.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "leadership", "replica_records", "replica_states"),
    check=_check,
    promise=Promise.ONCE,
    compares="values and their offsets, read or in the last leader's log",
)
