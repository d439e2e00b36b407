"""torn-transaction: final reads show only a part of a committed transaction.

Definition: read_committed final reads return some records of a certainly committed transaction, and
leave out other records of this transaction. The left-out records are below the last stable offset.
The records may be in different partitions. Only complete final reads count. Such a read had to
reach a certain end offset. Records at or above this offset do not count.

Why it proves something: a coordinator decides once for all partitions. Each record below the last
stable offset is either committed or aborted. A reader that reached the last stable offset must have
received every committed record. So a part of the transaction was committed, and another part was
dropped or aborted.

What would not prove it:

- A record above the last stable offset. The marker of the record's transaction may not be written
  yet.
- A record below the log's start, or a record with an unknown offset.
- A record that a log cleaner may have removed.
- A transaction of unknown outcome, if no read_committed reader received a record of it.
- A read_uncommitted read, which also returns open and aborted records.

The anomaly is allowed if an unclean election, or a loss on the disks of all replicas, may have
removed the transaction's marker. It is also allowed if such a loss may have removed the
coordinator's decision before all markers were written.

A record missing from the last leader's log is reported as `lost-write` only. A record that is in
the log, but that a final read skipped, is reported by both checks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.cleaned import taken
from checkers.client_reasons import final_server, log_with, passed_over
from checkers.columns import (
    NONE,
    Ints,
    Mask,
    equal,
    first_match,
    ints,
    present,
    repeat,
    repeated,
    runs_of,
    schema_of,
    select,
    take,
    texts,
    within,
)
from checkers.dropped import marker_lost
from checkers.excuses import TAKES_RECORDS
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in
from checkers.group import Group
from checkers.group_reasons import Ends, ends_of
from checkers.markers import marker_behind
from checkers.positions import ok_inner_poll_steps, poll_steps
from checkers.protocol import (
    Chapter,
    Checker,
    Derivation,
    During,
    Findings,
    Labels,
    Premise,
    Promise,
    Scope,
)
from checkers.transactions import READ_COMMITTED
from results.record.terms import AnomalyClass, Phase
from results.record.verdict import Anomaly, Words

NAME = "torn-transaction"
SHARES = schema_of(
    op_id=pa.int64(),
    value=pa.int64(),
    offset=pa.int64(),
    shown=pa.bool_(),
    place=pa.string(),
    excuse=pa.string(),
    given=pa.bool_(),
    producer=pa.int64(),
    marker=pa.int64(),
    marker_hash=pa.int64(),
    leader=pa.string(),
    server=pa.string(),
    unended=pa.string(),
    passed=pa.string(),
)
"""The records of certainly committed transactions that final reads returned, or had to return.

- `given`: whether any read_committed reader received the record.
- `producer`, `marker`, `marker_hash`: the record's producer id, and the offset and the hash of the
  marker that ends the record's transaction. All three are from the last leader's log. -1 if that
  log does not have them.
- `leader`: the last leader's node, empty if unknown.
- `server`: a phrase with the brokers that may have answered the final reads, or "".
- `unended`: a phrase if the next marker belongs to another transaction, because a record of that
  transaction lies before the marker. Otherwise "".
- `passed`: a phrase that names the first op that missed the record before the final reads, and the
  broker that answered this op. Otherwise "".
"""
_NAMED = 3
_MOST_TOLD = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Torn:
    """A transaction of which final reads returned only a part."""

    op_id: int
    shown: tuple[str, ...]
    hidden: tuple[str, ...]
    values: tuple[int, ...]
    offsets: tuple[int, ...]
    places: tuple[str, ...]
    excuses: tuple[str, ...]


def shares(group: Group) -> pa.Table:
    """Return a partition's records of certainly committed transactions, as rows of `SHARES`."""
    sends = select(group.committed, present(group.committed, "txn_id"))
    polls = group.final_polls
    polls = select(polls, equal(polls, "isolation", READ_COMMITTED))
    values, offsets = ints(sends, "value"), _offsets(group, sends)
    shown = within(values, ints(polls, "value"))
    told = shown | (_to_be_shown(group, offsets) & ~_gone(group, values))
    given = group.table("polls")
    given = select(given, equal(given, "isolation", READ_COMMITTED))
    ends = ends_of(group.final_log, offsets[told])
    leader = group.leader.node if group.leader else ""
    columns = {
        "given": within(values, ints(given, "value"))[told],
        "producer": ends.producers,
        "marker": ends.markers,
        "marker_hash": ends.hashes,
        "leader": repeat(leader, int(told.sum())),
        "server": repeat(final_server(group) if (told & ~shown).any() else "", int(told.sum())),
        "unended": _unended(group, select(sends, told), ends),
        "passed": [
            "" if seen else _passed(group, value, offset)
            for seen, value, offset in zip(
                *(each[told].tolist() for each in (shown, values, offsets)), strict=True
            )
        ],
        "op_id": ints(sends, "op_id")[told],
        "value": values[told],
        "offset": offsets[told],
        "shown": shown[told],
        "place": repeat(group.place, int(told.sum())),
        "excuse": [
            "" if seen else " ".join(marker_lost(group, sends.slice(row, 1)))
            for row, seen in zip(np.flatnonzero(told).tolist(), shown[told].tolist(), strict=True)
        ],
    }
    return pa.table(columns, schema=SHARES)


def _unended(group: Group, sends: pa.Table, ends: Ends) -> list[str]:
    """Return, for each record, a phrase if no marker belongs to the record; otherwise "".

    No marker belongs to a record if a record of another op lies between this record and the next
    marker.
    """
    found, log, all_sends = [""] * sends.num_rows, group.final_log, group.table("sends")
    if log is None or not sends.num_rows:
        return found
    rows = np.flatnonzero(log.controls != 1)
    known, owners = np.unique(log.producer_ids[rows], return_inverse=True)
    width = int(log.offsets.max(initial=0)) + 1
    keys = owners * width + log.offsets[rows]
    order = np.argsort(keys, kind="stable")
    owner = first_match(ends.producers, known)
    last = np.searchsorted(keys[order], owner * width + ends.markers) - 1
    values = np.append(log.values[rows][order], NONE)[last]
    ops = np.append(ints(all_sends, "op_id"), NONE)[first_match(values, ints(all_sends, "value"))]
    foreign = (ends.markers >= 0) & (ops >= 0) & (ops != ints(sends, "op_id"))
    mine, offsets = ints(sends, "value"), _offsets(group, sends)
    for row in np.flatnonzero(foreign)[:_MOST_TOLD].tolist():
        found[row] = marker_behind(group, int(offsets[row]), int(mine[row]))
    return found


def _passed(group: Group, value: int, offset: int) -> str:
    """Return a phrase with the first op that skipped a record, and the broker that served the op.

    Only read_committed readers before the final reads count. The phrase is "" if no such reader
    skipped the record, or if the broker is unknown.
    """
    polls = group.table("polls")
    early = equal(polls, "isolation", READ_COMMITTED) & ~equal(polls, "phase", Phase.FINAL.value)
    at, ended_ns = ints(polls, "offset"), ints(polls, "complete_ns")
    rows = np.concatenate([
        steps.at[(steps.after < offset) & (offset < at[steps.at]) & early[steps.at]]
        for steps in (group.view(poll_steps), group.view(ok_inner_poll_steps))
    ])  # fmt: skip
    found = log_with(group, offset, value)
    if not len(rows) or found is None:
        return ""
    first = rows[ended_ns[rows].argmin()]
    op_id, behind = int(ints(polls, "op_id")[first]), int(ints(polls, "value")[first])
    by = passed_over(group, [value], op_id, behind=behind, epoch=int(found[0].epochs[found[1]]))
    return f"op {op_id} already lacked it, answered by {by.rstrip(',')}" if by != "a broker" else ""


def _offsets(group: Group, sends: pa.Table) -> Ints:
    """Return each record's offset: in the last leader's log if possible, else as acknowledged."""
    acked, log = ints(sends, "offset"), group.final_log
    if log is None:
        return acked
    at = first_match(ints(sends, "value"), log.values)
    return np.where(at >= 0, np.append(log.offsets, NONE)[at], acked)


def _to_be_shown(group: Group, offsets: Ints) -> Mask:
    reads = group.table("final_reads")
    complete = equal(reads, "isolation", READ_COMMITTED) & equal(reads, "complete", True)  # noqa: FBT003 - a value
    ends = ints(reads, "target_end")[complete]
    end = int(ends.min()) if len(ends) else NONE
    return (offsets >= group.log_start) & (offsets < end)


def _gone(group: Group, values: Ints) -> Mask:
    log, cleaned = group.final_log, np.zeros(len(values), dtype=np.bool_)
    if group.facts.compacted:
        cleaned = within(values, taken(group))
    return cleaned if log is None else cleaned | ~within(values, log.values)


def _torn(table: pa.Table) -> list[Torn]:
    order = np.argsort(ints(table, "op_id"), kind="stable")
    ops, shown = ints(table, "op_id")[order], ints(table, "shown")[order]
    cuts = runs_of(ops)
    some = np.add.reduceat(shown, cuts[:-1])
    halves = np.flatnonzero(some % np.diff(cuts))  # Some of its records, but not all.
    return [
        _one(table, int(ops[cuts[at]]), order[cuts[at] : cuts[at + 1]]) for at in halves.tolist()
    ]


def _one(table: pa.Table, op_id: int, rows: Ints) -> Torn:
    mine = take(table, rows)
    values, offsets = ints(mine, "value").tolist(), ints(mine, "offset").tolist()
    shown, places = ints(mine, "shown").tolist(), texts(mine, "place")
    records = sorted(zip(shown, places, offsets, values, strict=True))
    words = [
        (seen, f"value {value} at offset {at} of {place}") for seen, place, at, value in records
    ]
    hidden = [each for each in records if not each[0]]
    return Torn(
        op_id=op_id,
        shown=tuple(text for seen, text in words if seen),
        hidden=tuple(text for seen, text in words if not seen),
        values=tuple(each[3] for each in hidden),
        offsets=tuple(each[2] for each in hidden),
        places=tuple(each[1] for each in hidden),
        excuses=_common(excuse for excuse, seen in zip(texts(mine, "excuse"), shown, strict=True)
                        if not seen),
    )  # fmt: skip


def _common(excuses: Iterable[str]) -> tuple[str, ...]:
    """Return the excuses (reasons to allow) that apply to every record that was not returned."""
    return tuple(sorted(frozenset.intersection(*(frozenset(words.split()) for words in excuses))))


def _check(group: Group) -> Findings:
    table = group.derived["shares"]
    found = findings(
        len(repeated(np.sort(ints(table, "op_id")))),
        _torn(table),
        lambda torn: _describe(group, torn),
        lambda torn: _labels(group.facts, torn),
    )
    why = (
        "no committed transaction had two readable records, so a partly read transaction could"
        " not be detected"
    )
    return could_not_show(found, why, given=bool(table.num_rows))


def _labels(facts: RunFacts, torn: Torn) -> Labels:
    premises = (
        (Premise.WHOLE_RECORD, facts.cut_streams),
        (Premise.RECOVERED, not facts.recovered),
    )
    return torn.excuses, tuple(premise.value for premise, broken in premises if broken)


def _describe(group: Group, torn: Torn) -> Anomaly:
    return anomaly_at(
        group,
        NAME,
        sentence=f"the transaction of op {torn.op_id} committed, and final reads show"
        f" {_first(torn.shown)}, but not {_first(torn.hidden)}, below the last stable offset",
        evidence={
            "op_id": torn.op_id,
            "shown": list(torn.shown[:_NAMED]),
            "count_of_shown": len(torn.shown),
            "hidden_values": list(torn.values),
            "hidden_offsets": list(torn.offsets),
            "hidden_places": list(torn.places),
        },
    )


def _first(texts_of: tuple[str, ...]) -> str:
    more = len(texts_of) - _NAMED
    return ", ".join(texts_of[:_NAMED]) + (f" (and {more} more)" if more > 0 else "")


def _applies(facts: RunFacts) -> bool:
    return facts.plan.transactional and facts.keeps_known


SHARES_DERIVATION = Derivation(
    name="shares",
    schema=SHARES,
    tables=(
        "sends",
        "polls",
        "assignments",
        "final_reads",
        "leadership",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    derive=shares,
    applies=_applies,
)


def _why(group: Group, found: Anomaly) -> str:
    table = group.derived["shares"]
    mine = select(table, ints(table, "op_id") == number_in(found, "op_id")).to_pylist()
    shown, hidden = ([each for each in mine if each["shown"] is seen] for seen in (True, False))
    if not hidden:
        return (
            "its client got the answer that it had committed, but readers did not get all of"
            " its records"
        )
    first = hidden[0]
    place, node = first["place"], first["leader"]
    given = any(each["given"] for each in hidden)
    never = "" if given else ", and no read_committed reader ever got it"
    broker, passed = (
        first[name].replace("leader of", f"leader of {place} in") for name in ("server", "passed")
    )
    passed = f"; {passed}" * bool(passed)
    left = (
        f"final reads skipped the record at offset {first['offset']}{never}: {broker} lists it as"
        f" aborted, or the reader drops it{passed}"
    )
    sibling = next((each for each in shown if _same_end(each, first)), None)
    if sibling:
        return (
            f"one marker, at offset {first['marker']} of {place}, ends both the record at offset"
            f" {sibling['offset']}, which was read, and the record at offset {first['offset']},"
            f" so both are committed; {left}"
        )
    unended = _without_marker(shown, first)
    if unended:
        return unended
    twin = next((each for each in shown if _same_marker(each, first)), None)
    if twin:
        return (
            f"the marker at offset {first['marker']} of {place} has the same hash as the marker"
            f" at offset {twin['marker']} of {twin['place']}: both commit; {left}"
        )
    if first["marker"] < 0:
        lacks = "no marker of its producer follows it"
        what = lacks if first["producer"] >= 0 else "no log that was read has the record"
        by = f", according to the log of {node}" if node else ""
        return f"in {place}{by}, {what}, although another part was read"
    return (
        f"each part has its marker (the marker of {place} is at offset {first['marker']}), but"
        f" readers got only one part{never}; the run's record does not show whether a marker"
        " commits or aborts"
    )


def _without_marker(shown: list[dict[str, Any]], hidden: dict[str, Any]) -> str:
    """Return a clause about a record without a marker; "" if each has a marker of its own."""
    place = hidden["place"]
    if hidden["unended"].startswith("no marker"):
        ended = next((each for each in shown if each["marker"] >= 0 and not each["unended"]), None)
        own = (
            f", although in {ended['place']} its marker is at offset {ended['marker']}"
            if ended
            else ""
        )
        return f"in {place} {hidden['unended']}{own}"
    late = next((each for each in shown if each["unended"].startswith("no marker")), None)
    if late is None or hidden["marker"] < 0:
        return ""
    return (
        f"in {late['place']}, where the record was read, {late['unended']}, although in {place} its"
        f" marker is at offset {hidden['marker']}"
    )


def _same_end(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether one marker in one partition ends the transaction of two records."""
    names = ("place", "producer", "marker")
    return bool(one["marker"] >= 0) and all(one[name] == other[name] for name in names)


def _same_marker(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether the markers of two records, in two partitions, have the same content."""
    known = min(one["marker"], other["marker"]) >= 0
    return known and bool(one["marker_hash"] == other["marker_hash"])


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="committed transaction was read in part",
        many="committed transactions were read in part",
        means="Final reads returned some records of a committed transaction, but not all.",
        promise="A committed transaction is read as a whole, or not at all.",
        explains={
            "unseen": "no reader gets the missing records of the transaction",
            **dict.fromkeys(
                ("poll-skip", "int-poll-skip"),
                "readers skip the missing records of the transaction",
            ),
        },
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("shares",),
    check=_check,
    scope=Scope.ACROSS,
    applies=_applies,
    promise=Promise.TRANSACTIONS,
    compares="committed transactions with two records or more, as final reads show them",
    chapter=Chapter.TRANSACTIONS,
    looks_for="the records of each certainly committed transaction, in all partitions."
    " Read_committed final reads returned some of them but not others, although these"
    " are below the end that a complete final read had to reach",
    waits="a transaction may be read in part until its last marker is written",
    excuses=TAKES_RECORDS,
    during=During.AT_END,
)
