"""repeated-input: two committed transactions of a pipeline handled the same record."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from checkers import repeated_input
from checkers.facts import DiskLoss
from checkers.reigns import GROUPS, TRANSACTIONS, Reign
from tests.broken.corpus import Spot, broken, innocent, spot_of
from tests.broken.pipelines import aborted, never_answered
from tests.broken.record import Record
from tests.broken.transactional import show
from tests.checkers.partition_rows import A, S, facts, found
from tests.checkers.pipelines import DONE, PIPELINE, drawn, effect, handles, pipeline, places

CHECKER, NAME = repeated_input.CHECKER, repeated_input.NAME
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (NAME, {"op_ids": []}, "a member that the group had already replaced"),
]
EXCUSED_BY = [(NAME, {"unclean-election", "power-loss", "wipe", "bit-flip"})]
ROWS_OF = [
    (
        CHECKER,
        pipeline([handles(0, 2)], [effect(2, "aborted")]),
        "handled twice could not be detected",
        pipeline([handles(0, 1)], [DONE]),
        1,
    )
]


def test_an_input_that_two_committed_transactions_handled_is_repeated() -> None:
    rows = [handles(4, 1), handles(4, 2), handles(5, 2)]
    assert places(CHECKER, rows, DONE, effect(2, "committed")) == [4]
    for fate in ("aborted", "unknown"):
        assert places(CHECKER, rows, DONE, effect(2, fate)) == []


TWICE = [handles(4, 1), handles(4, 2)]


def power_lost(at_s: int, topic: str, partition: int = 0) -> tuple[DiskLoss, ...]:
    return tuple(
        DiskLoss(
            nodes=frozenset({f"n{number}"}), topic=topic, partition=partition, end_after=4,
            end_before=6, until_ns=(at_s + 5) * S, began_ns=at_s * S, excuse="power-loss",
        )
        for number in range(1, 4)
    )  # fmt: skip


@pytest.mark.parametrize("place", [(GROUPS, 7), (TRANSACTIONS, 7), ("log-0", 0)])
def test_only_what_was_lost_before_the_last_of_them_ended_allows_it(place: tuple[str, int]) -> None:
    """The ops end after 1 s and 2 s. A position that is lost later was still there."""
    for at_s, excuses in ((1, ("power-loss",)), (2, ("power-loss",)), (3, ())):
        on = pipeline(TWICE, [DONE, effect(2, "committed")])
        on = replace(on, facts=replace(on.facts, disk_losses=power_lost(at_s, *place)))
        (told,) = found(CHECKER, on).anomalies
        assert told.excuses == excuses
    unended = pipeline(TWICE, [DONE, {**effect(2, "committed"), "complete_ns": None}])
    facts_ = replace(unended.facts, disk_losses=power_lost(3, *place))
    (told,) = found(CHECKER, replace(unended, facts=facts_)).anomalies
    assert told.excuses == ("power-loss",)


@pytest.mark.parametrize("excuse", ["power-loss", "unclean-election"])
def test_what_other_partitions_and_outputs_lost_moves_no_position(excuse: str) -> None:
    rows = [*TWICE, handles(5, 3, place="log-0-1", excuse=excuse)]
    ops = [DONE, effect(2, "committed", excuse=excuse), effect(3, "committed", excuse=excuse)]
    on = pipeline(rows, ops)
    lost = (*power_lost(1, "log-0", 1), *power_lost(1, "log-1"))
    (told,) = found(CHECKER, replace(on, facts=replace(on.facts, disk_losses=lost))).anomalies
    assert told.excuses == ()


@pytest.mark.parametrize("excuse", ["power-loss", "unclean-election"])
def test_an_output_that_lost_a_marker_may_show_an_aborted_transaction(excuse: str) -> None:
    """No answer came to the second commit. Readers got its record without the abort's marker."""
    second = effect(2, "committed", answered=False, excuse=excuse)
    (told,) = found(CHECKER, pipeline(TWICE, [DONE, second])).anomalies
    assert told.excuses == (excuse,)


def test_an_unclean_election_of_its_partition_allows_it() -> None:
    rows = [handles(4, 1, excuse="unclean-election"), handles(4, 2)]
    (told,) = found(CHECKER, pipeline(rows, [DONE, effect(2, "committed")])).anomalies
    assert told.excuses == ("unclean-election",)


@pytest.mark.parametrize(
    ("topic", "from_s", "excuses"),
    [
        (GROUPS, 2, ("unclean-election",)),
        (TRANSACTIONS, 2, ("unclean-election",)),
        ("log-0", 2, ("unclean-election",)),
        ("log-1", 2, ()),
        *((topic, 3, ()) for topic in (GROUPS, TRANSACTIONS, "log-0")),
    ],
)
def test_an_unclean_election_after_the_last_of_them_ended_allows_nothing(
    topic: str, from_s: int, excuses: tuple[str, ...]
) -> None:
    broker = {"unclean.leader.election.enable": "true"}
    rows = [handles(4, 1, excuse="unclean-election"), handles(4, 2)]
    on = pipeline(rows, [DONE, effect(2, "committed")])
    led = [
        Reign(topic=each, partition=0, leader=1, epoch=epoch, from_ns=epoch * from_s * S,
              until_ns=99 * S, unclean=epoch > 0 and each == topic)
        for each in (GROUPS, TRANSACTIONS, "log-0", "log-1")
        for epoch in (0, 1)
    ]  # fmt: skip
    told = facts(plan={**PIPELINE, "broker": broker}, reigns=tuple(led))
    (anomaly,) = found(CHECKER, replace(on, facts=told)).anomalies
    assert anomaly.excuses == excuses


def test_a_record_that_a_transaction_was_given_twice_is_one_input() -> None:
    assert places(CHECKER, [handles(4, 1), handles(4, 1)], DONE) == []


def test_inputs_that_a_committed_transaction_handled_are_counted_once() -> None:
    rows = [handles(0, 1), handles(1, 1), handles(1, 2), handles(2, 3), handles(3, -1)]
    ops = [DONE, effect(2, "committed"), effect(3, "aborted")]
    assert found(CHECKER, pipeline(rows, ops)).rows == 2


def test_the_sentence_names_some_ops_and_counts_the_others() -> None:
    rows = [handles(4, op) for op in range(1, 8)]
    ops = [effect(op, "committed") for op in range(1, 8)]
    (told,) = found(CHECKER, pipeline([handles(3, 1), *rows], ops)).anomalies
    assert told.sentence == (
        f"offset 4 of log-0-0 (value {A + 4}) was handled by the transactions of ops 1 and 2 and 3"
        " and 4 and 5 (and 2 more), and all of them committed"
    )
    (told,) = found(CHECKER, pipeline(rows[:5], ops)).anomalies
    assert "1 and 2 and 3 and 4 and 5, and all" in told.sentence


def test_the_reason_names_who_coordinated_the_group_meanwhile() -> None:
    ops = [effect(2, "committed"), effect(5, "committed"), effect(9, "committed")]
    on = pipeline([handles(4, 2), handles(4, 5)], ops)
    (told,) = found(CHECKER, on).anomalies
    assert CHECKER.why(on, told).startswith(
        "the run's record does not show which broker coordinated group pipeline-0 from 2.000 s to"
        " 5.000 s: "
    )
    led = Reign(topic=GROUPS, partition=0, leader=2, epoch=7, from_ns=0, until_ns=100 * S)
    known = replace(on, facts=replace(on.facts, reigns=(led,)))
    assert CHECKER.why(known, told).startswith(
        "n2, leader of __consumer_offsets-0 in epoch 7, was the coordinator of group pipeline-0"
        " from"
    )
    none = replace(told, evidence={**told.evidence, "op_ids": [77]})
    assert CHECKER.why(on, none).startswith(": ")


def test_only_pipelines_are_looked_at() -> None:
    for workload in ("log", "groups", "txn"):
        assert not CHECKER.applies(facts(plan={"workload": workload}))
    assert CHECKER.applies(facts(plan=PIPELINE))


def test_the_same_offset_of_another_partition_is_another_input() -> None:
    rows = [handles(4, 1), handles(4, 2, place="log-0-1")]
    assert places(CHECKER, rows, DONE, effect(2, "committed")) == []


@given(*drawn())
def test_it_says_what_the_definition_says(
    pairs: list[tuple[int, int]],
    fates: list[str],
    complete: bool,  # noqa: FBT001 - drawn
) -> None:
    ops = [effect(op, fate, complete=complete) for op, fate in enumerate(fates)]
    rows = [handles(offset, op) for offset, op in sorted({*pairs})]
    done = Counter(offset for offset, op in {*pairs} if op >= 0 and fates[op] == "committed")
    assert places(CHECKER, rows, *ops) == [at for at in sorted(done) if done[at] > 1]


@broken("repeated-input", row="transactions", base="pipeline")
def a_member_that_was_replaced_commits_all_the_same(record: Record, spot: Spot) -> None:
    """KIP-447 has the coordinator refuse it by its generation."""
    late = aborted(record, spot)
    never_answered(record, late.op["op_id"])
    for send in late.sends:
        show(record, spot_of(record, send))


@innocent(base="pipeline")
def a_commit_without_an_answer_had_no_effect_and_is_done_again(record: Record, spot: Spot) -> None:
    """The next member goes on from what the group has committed, which is from before it."""
    never_answered(record, aborted(record, spot).op["op_id"])
