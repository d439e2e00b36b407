"""inconsistent-offsets: clients got two values for one offset of a partition.

Definition: among acknowledgements and polls, one offset has two values.

Why it proves something: an offset of a log is written once. If two answers differ, the log had two
versions, and clients saw both.

What would not prove it: a difference between two replicas, at an offset that clients neither read
nor wrote (`log-divergence` may report it). With acks 0 or 1, an acknowledged record may be
truncated, and another record may get its offset. The difference is allowed if readers got at most
one value at the offset, and one of the values may have been truncated. A value may have been
truncated if a replica truncated the offset, or if the last leader's final log lacks the value. If
the system hides truncations, `weak_acks.py` decides.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.acknowledger import Acked, acknowledgers, read_whole
from checkers.causes import cause_of_loss
from checkers.client_reasons import (
    LIBRARY,
    answerer,
    doubt,
    hold,
    nodes_at,
    offset_of,
    record_at,
    sent,
    server,
)
from checkers.columns import (
    NEVER,
    NONE,
    Ints,
    Mask,
    equal,
    first_match,
    ints,
    repeated,
    select,
    unique_pairs,
    within,
)
from checkers.cuts import cut_off
from checkers.disk_losses import all_lost
from checkers.dropped import known_span, lost_in_span
from checkers.excuses import TAKES_ACKNOWLEDGED, strength
from checkers.findings import (
    anomaly_at,
    could_not_show,
    findings,
    number_in,
    numbers_in,
    texts_in,
)
from checkers.group import Group
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
from checkers.reads import others, reads_of
from checkers.symptoms import OF_READERS, OF_WRITERS
from checkers.unclean_elections import took_value_at
from checkers.used_sequences import labels_of, reason_of
from checkers.weak_acks import HiddenCuts, hidden_cuts
from checkers.witnesses import by_node, truncations_of
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "inconsistent-offsets"


def _acknowledged(group: Group) -> tuple[Ints, Ints]:
    sends = group.table("sends")
    acked = select(sends, equal(sends, "acked", True))  # noqa: FBT003 - a value
    return ints(acked, "offset"), ints(acked, "value")


def _polled(group: Group) -> tuple[Ints, Ints]:
    polls = group.table("polls")
    return ints(polls, "offset"), ints(polls, "value")


def _check(group: Group) -> Findings:
    (sent_at, sent), (read_at, read) = _acknowledged(group), _polled(group)
    at, values = np.concatenate([sent_at, read_at]), np.concatenate([sent, read])
    real = (at >= 0) & (values >= 0)
    offsets, distinct = unique_pairs(at[real], values[real])
    doubled = repeated(offsets)
    begin, end = np.searchsorted(offsets, doubled), np.searchsorted(offsets, doubled, "right")
    excused = _excused_by_acks(group, offsets, distinct)
    items = [
        (int(offset), distinct[first:last].tolist(), _any_of(excused, first, last))
        for offset, first, last in zip(doubled, begin, end, strict=True)
    ]
    found = findings(
        len(repeated(np.sort(at[real]))),
        items,
        lambda item: _describe(group, item[0], item[1]),
        lambda item: _labels(group, item[0], item[1], item[2]),
    )
    why = "no offset was reported twice, so an offset with two values could not be detected"
    return could_not_show(found, why, given=bool(len(offsets)))


def _read_values(group: Group, offset: int) -> list[int]:
    at, values = _polled(group)
    return sorted(set(values[(at == offset) & (values >= 0)].tolist()))


def _excused_by_acks(group: Group, offsets: Ints, values: Ints) -> HiddenCuts:
    """Return the pairs of offset and value that may have been truncated because of acks 0 or 1.

    A pair counts only if readers saw at most one value at the offset.
    """
    weak = _weak(group, values)
    if not weak.any():
        return HiddenCuts(may_be=weak, unknown=weak)
    at, read = _polled(group)
    real = (at >= 0) & (read >= 0)
    read_twice = repeated(unique_pairs(at[real], read[real])[0])
    weak = np.asarray(weak & ~within(offsets, read_twice), dtype=np.bool_)
    told, log = group.truncated(offsets), group.final_log
    if not group.shows_cuts:
        cut = hidden_cuts(group, _sent_ns(group, values))
        return HiddenCuts(may_be=weak & (told | cut.may_be), unknown=weak & ~told & cut.unknown)
    gone = ~within(values, read if log is None else log.values)
    return HiddenCuts(may_be=weak & (gone | told), unknown=np.zeros_like(weak))


def _sent_ns(group: Group, values: Ints) -> Ints:
    """Return the time at which each value was sent; -1 if no client sent the value."""
    sends = group.table("sends")
    begun = np.append(ints(sends, "invoke_ns"), NONE)
    return np.asarray(begun[first_match(values, ints(sends, "value"))], dtype=np.int64)


def _any_of(excused: HiddenCuts, first: int, last: int) -> Labels:
    """Return the excuse or the broken premise of an offset: one of its values is enough."""
    if excused.may_be[first:last].any():
        return (Excuse.ACKS.value,), ()
    return (), (Premise.SHOWN_CAUSE.value,) * bool(excused.unknown[first:last].any())


def _weak(group: Group, values: Ints) -> Mask:
    """Return a mask of values sent with acks 0 or 1. In a scenario, sends may differ in acks."""
    if group.facts.weak_acks:
        return np.ones(len(values), dtype=np.bool_)
    sends = group.table("sends")
    weak = within(values, ints(sends, "value")[equal(sends, "acks", "0", "1")])
    return np.asarray(weak, dtype=np.bool_)


def _labels(group: Group, offset: int, values: list[int], by_acks: Labels) -> Labels:
    excuses = list(by_acks[0])
    told = [known_span(group, offset, value) for value in values]
    spans = [each if each[1] >= 0 else (NEVER, NEVER) for each in told]
    if took_value_at(group, offset, values, missed_ns=max(at for _, at in spans)):
        excuses.append(Excuse.UNCLEAN.value)
    if group.facts.disk_losses:
        # It is unknown in which order values of overlapping spans were written.
        orders = sorted(spans), sorted(spans, key=lambda span: span[1])
        excuses += max((_lost_in_turn(group, offset, each) for each in orders), key=strength)
    again = labels_of(group, values)
    return (*excuses, *again[0]), tuple(dict.fromkeys([*by_acks[1], *again[1]]))


def _lost_in_turn(group: Group, offset: int, spans: list[tuple[int, int]]) -> tuple[str, ...]:
    """Return the disk excuses, if each value was written after the loss of the one before."""
    lost = [
        lost_in_span(group, offset, since, at, missed_ns=later)
        for (since, at), (_, later) in pairwise(spans)
        if at < NEVER
    ]
    return all_lost(lost)


def _describe(group: Group, offset: int, values: list[int]) -> Anomaly:
    sends, polls = group.table("sends"), group.table("polls")
    sent_here = equal(sends, "acked", True) & (ints(sends, "offset") == offset)  # noqa: FBT003 - a value
    acks, reads = select(sends, sent_here), select(polls, ints(polls, "offset") == offset)
    told = [f"{group.facts.name_of(value)} ({_who(value, acks, reads)})" for value in values]
    cuts = truncations_of(group, offset)
    there = [cut for cut in cuts if cut.from_offset == offset]
    anomaly = anomaly_at(
        group,
        NAME,
        sentence="; ".join(
            [
                f"offset {offset} of {group.place} held {' and '.join(told)}",
                *by_node(there or cuts, offset),
            ]
        ),
        evidence={
            "offset": offset,
            "values": values,
            "acknowledged_values": sorted(set(ints(acks, "value").tolist())),
            "polled_values": _read_values(group, offset),
            "send_op_ids": ints(acks, "op_id").tolist()[:10],
            "poll_op_ids": ints(reads, "op_id").tolist()[:10],
            "truncations": [cut.text(offset) for cut in cuts],
        },
        offset=offset,
    )
    return replace(anomaly, cause=_cause(group, acks))


def _cause(group: Group, acks: pa.Table) -> str:
    """Explain the loss, if the last leader's log lacks exactly one of the acknowledged values."""
    log = group.final_log
    if log is None or not log.whole or not read_whole(group, log.node):
        return ""
    lost = select(acks, ~within(ints(acks, "value"), log.values))
    if lost.num_rows != 1:
        return ""
    value, offset, sent_ns, acked_ns = (
        int(ints(lost, name)[0]) for name in ("value", "offset", "invoke_ns", "complete_ns")
    )
    if not doubt(group, offset, sent_ns):
        return ""  # The value was never at the offset, so no event can have removed it.
    weak = bool(equal(lost, "acks", "1")[0])
    record = Acked(value=value, offset=offset, sent_ns=sent_ns, acked_ns=acked_ns, weak=weak)
    what = group.facts.name_of(value)
    return cause_of_loss(group, record, acknowledgers(group, record), what=what)


def _who(value: int, acks: pa.Table, reads: pa.Table) -> str:
    said = [("acknowledged by op", acks), ("polled by op", reads)]
    parts = []
    for words, rows in said:
        ops = ints(rows, "op_id")[ints(rows, "value") == value]
        if len(ops):
            parts.append(f"{words} {ops[0]}")
    return ", ".join(parts)


def _why(group: Group, found: Anomaly) -> str:
    """Explain which value is in the logs, and which broker or client named the other value."""
    offset, values = number_in(found, "offset"), numbers_in(found, "values")
    standing = [value for value in values if nodes_at(group, offset, value)]
    strays = [value for value in values if value not in standing]
    cuts = texts_in(found, "truncations")
    for value in strays:
        if again := reason_of(group, value):
            return f"{group.facts.name_of(value)}: {again}"
    if len(standing) == 1 and strays:
        return _stray(group, found, standing[0], strays[0])
    if cuts:
        return f"a log was truncated there and written again: {cuts[0]}"
    if len(standing) > 1:
        both = "; ".join(
            f"{hold(nodes_at(group, offset, each))} {group.facts.name_of(each)}"
            for each in standing
        )
        return f"the logs differ there: {both}"
    return (
        "no log that was read holds either value there, and no truncation was observed: an answer"
        " had a wrong offset, or a truncation was not recorded"
    )


def _stray(group: Group, found: Anomaly, value: int, stray: int) -> str:
    """Explain which broker or client named a value that the logs do not hold at the offset."""
    offset, name = number_in(found, "offset"), group.facts.name_of(stray)
    mine, reads = sent(group, stray), reads_of(group, offset, [stray])
    acked = stray in numbers_in(found, "acknowledged_values")
    told = []
    if acked and mine:
        by = answerer(group, mine.sent_ns, mine.acked_ns)
        told.append(f"{by} or {LIBRARY} acknowledged {name} there")
    if reads:
        by = server(group, stray, reads)
        who = f"op {min(reads)}" if len(reads) == 1 else f"{len(reads)} reads"
        told.append(f"{by} or the client returned it only to {who}")
    holders = f"{hold(nodes_at(group, offset, value))} {group.facts.name_of(value)} there"
    elsewhere, home = offset_of(group, stray), group.facts.home_of(stray)
    nowhere = f", which belongs to {home}, nowhere" if home not in {"", group.place} else " nowhere"
    stands = f", and {name}{f' at {elsewhere}' if elsewhere >= 0 else nowhere}"
    right = others(reads_of(group, offset, [value]), NONE, what="that")
    right = f", which {right.replace('other ', '').replace(' that', '')}" if right else ""
    if why_not := doubt(group, offset, mine.sent_ns if mine else NONE):
        gone = cut_off(group, record_at(group, stray, offset))
        gone = gone or f"may have been truncated: {why_not}"
        return f"{', and '.join(told)}; {holders}{stands}; it {gone}"
    return Proved(f"{', and '.join(told)}: {holders}{right}{stands}; no log was truncated there")


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="offset held two values",
        many="offsets held two values",
        means="Clients got two different values at one offset of a partition.",
        promise="An offset of a partition always holds the same record.",
        explains={**OF_WRITERS, **OF_READERS},
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "leadership", "replica_records", "replica_states", "truncations",
            "assignments"),
    check=_check,
    promise=Promise.LOG,
    compares="offsets that clients got at least twice",
    chapter=Chapter.CLIENTS,
    of_histories=True,
    looks_for="one offset with two values, among acknowledgements and polls",
    meanwhile=Proof.TOLD,
    excuses=TAKES_ACKNOWLEDGED | {Excuse.SEQUENCE},
)  # fmt: skip
