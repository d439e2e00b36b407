"""What leaders announced: later leaders have it, it never goes back, and readers get no more."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from checkers import (
    committed_truncation,
    high_watermark_regression,
    incomplete_leader,
    uncommitted_read,
)
from checkers.announcements import announcements, first_highest, latest
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.uncommitted_read import SEEN_WITHIN_NS
from results.record.milestones import Milestone
from results.record.terms import Mode
from results.record.verdict import Anomaly
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    elected,
    facts,
    final_read,
    found,
    group,
    leads,
    log,
    read,
    sentences,
    state,
)  # fmt: skip

UNCLEAN: dict[str, object] = {"broker": {"unclean.leader.election.enable": "true"}}
INCOMPLETE, REGRESSION = incomplete_leader.CHECKER, high_watermark_regression.CHECKER
UNCOMMITTED = uncommitted_read.CHECKER


def announced(broker: int, epoch: int, mark: int | None, *, at: int = S) -> Row:
    """An answer of a leader, asked for a nanosecond earlier."""
    return {**leads(broker, epoch, at=at), "high_watermark": mark}


def polled(value: int | None, offset: int, *, at: int = S, op: int = 9) -> Row:
    return {**read(value, offset, op=op, phase="main"), "process": 4, "complete_ns": at}


def stopped(**how: str) -> tuple[Milestone, ...]:
    return (
        *(stone for stone in facts().milestones if stone.name != "stopped"),
        Milestone(name="stopped", at_ns=99, detail=how),
    )


def lines(node: str, *told: tuple[int, int], end: int = 3) -> Row:
    """A final state with the lines of a checkpoint file."""
    epochs = [{"epoch": epoch, "start_offset": start} for epoch, start in told]
    return {**state(node, end, end), "epochs": epochs}


def power_lost(*nodes: str, after: int, before: int) -> tuple[DiskLoss, ...]:
    cut = DiskLoss(
        nodes=frozenset(nodes), topic="log-0", partition=0, end_after=after, end_before=before,
        until_ns=9 * S, excuse="power-loss",
    )  # fmt: skip
    return (cut,)


def test_only_a_leader_that_names_epoch_and_mark_announces() -> None:
    rows = [
        announced(1, 4, 7),
        announced(1, 3, 0),
        {**announced(1, 4, 9), "source": "metadata"},
        {**announced(1, 4, 9), "source": "quorum"},
        announced(-1, 4, 9),
        {**announced(1, 4, 9), "leader_epoch": None},
        announced(1, 4, None),
    ]
    told = announcements(group(leadership=rows))
    assert [told[at].epoch for at in range(len(told))] == [3, 4]
    assert [told[at].high_watermark for at in range(len(told))] == [0, 7]
    zero = announcements(group(leadership=[announced(0, 0, 1)]))
    assert zero[0].text == "broker 0 announced the high watermark 1 of epoch 0 at 1.000 s"


@pytest.mark.parametrize("checker", [INCOMPLETE, REGRESSION, UNCOMMITTED], ids=lambda it: it.name)
def test_brokers_before_22_announce_nothing(checker: object) -> None:
    applies = checker.applies  # type: ignore[attr-defined]  # A checker's.
    systems = {"kafka:2.1.1": False, "kafka:2.2.0": True, "kafka:4.3.1": True}
    for system, announces in systems.items():
        assert applies(facts(plan={"system": system})) is announces


def test_formats_without_epochs_tell_of_no_start() -> None:
    old: dict[str, object] = {"log.message.format.version": "0.10.2"}
    about = facts(plan={"system": "kafka:2.8.2", "broker": old, "acks": "1"})
    assert about.plan.mode is Mode.ZOOKEEPER
    assert not INCOMPLETE.applies(about)
    assert REGRESSION.applies(about)


def test_a_leader_that_starts_where_the_last_one_had_committed_is_complete() -> None:
    on = group(
        leadership=[announced(1, 0, 1), announced(1, 0, 2, at=2 * S), announced(2, 1, 2, at=3 * S)],
        replica_records=[*log("n1", (0, A), (0, B), (1, C)), *log("n2", (0, A), (0, B), (1, C))],
    )
    result = found(INCOMPLETE, on)
    assert (result.rows, result.anomalies) == (1, ())


def test_a_leader_that_starts_below_what_was_announced_lacks_it() -> None:
    on = group(
        leadership=[announced(1, 0, 1), announced(1, 0, 3, at=2 * S), announced(2, 5, 2, at=3 * S)],
        replica_records=[*log("n1", (0, A), (0, B)), *log("n2", (0, A), (5, C))],
    )
    (anomaly,) = found(INCOMPLETE, on).anomalies
    assert anomaly.evidence == {
        "epoch": 5,
        "leader": 2,
        "start_offset": 1,
        "start_of": "n2",
        "snapshot": "final",
        "start_is": "record",
        "announced_by": 1,
        "announced_epoch": 0,
        "announced_high_watermark": 3,
        "announced_asked_ns": 2 * S - 1,
        "announced_observed_ns": 2 * S,
    }
    assert (anomaly.offset, anomaly.excuses, anomaly.broken_premises) == (1, (), ())
    assert anomaly.sentence == (
        "broker 2, the leader of log-0-0 in epoch 5, began without offsets 1 to 2, which had been"
        " committed: broker 1 announced the high watermark 3 of epoch 0 at 2.000 s, and n2's first"
        " record of epoch 5 is at 1"
    )


def test_what_later_leaders_announce_binds_no_earlier_one() -> None:
    records = log("n1", (0, A), (1, B))
    same = group(leadership=[announced(1, 1, 2)], replica_records=records)
    assert (found(INCOMPLETE, same).rows, found(INCOMPLETE, same).anomalies) == (0, ())
    later = group(leadership=[announced(1, 2, 2), announced(1, 0, 1)], replica_records=records)
    assert found(INCOMPLETE, later).anomalies == ()


def test_the_highest_of_all_epochs_before_binds() -> None:
    told = [announced(1, 0, 3), announced(2, 1, 1), announced(3, 2, 2)]
    on = group(leadership=told, replica_records=log("n1", (0, A), (0, B), (3, C)))
    (anomaly,) = found(INCOMPLETE, on).anomalies
    assert (anomaly.evidence["announced_epoch"], anomaly.evidence["start_offset"]) == (0, 2)
    assert "the leader of log-0-0 in epoch 3, began without offset 2, which" in anomaly.sentence
    assert anomaly.evidence["leader"] is None


def test_the_smallest_start_counts_wherever_it_is() -> None:
    step = [{**row, "snapshot": "step-01"} for row in log("n2", (0, A), (4, C))]
    on = group(
        leadership=[announced(1, 0, 2)],
        replica_records=[*log("n1", (0, A), (0, B), (4, C)), *step],
    )
    (anomaly,) = found(INCOMPLETE, on).anomalies
    assert (anomaly.evidence["start_of"], anomaly.evidence["snapshot"]) == ("n2", "step-01")
    assert "is at 1 at the end of step-01" in anomaly.sentence


def test_a_checkpoint_tells_after_a_clean_stop_only() -> None:
    rows: dict[str, list[Row]] = {
        "leadership": [announced(1, 0, 2)],
        "replica_records": log("n1", (0, A), (0, B), (4, C)),
        "replica_states": [lines("n1", (0, 0), (4, 1))],
    }
    for how in ("killed", "aborted"):
        killed = facts(milestones=stopped(n1=how, n2="clean"))
        assert found(INCOMPLETE, group(killed, **rows)).anomalies == ()
    (anomaly,) = found(INCOMPLETE, group(facts(milestones=stopped(n1="clean")), **rows)).anomalies
    assert anomaly.evidence["start_is"] == "checkpoint"
    assert "according to n1's checkpoint, epoch 4 starts at 1" in anomaly.sentence
    rows["replica_states"] = [lines("n1", (0, 0), (4, 2))]
    right = group(facts(milestones=stopped(n1="clean")), **rows)
    assert found(INCOMPLETE, right).anomalies == ()


@pytest.mark.parametrize("held", [((1, 2), (2, 2)), ((2, 2), (1, 2)), ((2, 1), (2, 2))])
def test_of_equal_starts_the_first_nodes_is_told(held: tuple[tuple[int, int], ...]) -> None:
    """The lowest start of epoch 4, whichever node has it; broker 0 led."""
    before = ((0, A), (0, B))
    records = [
        row for node, (start, _) in zip(("n1", "n2"), held, strict=True)
        for row in log(node, *before[:start], (4, C))
    ]  # fmt: skip
    told = [announced(1, 0, 3), announced(0, 4, 3), announced(2, 5, 3)]
    (anomaly,) = found(INCOMPLETE, group(leadership=told, replica_records=records)).anomalies
    lowest = min(start for start, _ in held)
    first = "n1" if held[0][0] == lowest else "n2"
    assert (anomaly.evidence["start_offset"], anomaly.evidence["start_of"]) == (lowest, first)
    assert anomaly.evidence["leader"] == 0


def test_each_stretch_of_a_log_counts_also_where_epochs_fall() -> None:
    on = group(leadership=[announced(1, 0, 2)], replica_records=log("n1", (5, A), (3, B)))
    starts = [each.evidence["start_offset"] for each in found(INCOMPLETE, on).anomalies]
    assert starts == [0, 1]
    above = group(
        leadership=[announced(1, 0, 1)], replica_records=log("n1", (0, A), (0, B), (3, C))
    )
    assert found(INCOMPLETE, above).anomalies == ()


def test_without_epochs_or_answers_no_start_was_looked_at() -> None:
    no_epochs = group(leadership=[announced(1, 0, 2)], replica_records=log("n1", (-1, A)))
    assert found(INCOMPLETE, no_epochs).rows == 0
    assert found(INCOMPLETE, group(replica_records=log("n1", (0, A)))).rows == 0


@pytest.mark.parametrize("source", ["zookeeper", "metadata-log", "metadata"])
def test_who_led_is_named_by_the_best_source(source: str) -> None:
    told = [announced(1, 0, 2), leads(3, 7, source=source), leads(-1, 7, source="metadata-log")]
    on = group(leadership=told, replica_records=log("n1", (0, A), (7, B)))
    assert found(INCOMPLETE, on).anomalies[0].evidence["leader"] == 3
    better = group(
        leadership=[*told, announced(2, 7, 2)], replica_records=log("n1", (0, A), (7, B))
    )
    assert found(INCOMPLETE, better).anomalies[0].evidence["leader"] == 2


def of_three(about: RunFacts, *told: Row, polls: Sequence[Row] = ()) -> Group:
    """A run with three replicas of which the last leader began at offset 1."""
    records = [row for node in ("n1", "n2", "n3") for row in log(node, (0, A), (5, C))]
    return group(about, leadership=list(told), replica_records=records, polls=list(polls))


def test_unclean_elections_excuse_a_loss_of_what_was_announced() -> None:
    told = (announced(1, 0, 3), announced(2, 5, 1, at=2 * S), elected(2, 5, 7, unclean=True))
    polls = [polled(B, 1, at=S)]
    for checker in (INCOMPLETE, REGRESSION, UNCOMMITTED):
        (excused,) = found(checker, of_three(facts(plan=UNCLEAN), *told, polls=polls)).anomalies
        assert excused.excuses == ("unclean-election",), checker.name
        (bare,) = found(checker, of_three(facts(), *told, polls=polls)).anomalies
        assert bare.excuses == (), checker.name


def test_power_losses_of_all_replicas_excuse_it_too_if_they_took_all_of_it() -> None:
    told = (announced(1, 0, 3), announced(2, 5, 1, at=2 * S))
    polls = [polled(B, 1, at=S)]
    nodes = ("n1", "n2", "n3")
    whole = facts(disk_losses=power_lost(*nodes, after=1, before=3))
    for checker in (INCOMPLETE, REGRESSION, UNCOMMITTED):
        (excused,) = found(checker, of_three(whole, *told, polls=polls)).anomalies
        assert excused.excuses == ("power-loss",), checker.name
    for part in (
        power_lost(*nodes, after=2, before=3),
        power_lost(*nodes, after=1, before=2),
        power_lost("n1", "n2", after=1, before=3),
    ):
        for checker in (INCOMPLETE, REGRESSION):
            (bare,) = found(checker, of_three(facts(disk_losses=part), *told)).anomalies
            assert bare.excuses == (), (checker.name, part)


def test_marks_that_only_grow_are_right_whoever_leads() -> None:
    told = [announced(1, 0, 2), announced(1, 0, 2, at=2 * S), announced(2, 1, 2, at=3 * S),
            announced(2, 1, 3, at=4 * S)]  # fmt: skip
    result = found(REGRESSION, group(leadership=told))
    assert (result.rows, result.anomalies) == (3, ())


def test_an_answer_is_compared_if_any_other_one_came_before_it() -> None:
    epochs = group(leadership=[announced(1, 0, 1), announced(2, 1, 2), announced(3, 2, 3)])
    assert found(REGRESSION, epochs).rows == 2
    times = group(leadership=[announced(1, 0, at, at=at * S) for at in (1, 2, 3)])
    assert found(REGRESSION, times).rows == 2


def test_a_later_epoch_may_not_announce_less_whatever_the_clocks_say() -> None:
    told = [announced(1, 0, 5, at=9 * S), announced(2, 3, 4), announced(2, 3, 2, at=2 * S),
            announced(2, 3, 5, at=3 * S)]  # fmt: skip
    (anomaly,) = found(REGRESSION, group(leadership=told)).anomalies
    assert anomaly.evidence == {
        "earlier_by": 1,
        "earlier_epoch": 0,
        "earlier_high_watermark": 5,
        "earlier_asked_ns": 9 * S - 1,
        "earlier_observed_ns": 9 * S,
        "later_by": 2,
        "later_epoch": 3,
        "later_high_watermark": 2,
        "later_asked_ns": 2 * S - 1,
        "later_observed_ns": 2 * S,
        "answers": 2,
    }
    assert anomaly.offset == 2
    assert anomaly.sentence == (
        "the high watermark of log-0-0 went back from 5 to 2: broker 1 announced the high watermark"
        " 5 of epoch 0 at 9.000 s, and broker 2 announced the high watermark 2 of epoch 3 at"
        " 2.000 s (2 answers of that epoch are too low)"
    )
    one = sentences(REGRESSION, group(leadership=[announced(1, 0, 5), announced(2, 1, 4)]))
    assert one[0].endswith("announced the high watermark 4 of epoch 1 at 1.000 s")


def test_each_epoch_that_fell_counts_once() -> None:
    told = [announced(1, 0, 5), announced(2, 1, 4), announced(3, 2, 3), announced(3, 2, 4, at=9)]
    fallen = found(REGRESSION, group(leadership=told)).anomalies
    assert [(each.evidence["later_epoch"], each.offset) for each in fallen] == [(2, 3), (1, 4)]


def asked(mark: int, begin: int | None, end: int | None) -> Row:
    return {**announced(1, 4, mark), "asked_ns": begin, "observed_ns": end}


def test_in_one_epoch_only_answers_that_do_not_overlap_have_an_order() -> None:
    overlapping = [asked(5, 10, 20), asked(4, 20, 30), asked(3, 15, 25)]
    assert found(REGRESSION, group(leadership=overlapping)).anomalies == ()
    for rows in ([asked(5, 10, 20), asked(4, 21, 30)], [asked(4, 21, 30), asked(5, 10, 20)]):
        (anomaly,) = found(REGRESSION, group(leadership=rows)).anomalies
        assert anomaly.evidence["earlier_high_watermark"] == 5
    untimed = [asked(5, None, None), asked(4, 21, 30), asked(3, None, None), asked(2, 0, None)]
    assert found(REGRESSION, group(leadership=untimed)).anomalies == ()


def test_an_answer_that_ended_at_the_very_start_came_first() -> None:
    (anomaly,) = found(REGRESSION, group(leadership=[asked(5, 0, 0), asked(4, 1, 2)])).anomalies
    assert anomaly.evidence["earlier_observed_ns"] == 0


def test_an_old_leader_may_announce_less_than_a_new_one_before_it() -> None:
    told = [announced(2, 1, 5), announced(1, 0, 3, at=2 * S)]
    assert found(REGRESSION, group(leadership=told)).anomalies == ()


def test_each_epoch_tells_its_own_deepest_fall() -> None:
    told = [announced(1, 0, 5), announced(2, 1, 2), announced(3, 2, 4)]
    fallen = found(REGRESSION, group(leadership=told)).anomalies
    assert [(each.evidence["later_epoch"], each.offset) for each in fallen] == [(1, 2), (2, 4)]


def test_of_two_equal_falls_the_one_between_epochs_is_told() -> None:
    told = [announced(1, 0, 5), asked(5, 10, 20), asked(4, 30, 40)]
    (anomaly,) = found(REGRESSION, group(leadership=told)).anomalies
    assert anomaly.evidence["earlier_epoch"] == 0


def test_where_the_highest_stands_first() -> None:
    marks = np.array([5, 6, 6, 4, 7, 7])
    assert first_highest(marks).tolist() == [0, 1, 1, 1, 4, 4]
    assert latest(marks, np.array([0, 1, 6])).tolist() == [-1, 5, 7]


def test_the_deeper_fall_is_told() -> None:
    told = [announced(1, 0, 6), asked(5, 10, 20), asked(4, 30, 40)]
    (anomaly,) = found(REGRESSION, group(leadership=told)).anomalies
    assert (anomaly.evidence["earlier_epoch"], anomaly.evidence["answers"]) == (0, 2)
    told = [announced(1, 0, 5), asked(6, 10, 20), asked(4, 30, 40)]
    (anomaly,) = found(REGRESSION, group(leadership=told)).anomalies
    assert (anomaly.evidence["earlier_epoch"], anomaly.evidence["answers"]) == (4, 1)


def test_what_lies_below_the_mark_that_is_announced_next_was_committed() -> None:
    on = group(polls=[polled(A, 0), polled(B, 1)], leadership=[announced(1, 0, 2, at=2 * S)])
    result = found(UNCOMMITTED, on)
    assert (result.rows, result.anomalies) == (2, ())


def test_a_value_at_or_above_the_mark_that_is_announced_next_was_read_too_early() -> None:
    on = group(
        polls=[polled(A, 0), polled(B, 1, op=8, at=S + 7), polled(B, 1), polled(C, 2)],
        leadership=[announced(1, 3, 1, at=2 * S), announced(1, 3, 3, at=3 * S)],
    )
    result = found(UNCOMMITTED, on)
    assert result.rows == 4
    first, second = result.anomalies
    assert first.evidence == {
        "value": B,
        "offset": 1,
        "op_id": 9,
        "process": 4,
        "completed_ns": S,
        "polls": 2,
        "announced_by": 1,
        "announced_epoch": 3,
        "announced_high_watermark": 1,
        "announced_asked_ns": 2 * S - 1,
        "announced_observed_ns": 2 * S,
    }
    assert (first.offset, second.offset, second.evidence["polls"]) == (1, 2, 1)
    assert first.sentence == (
        f"op 9 (process 4) read value {B} at offset 1 of log-0-0 at 1.000 s, which was not"
        " committed: in the first answer of a leader after the read, broker 1 announced the high"
        " watermark 1 of epoch 3 at 2.000 s"
    )


def test_an_answer_that_was_asked_for_before_the_poll_ended_tells_nothing() -> None:
    before = [announced(1, 0, 1, at=S + 1), announced(1, 0, 1, at=S // 2)]  # Asked as it ended.
    assert found(UNCOMMITTED, group(polls=[polled(B, 1)], leadership=before)).rows == 0
    after = [*before, announced(1, 0, 2, at=S + 2)]
    result = found(UNCOMMITTED, group(polls=[polled(B, 1)], leadership=after))
    assert (result.rows, result.anomalies) == (1, ())
    low = [announced(1, 0, 1, at=S + 2), announced(1, 0, 2, at=S + 3)]
    assert len(found(UNCOMMITTED, group(polls=[polled(B, 1)], leadership=low)).anomalies) == 1


def test_the_first_answer_decides_and_no_later_one() -> None:
    """What was committed and then lost is high-watermark-regression."""
    told = [announced(1, 0, 2, at=2 * S), announced(2, 1, 1, at=3 * S)]
    assert found(UNCOMMITTED, group(polls=[polled(B, 1)], leadership=told)).anomalies == ()


def test_an_old_leader_alone_proves_nothing_while_a_newer_epoch_may_serve_readers() -> None:
    zombie, poll = announced(1, 0, 1, at=2 * S), [polled(B, 1)]
    for source, at in (("metadata", 3 * S), ("zookeeper", 2 * S - 1 + SEEN_WITHIN_NS)):
        seen = leads(2, 1, at=at, source=source)
        unchecked = found(UNCOMMITTED, group(polls=poll, leadership=[zombie, seen]))
        assert (unchecked.rows, unchecked.anomalies) == (0, ())
        newer = group(polls=poll, leadership=[zombie, seen, announced(2, 1, 2, at=4 * S)])
        assert (found(UNCOMMITTED, newer).rows, found(UNCOMMITTED, newer).anomalies) == (1, ())
        low = group(polls=poll, leadership=[zombie, seen, announced(2, 1, 1, at=4 * S)])
        assert found(UNCOMMITTED, low).anomalies[0].evidence["announced_by"] == 2
    late = leads(2, 1, at=2 * S + SEEN_WITHIN_NS, source="metadata")
    untimed = {**leads(2, 1, source="state-change-log"), "observed_ns": None}
    unseen = {**leads(2, 1, source="metadata"), "observed_ns": None}
    for harmless in (late, untimed, unseen, elected(2, 1, 5)):
        on = group(polls=poll, leadership=[zombie, harmless])
        assert found(UNCOMMITTED, on).anomalies[0].evidence["announced_by"] == 1


def unrecovered() -> tuple[Milestone, ...]:
    """The run's, whose recovery was waited for in vain."""
    failed = {"failed": "log-0-0 has no full ISR"}
    return tuple(
        replace(stone, detail=failed) if stone.name == "recovered" else stone
        for stone in facts().milestones
    )


def test_the_end_that_final_reads_were_told_is_an_answer_too() -> None:
    told = [announced(1, 0, 3, at=1)]
    on = group(leadership=told, final_reads=[final_read(2)])
    (anomaly,) = found(REGRESSION, on).anomalies
    assert anomaly.sentence.endswith(", and its leader reported the end 2 to the final reads")
    assert anomaly.evidence["later_told_to"] == "final reads"
    assert anomaly.evidence["answers"] == 1
    for end in (3, 4):
        right = found(REGRESSION, group(leadership=told, final_reads=[final_read(end)]))
        assert (right.rows, right.anomalies) == (1, ())


def test_the_end_of_a_partition_may_be_told_as_zero_but_an_unknown_one_is_none() -> None:
    told = [announced(1, 0, 3, at=1)]
    (emptied,) = found(REGRESSION, group(leadership=told, final_reads=[final_read(0)])).anomalies
    assert (emptied.offset, emptied.evidence["later_high_watermark"]) == (0, 0)
    unknown: Row = {**final_read(0), "target_end": None}
    result = found(REGRESSION, group(leadership=told, final_reads=[unknown]))
    assert (result.rows, result.anomalies) == (0, ())


def test_an_end_is_held_only_against_what_was_told_before_the_final_reads() -> None:
    first = {**announced(1, 0, 3), "asked_ns": 0, "observed_ns": 0}
    on = group(leadership=[first], final_reads=[final_read(2)])
    assert len(found(REGRESSION, on).anomalies) == 1
    stones = tuple(stone for stone in facts().milestones if stone.name != "final-reads")
    untimed = {**first, "observed_ns": None}
    for about, told in ((facts(), []), (facts(), [untimed]), (facts(milestones=stones), [first])):
        result = found(REGRESSION, group(about, leadership=told, final_reads=[final_read(2)]))
        assert (result.rows, result.anomalies) == (0, ())


def test_what_was_announced_after_the_final_reads_began_is_no_measure_of_their_ends() -> None:
    began = next(stone.at_ns for stone in facts().milestones if stone.name == "final-reads")
    for at, falls in ((began, 1), (began + 1, 0)):
        told = {**announced(1, 0, 3), "asked_ns": 0, "observed_ns": at}
        on = group(leadership=[told], final_reads=[final_read(2)])
        assert len(found(REGRESSION, on).anomalies) == falls


@pytest.mark.parametrize(
    "about",
    [
        facts(milestones=unrecovered()),
        facts(plan={"workload": "txn"}),
    ],
    ids=["unrecovered", "transactional"],
)
def test_where_the_leader_may_be_an_old_one_or_the_last_stable_offset_lower_it_is_none(
    about: RunFacts,
) -> None:
    told = group(about, leadership=[announced(1, 0, 3, at=1)], final_reads=[final_read(2)])
    assert (found(REGRESSION, told).rows, found(REGRESSION, told).anomalies) == (0, ())


def test_a_last_stable_offset_does_not_go_back_below_what_was_read_as_committed() -> None:
    began = next(stone.at_ns for stone in facts().milestones if stone.name == "final-reads")
    end = {**final_read(2), "isolation": "read_committed"}
    given = {**polled(A, 2), "isolation": "read_committed", "complete_ns": began}

    def falls(poll: Row, about: RunFacts | None = None, read: Row = end) -> list[Anomaly]:
        polls = [poll, {**poll, "offset": 0, "op_id": 10}]
        on = group(about or facts(plan={"workload": "txn"}), polls=polls, final_reads=[read])
        return list(found(REGRESSION, on).anomalies)

    (anomaly,) = falls(given)
    assert "the last stable offset of log-0-0 went back from 3 to 2: op" in anomaly.sentence
    assert anomaly.evidence["earlier_high_watermark"] == 3
    assert anomaly.evidence["earlier_read_by"] == 9
    assert len(falls({**given, "complete_ns": 0})) == 1
    # It lies below the end; was read later; by a reader of what is open; the end is another one's.
    assert falls({**given, "offset": 1}) == []
    assert falls({**given, "complete_ns": None}) == []
    assert falls({**given, "complete_ns": began + 1}) == []
    assert falls({**given, "isolation": "read_uncommitted"}) == []
    assert falls(given, read={**end, "isolation": "read_uncommitted"}) == []
    # Nobody knows who told an end before the recovery; without transactions all is decided.
    assert falls(given, facts(plan={"workload": "txn"}, milestones=unrecovered())) == []
    assert falls(given, facts()) == []


def test_a_marker_that_every_replica_lost_lets_the_last_stable_offset_go_back() -> None:
    began = next(stone.at_ns for stone in facts().milestones if stone.name == "final-reads")
    end = {**final_read(1), "isolation": "read_committed"}
    given = {**polled(A, 2), "isolation": "read_committed", "complete_ns": began}
    for after, excuses in ((2, ("power-loss",)), (3, ())):
        lost = power_lost("n1", "n2", "n3", after=after, before=4)
        about = facts(plan={"workload": "txn"}, disk_losses=lost)
        (anomaly,) = found(REGRESSION, group(about, polls=[given], final_reads=[end])).anomalies
        assert anomaly.excuses == excuses


def test_an_unclean_election_and_lost_power_explain_a_lower_end() -> None:
    nodes = ("n1", "n2", "n3")
    records = [row for node in nodes for row in log(node, (0, A), (5, C))]
    told = [announced(1, 0, 3, at=1), elected(2, 5, 7, unclean=True)]
    lost = facts(disk_losses=power_lost(*nodes, after=1, before=3))
    for about, leadership, excuses in (
        (facts(plan=UNCLEAN), told, ("unclean-election",)),
        (lost, told[:1], ("power-loss",)),
        (facts(), told[:1], ()),
    ):
        on = group(
            about, leadership=leadership, replica_records=records, final_reads=[final_read(1)]
        )
        (anomaly,) = found(REGRESSION, on).anomalies
        assert anomaly.excuses == excuses


def test_the_epoch_of_the_record_itself_was_known_to_its_leader() -> None:
    zombie, poll = announced(1, 0, 1, at=2 * S), {**polled(B, 1), "leader_epoch": 1}
    assert found(UNCOMMITTED, group(polls=[poll], leadership=[zombie])).rows == 0
    current = group(polls=[poll], leadership=[zombie, announced(2, 1, 1, at=3 * S)])
    assert found(UNCOMMITTED, current).anomalies[0].evidence["announced_by"] == 2


def test_each_poll_is_held_against_the_epoch_that_can_have_served_it() -> None:
    """The first one ended long before epoch 1 was seen, the second one after."""
    late = 3 * SEEN_WITHIN_NS
    on = group(
        polls=[polled(B, 1), polled(C, 2, at=late)],
        leadership=[
            announced(1, 0, 1, at=2 * S), announced(2, 1, 3, at=late - S),
            announced(1, 0, 2, at=late + S), announced(2, 1, 3, at=late + 2 * S),
        ],
    )  # fmt: skip
    result = found(UNCOMMITTED, on)
    assert (result.rows, [each.offset for each in result.anomalies]) == (2, [1])


def test_a_poll_without_an_end_and_a_record_without_a_value() -> None:
    told = [announced(1, 0, 0, at=2 * S)]
    open_poll = {**polled(A, 0), "complete_ns": None}
    assert found(UNCOMMITTED, group(polls=[open_poll], leadership=told)).rows == 0
    nameless = group(polls=[polled(None, 0)], leadership=told)
    (anomaly,) = found(UNCOMMITTED, nameless).anomalies
    assert anomaly.evidence["value"] is None
    assert "read a record at offset 0" in anomaly.sentence
    assert found(UNCOMMITTED, group(polls=[polled(A, 0)])).rows == 0


def after_an_unclean_election(*earlier: Row) -> Group:
    """Epoch 3 began uncleanly and announced 5; epoch 4 begins at 4."""
    records = [(1, A)] * 2 + [(3, B)] * 2 + [(4, C)] * 2
    elections = [elected(2, 1, 10), {**elected(2, 3, 20), "unclean": True}, elected(3, 4, 30)]
    return group(
        facts(plan=UNCLEAN),
        replica_records=[row for node in ("n1", "n2", "n3") for row in log(node, *records)],
        replica_states=[state(node, 6, 6) for node in ("n1", "n2", "n3")],
        leadership=[*elections, *earlier, announced(2, 3, 5, at=20 * S),
                    announced(3, 4, 6, at=30 * S)],
    )  # fmt: skip


def test_an_unclean_election_excuses_nothing_that_was_announced_after_it() -> None:
    for earlier in ((), (announced(2, 1, 9, at=10 * S),)):
        on = after_an_unclean_election(*earlier)
        guilty = [each for each in found(INCOMPLETE, on).anomalies if not each.excuses]
        assert [(each.offset, each.evidence["announced_epoch"]) for each in guilty] == [(4, 3)]
        own = found(committed_truncation.CHECKER, on).anomalies
        assert [(each.offset, each.excuses) for each in own] == [(4, ())]


def test_an_unclean_election_excuses_what_was_announced_before_it() -> None:
    on = after_an_unclean_election(announced(2, 1, 9, at=10 * S))
    before = [each for each in found(INCOMPLETE, on).anomalies if each.excuses]
    assert [each.evidence["announced_epoch"] for each in before] == [1]


@pytest.mark.parametrize("lower", [announced(2, 2, 60, at=40 * S), announced(3, 3, 60, at=40 * S)])
@pytest.mark.parametrize(
    "about",
    [facts(plan=UNCLEAN), facts(disk_losses=power_lost("n1", "n2", "n3", after=0, before=100))],
)
def test_no_older_mark_hides_that_a_mark_goes_back_after_the_loss(
    about: RunFacts, lower: Row
) -> None:
    """What was announced in epoch 1 was lost, and 80 was announced since then."""
    since = [elected(2, 2, 7, unclean=True), announced(2, 2, 80, at=30 * S)]
    for earlier in ((), (announced(1, 1, 100, at=5 * S),)):
        on = group(about, leadership=[*earlier, *since, lower])
        guilty = [each for each in found(REGRESSION, on).anomalies if not each.excuses]
        marks = [each.evidence["earlier_high_watermark"] for each in guilty]
        assert (marks, [each.offset for each in guilty]) == ([80], [60])


def test_no_older_mark_hides_that_the_final_reads_end_below_what_was_announced_since() -> None:
    told = [announced(1, 1, 9, at=1), elected(2, 2, 7, unclean=True), announced(2, 2, 5, at=2)]
    on = group(facts(plan=UNCLEAN), leadership=told, final_reads=[final_read(4)])
    guilty = [each for each in found(REGRESSION, on).anomalies if not each.excuses]
    assert [each.evidence["earlier_high_watermark"] for each in guilty] == [5]
