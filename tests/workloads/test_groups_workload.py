"""The generator of the groups workload, without a cluster."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from results.record.identities import group_of
from results.record.plan import Plan
from results.record.terms import Phase
from workloads.groups import GroupsGenerator
from workloads.protocol import (
    Assign,
    Commit,
    Crash,
    Key,
    Observed,
    Op,
    Poll,
    Seek,
    Send,
    Subscribe,
)

STEP_NS = 10_000_000
PLAN = Plan(workload="groups")


def observed(
    *, number: int = 0, thread: int, assigned: bool, in_flight: dict[Key, int] | None = None
) -> Observed:
    return Observed(
        now_ns=number * STEP_NS,
        phase=Phase.MAIN,
        thread=thread,
        assigned=assigned,
        positions={},
        in_flight=in_flight or {},
    )


def ops_of(plan: Plan, worker: int, count: int) -> list[tuple[str | None, Op]]:
    """The ops of a worker whose threads take turns, each with its group."""
    generator = GroupsGenerator(plan, worker=worker, workers=plan.workers)
    threads = range(worker, plan.concurrency, plan.workers)
    turns = [threads[number % len(threads)] for number in range(count)]
    return [
        (
            group_of(thread, plan, workers=plan.workers),
            generator.next_op(
                observed(number=number, thread=thread, assigned=number >= len(threads))
            ),
        )
        for number, thread in enumerate(turns)
    ]


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        Plan,
        workload=st.just("groups"),
        seed=st.integers(0, 2**32),
        concurrency=st.integers(5, 40),
        workers=st.integers(1, 4),
    )
)
def test_members_never_send_nor_assign_and_the_others_do_as_in_the_log(plan: Plan) -> None:
    seen: Counter[int] = Counter()
    for worker in range(min(plan.workers, plan.concurrency)):
        for group, op in ops_of(plan, worker, 150):
            if group is None:
                assert isinstance(op, Assign | Send | Poll | Crash)
                assert not isinstance(op, Poll) or op.commit is Commit.NONE
            else:
                assert isinstance(op, Subscribe | Poll | Seek | Crash)
            if isinstance(op, Subscribe):
                assert op.topics == plan.topic_names
            if isinstance(op, Send):
                seen.update(op.values.tolist())
    assert max(seen.values(), default=1) == 1


@given(workers=st.integers(1, 8))
@settings(max_examples=8, deadline=None)
def test_with_one_process_more_than_workers_somebody_sends(workers: int) -> None:
    plan = Plan(workload="groups", workers=workers, concurrency=workers + 1)
    assert [group_of(thread, plan, workers=workers) for thread in range(workers + 1)].count(None)
    assert any(isinstance(op, Send) for _, op in ops_of(plan, 0, 50))
    with pytest.raises(ValidationError, match="none would send"):
        Plan(workload="groups", workers=workers, concurrency=workers)


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_the_same_seed_gives_the_same_ops_and_each_worker_has_its_own(seed: int) -> None:
    plan = Plan(workload="groups", seed=seed)

    def words(worker: int) -> list[str]:
        return [repr(each) for each in ops_of(plan, worker, 60)]

    assert words(0) == words(0)
    assert words(0) != words(1)


def test_half_of_the_threads_are_members_four_of_a_group() -> None:
    groups = Counter(group_of(thread, PLAN, workers=2) for thread in range(PLAN.concurrency))
    assert groups == {None: 8, "groups-0": 4, "groups-1": 4}
    # Both workers have members of each group, so that a rebalance crosses them.
    for worker in (0, 1):
        mine = {group_of(thread, PLAN, workers=2) for thread in range(worker, 16, 2)}
        assert mine == {None, "groups-0", "groups-1"}
    assert {group_of(thread, Plan(), workers=2) for thread in range(16)} == {None}


def test_a_minute_has_everything_in_it_in_its_share() -> None:
    ops = ops_of(PLAN, 0, 15_000)
    members = [op for group, op in ops if group is not None]
    polls = [op for op in members if isinstance(op, Poll)]
    commits = Counter(op.commit for op in polls)
    assert 0.12 < commits[Commit.ASYNC] / len(polls) < 0.18
    assert 0.12 < commits[Commit.SYNC] / len(polls) < 0.18
    crashes = [op for op in members if isinstance(op, Crash)]
    assert {op.leave for op in crashes} == {True, False}
    backs = [op.back for op in members if isinstance(op, Seek)]
    assert 0.3 < backs.count(None) / len(backs) < 0.7
    assert all(back > 0 for back in backs if back is not None)
    sends = [op for group, op in ops if group is None and isinstance(op, Send)]
    assert {op.key for op in sends} == set(PLAN.topic_partitions)
    assert 0.2 < len(sends) / len(ops) < 0.3


def test_a_new_member_subscribes_before_all_else() -> None:
    generator = GroupsGenerator(PLAN, worker=0, workers=2)
    late = observed(number=10**6, thread=0, assigned=False)
    assert isinstance(generator.next_op(late), Subscribe)


def test_members_crash_only_in_the_main_phase() -> None:
    """A new member makes the group rebalance, and so may free a group that is stuck."""
    generator = GroupsGenerator(PLAN, worker=0, workers=2)
    crashes = {
        phase: sum(
            isinstance(generator.next_op(replace(seen, phase=phase)), Crash)
            for seen in (observed(number=each, thread=0, assigned=True) for each in range(6000))
        )
        for phase in (Phase.WARMUP, Phase.RECOVERY, Phase.MAIN)
    }
    assert crashes[Phase.MAIN] > 0
    assert crashes[Phase.WARMUP] == crashes[Phase.RECOVERY] == 0


def test_a_stuck_partition_leaves_senders_for_the_others() -> None:
    """Four threads of a worker send: one may wait for a partition, three for all together."""
    generator = GroupsGenerator(PLAN, worker=0, workers=2)
    first, *others = PLAN.topic_partitions

    def sends(in_flight: dict[Key, int]) -> set[Key]:
        seen = observed(thread=2, assigned=True, in_flight=in_flight)
        drawn = [generator.next_op(seen) for _ in range(200)]
        return {op.key for op in drawn if isinstance(op, Send)}

    assert sends({first: 1}) == set(others)
    assert sends(dict.fromkeys(others[:2], 1)) == set(PLAN.topic_partitions) - set(others[:2])
    assert sends(dict.fromkeys(others[:3], 1)) == set()
