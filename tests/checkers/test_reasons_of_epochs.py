"""What causes say of epochs and high watermarks: each clause, and a hair beside."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from checkers import (
    epoch_mismatch,
    epoch_regression,
    high_watermark_ahead,
    high_watermark_regression,
)
from checkers.facts import DiskLoss
from checkers.group import Group
from checkers.protocol import Proved
from results.record.milestones import Milestone
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
    read,
    state,
)
from tests.checkers.reasons import (
    NODES,
    STOPPED,
    announced,
    cause,
    causes,
    look,
    metadata,
    written,
)

# Epochs of records


def polled(epoch: int, *, at_s: float = 3) -> Row:
    return {**read(A, 0), "leader_epoch": epoch, "complete_ns": int(at_s * S)}


def mismatch(
    logged: int, polls: Row, *led: Row, records: list[Row] | None = None, cuts: Sequence[Row] = ()
) -> Group:
    held = [row for node in NODES for row in log(node, (logged, A))]
    led = (leads(2, logged), *led)
    return group(
        polls=[polls], leadership=[*led], replica_records=records or held, truncations=[*cuts]
    )


def test_an_answer_named_an_epoch_that_was_not_there() -> None:
    head = "n1, n2 and n3 hold the same value there, with epoch 0, and"
    none = cause(epoch_mismatch.CHECKER, mismatch(0, polled(1)))
    assert none == (
        f"{head} no leader and no record of epoch 1 is known: n2, leader of epoch 0, or the"
        " client reported a wrong epoch"
    )
    later = [row for node in NODES for row in log(node, (0, A), (1, B))]
    on = mismatch(0, polled(1), leads(3, 1, at=S // 2), records=later)
    assert "epoch 1 only begins at offset 1" in cause(epoch_mismatch.CHECKER, on)
    # Whom the wrong epoch belongs to led later: he did not answer that read.
    led = [leads(2, 0, at=at * S) for at in (1, 5)] + [metadata("n3", 2, 0, 5)]
    on = mismatch(0, polled(1, at_s=3), *led, leads(3, 1, at=20 * S), records=later)
    assert cause(epoch_mismatch.CHECKER, on).endswith(
        "epoch 1 only begins at offset 1: n2, leader of epoch 0, or the client reported a wrong"
        " epoch"
    )


def test_only_the_reads_that_a_leader_may_have_answered_are_its_own() -> None:
    later = [row for node in NODES for row in log(node, (0, A), (1, B))]
    led = [leads(2, 0, at=at * S) for at in (1, 5)] + [metadata("n3", 2, 0, 5)]
    led += [leads(3, 1, at=at * S) for at in (20, 40)]
    reads = [{**polled(1, at_s=at), "op_id": op} for op, at in ((8, 3), (9, 4), (10, 30))]
    sends = [{**ack(A, 0, at=2 * S)}]
    moved = [{"process": 10, "kind": "assign", "time_ns": 25 * S}]
    reads[2]["process"] = 10
    on = group(polls=reads, leadership=led, replica_records=later, sends=sends, assignments=moved)
    assert cause(epoch_mismatch.CHECKER, on).endswith(
        ": n2, leader of epoch 0, in 2 of 3 reads, or the client reported a wrong epoch"
    )


def test_an_epoch_that_may_have_been_there_excludes_nothing() -> None:
    led = mismatch(0, polled(1), metadata("n3", 3, 1, 2))
    assert cause(epoch_mismatch.CHECKER, led) == (
        "n1, n2 and n3 hold a record of epoch 0 there: the record that n3, leader of epoch 1, had"
        " is in no log that was read, or the answer had a wrong epoch"
    )
    held = "n1 and n2 hold a record of epoch 0 there, and n3 holds"
    for value, told in (
        (A, "the record of epoch 1 that was read"),
        (C, "another record of epoch 1"),
    ):
        kept = [row for node in ("n1", "n2") for row in log(node, (0, B))]
        on = mismatch(0, polled(1), leads(2, 2), records=[*kept, *log("n3", (1, value))])
        assert cause(epoch_mismatch.CHECKER, on) == f"{held} {told}"
    other = [row for node in NODES for row in log(node, (0, B))]
    told = cause(epoch_mismatch.CHECKER, mismatch(0, polled(1), records=other))
    assert "wrong epoch" in told
    assert "same value" not in told


def test_a_later_leader_wrote_over_what_was_read() -> None:
    other = [row for node in NODES for row in log(node, (3, B))]
    begun = written(2, 3, 7, 2, unclean=True)
    on = mismatch(3, polled(0, at_s=0.5), begun, records=other)
    assert cause(epoch_mismatch.CHECKER, on) == (
        "n2, leader of epoch 3 by an unclean election, wrote another record there; that epoch was"
        " first observed at 1.000 s, after the read"
    )
    again = cause(epoch_mismatch.CHECKER, mismatch(3, polled(0, at_s=0.5), leads(1, 0)))
    assert again.startswith(
        "n2, leader of epoch 3, wrote the same value there again, or the answer had an older"
    )
    row = {"node": "n3", "from_offset": 0, "to_offset": None, "observed_ns": None}
    ends = "follower of broker 2: epoch 0 ends at offset 0 there"
    # The leader names the last epoch that both logs have: that of what was dropped may be later.
    for reason, logged, more, decided in (
        (ends, 1, (), True),
        (ends.replace("epoch 0", "epoch 1"), 1, (), False),
        (ends, 1, (leads(3, 2, at=9 * S),), False),
        (ends, 2, (leads(3, 1, at=S // 2),), False),
        (ends, 3, (), False),
    ):
        on = mismatch(
            logged, polled(0, at_s=0.5), leads(1, 0), *more, cuts=[{**row, "reason": reason}]
        )
        told = cause(epoch_mismatch.CHECKER, on)
        assert (
            "wrote the same value there again: n3 had a record of epoch 0 there and truncated it"
            f" ({reason}); that epoch" in told
        ) is decided
        assert ("the answer had" in told) is not decided


def test_a_leader_led_already_if_the_read_cannot_have_been_fetched_before() -> None:
    on = mismatch(3, polled(0, at_s=1.5), leads(1, 0))
    row = group(sends=[{**ack(A, 0, at=S + S // 5), "complete_ns": 90 * S}])
    ends = "the answer had an older epoch, or came from a replica that still had an older record"
    assert cause(epoch_mismatch.CHECKER, on) == (
        "n2, leader of epoch 3, already led when that read ended, but clients fetch ahead: this"
        f" leader wrote at this offset after the fetch, or {ends}"
    )
    moved = {"process": 9, "kind": "assign", "time_ns": S + S // 5}
    for late in ({"sends": row.table("sends")},
                 {"assignments": group(assignments=[moved]).table("assignments")}):  # fmt: skip
        known = replace(on, tables={**on.tables, **late}, derived={})
        assert cause(epoch_mismatch.CHECKER, known) == (
            f"n2, leader of epoch 3, already led when the record was read: {ends}"
        )


def test_what_was_sent_once_after_an_election_is_of_no_epoch_before() -> None:
    known = mismatch(3, polled(0, at_s=3), leads(1, 0))

    def sent(at: int, ended: int) -> str:
        times = {"invoke_ns": at, "complete_ns": ended}
        sends = group(sends=[{**ack(A, 0), **times}]).table("sends")
        on = replace(known, tables={**known.tables, "sends": sends}, derived={})
        return cause(epoch_mismatch.CHECKER, on)

    assert sent(2 * S, 2 * S + 9) == (
        "n1, n2 and n3 hold the same value there, with epoch 3, and it was sent only once, at"
        " 2.000 s, when that epoch had already begun: a broker or the client reported a wrong"
        " epoch"
    )
    assert "older record" in sent(S - 1, 2 * S), "it was sent before that epoch was seen"
    assert "older record" in sent(2 * S, 90 * S), "its client had the time to send it again"


def lines(node: str, *told: tuple[int, int]) -> Row:
    epochs = [{"epoch": epoch, "start_offset": start} for epoch, start in told]
    return {**state(node, 3, 3), "epochs": epochs}


def recorded(
    records: Mapping[str, tuple[tuple[int, int], ...]], *rows: Row, **more: list[Row]
) -> Group:
    held = [row for node, each in records.items() for row in log(node, *each)]
    return group(STOPPED, replica_records=held, replica_states=[*rows], **more)


ALIKE = dict.fromkeys(NODES, ((0, A), (0, B)))


def test_a_checkpoint_that_the_others_contradict_is_wrong() -> None:
    on = recorded(ALIKE, lines("n1", (0, 1)), lines("n2", (0, 0)), lines("n3", (0, 0)))
    assert cause(epoch_regression.CHECKER, on) == (
        "n1's checkpoint is wrong: n1, n2 and n3 hold the same record, and n2 and n3 have"
        " checkpoints that assign this offset to epoch 0"
    )
    alone = recorded(ALIKE, lines("n1", (0, 1)))
    assert cause(epoch_regression.CHECKER, alone).endswith(
        "does not show whether the record or the checkpoints are wrong"
    )


def test_a_record_whose_epoch_had_not_begun_is_wrong() -> None:
    records = dict.fromkeys(NODES, ((0, A), (1, B), (1, C)))
    rows = [lines(node, (0, 0), (1, 2)) for node in NODES]
    sends = [ack(B, 1, at=3 * S)]
    led = [leads(2, 0, at=at * S) for at in range(1, 6)]
    on = recorded(records, *rows, sends=sends, leadership=[*led, leads(3, 1, at=9 * S)])
    assert cause(epoch_regression.CHECKER, on) == (
        "n1, n2 and n3 hold the same record, so the checkpoint is right: n2, leader of epoch 0,"
        " acknowledged it at 3.000 s, and epoch 1 was first observed at 9.000 s: that leader"
        " assigned a wrong epoch"
    )
    soon = recorded(records, *rows, sends=sends, leadership=[*led, leads(3, 1, at=7 * S)])
    first = epoch_regression.CHECKER.check(soon).anomalies[0]
    assert epoch_regression.CHECKER.why(soon, first).endswith(
        "does not show whether the record or the checkpoints are wrong"
    )


def test_a_record_that_took_the_place_of_another_was_not_acknowledged_before_its_epoch() -> None:
    led = [leads(1, 0, at=at * S) for at in (1, 3)]
    later = [leads(2, 1, at=at * S) for at in (20, 30)]
    gone = [ack(A, 0), ack(B, 1, at=2 * S, acks="1")]
    records = dict.fromkeys(NODES, ((0, A), (1, C), (0, C + 1)))
    on = recorded(records, sends=gone, leadership=[*led, *later])
    alike = "n1, n2 and n3 hold the same record at offset 1, with epoch 1"
    assert cause(epoch_regression.CHECKER, on) == (
        f"{alike}: a leader wrote it in this form, and the others copied it"
    )
    own = dict.fromkeys(NODES, ((0, A), (1, B), (0, C)))
    assert cause(
        epoch_regression.CHECKER, recorded(own, sends=gone, leadership=[*led, *later])
    ) == (
        f"{alike}: n1, leader of epoch 0, acknowledged it at 2.000 s, and epoch 1 was first"
        " observed at 20.000 s: that leader assigned a wrong epoch"
    )


def test_checkpoints_without_any_epoch() -> None:
    on = recorded(ALIKE, *(lines(node) for node in NODES))
    (first, *_), (told, *_) = (
        causes(epoch_regression.CHECKER, on), epoch_regression.CHECKER.check(on).anomalies,
    )  # fmt: skip
    assert told.sentence.endswith("no offset (2 records of that epoch)")
    assert first == (
        "n1, n2 and n3 hold the same record, and their checkpoints have no epoch at all: all 2"
        " records of n1's log are outside of its checkpoint"
    )


def test_one_copy_that_differs_was_changed() -> None:
    records = {**ALIKE, "n1": ((1, A), (0, B))}
    assert cause(epoch_regression.CHECKER, recorded(records)) == (
        "n2 and n3 hold the record at offset 0 with epoch 0, but n1 alone with epoch 1: that copy"
        " was changed"
    )
    alone = recorded({"n1": ((1, A), (0, B))})
    assert cause(epoch_regression.CHECKER, alone).startswith("no other copy shows whether n1")


def test_copies_that_are_alike_were_written_so() -> None:
    records = dict.fromkeys(NODES, ((1, A), (0, B)))
    on = recorded(records)
    assert cause(epoch_regression.CHECKER, on) == (
        "n1, n2 and n3 hold the same record at offset 0, with epoch 1: a leader wrote it in this"
        " form, and the others copied it"
    )


def test_whose_word_of_an_epoch_was_wrong() -> None:
    back = [metadata("n1", 1, 4, 1), metadata("n1", 1, 3, 2)]
    assert cause(epoch_regression.CHECKER, group(leadership=back)) == (
        "n1 went back to an older view of the leaders while it ran, and no other broker did"
    )
    never = group(leadership=[*back, written(1, 3, 5, 1)])
    assert cause(epoch_regression.CHECKER, never) == (
        "the controllers' log has no epoch 4: n1's first report was wrong"
    )
    was = group(leadership=[*back, written(1, 3, 5, 1), written(1, 4, 6, 1)])
    assert cause(epoch_regression.CHECKER, was).startswith("n1 went back to an older view")


def test_what_the_controllers_log_may_have_lost_it_does_not_disprove() -> None:
    back = [metadata("n1", 1, 4, 1), metadata("n1", 1, 3, 2)]
    never, power = [*back, written(1, 3, 5, 1)], DiskLoss(
        nodes=frozenset(NODES), topic="__cluster_metadata", partition=0, end_after=0, end_before=9,
        until_ns=2 * S, excuse="power-loss",
    )  # fmt: skip
    assert isinstance(cause(epoch_regression.CHECKER, group(leadership=never)), Proved)
    lost = cause(epoch_regression.CHECKER, group(facts(disk_losses=(power,)), leadership=never))
    assert not isinstance(lost, Proved)
    assert lost.endswith(", or a fault removed that epoch from the controllers' disks")
    snapshot = group(leadership=[*back, written(1, 5, 9, 1)])
    assert cause(epoch_regression.CHECKER, snapshot).startswith("n1 went back to an older view")


# High watermarks


def test_a_mark_beyond_its_own_log_is_wrong() -> None:
    later = {**announced(1, 1, 5, 9), "asked_ns": 8 * S}
    led, told = [announced(1, 1, 4, 1), later], look("n2", 6, 2, mark=8)
    on = group(leadership=led, replica_states=[told, look("n2", 7, 3)])
    assert cause(high_watermark_ahead.CHECKER, on) == (
        "n2's own log was not beyond 7 at the next observation, so its high watermark is wrong;"
        " n1, leader of epoch 1, had announced 4 at 1.000 s"
    )
    other = [look("n3", 6, 1.5, mark=7), look("n3", 6, 1.8)]
    first = group(leadership=led, replica_states=[told, look("n2", 7, 3), *other])
    assert causes(high_watermark_ahead.CHECKER, first)[0].endswith(
        "at 1.000 s; n3 had also reported a high watermark that was too high, 7, at 1.500 s"
    )
    # The end is asked for before the mark: it may have passed it in between.
    for more in ([], [look("n2", 9, 2.5)], [{**look("n2", 7, 3), "incarnation": 2}]):
        grew = group(leadership=led, replica_states=[told, *more])
        assert "mark is wrong" not in cause(high_watermark_ahead.CHECKER, grew)
    within = group(
        STOPPED, leadership=[announced(1, 1, 4, 1), later],
        replica_states=[look("n2", 8, 2, mark=8)],
        replica_records=log("n1", *[(1, A)] * 8),
    )  # fmt: skip
    assert cause(high_watermark_ahead.CHECKER, within) == (
        "n1 holds all records below 8 at the end, so nothing was lost: n2 reported them as"
        " committed too early, or n1 announced a high watermark that was too low"
    )
    first = replace(within, tables={**within.tables, "leadership": group(
        leadership=[{**later, "leader_epoch": 3}]).table("leadership"),
        "replica_records": group(
            replica_records=log("n1", *[(1, A)] * 6, *[(3, B)] * 2)).table("replica_records"),
    })  # fmt: skip
    assert cause(high_watermark_ahead.CHECKER, first) == (
        "n1, leader of epoch 3, began its epoch at offset 6 without records that n2 had reported"
        " as committed: n2 reported too much, or n1 lacked them"
    )


def test_a_log_that_may_have_gone_back_does_not_show_that_its_mark_was_wrong() -> None:
    """Asked for its end before it grew, and cut for an unclean leader before the next look."""
    line = {"node": "n2", "from_offset": 7, "to_offset": None, "observed_ns": None}
    looks = [look("n2", 7, 2, mark=8), look("n2", 7, 3, mark=7)]

    def told(before: int, *cuts: Row, loss: int = 0) -> str:
        taken = DiskLoss(nodes=frozenset({"n2"}), topic="log-0", partition=0, end_after=7,
                         end_before=8, until_ns=loss * S, excuse="power-loss")  # fmt: skip
        on = group(
            facts(disk_losses=(taken,) * bool(loss)),
            leadership=[announced(1, 1, before, 1), announced(1, 3, 6, 6)],
            replica_states=looks, truncations=[*cuts],
        )  # fmt: skip
        return cause(high_watermark_ahead.CHECKER, on)

    assert isinstance(told(4), Proved)
    unknown = "the run's record does not show how far n2's own log reached"
    assert told(4, line) == told(4, loss=3) == unknown
    assert isinstance(told(4, {**line, "node": "n3"}), Proved)
    assert isinstance(told(4, {**line, "from_offset": 8}), Proved)
    assert isinstance(told(4, loss=-1), Proved)
    as_high = told(8, line)
    assert as_high == told(8)
    assert as_high == (
        "n1, leader of epoch 1, had announced 8 at 1.000 s: n2 reported no more than that, and a"
        " lower high watermark was announced later"
    )
    assert not isinstance(as_high, Proved)


def test_a_checkpoint_alone_is_wrong_if_its_broker_reported_what_its_log_had() -> None:
    def told(*looks: Row) -> str:
        ends = [state("n1", 2, 2), state("n2", 2, 9)]
        held = [row for node in NODES for row in log(node, (0, A), (0, B))]
        on = group(STOPPED, leadership=[announced(1, 0, 2, 1)], replica_records=held,
                   replica_states=[*ends, *looks])  # fmt: skip
        return causes(high_watermark_ahead.CHECKER, on)[-1]

    wrong = "n2's own log ended at 2, so its high watermark is wrong"
    assert told(look("n2", 2, 8, mark=2), look("n2", 2, 7, mark=1)) == (
        f"{wrong}; its last report was 2, at 8.000 s: only the high watermark in its checkpoint"
        " file is wrong"
    )
    assert told() == told(look("n2", 2, 7, mark=2), look("n2", 2, 8, mark=9)) == wrong


def regressed(
    *led: Row, records: tuple[tuple[int, int], ...] = ((0, A), (0, B)), **rows: list[Row]
) -> Group:
    held = [row for node in NODES for row in log(node, *records)]
    return group(STOPPED, **{"leadership": [*led], "replica_records": held, **rows})


TOLD = (announced(1, 0, 2, 1), announced(1, 0, 1, 3))


def test_an_answer_that_was_too_low_lost_nothing() -> None:
    head = "nothing was truncated: n1, n2 and n3 hold all records below 2"
    assert cause(high_watermark_regression.CHECKER, regressed(*TOLD, announced(1, 0, 2, 5))) == (
        f"{head}, and afterwards, at 5.000 s, n1 announced 2; only n1's lower answer was wrong"
    )
    assert cause(high_watermark_regression.CHECKER, regressed(*TOLD)) == (
        f"{head}; only n1's lower answer was wrong"
    )
    cut = {"node": "n1", "from_offset": 1, "to_offset": None, "observed_ns": 2 * S}
    again = cause(high_watermark_regression.CHECKER, regressed(*TOLD, truncations=[cut]))
    assert "nothing was truncated" not in again
    later = {**cut, "observed_ns": 4 * S}
    assert "nothing was truncated" in cause(
        high_watermark_regression.CHECKER, regressed(*TOLD, truncations=[later])
    )


def test_a_new_leader_that_holds_all_answered_too_early() -> None:
    on = regressed(announced(1, 0, 2, 1), announced(2, 1, 1, 3))
    assert cause(high_watermark_regression.CHECKER, on).endswith(
        "n2, leader of epoch 1, answered before its high watermark had reached the start of its"
        " epoch (KIP-207)"
    )
    led = [announced(1, 0, 2, 1), announced(2, 1, 1, 5)]
    for done_s, words in ((3, "had acknowledged a record of its epoch (acks=all) at 3.000 s: its"),
                          (9, "answered before its high watermark")):  # fmt: skip
        own = regressed(
            *led, records=((0, A), (0, B), (1, C)), sends=[ack(C, 2, op=3, at=done_s * S)]
        )
        assert f"n2, leader of epoch 1, {words}" in cause(high_watermark_regression.CHECKER, own)
    over = regressed(announced(1, 0, 2, 1), announced(2, 1, 1, 3), records=((0, A), (1, C)))
    made = on.table("replica_records").to_pylist()
    made[-1]["record_hash"] += 1
    differ = regressed(*on.table("leadership").to_pylist(), replica_records=made)
    assert "nothing was truncated" not in cause(high_watermark_regression.CHECKER, differ)
    bare = regressed(*on.table("leadership").to_pylist(), records=((-1, A), (-1, B)))
    assert "nothing was truncated" not in cause(high_watermark_regression.CHECKER, bare)
    without = (
        "n2, leader of epoch 1, began its epoch at offset 1 without records that n1 had"
        " announced as committed"
    )
    assert cause(high_watermark_regression.CHECKER, over) == without
    led, records = [announced(1, 0, 2, 1), announced(2, 1, 1, 9)], ((0, A), (1, C))
    begun = [written(1, 0, 5, 1, 2), written(2, 1, 6, 2, 1)]
    known = regressed(*led, *begun, records=records, replica_states=[look("n2", 1, 1.2)])
    assert cause(high_watermark_regression.CHECKER, known) == (
        f"{without}; n2 was in the ISR and elected cleanly; its log end offset was 1 at 1.200 s"
    )
    short = regressed(
        *led, records=records, replica_states=[look("n2", 1, at_s) for at_s in (0.5, 5)]
    )
    assert cause(high_watermark_regression.CHECKER, short) == (
        f"{without}; its log end offset was 1 at 5.000 s, after that announcement, and no"
        " truncation of its log is recorded: it did not yet have these records"
    )


def test_final_reads_that_were_told_an_end_too_low() -> None:
    on = regressed(announced(1, 0, 2, 0), final_reads=[final_read(1)])
    on = replace(on, facts=replace(on.facts, milestones=(
        *on.facts.milestones, Milestone(name="recovered", at_ns=S),
        Milestone(name="final-reads", at_ns=2 * S),
    )))  # fmt: skip
    assert cause(high_watermark_regression.CHECKER, on).endswith(
        "only the answer to the final reads was wrong"
    )
