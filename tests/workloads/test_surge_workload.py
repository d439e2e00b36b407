"""The surge workload: its ops, by what the plan and the observed allow."""

from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.record.plan import Plan
from results.record.terms import Phase
from results.record.values import partition_number_of
from workloads.protocol import Assign, Crash, Key, Observed, Op, Poll, Send
from workloads.surge import SURGE_SHARE, SurgeGenerator

STEP_NS = 10_000_000
PLAN = Plan(seed=4, workload="surge")


def observed(number: int, *, assigned: bool = True, **seen: dict[Key, int]) -> Observed:
    return Observed(
        now_ns=number * STEP_NS,
        phase=Phase.MAIN,
        thread=0,
        assigned=assigned,
        positions={},
        in_flight=seen.get("in_flight", {}),
    )


def ops_of(plan: Plan, count: int, *, worker: int = 0) -> list[Op]:
    generator = SurgeGenerator(plan, worker=worker, workers=plan.workers)
    return [generator.next_op(observed(number, assigned=number > 0)) for number in range(count)]


def sends(ops: list[Op]) -> list[Send]:
    return [op for op in ops if isinstance(op, Send)]


@settings(max_examples=30, deadline=None)
@given(
    st.builds(
        Plan,
        seed=st.integers(0, 2**32),
        topics=st.integers(1, 4),
        partitions=st.integers(1, 8),
        concurrency=st.integers(4, 32),
        workers=st.integers(1, 4),
    )
)
def test_values_are_unique_in_the_run_and_made_for_their_partition(plan: Plan) -> None:
    """An oracle in plain Python: what the judge takes for granted of any workload."""
    seen = Counter[int]()
    for worker in range(plan.workers):
        for op in sends(ops_of(plan, 300, worker=worker)):
            assert op.key in plan.topic_partitions
            number = plan.topic_partitions.index(op.key) + 1
            assert {partition_number_of(int(value)) for value in op.values} == {number}
            seen.update(op.values.tolist())
    assert max(seen.values(), default=0) <= 1


def test_for_a_while_nearly_all_sends_go_to_one_partition_and_then_to_another() -> None:
    where = [op.key for op in sends(ops_of(PLAN, 4_000))]
    crowded = [
        Counter(where[start : start + 50]).most_common(1)[0] for start in range(0, len(where), 50)
    ]
    of_crowd = sum(count for _, count in crowded) / len(where)
    assert of_crowd > SURGE_SHARE - 0.15  # A window may hold the end of one and the next.
    surges = [key for key, _ in groupby(key for key, _ in crowded)]
    assert len(surges) > 5
    assert len(set(surges)) > 2
    assert set(where) == set(PLAN.topic_partitions)  # None is left alone for good.


def test_the_same_seed_gives_the_same_ops_and_workers_differ() -> None:
    one, again, other = (
        [(op.key, op.values.tolist()) for op in sends(ops_of(PLAN, 300, worker=worker))]
        for worker in (0, 0, 1)
    )
    assert one == again
    assert [key for key, _ in one] != [key for key, _ in other]


def test_a_partition_that_answers_nobody_holds_up_no_more_than_half() -> None:
    generator = SurgeGenerator(PLAN, worker=0, workers=PLAN.workers)
    generator.next_op(observed(0, assigned=False))
    full = dict.fromkeys(PLAN.topic_partitions, PLAN.concurrency // PLAN.workers // 2)
    ops = [generator.next_op(observed(number, in_flight=full)) for number in range(1, 200)]
    assert not sends(ops)
    assert any(isinstance(op, Poll) for op in ops)


@pytest.mark.parametrize("kind", [Assign, Crash, Poll, Send])
def test_processes_send_read_crash_and_are_assigned_anew(kind: type) -> None:
    ops = ops_of(PLAN, 4_000)
    assert isinstance(ops[0], Assign)
    assert any(isinstance(op, kind) for op in ops[1:])
