"""Why transactions hang, are torn, or are read early: each clause, and what unsays it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from checkers import (
    hanging_transaction,
    precommitted_read,
    torn_transaction,
)
from checkers.cycles import CHECKERS as CYCLES
from checkers.dependencies import DEPENDENCIES, WR, dependencies, participants
from checkers.facts import RunFacts
from checkers.group import Group, ReplicaLog
from checkers.group_reasons import ends_of
from checkers.markers import marker_behind
from checkers.protocol import Proved
from checkers.reigns import GROUPS, TRANSACTIONS, Reign
from results.record.keys import COMMIT_MARKER_KEY, key_number
from results.record.tables import TABLES
from results.record.terms import Judge
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    final_read,
    found,
    group,
    leads,
    log,
    read,
    reason,
    state,
)
from tests.checkers.test_reigns import reign

OF_TXNS: Row = {"workload": "txn", "transaction_timeout_s": 9}


# Markers


def marker(node: str, offset: int, *, producer: int = 1, content: int = 77) -> Row:
    return {"snapshot": "final", "node": node, "offset": offset, "leader_epoch": 0, "value": None,
            "record_hash": content, "producer_id": producer, "producer_epoch": 0, "sequence": -1,
            "control": True}  # fmt: skip


def by(producer: int, rows: list[Row]) -> list[Row]:
    return [{**each, "producer_id": producer} for each in rows]


def test_the_first_marker_of_a_records_producer_behind_it_ends_it() -> None:
    records = [
        *by(1, log("n1", (0, A))), *by(2, log("n1", (0, B), start=1)), marker("n1", 2, producer=2),
        *by(1, log("n1", (0, C), start=3)), marker("n1", 4), marker("n1", 6, producer=2),
    ]  # fmt: skip
    table = pa.Table.from_pylist(records, schema=TABLES["replica_records"])
    kept = ReplicaLog(node="n1", start=0, end=7, whole=True, records=table)
    ends = ends_of(kept, np.array([0, 1, 3, 5, 9]))
    assert ends.markers.tolist() == [4, 2, 4, -1, -1]
    assert ends.producers.tolist() == [1, 2, 1, -1, -1]
    assert ends.hashes.tolist() == [77, 77, 77, -1, -1]
    assert ends_of(None, np.array([0])).markers.tolist() == [-1]
    bare = replace(kept, records=table.slice(0, 2))
    assert ends_of(bare, np.array([0, 1])).markers.tolist() == [-1, -1]


# hanging-transaction


def look(at_s: int, stable: int, *, node: str = "n1", mark: int = 4) -> Row:
    return {"node": node, "observed_ns": at_s * S, "last_stable_offset": stable,
            "high_watermark": mark}  # fmt: skip


LOOKS = [look(50, 0), look(60, 1), look(101, 1), look(130, 1)]
OPEN = {"op_id": 7, "mop": 0, "value": B, "offset": 1, "txn_id": 7, "transactional_id": "t-0",
        "outcome": "fail", "complete_ns": 55 * S}  # fmt: skip


def copies(*nodes: str, marked: tuple[str, ...] = (), at: int = 2) -> list[Row]:
    """Logs of A, B, then the marker, or C of another producer; C of another producer at 3."""
    rows = []
    for node in nodes:
        rows += log(node, (0, A), (0, B))
        filler = by(2, log(node, (0, C), start=2))
        rows += [marker(node, at)] if node in marked else filler
        rows += by(2, log(node, (0, C), start=3))
    return rows


def of_txns(records: list[Row], plan: Row = OF_TXNS, **about: object) -> RunFacts:
    """A run whose replicas' logs are these, each read to its end."""
    nodes = {str(each["node"]) for each in records}
    copies_ = {"replication": max(len(nodes), 1), "min_insync": 1}
    return facts(plan={**copies_, **plan}, collected_nodes=frozenset(nodes), **about)


def hanging(
    records: list[Row],
    *,
    send: Row | None = None,
    reigns: tuple[Reign, ...] = (),
    cuts: Sequence[Row] = (),
    looks: Sequence[Row] = (),
    led: Sequence[Row] = (),
    copies_more: int = 0,
) -> str:
    about = of_txns(records, calm_from_ns=100 * S, reigns=reigns)
    if copies_more:
        about = replace(about, plan=about.plan.model_copy(update={"replication": 3}))
    on = group(
        about, leadership=[*led] or [leads(1, 0)], replica_states=[*LOOKS, *looks],
        replica_records=records,
        sends=[OPEN if send is None else send], truncations=[*cuts],
    )  # fmt: skip
    return reason(hanging_transaction.CHECKER, on)


COORDINATED = (reign(2, 0, 0, 200, topic=TRANSACTIONS),)


def test_a_marker_below_the_high_watermark_ended_it() -> None:
    told = hanging(copies("n1", "n2", marked=("n1", "n2")))
    assert isinstance(told, Proved)
    assert told == (
        "the transaction of op 7 (t-0), producer 1 has ended: its marker is at offset 2 in the"
        " logs of n1, n2, below the high watermark, but n1, the last leader, reported the last"
        " stable offset 1"
    )


def test_who_kept_an_ended_transaction_open_while_it_led() -> None:
    ended = copies("n1", "n2", marked=("n1", "n2"))
    led = [leads(1, 0, at=at * S) for at in (55, 70)]
    led += [leads(2, 1, at=at * S) for at in (75, 140)]
    more = [look(65, 1), *(look(at, 1, node="n2") for at in (80, 101, 130))]
    assert hanging(ended, looks=more, led=led).endswith(
        "n1, leader of epoch 0, from 60.000 s to 65.000 s, then n2, leader of epoch 1, from"
        " 80.000 s to 130.000 s reported the last stable offset 1"
    )
    # Before the marker was committed, the transaction was rightly open; once may be too early.
    early = [look(65, 1, mark=2), *more[1:]]
    assert "n2, leader of epoch 1, from" in hanging(ended, looks=early, led=led)


def test_without_a_marker_its_coordinator_did_not_get_one_written() -> None:
    told = hanging(copies("n1", "n2"), reigns=COORDINATED)
    assert isinstance(told, Proved)
    assert told == (
        "its client aborted or abandoned it at 55.000 s, but no marker for the transaction of op"
        " 7 (t-0), producer 1 is in the logs of n1, n2: its coordinator, n2, leader of"
        " __transaction_state-0 in epoch 0, did not write one"
    )


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("ok", "its client got the answer at 55.000 s that it had committed, but no marker"),
        (
            "info",
            (
                "its client got no answer about its end, so the coordinator had to abort it"
                " after 9 s, but no"
            ),
        ),
    ],
)
def test_what_its_client_learned_of_the_end(outcome: str, words: str) -> None:
    assert hanging(copies("n1"), send={**OPEN, "outcome": outcome}).startswith(words)


def test_each_coordinator_since_the_transaction_was_to_end_is_named() -> None:
    led = (
        reign(1, 0, 0, 20, topic=TRANSACTIONS), reign(2, 1, 20, 80, topic=TRANSACTIONS),
        reign(3, 2, 80, 200, topic=TRANSACTIONS),
    )  # fmt: skip
    told = hanging(copies("n1"), reigns=led)
    assert told.endswith(
        "its coordinator, n2, leader of __transaction_state-0 in epoch 1, then n3 in epoch 2, did"
        " not write one"
    )


def test_a_coordinator_that_is_not_known_is_not_named() -> None:
    for reigns in ((), (reign(2, 0, 0, 200, topic=GROUPS),)):
        told = hanging(copies("n1"), reigns=reigns)
        assert "its coordinator did not write one; the leader of __transaction_state" in told
    alone = {**OPEN, "value": A}
    told = hanging(copies("n1"), send=alone, reigns=COORDINATED)
    assert told.startswith("no marker for the transaction of producer 1 is in the logs of n1:")
    assert "n2" not in told, "whose transaction it was is not known"


def test_a_marker_that_not_all_logs_have_shows_nothing_for_certain() -> None:
    assert "do not show whether" in hanging(copies("n1", "n2", marked=("n2",)))
    behind = [*copies("n1"), marker("n1", 4)]
    assert "do not show whether" in hanging(behind), "not below the high watermark"
    assert "do not show whether" in hanging(copies("n1")[:3]), "its end was not read"


def test_logs_without_the_record_show_nothing() -> None:
    assert hanging([]).startswith("no log that was read has the record at offset 1")


# torn-transaction


def in_txn(value: int, offset: int, *, op: int = 1) -> Row:
    return {**ack(value, offset, op=op), "txn_id": op}


def shown(value: int, offset: int, **more: object) -> Row:
    return {**read(value, offset), "isolation": "read_committed", **more}


def torn(records: list[Row], *others: Group, **rows: list[Row]) -> str:
    parts: dict[str, list[Row]] = {
        "sends": [in_txn(A, 0), in_txn(B, 1)],
        "polls": [shown(A, 0)],
        "final_reads": [{**final_read(4), "isolation": "read_committed"}],
        "leadership": [leads(1, 0)],
        "replica_records": records,
    }
    one = group(of_txns(records), **{**parts, **rows})
    shares = pa.concat_tables(torn_transaction.shares(each) for each in (one, *others))
    return reason(torn_transaction.CHECKER, replace(one, tables={}, derived={"shares": shares}))


BOTH = log("n1", (0, A), (0, B))
REIGN = [leads(1, 0, at=at * S) for at in (1, 10, 30)]


def test_one_marker_that_ends_what_was_shown_and_what_was_not() -> None:
    told = torn([*BOTH, marker("n1", 2)])
    assert told == (
        "one marker, at offset 2 of log-0-0, ends both the record at offset 0, which was read,"
        " and the record at offset 1, so both are committed; final reads skipped the record at"
        " offset 1, and no read_committed reader ever got it: n1, leader of log-0-0 in epoch 0,"
        " lists it as aborted, or the reader drops it"
    )


def test_who_led_after_the_final_reads_did_not_leave_a_record_out() -> None:
    final = [{**shown(A, 0), "invoke_ns": 20 * S, "complete_ns": 21 * S}]
    heard = {**leads(1, 0, at=25 * S, source="metadata"), "observer": "n2"}
    led = [*REIGN, heard, leads(2, 1, at=40 * S)]
    records = [*BOTH, *log("n2", (0, A), (0, B)), marker("n1", 2), marker("n2", 2)]
    told = torn(records, polls=final, leadership=led)
    assert told.endswith(
        "ever got it: n1, leader of log-0-0 in epoch 0, lists it as aborted, or the reader drops it"
    )
    assert "n1 or n2, each of which may have led then, lists it" in torn(records, leadership=led)


def test_a_reader_of_before_that_was_given_it_is_not_denied() -> None:
    before = shown(B, 1, phase="main", op_id=4)
    assert "ever got it" not in torn([*BOTH, marker("n1", 2)], polls=[shown(A, 0), before])
    watcher = {**before, "isolation": "read_uncommitted"}
    assert "ever got it" in torn([*BOTH, marker("n1", 2)], polls=[shown(A, 0), watcher])


def test_who_answered_a_reader_without_it_before_the_final_reads_is_told() -> None:
    def told(*earlier: Row, leadership: Sequence[Row] = REIGN) -> str:
        final = {**shown(A, 0), "invoke_ns": 41 * S, "complete_ns": 42 * S}
        held = [*BOTH, marker("n1", 2), *log("n1", (0, C), start=3)]
        both = [*held, *({**each, "node": "n3"} for each in held)]
        return torn(both, polls=[final, *earlier], leadership=[*leadership])

    def past(op: int, at: int, **changes: object) -> list[Row]:
        same = {"phase": "main", "op_id": op, "process": op, "complete_ns": at, **changes}
        return [shown(A, 0, **same), shown(C, 3, **same)]

    first = past(4, 9 * S)
    assert told(*first, *past(5, 10 * S)).endswith(
        "or the reader drops it; op 4 already lacked it, answered by n1, leader of log-0-0 in"
        " epoch 0"
    )
    watcher = past(3, 5 * S, isolation="read_uncommitted")
    assert "op 4 already lacked it" in told(*first, *watcher)
    for innocent in ([], first[:1], watcher, past(4, 9 * S, phase="final")):
        assert told(*innocent).endswith("or the reader drops it")
    either = [*REIGN, leads(3, 0)]
    assert "op 4 already lacked it, answered by n1 or n3" in told(*first, leadership=either)


def elsewhere(content: int, *, read: bool = True) -> Group:
    """The transaction's other part, in another partition: C at 0, with its marker at 1."""
    other = {"topic": "log-0", "topic_id": "id-0", "partition": 1}
    rows: dict[str, list[Row]] = {
        "sends": [in_txn(C, 0)],
        "polls": [shown(C, 0)] if read else [],
        "final_reads": [{**final_read(2), "isolation": "read_committed"}],
        "leadership": [leads(2, 0)],
        "replica_records": [*log("n2", (0, C)), marker("n2", 1, content=content)],
    }
    on = group(facts(plan=OF_TXNS), **{
        name: [{**each, **other} for each in each_rows] for name, each_rows in rows.items()
    })  # fmt: skip
    return replace(on, partition=1)


def test_a_marker_that_is_the_same_elsewhere_commits() -> None:
    hidden: dict[str, list[Row]] = {"sends": [in_txn(A, 0)], "polls": []}
    records = [*log("n1", (0, A)), marker("n1", 1)]
    told = torn(records, elsewhere(77), **hidden)
    assert told.startswith(
        "the marker at offset 1 of log-0-0 has the same hash as the marker at offset 1 of"
        " log-0-1: both commit; final reads skipped the record at offset 0"
    )
    other = torn(records, elsewhere(78), **hidden)
    assert "the run's record does not show whether a marker commits or aborts" in other
    assert "both commit" not in other


def test_a_part_without_a_marker_of_its_own_before_the_next_transaction() -> None:
    later = {**in_txn(B, 1), "op_id": 9, "txn_id": 9, "outcome": "fail"}
    hidden: dict[str, list[Row]] = {"sends": [in_txn(A, 0), later], "polls": []}
    told = torn([*log("n1", (0, A), (0, B)), marker("n1", 2)], elsewhere(77), **hidden)
    assert told == (
        "in log-0-0 no marker ends its transaction: the next marker of its producer, at offset 2,"
        " follows op 9's record, which did not commit, and ends both transactions; its"
        " coordinator sent no marker, or n1, leader of log-0-0 in epoch 0, appended none,"
        " although in log-0-1 its marker is at offset 1"
    )
    ended = [*log("n1", (0, A)), marker("n1", 1), *log("n1", (0, B), start=2), marker("n1", 3)]
    assert "no marker" not in torn(ended, elsewhere(77), **hidden)


def test_a_part_that_was_read_without_a_marker_of_its_own() -> None:
    later = {**in_txn(B, 1), "op_id": 9, "txn_id": 9, "outcome": "fail"}
    seen: dict[str, list[Row]] = {"sends": [in_txn(A, 0), later], "polls": [shown(A, 0)]}
    unended = [*log("n1", (0, A), (0, B)), marker("n1", 2)]
    told = torn(unended, elsewhere(77, read=False), **seen)
    assert told == (
        "in log-0-0, where the record was read, no marker ends its transaction: the next marker of"
        " its producer, at offset 2, follows op 9's record, which did not commit, and ends both"
        " transactions; its coordinator sent no marker, or n1, leader of log-0-0 in epoch 0,"
        " appended none, although in log-0-1 its marker is at offset 1"
    )
    ended = [*log("n1", (0, A)), marker("n1", 1), *log("n1", (0, B), start=2), marker("n1", 3)]
    assert "no marker" not in torn(ended, elsewhere(77, read=False), **seen)


@pytest.mark.parametrize(
    ("coordinator", "told"),
    [
        (3, ("n3, leader of __transaction_state-0 in epoch 4, sent no marker, or n1, leader of"
             " log-0-0 in epoch 0, appended none")),
        (1, ("n1, leader of __transaction_state-0 in epoch 4 and leader of log-0-0 in epoch 0,"
             " wrote no marker")),
    ],
)  # fmt: skip
def test_who_can_have_left_a_marker_out(coordinator: int, told: str) -> None:
    led = reign(coordinator, 4, 0, 99, topic=TRANSACTIONS)
    later = {**in_txn(B, 1), "op_id": 9, "txn_id": 9}
    records = [*log("n1", (0, A), (0, B)), marker("n1", 2)]

    def behind(*cuts: Row) -> str:
        on = group(
            of_txns(records, reigns=(led,)), leadership=[leads(1, 0)], replica_records=records,
            sends=[{**each, "transactional_id": "t"} for each in (in_txn(A, 0), later)],
            replica_states=[state("n1", 3)], truncations=[*cuts],
        )  # fmt: skip
        return marker_behind(on, 0, A)

    assert behind().endswith(f"ends both transactions; {told}")
    line = {"node": "n1", "from_offset": 1, "to_offset": None, "observed_ns": None}
    lost = f"{told}, or the marker was lost: n1 may have lost its log from offset 1 on"
    assert behind(line).endswith(lost)
    # Its own marker came before the record of op 9, which has stood there ever since.
    assert behind({**line, "from_offset": 2}).endswith(told)


def test_a_cleaner_that_removes_a_marker_and_keeps_the_record() -> None:
    later = {**in_txn(B, 4), "op_id": 9, "txn_id": 9, "invoke_ns": 50 * S}
    compacted = {"workload": "keyed", "keys": 2, "transaction_timeout_s": 9}
    same_key = [
        each for each in (pack_value(1, number) for number in range(9, 99))
        if key_number(each, 2) == COMMIT_MARKER_KEY
    ]  # fmt: skip

    def behind(
        *between: Row,
        plan: Row = compacted,
        seen_ns: int = 20 * S,
        how: str = "read_committed",
        of: int = A,
        more: int = same_key[0],
        on_n2: Sequence[Row] = (),
        cut: Sequence[Row] = (),
    ) -> str:
        records = [*log("n1", (0, A)), *between, *log("n1", (0, B), start=4), marker("n1", 5),
                   *log("n1", (0, more), start=6), *on_n2]  # fmt: skip
        on = group(
            of_txns(records, plan=plan), leadership=[leads(1, 0)], replica_records=records,
            sends=[in_txn(A, 0), later, ack(more, 6, op=7)], truncations=[*cut],
            replica_states=[state("n1", 7)],
            polls=[shown(of, 0, isolation=how, op_id=5, complete_ns=seen_ns)],
        )  # fmt: skip
        return marker_behind(on, 0, A)

    removed = (
        "ends both transactions; its marker was written by 20.000 s, when op 5 read the record as"
        " committed, before op 9 began: a cleaner removed the marker and kept the record;"
        " the record at offset 6 has the key of a commit marker"
    )
    assert behind().endswith(removed)
    assert behind(on_n2=log("n2", (0, A))).endswith(removed)
    # Offsets 1 to 3 are there; the topic is not compacted; the read came after the next
    # transaction's begin, or saw open transactions, too, or another value; n2 may have removed the
    # record and then the marker, while n1 was away; n1 may have lost the marker.
    there = by(2, log("n1", (0, C), (0, C), (0, C), start=1))
    for innocent in (
        behind(*there), behind(plan=OF_TXNS), behind(seen_ns=60 * S),
        behind(how="read_uncommitted"), behind(of=C), behind(on_n2=log("n2", (0, B), start=4)),
        behind(cut=[{"node": "n1", "from_offset": 1, "to_offset": None, "observed_ns": None}]),
    ):  # fmt: skip
        assert "ends both transactions" in innocent
        assert "kept the record" not in innocent
        assert "its coordinator sent no marker" in innocent
    assert behind(seen_ns=60 * S).endswith("appended none, or a cleaner removed the marker")
    assert "cleaner" not in behind(plan=OF_TXNS)
    other_key = next(
        each for each in (pack_value(1, number) for number in range(9, 99))
        if key_number(each, 2) != COMMIT_MARKER_KEY
    )  # fmt: skip
    assert behind(more=other_key).endswith("a cleaner removed the marker and kept the record")


def test_a_record_behind_a_marker_that_ends_nothing_may_have_come_late() -> None:
    later = {**in_txn(B, 2), "op_id": 9, "txn_id": 9}

    def behind(*before: Row, epoch: int = 0) -> str:
        (mine,) = log("n1", (0, A), start=1)
        records = [*before, {**mine, "producer_epoch": epoch}, *log("n1", (0, B), start=2)]
        records += [marker("n1", 3)]
        on = group(
            of_txns(records), leadership=[leads(1, 0)], replica_records=records,
            sends=[in_txn(A, 1), later], replica_states=[state("n1", 4)],
        )  # fmt: skip
        return marker_behind(on, 1, A)

    late = (
        "its own marker may be at offset 0, because that marker ends no other record: then the"
        " record was appended after the end of its transaction (KAFKA-14402); otherwise "
    )
    assert f"ends both transactions; {late}its coordinator sent no" in behind(marker("n1", 0))
    for other in (log("n1", (0, C)), [marker("n1", 0, producer=9)], []):
        assert "late" not in behind(*other)
        assert "KAFKA-14402" not in behind(*other)
    assert "KAFKA-14402" not in behind(marker("n1", 0), epoch=1)


def test_a_part_without_a_marker() -> None:
    hidden: dict[str, list[Row]] = {"sends": [in_txn(A, 0)], "polls": []}
    told = torn(log("n1", (0, A)), elsewhere(77), **hidden)
    assert told == (
        "in log-0-0, according to the log of n1, no marker of its producer follows it, although"
        " another part was read"
    )
    foreign = [*log("n1", (0, A)), marker("n1", 1, producer=9)]
    assert torn(foreign, elsewhere(77), **hidden) == told
    assert "no log that was read has the record" in torn([], elsewhere(77), **hidden)


# precommitted-read, G1c


def polled(value: int, offset: int, *, op: int, at: int = 20) -> Row:
    return {**shown(value, offset, op_id=op, phase="main"), "invoke_ns": at * S,
            "complete_ns": at * S + 1}  # fmt: skip


ELSEWHERE: Row = {"broker": {"replica.selector.class": "a.Selector"}}
"""Followers may answer fetches."""


def precommitted(leadership: list[Row], records: list[Row], *, more: Row | None = None) -> str:
    on = group(
        facts(plan={**OF_TXNS, **(more or {})}), sends=[in_txn(A, 0)], polls=[polled(A, 0, op=1)],
        leadership=leadership, replica_records=records,
    )  # fmt: skip
    return reason(precommitted_read.CHECKER, on)


def test_the_only_leader_served_what_was_not_committed() -> None:
    told = precommitted(REIGN, [*log("n1", (0, A)), marker("n1", 1)])
    assert isinstance(told, Proved)
    assert told == (
        "n1, its leader in epoch 0, served the record while its transaction was open (its marker"
        " is at offset 1), and thus above the last stable offset, or the client fetched without"
        " read_committed"
    )
    assert "its marker" not in precommitted(REIGN, log("n1", (0, A)))
    follower = precommitted(REIGN, log("n1", (0, A)), more=ELSEWHERE)
    assert follower.startswith("a broker served the record")
    assert not isinstance(follower, Proved)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, True),
        ({"process": 8}, False),
        ({"isolation": "read_uncommitted"}, False),
        ({"outcome": "info"}, False),
        ({"offset": 3}, False),  # The aborted record is not between two that it got.
    ],
)
def test_a_client_that_left_out_aborted_records_did_read_committed(
    change: Row, *, shown: bool
) -> None:
    aborted = {**in_txn(B, 3), "op_id": 5, "txn_id": 5, "outcome": "fail"}
    records = [*log("n1", (0, A)), marker("n1", 1), *log("n1", (0, C), (0, B), (0, C), start=2)]
    later = [polled(C, 2, op=6), {**polled(C, 4, op=6), "pos": 1}]
    on = group(
        facts(plan=OF_TXNS), sends=[in_txn(A, 0), aborted], leadership=REIGN,
        polls=[polled(A, 0, op=1), {**later[0], **change}, {**later[1], **change, "offset": 4}],
        replica_records=records,
    )  # fmt: skip
    told = reason(precommitted_read.CHECKER, on)
    end = "; the client did fetch read_committed: op 6 skipped the aborted record at offset 3"
    assert told.endswith(end) is shown
    assert told.endswith("or the client fetched without read_committed") is not shown


def test_of_two_leaders_none_is_named_unless_the_records_epoch_tells() -> None:
    two = [leads(1, 0, at=1 * S), leads(2, 1, at=20 * S)]
    told = precommitted(two, [*log("n2", (0, A)), marker("n2", 1)])
    assert told.startswith("a broker served the record")
    assert not isinstance(told, Proved)
    later = [*log("n2", (1, A)), marker("n2", 1)]
    assert precommitted(two, later).startswith("n2, its leader in epoch 1, served the record")


def circle(
    records: list[Row], *, led: list[Row] = REIGN, more: Sequence[Row] = (), plan: Row = OF_TXNS,
    cuts: Sequence[Row] = (),
) -> Group:  # fmt: skip
    """Op 1 wrote A, op 2 wrote B, and each read the other's."""
    on = group(
        of_txns(records, plan, ww_deps=False),
        sends=[in_txn(A, 0), in_txn(B, 2, op=2), *more],
        polls=[polled(B, 2, op=1), polled(A, 0, op=2)],
        leadership=led,
        replica_records=records,
        truncations=[*cuts],
    )
    derived = {"dependencies": dependencies(on), "participants": participants(on)}
    return replace(on, tables={}, derived=derived)


def in_a_row(last: int) -> list[Row]:
    """A at 0 of producer 1, its marker at 1, B at 2 of producer 2, and its marker if there."""
    rows = [*log("n1", (0, A)), marker("n1", 1), *by(2, log("n1", (0, B), start=2))]
    return [*rows, marker("n1", last, producer=2)] if last else rows


def test_a_reader_whose_own_marker_stands_before_that_of_what_it_read_was_early() -> None:
    (g1c,) = (each for each in CYCLES if each.name == "G1c")
    told = reason(g1c, circle(in_a_row(3)))
    assert isinstance(told, Proved)
    assert told == (
        "op 1 read offset 2 of log-0-0 before op 2 committed: the marker of op 2, at offset 3,"
        " comes after the marker of its reader, at offset 1; n1, its leader in epoch 0, served the"
        " record"
    )
    follower = reason(g1c, circle(in_a_row(3), plan={**OF_TXNS, **ELSEWHERE}))
    assert follower == told.removesuffix("; n1, its leader in epoch 0, served the record")


def dirty(
    last: int, *, plan: Row = OF_TXNS, judge: Judge = Judge.CONTRACT, isolation: str = "",
    cuts: Sequence[Row] = (),
) -> Group:  # fmt: skip
    """Op 1 read what op 2 wrote, and op 2 read nothing of op 1: there is no cycle."""
    records = in_a_row(last)
    seen = polled(B, 2, op=1)
    return group(
        replace(of_txns(records, plan), judge=judge),
        sends=[in_txn(A, 0), in_txn(B, 2, op=2)],
        polls=[{**seen, "isolation": isolation or seen["isolation"]}],
        leadership=REIGN, replica_records=records, truncations=[*cuts],
    )  # fmt: skip


def test_a_reader_that_committed_before_the_writer_read_what_was_not_committed() -> None:
    result = found(precommitted_read.CHECKER, dirty(3))
    (anomaly,) = result.anomalies
    assert (result.rows, anomaly.offset) == (2, 2)
    assert anomaly.sentence == (
        "op 1 read offset 2 of log-0-0 before op 2 committed: the marker of op 2, at offset 3,"
        " comes after the marker of its reader, at offset 1; n1, its leader in epoch 0, served the"
        " record"
    )
    assert isinstance(precommitted_read.CHECKER.why(dirty(3), anomaly), Proved)


@pytest.mark.parametrize(
    "innocent",
    [
        dirty(0),  # The writer's marker is not known.
        dirty(3, isolation="read_uncommitted"),
        dirty(3, judge=Judge.JEPSEN),
        dirty(3, plan={**OF_TXNS, "broker": {"log.cleanup.policy": "compact"}}),
        dirty(3, cuts=[{"node": "n1", "from_offset": 1, "to_offset": None, "incarnation": 0,
                        "reason": "", "source": "server-log"}]),  # A marker may have been lost.
    ],
)  # fmt: skip
def test_without_the_order_of_both_markers_no_read_is_too_early(innocent: Group) -> None:
    assert found(precommitted_read.CHECKER, innocent).anomalies == ()


def test_a_reader_that_committed_after_the_writer_read_what_was_committed() -> None:
    records = [*by(2, log("n1", (0, B))), marker("n1", 1, producer=2),
               *log("n1", (0, A), start=2), marker("n1", 3)]  # fmt: skip
    on = group(
        of_txns(records, OF_TXNS), sends=[in_txn(A, 2), in_txn(B, 0, op=2)],
        polls=[polled(B, 0, op=1)], leadership=REIGN, replica_records=records,
    )  # fmt: skip
    result = found(precommitted_read.CHECKER, on)
    assert (result.rows, result.anomalies) == (2, ())


def test_without_both_markers_no_read_is_called_early() -> None:
    (g1c,) = (each for each in CYCLES if each.name == "G1c")
    assert reason(g1c, circle(in_a_row(0))) == (
        "a record was served before its transaction was committed: n1, leader of log-0-0 in epoch"
        " 0, returned offset 0 to op 2; or n1, leader of log-0-0 in epoch 0, returned offset 2 to"
        " op 1"
    )


def test_a_leader_is_named_only_if_it_led_all_the_while_and_what_it_left_out() -> None:
    (g1c,) = (each for each in CYCLES if each.name == "G1c")
    rows = [*in_a_row(0), *by(2, log("n1", (0, C), start=3))]
    on = circle(rows, more=[in_txn(C, 3, op=2)])
    first = (
        "n1, leader of log-0-0 in epoch 0, returned offset 2 to op 1 without offset 3 of the same"
        " transaction"
    )
    assert f"committed: {first}; or" in reason(g1c, on)
    for led in (
        [leads(1, 0, at=S), leads(2, 1, at=30 * S)],  # Before it or after it.
        [*REIGN, leads(2, 1, at=22 * S, source="metadata")],
        [*REIGN, leads(2, 0, at=25 * S)],
        REIGN[:2],
    ):
        told = reason(g1c, circle(in_a_row(0), led=led))
        assert "the leader of log-0-0 returned offset 0 to op 2" in told
    late = leads(2, 1, at=31 * S, source="metadata")  # It would have been told of earlier.
    assert "n1, leader" in reason(g1c, circle(in_a_row(0), led=[*REIGN, late]))


def test_a_read_behind_the_commit_is_not_early() -> None:
    on = circle(in_a_row(3))
    early = on.derived["dependencies"].select(["source", "target", "early"]).to_pylist()
    assert {(each["source"], each["target"]) for each in early if each["early"]} == {(2, 1)}
    assert DEPENDENCIES.names == on.derived["dependencies"].column_names
    assert set(on.derived["dependencies"]["kind"].to_pylist()) == {WR}
