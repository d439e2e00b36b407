"""Causes where rows leave more than one answer: nobody is named for what another may have done."""

from collections.abc import Sequence
from dataclasses import replace

from checkers import corrupt_record, lost_write, phantom
from checkers.acknowledger import Acked, acknowledgers
from checkers.causes import cause_of_loss
from checkers.facts import Absence, Disturbance, RunFacts
from checkers.group import Group
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, C, S, ack, facts, group, leads, log, state
from tests.checkers.reason_rows import NODES, READ, reason, told
from tests.checkers.reasons import look, metadata

KILLED = Disturbance(
    kind="kill", begun_ns=2 * S, confirmed_ns=5 * S // 2, healing_ns=20 * S, ended_ns=21 * S,
    nodes=frozenset({"n1"}),
)  # fmt: skip
AWAY = Absence(node="n1", from_ns=5 * S // 2, until_ns=20 * S)
ONE_KILLED = facts(collected_nodes=frozenset(NODES), disturbances=(KILLED,), absences=(AWAY,))
LED = [leads(1, 4, at=S // 2), leads(1, 4, at=2 * S), metadata("n2", 1, 4, 3),
       leads(2, 5, at=5 * S), leads(2, 5, at=30 * S)]  # fmt: skip
ENDS = [state(node, 2) for node in NODES]


def cut(node: str, offset: int = 1) -> Row:
    return {"node": node, "from_offset": offset, "to_offset": None, "reason": "told to"}


def alike(*records: tuple[int, int]) -> list[Row]:
    return [row for node in NODES for row in log(node, *records)]


def loss(
    on: RunFacts, led: Sequence[Row], /, *, sent_ns: int = S - 5, acked_ns: int = S,
    weak: bool = True, **rows: list[Row],
) -> str:  # fmt: skip
    """Why B is gone, which was acknowledged at offset 1."""
    given: dict[str, list[Row]] = {
        "sends": [ack(A, 0), ack(B, 1, op=2, acks="1"), ack(C, 1, op=3, acks="1", at=15 * S)],
        "replica_records": alike((4, A), (5, C)),
        "replica_states": ENDS,
        "truncations": [cut("n1")],
        **rows,
    }
    judged: Group = group(on, leadership=[*led], **given)
    record = Acked(value=B, offset=1, sent_ns=sent_ns, acked_ns=acked_ns, weak=weak)
    return cause_of_loss(judged, record, acknowledgers(judged, record))


ELECTED = (
    "only n1 had it: n1 led in epoch 4, acknowledged it (acks=1), was killed within 1.5 s, and n2"
    " was elected in epoch 5 without it; that election may have come before n1 was killed"
)


def test_a_leader_that_gave_it_to_a_reader_had_it() -> None:
    subscribed = [{"process": 9, "kind": "assign", "time_ns": 8 * S, "offset": 0}]
    given = {**told(B, 1, op=9, at=9 * S), "process": 9}
    assert loss(ONE_KILLED, LED, polls=[given], assignments=subscribed) == (
        "n1 led in epoch 4, acknowledged it (acks=1), and n2, leader of epoch 5, still gave it to"
        " op 9; no later leader was seen, so the record does not show what took it"
    )
    early = {**given, "complete_ns": 3 * S // 2}  # By n1.
    assert loss(ONE_KILLED, LED, polls=[early], assignments=subscribed) == ELECTED


def test_a_leader_whose_log_lost_its_end_while_it_led_may_have_had_it() -> None:
    def seen(*ends: tuple[int, int]) -> str:
        return loss(ONE_KILLED, LED, replica_states=[*ENDS, *(look("n2", *each) for each in ends)])

    doubt = (
        "n2 was elected in epoch 5; whether it had the record is not known: its log ended at 2 at"
        " 9.000 s and at 1 at 12.000 s"
    )
    assert doubt in seen((2, 9), (1, 12))
    assert "elected in epoch 5 without it" in seen((2, 4), (1, 12))  # It may have lost it before.
    assert seen((1, 9), (2, 12)) == ELECTED


def test_an_epoch_that_nobody_told_of_may_have_had_the_leader() -> None:
    away = facts(
        collected_nodes=frozenset(NODES),
        absences=(Absence(node="n1", from_ns=2 * S, until_ns=40 * S),),
    )
    led = [leads(1, 0, at=S), leads(3, 2, at=10 * S), leads(3, 2, at=30 * S)]
    logs, span = alike((0, A), (2, C)), {"sent_ns": 5 * S, "acked_ns": 6 * S}
    unknown = (
        "an unknown leader acknowledged it (acks=1); the record does not show who it was, and so"
        " not why it is gone"
    )
    assert loss(away, led, replica_records=logs, **span) == unknown
    # Nobody knew of that epoch by then, and all of the one before afterwards.
    older = [metadata(node, 1, 0, 7) for node in NODES]
    assert "n1 or an unknown" in loss(away, [*led, *older], replica_records=logs, **span)
    # The controllers wrote down that it had none.
    none = [metadata("n2", -1, 1, 8)]
    assert "n3 ack" in loss(away, [*led, *none], replica_records=logs, **span)


def test_where_all_leaders_were_away_another_one_acknowledged_it() -> None:
    away = facts(
        collected_nodes=frozenset(NODES),
        absences=(Absence(node="n1", from_ns=2 * S, until_ns=40 * S),),
    )
    led = [leads(1, 0, at=S), *(metadata(node, 1, 0, at) for node in NODES for at in (2, 7))]
    assert "n1 or an unknown leader acknowledged it" in loss(
        away, led, replica_records=alike((0, A), (0, C)), sent_ns=5 * S, acked_ns=6 * S
    )


def test_what_nobody_acknowledged_was_written_by_whom_its_copy_names() -> None:
    read = {**told(B, 1, op=9, at=10 * S), "leader_epoch": 1, "isolation": "read_committed"}
    send = {**ack(B, None, op=1, at=2 * S), "invoke_ns": S, "txn_id": 1}

    def lost(**changes: object) -> tuple[str, str]:
        judged = group(
            facts(plan={"workload": "txn"}, collected_nodes=frozenset(NODES),
                  witnessed=frozenset({1})),
            leadership=[leads(1, 0, at=S // 2), leads(1, 0, at=4 * S), metadata("n2", 1, 0, 3.5),
                        metadata("n3", 1, 0, 3.5), leads(2, 1, at=5 * S), leads(2, 1, at=20 * S),
                        leads(3, 2, at=25 * S), leads(3, 2, at=40 * S)],
            sends=[{**send, **changes}], polls=[read], truncations=[cut("n2"), cut("n1")],
            replica_records=alike((0, A), (2, C)), replica_states=ENDS,
        )  # fmt: skip
        (anomaly,) = lost_write.CHECKER.check(judged).anomalies
        return anomaly.sentence.partition(", is in")[0], anomaly.cause

    assert lost(acked=False, outcome="info") == (
        "value 4294967298, sent to log-0-0 in op 1, whose transaction committed though it got no"
        " answer (written by n2, leader of epoch 1)",
        "n2 led in epoch 1, wrote it (acks=all), and n3 was elected in epoch 2 without it",
    )
    sentence, cause = lost(acked=True, outcome="ok")
    assert "acknowledged at an unknown offset" in sentence
    assert "acknowledged it (acks=all)" in cause


TWO = [leads(1, 0, at=S // 2), leads(1, 0, at=4 * S), leads(2, 1, at=6 * S), leads(2, 1, at=30 * S),
       metadata("n1", 2, 1, 9)]  # fmt: skip
EITHER = "n1 or n2, each of which may have led then,"


def damaged(*polls: Row, second_at: int) -> str:
    kept = [{**row, "damage": 0} for row in alike((0, A), (1, B))]
    sends = [ack(A, 0, op=1, at=S), ack(B, 1, op=2, at=second_at)]
    read = [{"damage": 0, "leader_epoch": 0, **each} for each in polls]
    known = replace(READ, contents_known=True)
    judged = group(known, leadership=TWO, sends=sends, polls=read, replica_records=kept,
                   replica_states=ENDS)  # fmt: skip
    return reason(corrupt_record.CHECKER, judged)


def test_what_an_op_was_given_later_does_not_say_who_gave_it_what_came_before() -> None:
    first, later = told(A, 0, at=2 * S, damage=1), told(A, 0, op=10, at=12 * S, damage=1)
    beside = told(B, 1, op=10, at=12 * S, leader_epoch=1)
    assert EITHER in damaged(first, later, beside, second_at=10 * S)
    one = {"at": 9 * S, "invoke_ns": 2 * S}
    within = damaged(
        told(A, 0, damage=1, **one), told(B, 1, mop=1, leader_epoch=1, **one), second_at=8 * S
    )
    assert EITHER in within
    # Its own epoch does.
    own = told(A, 0, damage=1, leader_epoch=1, **one)
    assert "n2, leader of epoch 1, or the client" in damaged(own, second_at=8 * S)


def test_who_gave_a_phantom_led_before_it_was_read() -> None:
    def cause(*cuts: Row) -> str:
        judged = group(
            READ, leadership=TWO, sends=[ack(A, 0, at=S), ack(B, 1, op=2, at=10 * S)],
            polls=[told(pack_value(1, 77), 1, at=2 * S, leader_epoch=0)], truncations=[*cuts],
            replica_records=alike((0, A), (1, B)), replica_states=ENDS,
        )  # fmt: skip
        return reason(phantom.CHECKER, judged)

    assert cause(cut("n1")) == (
        f"{EITHER} or the client gave it to the reader, or it was stored there and is gone, as n1"
        " may have lost its log from offset 1 on: the logs hold value 4294967298 there; no recorded"
        " client sent it"
    )
    assert cause().startswith(f"{EITHER} or the client gave it to the reader: the logs hold")
