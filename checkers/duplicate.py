"""duplicate: one value is at two or more offsets of a partition.

Definition: among polls and the leader's final log, one value has two or more offsets.

Why it proves something: the workload sends each value only once. With an idempotent producer, the
broker must recognise a retry by (producer id, epoch, sequence), and keep one copy. The evidence
gives these three numbers for each copy. If one log has two copies with equal numbers, the broker is
at fault. If the epochs differ, the client itself may have sent the value again.

What idempotence does not promise: without transactions, an idempotent producer may ask for a new
epoch or a new id. Then the producer may resend all unacknowledged messages. librdkafka does so
after messages timed out. librdkafka also does so after some OUT_OF_ORDER_SEQUENCE_NUMBER errors
during a leader change (librdkafka#4953). Brokers recognise retries only within one epoch (KIP-98,
KIP-360).

Such a copy gets the label `new-producer-epoch` under two conditions. First, every copy has its own
producer id or epoch, and later copies of one producer id have later epochs, because brokers then
refuse an older epoch. Second, no copy except the last was acknowledged, because a client resends
only messages that got no answer. In a transaction this label is never given, because the
coordinator fences the older epoch.

Such copies are allowed only if the client may have missed the answer because of a fault, an
election, a restart, or a sleeping machine. In a quiet period, the cause is unknown, so the anomaly
is reported but not trusted. The anomaly is also not trusted if logs cannot be read, or if a copy
was cleaned away and no remaining record shows its epoch (`resent`).

What would not prove it: retries without idempotence may write twice by design (allowed). If a value
is polled twice at one offset, that is only a second read. A value that the harness sent twice is
reported as `malformed-history`. After an unclean election, a copy may be read, truncated, and sent
again to the new leader, which cannot know the first copy. That is allowed if the final log has at
most one copy. (For example, on 4.3.1 a reader got the value at offset 292, and the leader from
outside the ISR stored the value at 296.) The same holds after a loss on the disks of all replicas.
"""

from collections.abc import Sequence

import numpy as np

from checkers.changes import seemed_quiet
from checkers.client_reasons import (
    LIBRARY,
    doubt,
    held_at,
    leader_of,
    log_with,
    sent,
    server,
    written_by,
)
from checkers.columns import NEVER, NONE, Ints, equal, ints, present, repeated, stack, unique_pairs
from checkers.disk_losses import all_lost, lost_on_disks
from checkers.excuses import TAKES_RECORDS, WRITES_TWICE
from checkers.facts import CRASH, FINAL
from checkers.findings import anomaly_at, findings, number_in, numbers_in, seconds
from checkers.group import Group, ReplicaLog
from checkers.protocol import (
    Chapter,
    Checker,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
    Proof,
    Proved,
)
from checkers.reads import reads_of
from checkers.resent import in_epochs_of_their_own
from checkers.unclean_elections import took_value_at
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "duplicate"


def copies(group: Group) -> tuple[Ints, Ints]:
    """Return the distinct pairs of value and offset among polls and the leader's final log."""
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
    other_epochs = _sent_in_other_epochs(group, value, offsets)
    told = group.shows_logs and not _unknown(group, value, offsets)
    if other_epochs and told:
        again.append(Excuse.NEW_EPOCH.value)
    doubtful = bool(again) and _sent_in_quiet(group, value)
    excuses = [] if doubtful else again
    broken = [Premise.KNOWN_CAUSE.value] if doubtful else []
    if other_epochs and not told:  # A broker that stores one epoch twice gives the same rows.
        broken.append(Premise.SHOWN_CAUSE.value)
    if _copies_left(group, value, offsets) <= 1:
        excuses += [Excuse.UNCLEAN.value] if _dropped_uncleanly(group, value, offsets) else []
        excuses += _lost_copies(group, value, offsets)
    return tuple(excuses), tuple(broken)


def _sent_in_quiet(group: Group, value: int) -> bool:
    """Return whether a value was sent in a quiet time, so that no event explains a lost answer."""
    sends = group.table("sends")
    mine = ints(sends, "value") == value
    begun, ended = (ints(sends, name)[mine].tolist() for name in ("invoke_ns", "complete_ns"))
    spans = [(start, end if end >= 0 else NEVER) for start, end in zip(begun, ended, strict=True)]
    return bool(begun) and all(seemed_quiet(group, *span) for span in spans)


def _sent_in_other_epochs(group: Group, value: int, offsets: list[int]) -> bool:
    """Return whether an idempotent client may have resent an unanswered value in a later epoch.

    If logs are not shown or not read, or a copy was cleaned away, the epochs are unknown. Then a
    resend is possible.
    """
    if not group.facts.idempotent or _in_transaction(group, value):
        return False
    newest: dict[int, int] = {}
    for offset in offsets if group.shows_logs else ():
        written = _written(group, value, offset)
        if written is None and (group.facts.compacted or _unread(group, offset)):
            continue
        if written is None:
            return False
        producer, epoch, _sequence = written
        if epoch <= newest.get(producer, NONE):
            return False
        newest[producer] = epoch
    return _acknowledged(group, value) <= {offsets[-1]}


def _in_transaction(group: Group, value: int) -> bool:
    """Return whether a value was sent in a transaction."""
    sends, plan = group.table("sends"), group.facts.plan
    if plan.transactional and not plan.keys:
        return True
    return bool((present(sends, "txn_id") & (ints(sends, "value") == value)).any())


def _unknown(group: Group, value: int, offsets: list[int]) -> bool:
    """Return whether a copy's epoch is unknown: it was cleaned away, or a log was not read.

    The result is false if a remaining record of the same writer shows the epochs.
    """
    hidden = [at for at in offsets if _written(group, value, at) is None]
    if not group.facts.compacted:
        return any(_unread(group, at) for at in hidden)
    if not hidden:
        return False
    rows = np.flatnonzero(ints(group.table("sends"), "value") == value).tolist()
    return not any(in_epochs_of_their_own(group, row, offsets) for row in rows)


def _unread(group: Group, offset: int) -> bool:
    """Return whether a replica's log that could not be read may have a record at an offset."""
    logs = group.logs.get(FINAL) or group.logs.get(CRASH, {})
    lacking = set(logs) & group.facts.unreadable_nodes
    short = any(log.read_end <= offset < log.end for log in logs.values())
    return len(logs) < group.members or bool(lacking) or short


def _acknowledged(group: Group, value: int) -> set[int]:
    """Return the offsets in a value's acknowledgements."""
    sends = group.table("sends")
    acked = equal(sends, "acked", True) & (ints(sends, "value") == value)  # noqa: FBT003 - a value
    return {offset for offset in ints(sends, "offset")[acked].tolist() if offset >= 0}


def _dropped_uncleanly(group: Group, value: int, offsets: list[int]) -> bool:
    """Return whether an unclean election can explain all copies that the final log lacks."""
    gone = [at for at in offsets if not _copies_left(group, value, [at])]
    return all(took_value_at(group, at, [value]) for at in gone)


def _lost_copies(group: Group, value: int, offsets: list[int]) -> tuple[str, ...]:
    """Return the disk-fault excuses for all copies that the leader's final log lacks."""
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
    if log is None and not group.shows_logs:
        polls = group.final_polls
        here = ints(polls, "offset")[ints(polls, "value") == value]
        return len({*offsets} & {*here.tolist()})
    if log is None:
        return len(offsets)  # Without a log, no copy is known to be missing.
    indices = [log.at(offset) for offset in offsets]
    return sum(index is not None and int(log.values[index]) == value for index in indices)


def _describe(group: Group, value: int, offsets: list[int]) -> Anomaly:
    written = [_writer(group, value, offset) for offset in offsets]
    at = " and ".join(str(offset) for offset in offsets)
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(value)} is at offsets {at} of {group.place}; written by"
        f" {'; '.join(written)}",
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
            return "a producer that no replica's log shows"


def _written(group: Group, value: int, offset: int) -> tuple[int, int, int] | None:
    """Return the producer id, epoch and sequence of a copy, from the latest log with this copy."""
    newest = sorted(group.logs, key=lambda name: (name in {FINAL, CRASH}, name), reverse=True)
    for snapshot in newest:
        for node in sorted(group.logs[snapshot]):
            log: ReplicaLog = group.logs[snapshot][node]
            index = log.at(offset)
            if index is not None and int(log.values[index]) == value:
                return written_by(log, index)
    return None


def _why(group: Group, found: Anomaly) -> str:
    """Explain which broker or client wrote a value twice, from the producer data of the copies."""
    value, offsets = number_in(found, "value"), numbers_in(found, "offsets")
    known = [_written(group, value, offset) for offset in offsets]
    written = [each for each in known if each is not None]
    if not offsets or len(written) < len(known):
        strange = [at for at, each in zip(offsets, known, strict=True) if each is None]
        return _only_read(group, value, strange)
    leaders = [_wrote(group, value, offset) for offset in offsets]
    quiet = "; no known fault or election can have caused the client to miss its answer" * (
        Premise.KNOWN_CAUSE.value in found.broken_premises
    )
    producers, epochs, sequences = (set(column) for column in zip(*written, strict=True))
    if producers == {NONE} or not group.facts.idempotent:
        return f"{_without_id(group, found, leaders[-1])}{quiet}"
    if len(producers) > 1 or len(epochs) > 1:
        return _in_epochs(written, leaders) or _sent_again(group, value, offsets, written)
    if len(sequences) > 1:
        first, *_, last = (each[2] for each in written)
        return (
            f"{LIBRARY} gave the message two sequence numbers, {first} and {last}, so brokers"
            " treated it as two messages"
        )
    both = _together(group, value, offsets)
    lone = 0 <= number_in(found, "copies_left") <= 1
    if lone or not both:
        alike = "all copies have the same producer, epoch and sequence number, and"
        held = "the last leader's log holds at most one of them: the other was"
        held = held if lone else "no log that was read holds two of them: one may have been"
        return f"{alike} {held} truncated after it was read, and sent again"
    return _stored_again(group, value, both, written[0])


def _together(group: Group, value: int, offsets: Sequence[int]) -> list[int]:
    """Return the offsets at which one log holds a value more than once; empty if no log does so."""
    for log in (
        group.final_log,
        *(log for copies in group.logs.values() for log in copies.values()),
    ):
        places = set(log.offsets[log.values == value].tolist()) if log is not None else set()
        if len(places.intersection(offsets)) > 1:
            return [each for each in offsets if each in places]
    return []


def _stored_again(
    group: Group, value: int, offsets: list[int], written: tuple[int, int, int]
) -> str:
    producer, _, sequence = written
    leaders = [_wrote(group, value, offset) for offset in offsets]
    mine = sent(group, value)
    acked = mine is not None and mine.acked and mine.offset == offsets[0]
    when = f" (acknowledged at {seconds(mine.acked_ns)})" if mine and acked else ""
    who = "it" if leaders[0] == leaders[-1] else leaders[0]
    return Proved(
        f"{leaders[-1]} stored sequence {sequence} of producer {producer} at offset"
        f" {offsets[-1]}, although {who} had stored that sequence at offset {offsets[0]}{when}"
    )


def _wrote(group: Group, value: int, offset: int) -> str:
    """Return the leader that wrote a copy, for a report."""
    found = log_with(group, offset, value)
    return leader_of(group, int(found[0].epochs[found[1]]) if found else NONE)


def _without_id(group: Group, found: Anomaly, leader: str) -> str:
    if Excuse.RETRIES in found.excuses:
        return (
            "its producer is not idempotent: the client sent the message again because it got no"
            " answer, and a broker cannot recognise such a copy"
        )
    if group.facts.idempotent:
        return (
            "the copies have no producer id, although this run's producers are idempotent: the"
            f" log does not show whether a client sent the message again, or {leader} wrote it"
            " twice"
        )
    return (
        "its producer is not idempotent, so the log does not show whether the client sent the"
        f" message again or {leader} wrote it twice"
    )


def _in_epochs(written: Sequence[tuple[int, int, int]], leaders: Sequence[str]) -> str:
    newest: dict[int, int] = {}
    for (producer, epoch, _), leader in zip(written, leaders, strict=True):
        if epoch < newest.get(producer, NONE):
            return (
                f"{leader} stored a record of epoch {epoch} of producer {producer} after a record"
                f" of its epoch {newest[producer]}, which fences the older epoch"
            )
        newest[producer] = epoch
    return ""


def _sent_again(
    group: Group, value: int, offsets: Sequence[int], written: Sequence[tuple[int, int, int]]
) -> str:
    """Explain why the copies have several producer ids, or several epochs of one id."""
    ids = [each[0] for each in written]
    which, numbers = (
        ("ids", ids) if len(set(ids)) > 1 else ("epochs", [each[1] for each in written])
    )
    told = (
        f"the copies have different producer {which} ({', '.join(map(str, numbers))}), so brokers"
        " treat them as different messages"
    )
    leader = _wrote(group, value, offsets[-1])
    early = _acknowledged(group, value) - {offsets[-1]}
    if early:
        return (
            f"{told}: {LIBRARY} sent the message again although it had been acknowledged at"
            f" offset {min(early)}, or {leader} made the copy at offset {offsets[-1]}"
        )
    if back := _went_back(group, value, offsets[-1]):
        made = (
            f"{leader} made the copy at offset {offsets[-1]}, or accepted a record that it had"
            " to refuse"
        )
        return f"{told}; {back}: {made}"
    on = _went_on(group, value, offsets[-1])
    who = (
        f"the client sent the message again{on}"
        if on
        else (f"the client sent the message again, or {leader} made")
    )
    made = "" if on else f" the copy at offset {offsets[-1]}"
    if _sent_in_quiet(group, value):
        return (
            f"{told}: {who}{made}, although no known fault or election can have caused the client"
            " to miss its answer"
        )
    return f"{told}: {who}{made}{', because it got no answer' * bool(on)}"


def _went_on(group: Group, value: int, offset: int) -> str:
    """Return a phrase if the producer of a copy continued with the same producer id and epoch."""
    found = log_with(group, offset, value)
    if found is None:
        return ""
    log, at = found
    producer, epoch, sequence = written_by(log, at)
    next_ = (log.producer_ids == producer) & (log.producer_epochs == epoch)
    next_ &= (log.sequences == sequence + 1) & (log.offsets > offset)
    places = log.offsets[next_]
    return (
        f" and continued with sequence {sequence + 1} at offset {int(places[0])}"
        if len(places)
        else ""
    )


def _went_back(group: Group, value: int, offset: int) -> str:
    """Return a phrase if the producer's next record after a copy has an older epoch."""
    found = log_with(group, offset, value)
    if found is None:
        return ""
    log, at = found
    producer, epoch, _ = written_by(log, at)
    later = np.flatnonzero((log.producer_ids == producer) & (log.offsets > offset))[:1]
    if producer < 0 or not len(later) or not 0 <= log.producer_epochs[later[0]] < epoch:
        return ""
    return (
        f"at offset {int(log.offsets[later[0]])} the producer continues in epoch"
        f" {int(log.producer_epochs[later[0]])}, which its epoch {epoch} fences"
    )


def _only_read(group: Group, value: int, offsets: list[int]) -> str:
    """Explain why a value was read at offsets at which no log holds this value."""
    if not offsets:
        return "no replica's log shows which broker wrote the value twice"
    offset, mine = offsets[0], sent(group, value)
    reads = reads_of(group, offset, [value])
    instead = held_at(group, offset)
    why_not = doubt(group, offset, mine.sent_ns if mine else NONE)
    if why_not or not (instead and reads):
        return (
            f"no log that was read holds the value at offset {offset}, so the run's record does"
            " not show which broker wrote it"
        ) + (f" there; {why_not}" if why_not else " there")
    who = f"op {min(reads)}" if len(reads) == 1 else f"{len(reads)} reads"
    return Proved(
        f"{server(group, value, reads)} or the client returned it to {who} at offset {offset},"
        f" where the logs hold {instead}; no log was truncated there"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="value is in the log twice",
        many="values are in the log twice",
        means="One value that was sent once is at two or more offsets.",
        promise="A message that an idempotent producer sends once is stored once.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=(
        "sends",
        "polls",
        "assignments",
        "leadership",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    check=_check,
    promise=Promise.ONCE,
    compares="values and their offsets, read or in the last leader's log",
    chapter=Chapter.CLIENTS,
    of_histories=True,
    looks_for="one value at two or more offsets, among polls and the last leader's log",
    meanwhile=Proof.TOLD,
    excuses=TAKES_RECORDS | WRITES_TWICE,
)
