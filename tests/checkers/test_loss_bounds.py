"""Twins for single conditions of losses, and of what disk losses explain by their times."""

from dataclasses import replace

import numpy as np
import pytest

from checkers import (
    epoch_mismatch,
    high_watermark_regression,
    incomplete_leader,
    inconsistent_offsets,
    lost_write,
    uncommitted_read,
    unseen,
)
from checkers.dropped import dropped
from checkers.facts import DiskLoss, RunFacts
from checkers.findings import known
from checkers.protocol import Checker
from checkers.torn_transaction import shares
from checkers.version_order import version_order
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
    state,
)  # fmt: skip

LOSS = lost_write.CHECKER
D = pack_value(1, 9)


def held(*values: int, start: int = 0) -> dict[str, list[Row]]:
    return {
        "leadership": [leads(1, 0)],
        "replica_records": log("n1", *((0, value) for value in values), start=start),
        "replica_states": [state("n1", start + len(values), start=start)],
    }


NODES = frozenset({"n1", "n2", "n3"})


def _power(begun_s: int, until_s: int, *, end: int = 3) -> DiskLoss:
    return DiskLoss(
        nodes=NODES, topic="log-0", partition=0, end_after=end, end_before=12, excuse="power-loss",
        began_ns=begun_s * S, until_ns=until_s * S,
    )  # fmt: skip


def _announced(mark: int | None, at_s: int, epoch: int, *, broker: int = 1) -> Row:
    return {**leads(broker, epoch, at=at_s * S), "high_watermark": mark}


@pytest.mark.parametrize(
    ("system", "excuses"), [("kafka:2.8.2", ("power-loss",)), ("kafka:3.9.0", ())]
)
def test_with_zookeeper_an_epoch_goes_on_after_power_that_all_brokers_lost(
    system: str, excuses: tuple[str, ...]
) -> None:
    """No controller saw the restart, so the first broker leads again, in the same epoch."""
    led = [_announced(9, 10, 1, broker=2), _announced(12, 20, 2), _announced(5, 46, 2)]
    logs = [
        row
        for node in sorted(NODES)
        for row in log(node, *((1, 90 + at) for at in range(5)), (2, B), (2, C), (2, D))
    ]
    polls = [{**read(A, 7), "complete_ns": 12 * S, "leader_epoch": 1}]
    about = facts(plan={"system": system}, disk_losses=(_power(30, 36, end=5),))
    on = group(about, leadership=led, replica_records=logs, polls=polls,
               replica_states=[state(node, 8) for node in NODES])  # fmt: skip
    for checker in (incomplete_leader.CHECKER, epoch_mismatch.CHECKER):
        (anomaly,) = found(checker, on).anomalies
        assert anomaly.excuses == excuses


def test_each_record_at_an_offset_needs_its_own_loss() -> None:
    """Power was lost between the first and the second record, and not before the third one."""
    polls = [
        {**read(value, 7, op=op), "complete_ns": at * S, "leader_epoch": epoch}
        for op, (value, at, epoch) in enumerate(((A, 5, 0), (B, 15, 2), (C, 25, 4)), 1)
    ]
    logs = [
        row
        for node in NODES
        for row in log(node, *((0, 90 + at) for at in range(7)), (4, C), (4, D))
    ]
    led = [leads(1, 0, at=2 * S), leads(1, 2, at=13 * S), leads(2, 4, at=22 * S)]
    states = [state(node, 9) for node in NODES]

    def told(checker: Checker, *losses: DiskLoss) -> list[tuple[str, ...]]:
        on = group(facts(disk_losses=losses), polls=polls, leadership=led,
                   replica_records=logs, replica_states=states)  # fmt: skip
        return [each.excuses for each in found(checker, on).anomalies]

    one, both = [_power(10, 12)], [_power(10, 12), _power(18, 20)]
    assert told(inconsistent_offsets.CHECKER, *one) == [()]
    assert told(inconsistent_offsets.CHECKER, *both) == [("power-loss",)]
    assert sorted(told(epoch_mismatch.CHECKER, *one)) == [(), ("power-loss",)]
    assert told(epoch_mismatch.CHECKER, *both) == [("power-loss",)] * 2


@pytest.mark.parametrize(
    ("loss", "first", "second", "excuses"),
    [
        ((7, 8), (1, 9), (4, 6), ("power-loss",)),  # The second op's record was there first.
        ((3, 5), (1, 9), (6, 7), ("power-loss",)),
        ((3, 5), (6, 9), (6, 7), ()),
    ],
)
def test_of_two_ops_of_several_sends_either_may_have_written_its_record_first(
    loss: tuple[int, int], first: tuple[int, int], second: tuple[int, int], excuses: tuple[str, ...]
) -> None:
    sends = [
        {**ack(value, 7, op=op, at=ended_s * S), "invoke_ns": begun_s * S}
        for op, (value, (begun_s, ended_s)) in enumerate(((A, first), (B, second)), 1)
    ]
    about = facts(plan={"sends_per_op": 20}, disk_losses=(_power(*loss),))
    (anomaly,) = found(inconsistent_offsets.CHECKER, group(about, sends=sends)).anomalies
    assert anomaly.excuses == excuses


def test_a_larger_decrease_after_a_loss_does_not_hide_one_before_it() -> None:
    led = [_announced(9, 10, 0), _announced(5, 20, 0), _announced(4, 50, 0)]
    on = group(facts(disk_losses=(_power(30, 40),)), leadership=led)
    (anomaly,) = found(high_watermark_regression.CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.excuses) == (5, ())


def test_a_leader_has_what_was_announced_since_the_disks_lost_records() -> None:
    led = [_announced(9, 10, 0), _announced(7, 30, 2), _announced(None, 50, 3, broker=2)]
    logs = [
        row
        for node in NODES
        for row in log(node, *((epoch, 90 + at) for at, epoch in enumerate((0, 0, 0, 2, 2, 3))))
    ]
    on = group(facts(disk_losses=(_power(20, 25),)), leadership=led, replica_records=logs,
               replica_states=[state(node, 6) for node in NODES])  # fmt: skip
    excused = {each.evidence["epoch"]: each.excuses
               for each in found(incomplete_leader.CHECKER, on).anomalies}  # fmt: skip
    assert excused == {2: ("power-loss",), 3: ()}


@pytest.mark.parametrize("system", ["kafka:2.8.2", "kafka:3.9.0"])
def test_a_loss_on_some_replicas_does_not_change_what_the_others_report(system: str) -> None:
    """n3 repeats its high watermark, and then it loses its records, too."""
    first, last = (
        replace(_power(begun_s, until_s, end=5), nodes=frozenset(nodes))
        for nodes, begun_s, until_s in ((("n1", "n2"), 20, 25), (("n3",), 27, 32))
    )
    led = [_announced(9, 10, 0, broker=3), _announced(9, 26, 0, broker=3), _announced(5, 50, 3)]
    logs = [
        row
        for node in NODES
        for row in log(node, *((0, 90 + at) for at in range(5)), (3, B), (3, C))
    ]
    on = group(facts(plan={"system": system}, disk_losses=(first, last)), leadership=led,
               replica_records=logs, replica_states=[state(node, 7) for node in NODES])  # fmt: skip
    for checker in (incomplete_leader.CHECKER, high_watermark_regression.CHECKER):
        (anomaly,) = found(checker, on).anomalies
        assert anomaly.excuses == ("power-loss",)


def test_a_loss_at_an_unknown_offset_has_no_place_in_the_evidence() -> None:
    """A truncation, a replica's log, a reader: nobody can say that they passed it."""
    cut: Row = {"node": "n1", "from_offset": -1, "to_offset": 9}
    polls = [read(B, 3), read(C, 9, op=10)]
    on = group(sends=[ack(A, None)], polls=polls, truncations=[cut], **held(B, C))
    (anomaly,) = found(LOSS, on).anomalies
    for name in ("replicas", "truncations", "skipping_op_ids"):
        assert anomaly.evidence[name] == []
    assert anomaly.evidence["offset"] == known(-1)
    assert "acknowledged at an unknown offset" in anomaly.sentence


def test_a_loss_at_the_first_offset_has_all_of_it() -> None:
    cut: Row = {"node": "n1", "from_offset": 0, "to_offset": 1}
    on = group(sends=[ack(A, 0)], truncations=[cut], **held(B, C))
    (anomaly,) = found(LOSS, on).anomalies
    assert anomaly.evidence["replicas"] == [f"n1: value {B} of epoch 0"]
    assert anomaly.evidence["truncations"] == ["n1 truncated offset 0"]
    assert "acknowledged at offset 0 of" in anomaly.sentence


def test_a_truncation_before_the_send_dropped_something_else() -> None:
    cut: Row = {"node": "n1", "from_offset": 0, "to_offset": 1}
    sent_ns = S - 5
    for observed_ns, counts in ((sent_ns - 1, 0), (sent_ns, 1), (None, 1)):
        cuts = [{**cut, "observed_ns": observed_ns}]
        (anomaly,) = found(LOSS, group(sends=[ack(A, 0)], truncations=cuts, **held(B, C))).anomalies
        assert len(anomaly.evidence["truncations"]) == counts  # type: ignore[arg-type]


def test_at_most_ten_readers_are_named_that_jumped_over_a_loss() -> None:
    polls = [
        row for op in range(20, 32)
        for row in (read(B, 0, op=op), {**read(C, 2, op=op), "pos": 3})
    ]  # fmt: skip
    on = group(sends=[ack(A, 1)], polls=polls, **held(B, C, C))
    (anomaly,) = found(LOSS, on).anomalies
    assert anomaly.evidence["skipped_by"] == 12
    assert anomaly.evidence["skipping_op_ids"] == list(range(20, 30))
    assert "; 12 reads skipped that offset (op 20, 21, 22)" in anomaly.sentence


def test_where_a_read_missed_it_too_a_log_that_cannot_be_read_does_not_matter() -> None:
    rows: dict[str, list[Row]] = {
        "sends": [ack(A, 0)], "polls": [read(B, 1)], "final_reads": [final_read(2)], **held(C, B),
    }  # fmt: skip
    damaged = frozenset({"n1"})
    (sure,) = found(LOSS, group(facts(unreadable_nodes=damaged), **rows)).anomalies
    assert sure.broken_premises == ()
    both = facts(unreadable_nodes=damaged, cut_streams=True)
    (neither,) = found(LOSS, group(both, **rows)).anomalies
    assert neither.broken_premises == ("readable-final-logs",)
    rows["polls"] = [read(A, 0), read(B, 1)]
    (log_only,) = found(LOSS, group(facts(unreadable_nodes=damaged), **rows)).anomalies
    assert log_only.broken_premises == ("readable-final-logs",)


def test_the_sentence_says_where_a_lost_record_still_is() -> None:
    rows = held(B, C)
    rows["replica_records"] += log("n2", (0, A))
    rows["replica_states"] += [state("n2", 1)]
    (anomaly,) = found(LOSS, group(sends=[ack(A, 0)], **rows)).anomalies
    assert (
        "is missing from the log of the last leader n1, but is in the log of n2" in anomaly.sentence
    )


def test_rows_are_counted_from_the_start_of_the_leaders_own_log() -> None:
    rows = held(A, B, C)
    rows["replica_states"] += [state("n2", 3, start=2)]
    rows["replica_records"] += log("n2", (0, C), start=2)
    sends = [ack(A, 0), ack(B, 1, op=2), ack(C, 2, op=3)]
    assert found(LOSS, group(sends=sends, **rows)).rows == 3


def test_neither_acks_0_nor_a_compacted_topic_promises_that_records_stay() -> None:
    assert LOSS.applies(facts())
    assert not LOSS.applies(facts(plan={"acks": "0"}))
    assert not LOSS.applies(facts(plan={"broker": {"log.cleanup.policy": "compact"}}))


def test_the_first_offset_of_a_log_can_be_passed_by_a_read_of_the_second_only() -> None:
    for last, lost in ((0, 0), (1, 1)):
        on = group(sends=[ack(A, 0)], polls=[read(B, last)], final_reads=[final_read(last + 1)])
        assert len(found(LOSS, on).anomalies) == lost
    nothing = group(sends=[ack(A, 0)], final_reads=[final_read(0)])
    assert found(LOSS, nothing).anomalies == ()


def test_the_evidence_of_an_inconsistent_offset_is_of_that_offset_alone() -> None:
    polls = [read(B, 3, op=20), read(C, 2, op=21), read(C, 4, op=22), read(None, 3, op=23)]
    sends = [ack(A, 3, op=1), ack(B, 2, op=2), ack(B, 4, op=4), {**ack(C, 3, op=5), "acked": False}]
    on = group(sends=sends, polls=polls)
    anomaly = next(
        each for each in found(inconsistent_offsets.CHECKER, on).anomalies if each.offset == 3
    )
    assert (anomaly.evidence["send_op_ids"], anomaly.evidence["poll_op_ids"]) == ([1], [20, 23])
    assert anomaly.sentence == (
        f"offset 3 of log-0-0 held value {A} (acknowledged by op 1) and value {B} (polled by op 20)"
    )


def test_at_most_ten_ops_are_named_on_either_side_of_an_inconsistent_offset() -> None:
    sends = [ack(A, 3, op=op) for op in range(20, 32)]
    polls = [read(B, 3, op=op) for op in range(40, 52)]
    (anomaly,) = found(inconsistent_offsets.CHECKER, group(sends=sends, polls=polls)).anomalies
    assert anomaly.evidence["send_op_ids"] == list(range(20, 30))
    assert anomaly.evidence["poll_op_ids"] == list(range(40, 50))


def test_at_most_two_truncations_are_in_the_sentence_and_all_in_the_evidence() -> None:
    cuts: list[Row] = [{"node": f"n{at}", "from_offset": 3, "to_offset": 4} for at in (1, 2, 3)]
    on = group(sends=[ack(A, 3)], polls=[read(B, 3)], truncations=cuts)
    (anomaly,) = found(inconsistent_offsets.CHECKER, on).anomalies
    assert len(anomaly.evidence["truncations"]) == 3  # type: ignore[arg-type]
    assert anomaly.sentence.count("truncated") == 2


def test_the_smallest_value_may_be_one_of_two_at_the_first_offset() -> None:
    on = group(sends=[ack(0, 0)], polls=[read(0, 0), read(B, 0)])
    (anomaly,) = found(inconsistent_offsets.CHECKER, on).anomalies
    assert (anomaly.offset, anomaly.evidence["values"]) == (0, [0, B])
    assert anomaly.evidence["polled_values"] == [0, B]


def power_went(began_s: float) -> RunFacts:
    """Return a run in which both replicas lost offsets 4 to 8."""
    cut = DiskLoss(nodes=frozenset({"n1", "n2"}), topic="log-0", partition=0, end_after=4,
                   end_before=9, began_ns=int(began_s * S), until_ns=40 * S,
                   excuse="power-loss")  # fmt: skip
    return facts(plan={"replication": 2, "nodes": 2}, disk_losses=(cut,))


def announced(mark: int, *, at_s: int) -> Row:
    return {**leads(1, 0, at=at_s * S), "high_watermark": mark}


@pytest.mark.parametrize(
    ("began_s", "excuses"), [(20, ("power-loss",)), (20.5, ())], ids=["before", "after"]
)
def test_power_that_went_after_a_leaders_low_answer_does_not_explain_it(
    began_s: float, excuses: tuple[str, ...]
) -> None:
    about = power_went(began_s)
    fell = group(about, leadership=[announced(9, at_s=10), announced(5, at_s=20)])
    polls = [{**read(A, 7, phase="main"), "complete_ns": 15 * S}]
    early = group(about, polls=polls, leadership=[announced(5, at_s=20)])
    for checker, on in (
        (high_watermark_regression.CHECKER, fell), (uncommitted_read.CHECKER, early),
    ):  # fmt: skip
        (anomaly,) = found(checker, on).anomalies
        assert anomaly.excuses == excuses


@pytest.mark.parametrize(
    ("began_s", "excuses"), [(20, ("power-loss",)), (20.5, ())], ids=["before", "after"]
)
def test_power_that_went_after_another_record_took_the_place_does_not_explain_it(
    began_s: float, excuses: tuple[str, ...]
) -> None:
    about, states = power_went(began_s), [state("n1", 9), state("n2", 9)]
    last = log("n2", *((0, 10 + at) for at in range(5)), (1, B), (1, C))
    led = [announced(9, at_s=10), leads(2, 1, at=20 * S)]
    polls = [
        {**read(value, 5, op=op), "complete_ns": at_s * S, "leader_epoch": epoch}
        for op, (value, at_s, epoch) in enumerate(((A, 15, 0), (B, 20, 1)))
    ]
    on = group(about, polls=polls, leadership=led, replica_records=last, replica_states=states)
    for checker in (
        inconsistent_offsets.CHECKER, incomplete_leader.CHECKER, epoch_mismatch.CHECKER,
    ):  # fmt: skip
        (anomaly,) = found(checker, on).anomalies
        assert anomaly.excuses == excuses, checker.name
    # A value whose time is unknown may have come after the loss.
    polls[1]["complete_ns"] = None
    (anomaly,) = found(inconsistent_offsets.CHECKER, group(about, polls=polls)).anomalies
    assert anomaly.excuses == ("power-loss",)


def test_only_what_was_known_to_stand_at_that_offset_can_be_what_power_took() -> None:
    """It was acknowledged before the power went; others were, at other offsets or for nobody."""
    cut = DiskLoss(nodes=frozenset({"n1", "n2"}), topic="log-0", partition=0, end_after=0,
                   end_before=9, until_ns=2 * S, excuse="power-loss")  # fmt: skip
    about = facts(plan={"replication": 2, "nodes": 2}, disk_losses=(cut,))
    states: list[Row] = [state("n1", 9), state("n2", 9)]
    polls = [read(B, 3)]
    late = ack(A, 3, at=3 * S)
    for other in (
        ack(C, 2, op=2, at=S), ack(C, 4, op=2, at=S), {**ack(A, 3, op=2, at=S), "acked": False},
    ):  # fmt: skip
        on = group(about, sends=[late, other], polls=polls, replica_states=states)
        anomalies = found(inconsistent_offsets.CHECKER, on).anomalies
        assert [each.excuses for each in anomalies if each.offset == 3] == [()]
    on = group(about, sends=[late, ack(A, 3, op=2, at=S)], polls=polls, replica_states=states)
    (anomaly,) = found(inconsistent_offsets.CHECKER, on).anomalies
    assert anomaly.excuses == ("power-loss",)
    readers = group(about, polls=[read(A, 3), *polls], replica_states=states)
    (anomaly,) = found(inconsistent_offsets.CHECKER, readers).anomalies
    assert anomaly.excuses == ()
    for read_ns, excuses in ((2 * S, ("power-loss",)), (2 * S + S // 2, ())):
        first = {**read(A, 3, op=8), "complete_ns": read_ns}  # Its sender was told nothing.
        again = group(about, sends=[late], polls=[first, *polls], replica_states=states)
        (anomaly,) = found(inconsistent_offsets.CHECKER, again).anomalies
        assert anomaly.excuses == excuses


def test_a_record_is_dropped_where_another_one_stands_smaller_or_larger() -> None:
    on = group(**held(B, B, B, start=1))
    offsets = np.array([1, 2, 3, 0, 4])
    values = np.array([A, B, C, B, B])
    assert dropped(on, offsets, values).tolist() == [True, False, True, True, True]
    assert dropped(group(), offsets, values).all()
    assert dropped(group(**held()), offsets, values).all()


def test_unseen_asks_for_a_complete_final_read_that_was_to_read_anything() -> None:
    """What is beyond the end of all reads of a plain log is unseen all the same."""
    on = group(sends=[ack(A, 0), ack(B, 5, op=2)], polls=[read(A, 0)],
               final_reads=[final_read(1)])  # fmt: skip
    assert [each.offset for each in found(unseen.UNSEEN_CHECKER, on).anomalies] == [5]


def test_a_version_order_is_the_same_with_gaps_and_without() -> None:
    """Offsets in one piece take a shorter way than those that are far apart."""
    for far in (2, 3, 10, 40, 1000):
        polls = [read(A, 0), read(C, far)]
        sends = [ack(B, 1), ack(C, 1, op=2), ack(A, far, op=3)]
        order = version_order(group(sends=sends, polls=polls))
        assert order.offsets.tolist() == [0, 1, far]
        assert order.values.tolist() == [A, B, C]
    single = version_order(group(polls=[read(None, 0), read(0, 1), read(A, 2)]))
    assert (single.offsets.tolist(), single.values.tolist()) == ([1, 2], [0, A])


def test_who_acknowledged_is_told() -> None:
    row = {**ack(A, 0, op=7), "mop": 3, "process": 5}
    (anomaly,) = found(LOSS, group(sends=[row], **held(B))).anomalies
    names = ("op_id", "mop", "process", "leader_then", "leader_epoch_then")
    assert [anomaly.evidence[name] for name in names] == [7, 3, 5, 1, 0]
    assert anomaly.evidence["may_have_acknowledged"] == ["n1, leader of epoch 0"]
    nobody = group(sends=[row], polls=[read(B, 1)], final_reads=[final_read(2)])
    (unled,) = found(LOSS, nobody).anomalies
    assert [unled.evidence[name] for name in names] == [7, 3, 5, None, None]
    assert "at that offset" not in unled.sentence


def test_at_most_two_truncations_are_told_of_a_loss_and_all_are_evidence() -> None:
    cuts: list[Row] = [{"node": f"n{at}", "from_offset": 0, "to_offset": 1} for at in (1, 2, 3)]
    (anomaly,) = found(LOSS, group(sends=[ack(A, 0)], truncations=cuts, **held(B))).anomalies
    assert len(anomaly.evidence["truncations"]) == 3  # type: ignore[arg-type]
    assert anomaly.sentence.count("truncated") == 2


def test_what_only_a_read_missed_rests_on_whole_streams_though_the_log_is_whole() -> None:
    on = group(facts(cut_streams=True), sends=[ack(A, 0)], polls=[read(B, 1)],
               final_reads=[final_read(2)], **held(A, B))  # fmt: skip
    (anomaly,) = found(LOSS, on).anomalies
    assert anomaly.evidence["missing_from_leaders_log"] is False
    assert anomaly.broken_premises == ("whole-record",)


def test_a_record_that_is_not_ours_is_no_second_value_that_was_read() -> None:
    cut: Row = {"node": "n1", "from_offset": 3, "to_offset": 4}
    weak = facts(plan={"acks": "1"})
    sends = [ack(A, 3, acks="1")]
    for polls, excuses in (
        ([read(B, 3), read(None, 3)], ("acks-0-1",)),
        ([read(B, 3), read(0, 3, op=10)], ()),
        ([read(B, 3), {**read(C, 3, op=10), "offset": None}], ("acks-0-1",)),
    ):
        on = group(weak, sends=sends, polls=polls, truncations=[cut])
        (anomaly,) = found(inconsistent_offsets.CHECKER, on).anomalies
        assert anomaly.excuses == excuses


def test_a_final_read_that_ended_at_once_is_told_as_such() -> None:
    empty = found(unseen.INCOMPLETE_CHECKER, group(final_reads=[final_read(0, complete=False)]))
    (anomaly,) = empty.anomalies
    assert anomaly.sentence.startswith("the final read (read_uncommitted) of log-0-0 reached")
    about = facts(plan={"workload": "txn"})
    sends = [{**ack(A, 0), "txn_id": 1}]
    committed = {**final_read(0), "isolation": "read_committed"}
    (stuck,) = found(
        unseen.INCOMPLETE_CHECKER, group(about, sends=sends, final_reads=[committed])
    ).anomalies
    assert "ended at offset 0, where a transaction stayed open" in stuck.sentence
    short = {**committed, "complete": False, "target_end": 5}
    (only,) = found(
        unseen.INCOMPLETE_CHECKER, group(about, sends=sends, final_reads=[committed, short])
    ).anomalies
    assert only.evidence["isolation"] == "read_committed"
    (none,) = found(unseen.INCOMPLETE_CHECKER, group(about, sends=sends)).anomalies
    assert none.sentence == "log-0-0 was not read again at the end of the run"


def test_a_transactions_record_is_told_where_the_log_has_it_if_it_was_or_had_to_be_shown() -> None:
    """The first one of the log, which was acknowledged somewhere else."""
    about = facts(plan={"workload": "txn"})
    sends = [{**ack(A, 9), "txn_id": 1}]
    committed: Row = {"isolation": "read_committed"}
    complete: Row = {**final_read(1), **committed}

    def told(**rows: list[Row]) -> list[tuple[object, object]]:
        table = shares(group(about, sends=sends, **held(A), **rows))
        return [(row["offset"], row["shown"]) for row in table.to_pylist()]

    assert told(final_reads=[complete]) == [(0, False)]
    assert told(final_reads=[{**complete, "complete": False}]) == []
    assert told(final_reads=[{**final_read(1), "isolation": "read_uncommitted"}]) == []
    assert told() == []
    assert told(polls=[{**read(A, 0), **committed}]) == [(0, True)]
    shown = group(about, sends=sends, polls=[{**read(A, 9), **committed}], **held(B))
    assert shares(shown).column("offset").to_pylist() == [9], "the log does not have it"
    assert told(polls=[read(A, 0)]) == []


def test_a_read_before_a_loss_does_not_hide_a_read_of_the_same_offset_after_it() -> None:
    led = [_announced(5, 5, 0), _announced(3, 30, 2), _announced(4, 42, 2), _announced(9, 50, 2)]

    def reads(
        *told: tuple[int, int, int], others: tuple[DiskLoss, ...] = ()
    ) -> list[tuple[object, tuple[str, ...]]]:
        polls = [
            {**read(value, 7, op=op, phase="main"), "complete_ns": at_s * S}
            for value, op, at_s in told
        ]
        about = facts(disk_losses=(_power(10, 14), *others))
        on = group(about, leadership=led, polls=polls)
        anomalies = found(uncommitted_read.CHECKER, on).anomalies
        return [(each.evidence["op_id"], each.excuses) for each in anomalies]

    assert reads((A, 5, 9)) == [(5, ("power-loss",))]
    assert reads((B, 6, 41)) == [(6, ())]
    assert reads((A, 5, 9), (B, 6, 41)) == [(6, ())]
    # A busy client's poll may return late what its consumer fetched before the loss.
    assert reads((A, 5, 9), (A, 6, 16)) == [(5, ("power-loss",))]
    assert reads((A, 5, 9), (B, 6, 16), (C, 7, 27), others=(_power(25, 28),)) == [
        (5, ("power-loss",))
    ]
    assert reads((A, 5, 9), (B, 6, 29), (C, 7, 39), others=(_power(35, 40),)) == [(6, ())]
    doubtful = replace(_power(12, 20), topic="", partition=-1, excuse="unconfirmed-fault")
    assert reads((A, 5, 9), (B, 6, 18), others=(doubtful,)) == [(6, ("unconfirmed-fault",))]


@pytest.mark.parametrize(
    ("begun_s", "plan", "excuses"),
    [(8, {"sends_per_op": 20}, ("power-loss",)), (8, {}, ()), (15, {"sends_per_op": 20}, ())],
)
def test_a_busy_client_reads_late_what_an_op_of_several_sends_wrote_before_a_loss(
    begun_s: int, plan: dict[str, object], excuses: tuple[str, ...]
) -> None:
    sends = [{**ack(A, 7, at=20 * S), "invoke_ns": begun_s * S}]
    polls = [{**read(A, 7, phase="main"), "complete_ns": 16 * S}]
    on = group(facts(plan=plan, disk_losses=(_power(10, 14),)), sends=sends, polls=polls,
               leadership=[_announced(3, 30, 2)])  # fmt: skip
    (anomaly,) = found(uncommitted_read.CHECKER, on).anomalies
    assert anomaly.excuses == excuses
