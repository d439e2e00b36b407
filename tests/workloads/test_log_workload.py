from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.record.plan import Plan
from results.record.terms import Phase
from results.record.values import SEQUENCE_BITS, pack_value, partition_number_of
from workloads.allotment import BLOCK, Allotment
from workloads.assigning import READ_AGAIN_LIMIT
from workloads.log import LogGenerator
from workloads.protocol import Assign, Crash, Key, Observed, Op, Poll, Reservation, Send

STEP_NS = 10_000_000


def observed(
    *, number: int = 0, thread: int = 0, assigned: bool = True, **seen: dict[Key, int]
) -> Observed:
    return Observed(
        now_ns=number * STEP_NS,
        phase=Phase.MAIN,
        thread=thread,
        assigned=assigned,
        positions=seen.get("positions", {}),
        in_flight=seen.get("in_flight", {}),
    )


def ops_of(plan: Plan, worker: int, count: int) -> list[Op]:
    """The ops of a worker whose threads take turns; each is assigned with its first op."""
    generator = LogGenerator(plan, worker=worker, workers=plan.workers)
    threads = range(worker, plan.concurrency, plan.workers)
    return [
        generator.next_op(
            observed(
                number=number,
                thread=threads[number % len(threads)],
                assigned=number >= len(threads),
            )
        )
        for number in range(count)
    ]


def words(ops: list[Op]) -> list[str]:
    """Ops as text: numpy arrays do not compare as wholes."""
    return [
        f"send {op.key} {op.values.tolist()} {op.reserved}" if isinstance(op, Send) else repr(op)
        for op in ops
    ]


plans = st.builds(
    Plan,
    seed=st.integers(0, 2**32),
    topics=st.integers(1, 4),
    partitions=st.integers(1, 8),
    concurrency=st.integers(4, 32),
    workers=st.integers(1, 4),
    sends_per_op=st.sampled_from([1, 3, 1000, 100_000]),
)


@settings(max_examples=30, deadline=None)
@given(plans)
def test_values_are_unique_in_the_run_and_reserved_before_use(plan: Plan) -> None:
    seen: set[int] = set()
    count = 40 if plan.sends_per_op > 100 else 200
    reserved_by_all: list[Reservation] = []
    for worker in range(plan.workers):
        reserved: list[Reservation] = []
        for op in ops_of(plan, worker, count):
            if not isinstance(op, Send):
                continue
            if op.reserved:
                reserved.append(op.reserved)
            first, last = int(op.values[0]), int(op.values[-1])
            assert any(each.value_from <= first and last < each.value_to for each in reserved)
            assert partition_number_of(first) == plan.topic_partitions.index(op.key) + 1
            assert len(op.values) == plan.sends_per_op == last - first + 1
            # Whole ops lie in disjoint ranges, so their ends tell.
            assert not {first, last} & seen
            seen |= {first, last}
        reserved_by_all += reserved
    ranges = sorted((each.value_from, each.value_to) for each in reserved_by_all)
    assert all(this[1] <= later[0] for this, later in pairwise(ranges))


@settings(max_examples=30, deadline=None)
@given(plans)
def test_all_partitions_are_covered_by_every_set_of_assignments(plan: Plan) -> None:
    covered: set[Key] = set()
    for worker in range(plan.workers):
        generator = LogGenerator(plan, worker=worker, workers=plan.workers)
        for thread in range(worker, plan.concurrency, plan.workers):
            first = generator.next_op(observed(thread=thread, assigned=False))
            assert isinstance(first, Assign)
            covered |= set(generator._readers.assigner.share_of(thread)) & set(first.starts)
    assert covered == set(plan.topic_partitions)


@given(st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_ops_and_each_worker_has_its_own(seed: int) -> None:
    plan = Plan(seed=seed)
    assert words(ops_of(plan, 0, 60)) == words(ops_of(plan, 0, 60))
    assert words(ops_of(plan, 0, 60)) != words(ops_of(plan, 1, 60))


def test_a_worker_sends_polls_assigns_and_crashes_and_reaches_every_partition() -> None:
    ops = ops_of(Plan(), 0, 6000)  # A minute at 100 ops a second.
    kinds = Counter(type(op) for op in ops)
    assert kinds[Crash] >= 2
    assert kinds[Assign] >= 10
    assert 0.8 < kinds[Send] / kinds[Poll] < 1.25
    assert {op.key for op in ops if isinstance(op, Send)} == set(Plan().topic_partitions)


def test_a_process_that_has_no_consumer_yet_is_assigned_first() -> None:
    generator = LogGenerator(Plan(), worker=0, workers=2)
    late = observed(number=10**6, assigned=False)
    assert isinstance(generator.next_op(late), Assign)


def test_a_stuck_partition_leaves_processes_for_the_others() -> None:
    plan = Plan(topics=1, partitions=2, concurrency=8, workers=1)
    generator = LogGenerator(plan, worker=0, workers=1)
    stuck = {("log-0", 0): 2}
    ops = [generator.next_op(observed(in_flight=stuck)) for _ in range(100)]
    assert {op.key for op in ops if isinstance(op, Send)} == {("log-0", 1)}
    all_stuck = {("log-0", 0): 3, ("log-0", 1): 3}
    assert {type(generator.next_op(observed(in_flight=all_stuck))) for _ in range(100)} == {Poll}


def test_a_kept_partition_goes_on_where_it_was() -> None:
    plan = Plan(topics=1, partitions=1, concurrency=1, workers=1)
    generator = LogGenerator(plan, worker=0, workers=1)
    where = {("log-0", 0): 77}
    ops = [
        generator.next_op(observed(number=100 * number, positions=where)) for number in range(500)
    ]
    assigns = [op for op in ops if isinstance(op, Assign)]
    assert assigns
    assert all(op.starts == where for op in assigns)


def test_a_reader_that_lost_its_place_gets_to_the_beginning_even_if_the_log_was_cut() -> None:
    """Otherwise a position behind a truncated end would fail again and again."""
    plan = Plan(topics=1, partitions=1, concurrency=1, workers=1)
    generator = LogGenerator(plan, worker=0, workers=1)
    far = 10 * READ_AGAIN_LIMIT
    generator.next_op(observed(positions={("log-0", 0): far}))
    ops = [generator.next_op(observed(assigned=False)) for _ in range(100)]
    starts = {op.starts["log-0", 0] for op in ops if isinstance(op, Assign)}
    assert starts == {None, far - READ_AGAIN_LIMIT}


def test_sequences_that_run_out_are_an_error_and_not_a_value_used_twice() -> None:
    allotment = Allotment(Plan(topics=1, partitions=1, sends_per_op=100_000), worker=0, workers=1)
    last_block = (1 << SEQUENCE_BITS) // BLOCK - 1
    allotment._ranges["log-0", 0]._block = last_block - 1
    last = allotment.send_to(("log-0", 0))
    assert last.values[0] == pack_value(1, last_block * BLOCK)
    assert last.reserved is not None
    assert last.reserved.value_to == pack_value(1, (1 << SEQUENCE_BITS) - 1) + 1
    with pytest.raises(OverflowError):
        allotment.send_to(("log-0", 0))
