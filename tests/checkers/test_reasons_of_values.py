"""Why a value stands, or was read, where it must not: who did it, and what the rows exclude.

Each reason stands beside rows that differ by a hair, for which it must not be given.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checkers import (
    aborted_read,
    corrupt_record,
    duplicate,
    inconsistent_offsets,
    lost_write,
    phantom,
    uncommitted_read,
    unseen,
)
from checkers.facts import DiskLoss, RunFacts
from checkers.protocol import Proved
from checkers.reigns import TRANSACTIONS, Reign
from results.record.contents import PAYLOAD
from results.record.milestones import Milestone
from results.record.values import SEQUENCE_BITS
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    final_read,
    group,
    leads,
    log,
    state,
)
from tests.checkers.reason_rows import (
    ALL,
    LED,
    NODES,
    READ,
    TWO,
    TXN,
    in_txn,
    logs,
    marker,
    of,
    reason,
    told,
    written,
)
from tests.checkers.reasons import look, metadata
from tests.checkers.test_reigns import reign

SENDS = [ack(A, 0, at=S), ack(B, 1, op=2, at=S)]
HELD = {"sends": SENDS, "leadership": LED, **logs((0, A), (0, B))}


# One offset, two values.


def test_a_value_that_one_reader_got_alone_was_not_in_the_log() -> None:
    polls = [told(A, 0, op=4), told(B, 0, op=5), told(A, 0, op=6)]
    said = reason(inconsistent_offsets.CHECKER, group(READ, **HELD, polls=polls))
    assert isinstance(said, Proved)
    assert said == (
        f"n2, leader of epoch 0, or the client returned it only to op 5: {ALL} value {A} there,"
        f" which 2 reads returned, and value {B} at 1; no log was truncated there"
    )
    unread = reason(
        inconsistent_offsets.CHECKER,
        group(facts(collected_nodes=frozenset({"n1", "n2"})), **HELD, polls=polls),
    )
    assert not isinstance(unread, Proved)
    assert unread.endswith("it may have been truncated: the log of n3 was not read to its end")


def test_a_value_of_another_partition_is_said_to_be_one() -> None:
    of_the_other = (2 << SEQUENCE_BITS) + 7
    polls = [told(A, 0, op=4), told(of_the_other, 0, op=5)]
    on = replace(READ, plan=READ.plan.model_copy(update={"partitions": 2}))
    said = reason(inconsistent_offsets.CHECKER, group(on, **HELD, polls=polls))
    assert f"and value {of_the_other}, which belongs to log-0-1, nowhere;" in said
    alone = reason(inconsistent_offsets.CHECKER, group(READ, **HELD, polls=polls))
    assert f"and value {of_the_other} nowhere;" in alone, "the run had one partition"


def test_a_wrong_answer_to_a_writer_is_told_apart_from_one_to_a_reader() -> None:
    rows = {**HELD, "sends": [ack(A, 0, at=S), ack(B, 0, op=2, at=S)]}
    said = reason(inconsistent_offsets.CHECKER, group(READ, **rows))
    assert said.startswith(f"n2, leader of epoch 0, or the client's library acknowledged value {B}")
    assert "the client returned it" not in said


def test_a_lost_value_that_never_stood_there_was_taken_by_nothing() -> None:
    rows = {**HELD, "sends": [ack(A, 0, at=S), ack(C, 0, op=2, at=S)]}
    said = reason(inconsistent_offsets.CHECKER, group(READ, **rows))
    assert f"hold value {A} there, and value {C} nowhere; no log was truncated there" in said
    cut = {"node": "n3", "from_offset": 0, "to_offset": 2, "observed_ns": 9 * S, "reason": "r"}
    (anomaly,) = inconsistent_offsets.CHECKER.check(
        group(READ, **rows, truncations=[cut])
    ).anomalies
    assert f"n2 acknowledged value {C} (acks=all) as the leader of epoch 0" in anomaly.cause
    assert anomaly.cause.endswith(
        "the leader dropped the message during that epoch, or never wrote it"
    )


def test_logs_that_differ_are_named_with_what_they_hold() -> None:
    rows = {
        "replica_records": [*log("n1", (0, B)), *log("n2", (0, A)), *log("n3", (0, A))],
        "replica_states": [state(node, 1) for node in NODES],
    }
    polls = [told(A, 0, op=4), told(B, 0, op=5)]
    said = reason(inconsistent_offsets.CHECKER, group(READ, leadership=LED, polls=polls, **rows))
    assert said == (
        f"the logs differ there: the logs of n2 and n3 hold value {A}; the log of n1 holds value"
        f" {B}"
    )


# One value, two offsets.


def doubled(first: Row, second: Row, *, about: RunFacts = READ, acked: int = 0) -> str:
    """Why A stands at 0 and 1."""
    on = group(about, sends=[ack(A, acked, at=S)], leadership=TWO, **written(first, second))
    return reason(duplicate.CHECKER, on)


def test_a_leader_that_stored_a_sequence_again_is_named() -> None:
    same = doubled(of(A, 7), of(A, 7))
    assert isinstance(same, Proved)
    assert same == (
        "n2, leader of epoch 0, stored sequence 7 of producer 1 at offset 1, although it had"
        " stored that sequence at offset 0 (acknowledged at 1.000 s)"
    )
    other = doubled(of(A, 7), of(A, 7, led=1), acked=1)
    assert other == (
        "n3, leader of epoch 1, stored sequence 7 of producer 1 at offset 1, although n2, leader"
        " of epoch 0, had stored that sequence at offset 0"
    )


@pytest.mark.parametrize("holds_both", [False, True])
def test_copies_in_two_logs_may_be_of_two_tries(*, holds_both: bool) -> None:
    later = written(of(A, 7) if holds_both else of(B, 6), of(A, 7, led=1), nodes=("n3",))
    earlier = written(of(A, 7), of(B, 6), nodes=("n2",))
    rows = {name: [*earlier[name], *later[name]] for name in earlier}
    led = [*TWO, leads(1, 2, at=40 * S)]  # No log of the last leader was read.
    polls = [told(A, 0, op=5), told(A, 1, op=6, at=30 * S)]
    on = group(READ, sends=[ack(A, 1, at=25 * S)], polls=polls, leadership=led, **rows)
    said = reason(duplicate.CHECKER, on)
    assert isinstance(said, Proved) is holds_both
    assert said == (
        (
            "n3, leader of epoch 1, stored sequence 7 of producer 1 at offset 1, although n2,"
            " leader of epoch 0, had stored that sequence at offset 0"
        )
        if holds_both
        else "all copies have the same producer, epoch and sequence number, and no log that was"
        " read holds two of them: one may have been truncated after it was read, and sent"
        " again"
    )


def test_a_leader_that_stored_a_fenced_epoch_is_named() -> None:
    said = doubled(of(A, 7, epoch=1), of(A, 0))
    assert said.startswith("n2, leader of epoch 0, stored a record of epoch 0 of producer 1 after")


ASLEEP = replace(READ, silences=((0, 30 * S),))


@pytest.mark.parametrize(
    ("second", "acked", "said"),
    [
        (
            of(A, 0, epoch=1),
            1,
            (
                "brokers treat them as different messages: the client sent the message again, or"
                " n2, leader of epoch"
            ),
        ),
        (of(A, 0, producer=9), 1, "different producer ids (1, 9), so brokers"),
        (
            of(A, 0, epoch=1),
            0,
            "library sent the message again although it had been acknowledged at offset 0, or n2,",
        ),
        (of(A, 8), 0, "the client's library gave the message two sequence numbers, 7 and 8"),
    ],
)
def test_what_the_client_sent_again_is_told_as_that(second: Row, acked: int, said: str) -> None:
    assert said in doubled(of(A, 7), second, acked=acked)


def test_a_client_without_a_known_reason_to_send_again_is_told_as_that() -> None:
    def told(led: Sequence[Row], *later: Row) -> str:
        rows = written(of(A, 7), of(A, 0, epoch=1), *later)
        return reason(duplicate.CHECKER, group(READ, sends=[ack(A, 1)], leadership=[*led], **rows))

    elected = [*TWO, leads(3, 1, at=S, source="metadata")]
    goes_on, unlike = of(B, 1, epoch=1), (of(B, 2, epoch=1), of(B, 1, epoch=2))
    asleep = "although no known fault or election can have caused the client to miss its answer"
    assert told(LED, goes_on).endswith(
        f": the client sent the message again and continued with sequence 1 at offset 2, {asleep}"
    )
    assert told(elected, goes_on).endswith(
        ": the client sent the message again and continued with sequence 1 at offset 2, because"
        " it got no answer"
    )
    for other in unlike:
        copied = ": the client sent the message again, or n2, leader of epoch 0, made the copy at"
        assert told(LED, other).endswith(f"{copied} offset 1, {asleep}")
        assert told(elected, other).endswith(f"{copied} offset 1")
    # A client would stay in its new epoch, and a broker refuses the older one behind it.
    assert told(elected, of(B, 8)).endswith(
        "; at offset 2 the producer continues in epoch 0, which its epoch 1 fences: n2, leader of"
        " epoch 0, made the copy at offset 1, or accepted a record that it had to refuse"
    )
    assert "fences" not in told(elected, of(B, 8, producer=2)), "another producer's"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            {},
            (
                "the copies have no producer id, although this run's producers are idempotent: the"
                " log"
            ),
        ),
        ({"idempotence": False, "retries": 0}, "its producer is not idempotent, so the log does"),
    ],
)
def test_copies_without_a_producer_blame_nobody(plan: dict[str, object], said: str) -> None:
    about = facts(plan=plan, collected_nodes=frozenset(NODES))
    nameless = of(A, -1, producer=-1)
    why = doubled(nameless, nameless, about=about)
    assert why.startswith(said)
    assert "or n2, leader of epoch 0, wrote it twice" in why


def test_a_copy_that_only_a_reader_saw_is_no_copy_in_the_log() -> None:
    on = group(READ, **HELD, polls=[told(A, 1, op=4)])
    assert reason(duplicate.CHECKER, on) == (
        "n2, leader of epoch 0, or the client returned it to op 4 at offset 1, where the"
        f" logs hold value {B}; no log was truncated there"
    )
    two = group(READ, **{**HELD, **logs((0, A), (0, B), nodes=("n1", "n2"))}, polls=[told(A, 1)])
    assert reason(duplicate.CHECKER, two).endswith("there; not every replica's log was read")


# A value that was not sent there.

STRANGE = C + 100


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (of(STRANGE, 0), "stored it under sequence 0 of producer 1, which the record at offset 0"),
        (of(STRANGE, 5), "stored it as sequence 5 of producer 1, whose other records this run's"),
        (of(STRANGE, 5, producer=8), "stored it; an unrecorded client or the broker created it"),
        (of(STRANGE, -1, producer=-1), "stored it; an unrecorded client or the broker created it"),
    ],
)
def test_who_stored_a_phantom_and_under_whose_name(record: Row, said: str) -> None:
    rows = {"sends": [ack(A, 0)], "leadership": LED, **written(of(A, 0), record)}
    why = reason(phantom.CHECKER, group(READ, **rows, polls=[told(STRANGE, 1)]))
    assert why.startswith(f"{ALL} it: n2, leader of epoch 0, {said}")
    assert "no recorded client" not in why, "the sentence says so"


def test_a_phantom_that_no_log_holds_was_given_away_by_who_led() -> None:
    polls = [told(STRANGE, 1, op=4), told(B, 1, op=5)]
    assert reason(phantom.CHECKER, group(READ, **HELD, polls=polls)) == (
        f"n2, leader of epoch 0, or the client returned it to the reader: the logs hold value {B}"
        " there, and one other read returned that; no recorded client sent it"
    )
    unread = reason(phantom.CHECKER, group(sends=SENDS, polls=polls[:1]))
    assert unread.endswith("so a broker stored or served it here; no log that was read holds it")


# A record that is not as it was sent.

KNOWN = replace(READ, contents_known=True)


def spoilt(*nodes: str, damaged: int = 0, intact: int = 0, kept: Sequence[str] = NODES) -> str:
    """Why B is damaged in some logs, and in some reads, and intact in others."""
    rows = logs((0, A), (0, B))
    records = [
        {**row, "damage": PAYLOAD if row["node"] in nodes and row["offset"] == 1 else 0}
        for row in rows["replica_records"]
        if row["node"] in kept
    ]
    polls = [
        told(B, 1, op=10 + at, damage=PAYLOAD if at < damaged else 0)
        for at in range(damaged + intact)
    ]
    on = group(KNOWN, **{**HELD, "replica_records": records}, polls=polls)
    return reason(corrupt_record.CHECKER, on)


def test_which_logs_are_spoilt_says_who_may_have_spoilt_them() -> None:
    assert spoilt(*NODES) == (
        f"{ALL} the changed record with a correct checksum: it was changed before replication, by"
        " n2, leader of epoch 0, or by the client's library before the library computed the"
        " batch's checksum"
    )
    copied = (
        ": it was changed on one of these nodes, or on its way to that node, and then copied from"
        " that node"
    )
    assert spoilt("n1", "n2") == (
        "the logs of n1 and n2 hold the changed record with a correct checksum; the log of n3 holds"
        f" it intact{copied}"
    )
    assert spoilt("n1", "n3") == (
        "the logs of n1 and n3 hold the changed record with a correct checksum; the log of n2 holds"
        f" it intact{copied}"
    ), "n2, which led, wrote it intact"
    assert spoilt(*NODES, intact=1) == (
        f"{ALL} the changed record with a correct checksum, and one read returned it intact{copied}"
    )
    assert spoilt("n1", "n3", kept=("n1", "n3")).endswith(
        "correct checksum: it was changed before replication, or on one replica and then copied"
        " from that replica"
    )
    assert spoilt("n2") == (
        "the copy of n2, which led when the record was written, was changed on this node, and has a"
        " correct checksum; the logs of n1 and n3 hold it intact"
    )
    assert spoilt("n3").startswith(
        "the copy of n3, a follower when the record was written, was changed on this node, or"
        " on its way to this node,"
    )


def test_a_cleaner_that_copied_a_flipped_bit_is_named() -> None:
    flip = DiskLoss(
        nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=1, end_before=9,
        until_ns=9 * S, excuse="bit-flip",
    )  # fmt: skip
    plan = {"broker": {"log.cleanup.policy": "compact"}}
    polls = [told(B, 1, damage=PAYLOAD)]
    for loss, said in ((flip, True), (replace(flip, end_after=2), False)):
        about = facts(plan=plan, contents_known=True, disk_losses=(loss,))
        why = reason(corrupt_record.CHECKER, group(about, **HELD, polls=polls))
        assert why.startswith("a fault flipped a bit of that log") is said


def test_which_reads_are_spoilt_says_who_may_have_spoilt_them() -> None:
    assert spoilt(damaged=1, intact=2) == (
        f"{ALL} it intact, and 2 other reads returned it intact: n2, leader of epoch 0, or the"
        " client of that read changed it"
    )
    assert spoilt(damaged=2) == (
        f"{ALL} it intact, and each of its 2 reads got the changed record: n2, leader of epoch 0,"
        " or the library that all readers use changed it"
    )
    mixed = spoilt(damaged=2, intact=1)
    assert mixed == f"{ALL} it intact: n2, leader of epoch 0, or the client changed it"


# What readers were not given.


def final(value: int, offset: int, **changes: object) -> Row:
    return {**told(value, offset, at=9 * S), "phase": "final", **changes}


def test_what_nobody_was_given_names_who_answered_the_reads_that_went_past() -> None:
    sends = [ack(A, 0, at=S), ack(B, None, op=2, at=S), ack(C, 2, op=3, at=S)]
    rows = {**HELD, "sends": sends, **logs((0, A), (0, B), (0, C))}
    early = [told(A, 0, op=4), {**told(C, 2, op=4), "pos": 9}]
    past = [final(A, 0), {**final(C, 2), "pos": 9}]
    on = group(READ, **rows, polls=[*early, *past], final_reads=[final_read(3)])
    assert reason(unseen.UNSEEN_CHECKER, on) == (
        f"{ALL} it at offset 1, and 2 reads skipped it: n2, leader of epoch 0, or the clients"
        " omitted it"
    )
    short = group(READ, **HELD, polls=[final(A, 0)], final_reads=[final_read(2)])
    assert "and final reads ended at offset 2, and no read returned anything from offset 1" in (
        reason(unseen.UNSEEN_CHECKER, short)
    )
    three = {**logs((0, A), (0, B), (0, C)), "leadership": LED}
    last = group(
        READ, sends=[ack(A, 0), ack(C, 2, op=3)], polls=[final(A, 0)],
        final_reads=[final_read(3)], **three,
    )  # fmt: skip
    assert "final reads ended at offset 3, and no read returned anything from offset 1 on" in (
        reason(unseen.UNSEEN_CHECKER, last)
    )


def test_without_the_last_leaders_log_nobody_is_blamed() -> None:
    lacking = {**HELD, **logs((0, A), (0, B), nodes=("n1", "n3"))}
    on = group(READ, **lacking, polls=[final(A, 0)], final_reads=[final_read(2)])
    said = reason(unseen.UNSEEN_CHECKER, on)
    assert "the log of n2, the last leader, was not read" in said
    assert "omitted it" not in said


def test_a_final_read_that_left_out_what_the_log_holds() -> None:
    polls = [told(A, 0, op=4), final(B, 1)]
    on = group(READ, **HELD, polls=polls, final_reads=[final_read(2)])
    assert reason(lost_write.CHECKER, on) == (
        f"n2, leader of epoch 0, or the client omitted it from the final read: {ALL} it at 0, and"
        " one other read returned it"
    )
    lacking = {**HELD, **logs((0, A), (0, B), nodes=("n1", "n3"))}
    said = reason(
        lost_write.CHECKER, group(READ, **lacking, polls=polls, final_reads=[final_read(2)])
    )
    assert "the log of n2, the last leader, was not read to its end" in said
    assert "omitted it" not in said


def test_logs_that_were_read_and_lack_it_are_named_beside_the_one_that_was_not() -> None:
    sends = [*SENDS, ack(C, 2, op=3, at=S)]
    rows = {"sends": sends, "leadership": LED, **logs((0, A), (0, B))}
    about = facts(collected_nodes=frozenset({"n1", "n3"}), unreadable_nodes=frozenset({"n2"}))
    assert reason(lost_write.CHECKER, group(about, **rows)) == (
        "the logs of n1 and n3 lack it; the log of n2, the last leader, was not read to its end,"
        " and may have it"
    )


def test_a_missing_marker_is_the_reason_that_a_reader_passed_over() -> None:
    reads = {**final_read(4), "isolation": "read_committed"}
    polls = [final(C, 3, isolation="read_committed")]
    sends = [in_txn(A, 0), in_txn(B, 1, op=2), in_txn(C, 3, op=3)]

    def why(*records: Row, **more: list[Row]) -> str:
        rows = {"sends": sends, "leadership": LED, **written(*records), **more}
        return reason(lost_write.CHECKER, group(TXN, **rows, polls=polls, final_reads=[reads]))

    torn = why(of(A, 0), of(B, 1), marker(), of(C, 2))
    assert torn == (
        f"{ALL} it at offset 0, but no marker ends its transaction: the next marker of its"
        " producer, at offset 2, follows op 2's record and ends both transactions; its"
        " coordinator sent no marker, or n2, leader of log-0-0 in epoch 0, appended none"
    )
    line = {"from_offset": 1, "to_offset": None, "observed_ns": None}
    records = (of(A, 0), of(B, 1), marker(), of(C, 2))
    # Its leader wrote all of that, and has it still: what others cut off was no marker of its own.
    assert why(*records, truncations=[{**line, "node": "n1"}]) == torn
    assert why(*records, truncations=[{**line, "node": "n2"}]) == (
        f"{torn}, or the marker was lost: n2 may have lost its log from offset 1 on"
    )
    later = (records[0], of(B, 1, led=1), *records[2:])
    assert "or the marker was lost: n1" in why(*later, truncations=[{**line, "node": "n1"}])
    whole = why(of(A, 0), of(B, 1, producer=2), marker(), of(C, 2))
    assert "and its transaction's marker is at offset 2" in whole
    sends[0] = {**sends[0], "offset": None}
    reads = {**reads, "target_end": 4}
    rows = {"sends": sends, "leadership": LED, **written(of(A, 0), of(B, 1), marker(), of(C, 2))}
    hidden = group(TXN, **rows, polls=polls, final_reads=[reads])
    assert reason(unseen.UNSEEN_CHECKER, hidden) == torn


def test_a_final_read_that_stopped_says_what_was_there_to_read() -> None:
    stones = (Milestone(name="final-reads", at_ns=8 * S),)
    about = facts(milestones=stones, collected_nodes=frozenset(NODES))
    reads = {**final_read(2, complete=False)}
    polls = [final(A, 0), told(B, 1, op=4)]
    on = group(about, **HELD, polls=polls, final_reads=[reads])
    assert reason(unseen.INCOMPLETE_CHECKER, on) == (
        f"its last poll ended 1.000 s after final reads began; {ALL} offset 1 and one other read"
        " got there; the run's record does not show why it did not continue"
    )
    gone = [{**metadata(node, -1, 1, at_s), "leader": -1} for node in NODES for at_s in (6, 9)]

    def without(*more: Row, reigns: tuple[Reign, ...] = ()) -> str:
        led = [leads(2, 0, at=S // 2), *gone, *more]
        rows = {**HELD, "leadership": led, "polls": polls, "final_reads": [reads]}
        return reason(unseen.INCOMPLETE_CHECKER, group(replace(about, reigns=reigns), **rows))

    named = "no broker reported a leader of the partition from 6.000 s to 9.000 s"
    assert without().endswith(f"one other read got there; {named}")
    nobody = (reign(-1, 1, 5, 20, topic="log-0"),)
    assert without(reigns=nobody).endswith(", the controllers had not elected one")
    assert without(reigns=(reign(3, 1, 5, 20, topic="log-0"),)).endswith(named)
    assert "no broker reported" not in without(metadata("n1", 2, 0, 8.5)), "somebody led meanwhile"
    bare = reason(unseen.INCOMPLETE_CHECKER, group(polls=polls[:1], final_reads=[reads]))
    assert "other read" not in bare


def test_the_transaction_that_holds_readers_up_is_named() -> None:
    reads = {**final_read(1), "isolation": "read_committed"}
    sends = [in_txn(A, 0), in_txn(B, 1, op=2), in_txn(C, 3, op=3)]

    def why(*records: Row) -> str:
        rows = {"sends": sends, "leadership": LED, **written(*records)}
        return reason(unseen.INCOMPLETE_CHECKER, group(TXN, **rows, final_reads=[reads]))

    hanging = why(of(A, 0), of(B, 1, producer=2), marker())
    assert hanging.startswith(
        "the transaction of op 2, whose record is at this offset, has no marker"
    )
    ended = why(of(A, 0), of(B, 1), marker(), of(C, 2))
    assert ended == (
        "its leader did not let readers continue from this offset, as for an open transaction"
    )


# What was read too early, or in spite of having failed.


def announced(mark: int, *, at: int, broker: int = 2, epoch: int = 0) -> Row:
    return {**leads(broker, epoch, at=at), "high_watermark": mark}


def early(
    *leadership: Row,
    send: Row,
    records: tuple[Row, ...] = (of(A, 0),),
    looks: Sequence[Row] = (),
    about: RunFacts = READ,
) -> str:
    rows = {"sends": [send], "polls": [told(A, 0, at=2 * S)], "leadership": [*LED, *leadership]}
    logs = written(*records)
    logs["replica_states"] += looks
    return reason(uncommitted_read.CHECKER, group(about, **rows, **logs))


def test_an_acknowledgement_before_the_answer_leaves_two_ways() -> None:
    marks = (announced(0, at=3 * S), announced(0, at=4 * S), announced(5, at=6 * S))
    assert early(*marks, send=ack(A, 0, at=S)) == (
        "n2, leader of epoch 0, had acknowledged it (acks=all) at 1.000 s, and announced the high"
        " watermark 0 until 4.000 s: it acknowledged and served an uncommitted record, or its"
        " high watermark did not advance"
    )
    selector = {"broker": {"replica.selector.class": "a.Selector"}}
    assert (
        ": it acknowledged an uncommitted record, or its high watermark did not advance"
        in early(*marks, send=ack(A, 0, at=S), about=facts(plan=selector))
    ), "a follower may have served it"
    for send in (ack(A, 0, at=S, acks="1"), ack(A, 0, at=5 * S), ack(A, None, at=S)):
        said = early(*marks, send=send)
        assert "acknowledged" not in said
        assert said.startswith(
            "n2, leader of epoch 0, served the record above the high watermark, or n2,"
        )


def test_where_the_whole_isr_has_it_the_high_watermark_stood_still() -> None:
    marks = (announced(0, at=3 * S), announced(0, at=7 * S), announced(5, at=9 * S))
    isrs = [metadata("n2", 2, 0, at_s, 1, 2) for at_s in (0.5, 8)]

    def said(*looks: Row, told: Sequence[Row] = isrs) -> str:
        why = early(*marks, *told, send=ack(A, 0, at=S), looks=looks)
        return why.removeprefix(
            "n2, leader of epoch 0, had acknowledged it (acks=all) at 1.000 s, and announced the"
            " high watermark 0 until 7.000 s"
        )

    both = (
        ": it acknowledged and served an uncommitted record, or its high watermark did not advance"
    )
    had = (look("n1", 0, 0.9), look("n1", 1, 6))
    assert said(*had) == (
        ", although n1 had a log end offset above it by 6.000 s, so the whole ISR had the record:"
        " nothing held the high watermark back, but it did not advance"
    )
    assert said(look("n1", 1, 0.9), had[1]) == both  # Another record may stand there.
    assert said(had[0], look("n1", 1, 7.5)) == both  # After that answer.
    assert said(*had, told=isrs[:1]) == both
    assert said(*had, told=[*isrs, metadata("n2", 2, 0, 4, 1, 2, 3)]) == both
    assert said(had[0], look("n1", 0, 5)) == (
        "; the log end offset of n1, in the ISR, was still 0 at 5.000 s: the record was not"
        " committed before n1 also had it"
    )
    assert said(had[0], look("n1", 0, 3)) == both  # A look may be as old as the read.


def test_a_high_watermark_below_the_logs_of_the_whole_isr_stood_still() -> None:
    marks = (announced(0, at=3 * S), announced(0, at=7 * S), announced(5, at=9 * S))
    isrs = [metadata("n2", 2, 0, at_s, 1, 2) for at_s in (0.5, 8)]

    def said(*looks: Row) -> str:
        rows = {"sends": [ack(B, 1, at=S)], "polls": [told(B, 1, at=2 * S)]}
        held = written(of(A, 0), of(B, 1))
        held["replica_states"] += looks
        on = group(READ, **rows, leadership=[*LED, *marks, *isrs], **held)
        return reason(uncommitted_read.CHECKER, on)

    grew = (look("n1", 0, 0.8), look("n1", 1, 6))
    assert said(*grew).endswith(
        "until 7.000 s, although n1 had a log end offset of 1 or higher by 6.000 s, so the whole"
        " ISR had reached it: the high watermark did not advance"
    )
    for other in ((look("n1", 1, 0.8), grew[1]), (grew[0], look("n1", 1, 7.5))):
        assert "or higher by" not in said(*other), "it did not grow in that time"


def test_a_record_that_is_gone_and_was_never_promised_was_served_too_early() -> None:
    never = {**ack(A, None, at=S), "acked": False, "outcome": "info"}
    gone = early(announced(0, at=3 * S), send=never, records=(of(B, 0),))
    assert gone == (
        "n2, leader of epoch 0, served the record above the high watermark: the record was never"
        " acknowledged, and no log holds it there at the end"
    )
    kept = early(announced(0, at=3 * S), send=never)
    assert kept.endswith("or n2, leader of epoch 0, announced a high watermark that was too low")


def test_a_later_leader_that_wrote_another_record_there_led_without_it() -> None:
    late = announced(0, at=3 * S, broker=3, epoch=1)
    taken = early(late, send=ack(A, 0, at=S), records=(of(B, 0, led=1),))
    assert taken == (
        "n2, leader of epoch 0, served the record; the record had been acknowledged at 1.000 s; n3,"
        f" leader of epoch 1, led without the record, and wrote value {B} there"
    )
    for records in ((of(B, 0, led=0),), (of(A, 0, led=1),)):
        assert "led without the record" not in early(late, send=ack(A, 0, at=S), records=records)


def test_who_served_beyond_its_own_high_watermark_is_told_with_it() -> None:
    late, send = announced(0, at=9 * S, broker=3, epoch=1), ack(A, 0, at=S)

    def served(*own: Row) -> str:
        return early(*own, late, send=send, records=(of(B, 0, led=1),))

    own = announced(0, at=3 * S)
    told = served(own, {**own, "asked_ns": 4 * S, "observed_ns": 5 * S}).partition(";")[0]
    assert told == (
        "n2, leader of epoch 0, served the record beyond its own high watermark, which it still"
        " reported as 0 at 5.000 s"
    )
    before = {**own, "asked_ns": 2 * S - 1}
    anew = {**own, "incarnation": 2}  # A new life may have an older mark.
    for innocent in ([before], [own, anew]):
        assert "beyond" not in served(*innocent)


def test_the_answer_of_a_later_epoch_is_not_called_the_first_one() -> None:
    marks = [announced(0, at=3 * S), announced(0, at=9 * S, broker=3, epoch=1)]
    rows = {"polls": [told(A, 0, at=2 * S)], **written(of(A, 0))}
    for leadership, who in ((marks, "leader of epoch 1"), (marks[:1], "leader")):
        on = group(READ, sends=[ack(A, 0)], leadership=leadership, **rows)
        (found,) = uncommitted_read.CHECKER.check(on).anomalies
        assert f"the first answer of a {who} after the read, broker" in found.sentence


@pytest.mark.parametrize(("asked_ns", "named"), [(2 * S, "n2 or n3, "), (2 * S + 1, "n2, leader")])
def test_who_names_an_older_epoch_after_a_read_did_not_lead_by_then(
    asked_ns: int, named: str
) -> None:
    own = {**leads(2, 0, at=3 * S, source="metadata"), "observer": "n3", "asked_ns": asked_ns}
    rows = {"polls": [told(B, 0, at=2 * S)], "leadership": [*TWO, own], **written(of(A, 0))}
    on = group(READ, sends=[ack(A, 0, at=S)], **rows)
    assert reason(phantom.CHECKER, on).startswith(named)
    old = facts(plan={"system": "kafka:2.8.2:zookeeper"}, collected_nodes=frozenset(NODES))
    by_zookeeper = group(old, sends=[ack(A, 0, at=S)], **rows)  # There it may lead first.
    assert reason(phantom.CHECKER, by_zookeeper).startswith("n2 or n3, ")


FAILED = {**ack(A, None, at=S), "acked": False, "outcome": "fail", "error": "MSG_SIZE_TOO_LARGE"}


def test_a_refused_message_that_the_logs_hold_was_stored_all_the_same() -> None:
    rows = {"sends": [FAILED], "leadership": LED, "polls": [told(A, 0)]}
    assert reason(aborted_read.CHECKER, group(READ, **rows, **written(of(A, 7)))) == (
        "its client reported MSG_SIZE_TOO_LARGE, although n2, leader of epoch 0, stored it as"
        f" sequence 7 of producer 1: {ALL} it"
    )


def test_a_refused_message_that_no_log_holds_was_given_to_its_readers_only() -> None:
    rows = {"sends": [FAILED, ack(B, 0, op=2)], "leadership": LED}
    polls = [told(A, 0, op=4), told(B, 0, op=5)]
    said = reason(aborted_read.CHECKER, group(READ, **rows, polls=polls, **logs((0, B))))
    assert isinstance(said, Proved)
    assert said == (
        f"n2, leader of epoch 0, or the client returned it to op 4: the logs hold value {B} at"
        " this offset, and one read returned that; no log was truncated there"
    )
    two = logs((0, B), nodes=("n1", "n2"))
    unread = reason(aborted_read.CHECKER, group(READ, **rows, polls=polls, **two))
    assert unread.endswith("or the client returned it; not every replica's log was read")


def test_readers_that_were_not_shown_an_aborted_record_set_the_others_apart() -> None:
    sends = [in_txn(A, 1, outcome="fail"), in_txn(B, 0, op=2), in_txn(C, 3, op=3)]
    rows = {"sends": sends, "leadership": LED,
            **written(of(B, 0, producer=2), of(A, 0), marker(), of(C, 1, producer=2))}  # fmt: skip
    shown = [told(A, 1, op=4, isolation="read_committed")]
    past = [told(B, 0, op=5, isolation="read_committed"),
            {**told(C, 3, op=5, isolation="read_committed"), "pos": 9}]  # fmt: skip
    one = reason(aborted_read.CHECKER, group(TXN, **rows, polls=[*shown, *past]))
    assert one == (
        "n2, leader of epoch 0, or the client returned it as committed: one other read"
        " (read_committed) skipped it; its transaction's marker is at offset 2"
    )
    own = [{**each, "op_id": 4, "process": 4} for each in past]
    left = [in_txn(C + 1, 2, op=1, outcome="fail"), *sends]
    gone = written(of(B, 0, producer=2), of(A, 0), of(C + 1, 0), of(C, 1, producer=2))
    knew = {**rows, "sends": left, **gone}
    told_both = [own[0], *shown, own[1], *past]
    itself = reason(aborted_read.CHECKER, group(TXN, **knew, polls=told_both))
    assert itself.endswith("skipped it, and op 4 itself skipped the aborted record at offset 2")
    everyone = reason(aborted_read.CHECKER, group(TXN, **rows, polls=[*shown, past[0]]))
    assert everyone.startswith("its producer never asked for a commit, and no read_committed read")
    assert ": a coordinator ended the transaction as committed" in everyone
    named = [{**sends[0], "transactional_id": "t-0"}, *sends[1:]]
    led = replace(TXN, reigns=(reign(3, 0, 0, 20, topic=TRANSACTIONS),))
    known = group(led, **{**rows, "sends": named}, polls=[*shown, past[0]])
    assert (
        ": its coordinator, n3, leader of __transaction_state-0 in epoch 0, ended the transaction"
    ) in reason(aborted_read.CHECKER, known)
