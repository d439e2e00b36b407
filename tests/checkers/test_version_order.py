"""Which value stands at which offset, and whose word counts, condition by condition."""

import numpy as np
import pytest

from checkers.columns import Ints
from checkers.facts import RunFacts
from checkers.version_order import VersionOrder, version_order
from results.record.terms import Judge
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import ack, facts, group, leads, log, read, state

V = [pack_value(1, number) for number in range(9)]


def at(*numbers: int) -> Ints:
    return np.array(numbers, dtype=np.int64)


def order(about: RunFacts | None = None, /, **rows: list[Row]) -> dict[int, int]:
    """Offsets, and which of `V` stands at each."""
    told = version_order(group(about, **rows))
    assert (np.diff(told.offsets) > 0).all()
    return dict(zip(told.offsets.tolist(), map(V.index, told.values.tolist()), strict=True))


def held(*numbers: int, start: int = 0) -> dict[str, list[Row]]:
    return {
        "leadership": [leads(1, 0)],
        "replica_records": log("n1", *((0, V[number]) for number in numbers), start=start),
        "replica_states": [state("n1", start + len(numbers), start=start)],
    }


JEPSEN = facts(judge=Judge.JEPSEN)
EMPTY = VersionOrder(offsets=at(), values=at())
SOME = VersionOrder(offsets=at(2, 4, 6, 9), values=at(V[1], V[2], V[1], V[3]))


def test_indexes_are_of_the_last_place() -> None:
    asked = at(V[1], V[2], V[3], V[0], V[4])
    assert SOME.last_index(asked).tolist() == [2, 1, 3, -1, -1]
    assert EMPTY.last_index(asked).tolist() == [-1] * 5


def test_what_lies_between_does_not_count_its_ends() -> None:
    after, before = at(2, 1, 2, 4, 9, 6, 3), at(9, 10, 4, 4, 2, 7, 5)
    assert SOME.between(after, before).tolist() == [2, 4, 0, 0, 0, 0, 1]
    assert EMPTY.between(after, before).tolist() == [0] * 7


def test_an_order_without_some_values_keeps_the_others_where_they_stand() -> None:
    left = SOME.without(at(V[1], V[7]))
    assert (left.offsets.tolist(), left.values.tolist()) == ([4, 9], [V[2], V[3]])


@pytest.mark.parametrize("far", [3, 5, 40, 1000])
def test_all_that_is_told_has_its_place_near_or_far(far: int) -> None:
    told = order(sends=[ack(V[0], 0), ack(V[far % 5], far, op=2)], polls=[read(V[1], 1)])
    assert told == {0: 0, 1: 1, far: far % 5}
    assert order(polls=[read(V[4], far)]) == {far: 4}
    assert order() == {}


def test_an_offset_far_away_takes_no_room_for_those_before_it() -> None:
    far = 10**12
    assert order(polls=[read(V[1], 1), {**read(V[4], 4), "offset": far}]) == {1: 1, far: 4}


def test_records_without_a_value_or_an_offset_stand_nowhere() -> None:
    unplaced: Row = {**read(V[0], 0), "offset": None}
    polls = [read(None, 0), unplaced, read(V[1], 1), read(None, 1, op=10)]
    assert order(polls=polls, sends=[ack(V[0], None)]) == {1: 1}
    assert order(polls=[read(V[1], 1), unplaced, read(V[3], 900)]) == {1: 1, 900: 3}
    zero = version_order(group(polls=[read(0, 0)]))
    assert (zero.offsets.tolist(), zero.values.tolist()) == ([0], [0])


def test_the_log_is_believed_more_than_readers_and_they_more_than_acknowledgements() -> None:
    sends, polls = [ack(V[1], 0)], [read(V[2], 0)]
    assert order(sends=sends) == {0: 1}
    assert order(sends=sends, polls=polls) == {0: 2}
    assert order(sends=sends, polls=polls, **held(3)) == {0: 3}
    assert order(sends=sends, polls=polls, **held(4, start=1)) == {0: 2, 1: 4}


@pytest.mark.parametrize("numbers", [(2, 1, 3), (1, 2, 3), (3, 2, 1)])
def test_of_several_values_at_an_offset_the_smallest_one_is_taken(
    numbers: tuple[int, ...],
) -> None:
    polls = [read(V[number], 4, op=op) for op, number in enumerate(numbers, start=1)]
    assert order(polls=[*polls, read(V[8], 5)]) == {4: 1, 5: 8}


def test_an_acknowledgement_that_others_contradict_puts_nothing_where_it_says() -> None:
    """V[1] stands at 3, as a reader says; V[2] is told of by its acknowledgement alone."""
    sends = [ack(V[1], 0), ack(V[2], 1, op=2), ack(V[4], 4, op=3)]
    assert order(sends=sends, polls=[read(V[1], 3), read(V[4], 4)]) == {1: 2, 3: 1, 4: 4}
    assert order(sends=sends, **held(1, start=3)) == {1: 2, 3: 1, 4: 4}
    jepsens = order(JEPSEN, sends=sends, polls=[read(V[1], 3), read(V[4], 4)])
    assert jepsens == {0: 1, 1: 2, 3: 1, 4: 4}


def undone(number: int, offset: int, outcome: str) -> Row:
    return {**ack(V[number], offset), "txn_id": 1, "outcome": outcome}


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_what_need_not_be_there_has_no_place_whoever_saw_it(outcome: str) -> None:
    sends, polls = [undone(1, 1, outcome)], [read(V[0], 0), read(V[1], 1), read(V[2], 2)]
    assert order(sends=sends, polls=polls) == {0: 0, 2: 2}
    assert order(sends=sends, **held(0, 1, 2)) == {0: 0, 2: 2}
    assert order(JEPSEN, sends=sends, polls=polls) == {0: 0, 1: 1, 2: 2}
    assert order(JEPSEN, sends=sends) == {}


def test_a_send_that_failed_without_a_value_hides_nothing() -> None:
    failed: Row = {**ack(V[1], None), "value": None, "outcome": "fail"}
    assert order(sends=[failed], polls=[read(V[0], 0)]) == {0: 0}


def test_jepsen_looks_into_no_log() -> None:
    assert order(JEPSEN, polls=[read(V[0], 0)], **held(3, 4)) == {0: 0}


def test_control_records_are_none() -> None:
    rows = held(0, 1, 2)
    rows["replica_records"][1]["control"] = True
    assert order(**rows) == {0: 0, 2: 2}


def test_what_the_facts_pick_stands_there_if_anybody_told_of_it() -> None:
    polls = [read(V[1], 4, op=1), read(V[2], 4, op=2), read(V[3], 5)]
    picked = {("log-0", 0): {4: V[2], 5: V[7], 6: V[3]}, ("log-0", 1): {5: V[2]}}
    assert order(facts(judge=Judge.JEPSEN, picked=picked), polls=polls) == {4: 2, 5: 3}
    assert order(JEPSEN, polls=polls) == {4: 1, 5: 3}
