"""Causes where rows leave more than one answer: nobody is named for what another may have done."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checkers import (
    committed_truncation,
    corrupt_record,
    log_divergence,
    log_end_regression,
    lost_write,
    phantom,
)
from checkers.acknowledger import Acked, acknowledgers
from checkers.causes import cause_of_loss
from checkers.facts import NOTED, Absence, DiskLoss, Disturbance, RunFacts
from checkers.group import Group
from checkers.protocol import Proved
from checkers.replica_reasons import fate
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, B, C, S, ack, facts, group, leads, log, state
from tests.checkers.reason_rows import NODES, READ, reason, told
from tests.checkers.reasons import STOPPED, announced, cause, look, metadata, written

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
    on: RunFacts, led: Sequence[Row], /, *, span: tuple[int, int] = (S - 5, S), weak: bool = True,
    **rows: list[Row],
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
    record = Acked(value=B, offset=1, sent_ns=span[0], acked_ns=span[1], weak=weak)
    return cause_of_loss(judged, record, acknowledgers(judged, record))


ELECTED = (
    "only n1 had it: n1 led in epoch 4, acknowledged it (acks=1), was killed within 1.5 s, and n2"
    " was elected in epoch 5 without it; that election may have come before n1 was killed"
)


def test_a_leader_that_gave_it_to_a_reader_had_it() -> None:
    subscribed = [{"process": 9, "kind": "assign", "time_ns": 8 * S, "offset": 0}]
    given = {**told(B, 1, op=9, at=9 * S), "process": 9}
    assert loss(ONE_KILLED, LED, polls=[given], assignments=subscribed) == (
        "n1 led in epoch 4, acknowledged it (acks=1), and n2, leader of epoch 5, still returned"
        " it to op 9; no later leader was observed, so the reason for the loss is unknown"
    )
    early = {**given, "complete_ns": 3 * S // 2}  # By n1.
    assert loss(ONE_KILLED, LED, polls=[early], assignments=subscribed) == ELECTED


def test_what_a_later_leader_gave_no_election_before_it_cost() -> None:
    heard = [metadata(node, 3, 6, 36) for node in ("n1", "n2")]
    later = [leads(3, 6, at=35 * S), *heard, leads(3, 6, at=50 * S)]
    subscribed = [{"process": 9, "kind": "assign", "time_ns": 40 * S, "offset": 0}]
    given = {**told(B, 1, op=9, at=45 * S), "process": 9}
    assert loss(ONE_KILLED, [*LED, *later], polls=[given], assignments=subscribed) == (
        "n1 led in epoch 4, acknowledged it (acks=1), and n3, leader of epoch 6, still returned"
        " it to op 9; no later leader was observed, so the reason for the loss is unknown"
    )
    assert "n2 was elected in epoch 5" in loss(ONE_KILLED, [*LED, *later])


def test_a_record_below_all_log_starts_went_with_what_lay_below_them() -> None:
    def seen(*looks: tuple[str, int, float]) -> str:
        states = [look(node, 9, at_s, start=start) for node, start, at_s in looks]
        ends = [state(node, 9, start=5) for node in NODES]
        held = [row for node in NODES for row in log(node, (4, C), start=5)]
        return loss(
            STOPPED, [leads(1, 4, at=at * S) for at in range(1, 30)],
            replica_states=[*ends, *states], replica_records=held, truncations=[],
        )  # fmt: skip

    first = (("n1", 0, 8), ("n1", 5, 9), ("n2", 0, 9.2), ("n2", 5, 9.7))
    assert seen(*first) == (
        "n1 acknowledged it (acks=1); all logs now begin above this offset; the log of n1, leader"
        " of epoch 4, was the first: it began at 0 at 8.000 s, and at 5 at 9.000 s; no setting of"
        " the plan asks for this"
    )
    follower = seen(("n2", 0, 8), ("n2", 5, 9), ("n1", 5, 9.7))
    assert "the log of n2 was the first" in follower
    assert "begin above this offset" not in seen()  # No look shows which was first.


def test_a_leader_whose_log_lost_its_end_while_it_led_may_have_had_it() -> None:
    def seen(*ends: tuple[int, int]) -> str:
        return loss(ONE_KILLED, LED, replica_states=[*ENDS, *(look("n2", *each) for each in ends)])

    doubt = (
        "n2 was elected in epoch 5; whether it had the record is not known: its log end offset"
        " was 2 at 9.000 s, then 1 at 12.000 s"
    )
    assert doubt in seen((2, 9), (1, 12))
    assert "elected in epoch 5 without it" in seen((2, 4), (1, 12))  # It may have lost it before.
    assert seen((1, 9), (2, 12)) == ELECTED


def test_an_end_that_all_logs_lost_by_their_stop_is_told_as_that() -> None:
    led = [leads(1, 4, at=S // 2), leads(1, 4, at=30 * S)]
    ends = [state(node, 1) for node in NODES]
    noted = [{**look(node, 2, 50), "snapshot": NOTED} for node in NODES]
    stopped: dict[str, list[Row]] = {
        "sends": [ack(A, 0), ack(B, 1, op=2, acks="1")], "truncations": [],
        "replica_records": alike((4, A)), "replica_states": [*ends, *noted],
    }  # fmt: skip

    def said(on: RunFacts = STOPPED, by: Sequence[Row] = led, **rows: list[Row]) -> str:
        return loss(on, by, span=(S - 5, S), weak=True, **{**stopped, **rows})

    lost = (
        "n1 acknowledged it (acks=1) and led last; n1, n2 and n3 still had a log end offset above"
        " it in the last observation, at 50.000 s, but 1 after their clean stops: the end of the"
        " log was lost in between"
    )
    assert said() == lost
    old = {**cut("n2", 0), "reason": "of before"}
    assert said(truncations=[old]) == lost  # Whenever that was.
    assert "after the stop: the end" in said(facts(collected_nodes=frozenset(NODES)))
    for until_ns, by_then in ((49 * S, True), (50 * S, False)):
        hit = DiskLoss(
            nodes=frozenset({"n3"}), topic="log-0", partition=0, end_after=1, end_before=2,
            until_ns=until_ns, began_ns=40 * S, excuse="power-loss",
        )  # fmt: skip
        assert (said(replace(STOPPED, disk_losses=(hit,))) == lost) is by_then
    looked = [look(node, 2, 50) for node in NODES]  # It may have gone before the stop, too.
    assert "after the stop: the end" in said(replica_states=[*ends, *looked])
    short = [*ends, *(look(node, 1, 50) for node in NODES)]
    assert "lost in between" not in said(replica_states=short)
    later = said(by=[*LED[:3], leads(2, 5, at=40 * S)])
    assert "n2 was elected in epoch 5; whether it had the record is not known" in later
    assert "only" not in later  # The others' logs reached it.
    held = [row for node in ("n2", "n3") for row in log(node, (4, A), (4, B))]
    one = said(
        replica_records=[*log("n1", (4, A)), *held],
        replica_states=[state("n1", 1), state("n2", 2), state("n3", 2), *noted],
    )
    assert (
        "n1 still had a log end offset above it in the last observation, at 50.000 s, but 1"
        " after its"
    ) in one


def test_a_log_that_goes_on_behind_a_record_is_not_said_to_have_never_had_it() -> None:
    led = [leads(1, 4, at=S // 2), leads(1, 4, at=30 * S)]
    gap = [row for node in NODES for row in log(node, (4, A), (4, B), (4, C)) if row["value"] != B]
    ends = [state(node, 3) for node in NODES]
    rows = {"replica_records": gap, "replica_states": ends, "truncations": []}
    sends = [ack(A, 0), ack(B, 1, op=2, acks="1"), ack(C, 2, op=3, acks="1", at=15 * S)]
    assert loss(STOPPED, led, span=(S - 5, S), weak=True, sends=sends, **rows) == (
        "n1 led in epoch 4, and acknowledged it (acks=1); no later leader was observed, and n1's"
        " log has a gap at this offset, so the reason for the loss is unknown"
    )


def test_an_epoch_that_nobody_told_of_may_have_had_the_leader() -> None:
    away = facts(
        collected_nodes=frozenset(NODES),
        absences=(Absence(node="n1", from_ns=2 * S, until_ns=40 * S),),
    )
    led = [leads(1, 0, at=S), leads(3, 2, at=10 * S), leads(3, 2, at=30 * S)]
    logs, span = alike((0, A), (2, C)), (5 * S, 6 * S)
    unknown = (
        "an unknown leader acknowledged it (acks=1); the run's record does not show which broker"
        " it was, so the reason for the loss is unknown"
    )
    assert loss(away, led, replica_records=logs, span=span) == unknown
    # Nobody knew of that epoch by then, and all of the one before afterwards.
    older = [metadata(node, 1, 0, 7) for node in NODES]
    assert "n1 or an unknown" in loss(away, [*led, *older], replica_records=logs, span=span)
    # The controllers wrote down that it had none.
    none = [metadata("n2", -1, 1, 8)]
    assert "n3 ack" in loss(away, [*led, *none], replica_records=logs, span=span)


def test_who_was_started_again_leads_in_no_epoch_of_before() -> None:
    span = (21 * S, 22 * S)
    led = [leads(1, 4, at=S), *(metadata("n2", 1, 4, at) for at in (2, 3)),
           leads(2, 5, at=25 * S), leads(2, 5, at=30 * S)]  # fmt: skip

    def who(away: Absence, *told: Row) -> str:
        on = facts(collected_nodes=frozenset(NODES), absences=(away,))
        return loss(
            on, [*led, *told], span=span, replica_records=alike((4, A), (5, A)), truncations=[]
        )

    both = "n1 or n2 acknowledged it"
    assert both in who(AWAY)  # It may have stood still, and go on.
    assert "n2 acknowledged it" in who(replace(AWAY, gone=True))
    assert both in who(replace(AWAY, gone=True, from_ns=21 * S + 1, until_ns=21 * S + 2))
    assert both in who(replace(AWAY, gone=True, until_ns=S // 2))  # It may have led since then.
    assert both in who(replace(AWAY, gone=True), leads(1, 4, at=21 * S))  # It told so itself.


def test_where_all_leaders_were_away_another_one_acknowledged_it() -> None:
    away = facts(
        collected_nodes=frozenset(NODES),
        absences=(Absence(node="n1", from_ns=2 * S, until_ns=40 * S),),
    )
    led = [leads(1, 0, at=S), *(metadata(node, 1, 0, at) for node in NODES for at in (2, 7))]
    assert "n1 or an unknown leader acknowledged it" in loss(
        away, led, replica_records=alike((0, A), (0, C)), span=(5 * S, 6 * S)
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
        (
            "value 4294967298, sent to log-0-0 in op 1, whose transaction committed although its"
            " client got no answer (written by n2, leader of epoch 1)"
        ),
        "n2 led in epoch 1, wrote it (acks=all), and n3 was elected in epoch 2 without it",
    )
    sentence, told_of = lost(acked=True, outcome="ok")
    assert "acknowledged at an unknown offset" in sentence
    assert "acknowledged it (acks=all)" in told_of


def test_what_was_overwritten_before_the_disks_were_hit_went_otherwise() -> None:
    hit = DiskLoss(nodes=frozenset(NODES), topic="log-0", partition=0, end_after=1, end_before=2,
                   until_ns=32 * S, began_ns=30 * S, healed_ns=40 * S,
                   excuse="power-loss")  # fmt: skip
    dark = facts(collected_nodes=frozenset(NODES), disk_losses=(hit,), absences=(AWAY,))
    short, reads = alike((4, A)), [{**told(C, 1, op=9, at=16 * S), "leader_epoch": 5}]
    later = [*LED, leads(2, 6, at=50 * S)]
    by_disks = "n1 acknowledged it (acks=1), and faults removed it from each replica's log"
    by_election = (
        "n1 led in epoch 4, acknowledged it (acks=1), and n2 was elected in epoch 5; whether it had"
        " the record is not known"
    )
    sends = [ack(A, 0), ack(B, 1, op=2, acks="1")]
    for polls, words in (
        (reads, by_election),
        ([{**reads[0], "complete_ns": 51 * S}], by_disks),
        ([], by_disks),
    ):
        told_of = loss(dark, later, sends=sends, polls=polls, replica_records=short)
        assert told_of.startswith(words)
    assert loss(dark, later, replica_records=short) == by_election


def test_a_fault_is_counted_from_the_send_where_the_op_ended_later() -> None:
    late = replace(KILLED, begun_ns=121 * S // 10, confirmed_ns=124 * S // 10)
    killed = facts(collected_nodes=frozenset(NODES), disturbances=(late,))
    led = [leads(1, 4, at=S // 2), leads(1, 4, at=12 * S), metadata("n2", 1, 4, 13.5),
           leads(2, 5, at=15 * S)]  # fmt: skip
    mine = {**ack(B, 1, op=2, acks="1", at=12 * S), "invoke_ns": S}
    beside = {**mine, "value": pack_value(1, 9), "offset": 7, "mop": 1}
    for sends, when in (
        ([mine], "within 0.4 s, and"),
        ([mine, beside], "within 11.4 s of the send, and"),
        ([{**mine, "txn_id": 2}], "within 11.4 s of the send, and"),
    ):
        assert when in loss(killed, led, sends=sends, span=(S, 12 * S))


def told_isr(at_s: float, *isr: int) -> Row:
    return {**metadata("n1", 1, 4, at_s, *isr), "source": "metadata"}


@pytest.mark.parametrize(
    ("between", "alone"),
    [
        ([], True),
        ([metadata("n2", 1, 4, 14, 1, 2, 3)], False),
        ([metadata("n2", 1, 4, 14, 1)], True),
        ([written(1, 4, 10, 1, 2, 3), written(1, 4, 11, 1)], True),
        ([written(1, 4, 10, 1), written(1, 4, 11, 1, 2, 3), written(1, 4, 12, 1)], False),
    ],
)
def test_a_leader_led_alone_only_if_nobody_told_of_others(
    between: list[Row], alone: bool,  # noqa: FBT001 - a parameter of the test
) -> None:  # fmt: skip
    led = [leads(1, 4, at=S // 2), leads(1, 4, at=30 * S), leads(2, 5, at=40 * S),
           told_isr(1, 1), told_isr(30, 1), *between]  # fmt: skip
    whole = loss(READ, led, span=(15 * S - 5, 15 * S), weak=False)
    assert ("n1 led alone in epoch 4" in whole) is alone


def test_the_isr_before_an_election_is_what_all_copies_of_the_controllers_log_have() -> None:
    def of(node: str, row: Row) -> Row:
        return {**row, "observer": node}

    first = [of(node, written(1, 4, 10, 1, 2, 3)) for node in NODES]
    then = [of(node, written(2, 5, 12, 2, 3)) for node in ("n2", "n3")]
    led = [leads(1, 4, at=S // 2), leads(2, 5, at=8 * S), leads(2, 5, at=30 * S), *first, *then]
    eligible = "n2, an eligible leader replica (KIP-966), was elected in epoch 5 without it"
    alone = written(1, 4, 11, 1)
    assert "n2, in the ISR, was elected in epoch 5 without it" in loss(READ, led)
    for node in NODES:  # The other copies lack it: which ISR was last is not known.
        disputed = loss(READ, [*led, of(node, alone)])
        assert "n2 was elected in epoch 5 without it" in disputed
    unknown = loss(replace(READ, quorum_high_watermark=None), led)
    assert "n2 was elected in epoch 5 without it" in unknown
    everywhere = [*led, *(of(node, alone) for node in NODES)]
    assert eligible in loss(READ, everywhere)
    assert eligible not in loss(replace(READ, quorum_high_watermark=11), everywhere)


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
    def why(*cuts: Row) -> str:
        judged = group(
            READ, leadership=TWO, sends=[ack(A, 0, at=S), ack(B, 1, op=2, at=10 * S)],
            polls=[told(pack_value(1, 77), 1, at=2 * S, leader_epoch=0)], truncations=[*cuts],
            replica_records=alike((0, A), (1, B)), replica_states=ENDS,
        )  # fmt: skip
        return reason(phantom.CHECKER, judged)

    assert why(cut("n1")) == (
        f"{EITHER} or the client returned it to the reader, or it was stored there and was then"
        " lost: n1 may have lost its log from offset 1 on: the logs hold value 4294967298 there;"
        " no recorded client sent it"
    )
    assert why().startswith(f"{EITHER} or the client returned it to the reader: the logs hold")


EARLIER = [look("n2", 5, 1, mark=0), look("n2", 3, 2, mark=3)]
"""What n2's truncation at offset 3 did."""
TWENTY = [(0, pack_value(1, number)) for number in range(1, 21)]


def shortened(*ends: Row, cuts: Sequence[Row] = (cut("n2", 3),)) -> Group:
    """n2 lacks the end of what it had announced."""
    seen = [look("n2", 20, 10, mark=20), look("n2", 12, 11, mark=12), look("n2", 12, 20, mark=12)]
    held = {"n1": TWENTY, "n2": TWENTY[:12], "n3": TWENTY}
    return group(
        STOPPED, leadership=[announced(2, 0, 20, 10), announced(2, 0, 12, 11)],
        replica_records=[row for node, records in held.items() for row in log(node, *records)],
        replica_states=[*(state(node, len(each)) for node, each in held.items()), *ends, *seen],
        truncations=[*cuts],
    )  # fmt: skip


def test_a_truncation_that_was_seen_earlier_took_nothing_later() -> None:
    befell = (
        "n2's log end offset was 20 at 10.000 s, then 12 at 11.000 s, but no truncation was"
        " recorded"
    )
    line = "n2 truncated its log from offset 3 on (told to)"
    for on, words in (
        (shortened(*EARLIER), befell),
        (shortened(), line),
        (shortened(*EARLIER, cuts=[cut("n2", 3), cut("n2", 3)]), line),
    ):
        assert fate(on, "n2", 12).startswith(words)
        told = cause(committed_truncation.CHECKER, on)
        assert told.startswith(words)
        # The log ends behind that line's offset: it grew again.
        assert isinstance(told, Proved) is (words == befell)
        assert ("which may have dropped them" in told) is (words == line)
        of_end = cause(log_end_regression.CHECKER, on)
        assert (line in of_end) is (words == line)
        assert ("recorded no truncation since then" in of_end) is (words == befell)
    either = shortened(cuts=[cut("n2", 3), cut("n2", 7)])
    assert fate(either, "n2", 12) == f"{line}, or {line.replace('3', '7')}"
    assert not isinstance(cause(committed_truncation.CHECKER, either), Proved)


def test_who_keeps_an_older_record_did_not_cut_it_off_before_it_was_written() -> None:
    values = [pack_value(1, 20 + number) for number in range(7)]
    base = [*zip((0, 0, 0, 2, 2), values, strict=False)]
    older, newer = [*base, (2, values[5])], [*base, (3, values[6])]

    def told(*ends: Row) -> str:
        judged = group(
            STOPPED, leadership=[leads(1, 0, at=S), leads(2, 2, at=5 * S), leads(1, 3, at=12 * S),
                                 leads(1, 3, at=30 * S), written(1, 3, 9, 1, 2, 3)],
            replica_records=[*log("n1", *newer), *log("n2", *newer), *log("n3", *older)],
            truncations=[cut("n3", 3)],
            replica_states=[*(state(node, 6, 6) for node in NODES), *ends, look("n3", 6, 10),
                            look("n3", 6, 20)],
        )  # fmt: skip
        return cause(log_divergence.CHECKER, judged).partition("wrote there; ")[2]

    assert told(look("n3", 4, 2), look("n3", 3, 4.5)) == (
        "n3 kept the older record of epoch 2, and the run's record does not show that it followed"
        " that leader"
    )
    assert told().startswith(
        "n3 recorded a truncation of its log from offset 3 on, but still holds"
    )


def test_a_truncation_of_before_the_send_is_not_the_next_leaders() -> None:
    copy = [row for node in ("n1", "n2")
            for row in log(node, *TWENTY[:7], (0, B), snapshot="step-01")]  # fmt: skip
    on = group(
        facts(collected_nodes=frozenset(NODES), step_isrs={"step-01": frozenset(NODES)}),
        leadership=[leads(1, 0, at=S), leads(1, 0, at=52 * S), metadata("n2", 1, 0, 55),
                    leads(2, 1, at=60 * S), leads(2, 1, at=90 * S)],
        sends=[ack(B, 7, at=51 * S)],
        replica_records=[*alike(*TWENTY[:7], (1, C)), *copy],
        replica_states=[*(state(node, 8) for node in NODES), look("n2", 5, 1), look("n2", 3, 2),
                        look("n2", 7, 40), look("n2", 8, 52), look("n2", 7, 58)],
        truncations=[cut("n2", 3), cut("n2", 7), cut("n1", 7)],
    )  # fmt: skip
    record = Acked(value=B, offset=7, sent_ns=50 * S, acked_ns=51 * S)
    assert "n2, which had truncated its log at offset 7, was elected in epoch 1 without it" in (
        cause_of_loss(on, record, acknowledgers(on, record))
    )
