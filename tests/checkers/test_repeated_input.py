"""repeated-input: two committed transactions of a pipeline handled the same record."""

from collections import Counter
from typing import Any

from hypothesis import given

from checkers import repeated_input
from tests.broken.corpus import Spot, broken, innocent, spot_of
from tests.broken.pipelines import aborted, never_answered
from tests.broken.record import Record
from tests.broken.transactional import show
from tests.checkers.pipelines import DONE, drawn, effect, handles, pipeline, places

CHECKER, NAME = repeated_input.CHECKER, repeated_input.NAME
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (NAME, {"op_ids": []}, "a member that the group had replaced"),
]
ROWS_OF = [
    (
        CHECKER,
        pipeline([handles(0, 2)], [effect(2, "aborted")]),
        "handled twice could not show",
        pipeline([handles(0, 1)], [DONE]),
        1,
    )
]


def test_an_input_that_two_committed_transactions_handled_is_repeated() -> None:
    rows = [handles(4, 1), handles(4, 2), handles(5, 2)]
    assert places(CHECKER, rows, DONE, effect(2, "committed")) == [4]
    for fate in ("aborted", "unknown"):
        assert places(CHECKER, rows, DONE, effect(2, fate)) == []


def test_a_record_that_a_transaction_was_given_twice_is_one_input() -> None:
    assert places(CHECKER, [handles(4, 1), handles(4, 1)], DONE) == []


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
    never_answered(record, aborted(record, spot).op["op_id"])
