"""The generator of pipelines, and what a crew makes of its ops, without a cluster."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.record.identities import group_of, groups
from results.record.plan import Plan, PlanError, plan_from
from results.record.terms import Phase
from results.record.values import partition_number_of
from workloads.pipeline import MOST_READ, PipelineGenerator
from workloads.protocol import Crash, End, Observed, Poll, Send, Subscribe, Txn

STEP_NS = 10_000_000
PLAN = Plan(workload="pipeline", topics=3, partitions=2, concurrency=16, workers=2)
MEMBER, FEEDER = 0, 2


def observed(number: int = 0, *, thread: int = MEMBER, unhandled: int = 0) -> Observed:
    return Observed(
        now_ns=number * STEP_NS,
        phase=Phase.MAIN,
        thread=thread,
        assigned=True,
        positions={},
        in_flight={},
        unhandled=unhandled,
    )


def transactions(plan: Plan, count: int) -> list[tuple[int, Txn]]:
    """Return what a member does with so many records, often."""
    generator = PipelineGenerator(plan, worker=0, workers=plan.workers)
    found = []
    for number in range(count):
        records = number % MOST_READ + 1
        op = generator.next_op(observed(number, unhandled=records))
        if isinstance(op, Txn):
            found.append((records, op))
    return found


def test_one_group_of_each_fourth_thread_reads_the_inputs() -> None:
    members = [each for each in range(16) if group_of(each, PLAN, workers=2) is not None]
    assert members == [0, 1, 8, 9]
    assert groups(PLAN) == ("pipeline-0",)
    assert PLAN.inputs == ["log-0", "log-1"]
    new = replace(observed(), assigned=False)
    generator = PipelineGenerator(PLAN, worker=0, workers=2)
    assert generator.next_op(new) == Subscribe(topics=["log-0", "log-1"])
    assert generator.next_op(observed(1)) == Poll(limit=MOST_READ)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(1, 5))
def test_a_transaction_sends_one_value_of_the_output_for_each_record(
    seed: int, topics: int, partitions: int
) -> None:
    plan = PLAN.model_copy(update={"seed": seed, "topics": topics, "partitions": partitions})
    outputs = {key for key in plan.topic_partitions if key[0] == plan.topic_names[-1]}
    seen: Counter[int] = Counter()
    for records, txn in transactions(plan, 100):
        assert txn.handles
        assert sum(len(send.values) for send in txn.sends) == records
        assert {send.key for send in txn.sends} <= outputs
        assert all(len(send.values) for send in txn.sends)
        for send in txn.sends:
            numbers = {partition_number_of(value) for value in send.values.tolist()}
            assert numbers == {plan.topic_partitions.index(send.key) + 1}
            seen.update(send.values.tolist())
    assert max(seen.values()) == 1


def test_members_crash_abort_and_pause_now_and_then_but_not_while_a_cluster_recovers() -> None:
    plan = PLAN.model_copy(update={"transaction_timeout_s": 2})
    txns = [txn for _, txn in transactions(plan, 6000)]
    ends = Counter(txn.end for txn in txns)
    assert 0.02 < ends[End.ABORT] / len(txns) < 0.09
    assert 0 < ends[End.CRASH] / len(txns) < 0.03
    assert any(txn.pause_s > 2 for txn in txns)
    generator = PipelineGenerator(plan, worker=0, workers=2)
    assert any(isinstance(generator.next_op(observed(each)), Crash) for each in range(6000))
    calm = [replace(observed(each, unhandled=3), phase=Phase.RECOVERY) for each in range(6000)]
    ops = [generator.next_op(each) for each in calm]
    assert all(isinstance(op, Txn) and not op.pause_s and op.end is End.COMMIT for op in ops)


def test_each_output_soon_takes_a_message() -> None:
    plan = PLAN.model_copy(update={"partitions": 32})
    generator = PipelineGenerator(plan, worker=0, workers=2)
    ops = [generator.next_op(observed(each, unhandled=3)) for each in range(40)]
    keys = {send.key for op in ops if isinstance(op, Txn) for send in op.sends}
    assert len(keys) == 32


def test_who_feeds_writes_to_the_inputs_only() -> None:
    generator = PipelineGenerator(PLAN, worker=0, workers=2)
    ops = [generator.next_op(observed(each, thread=FEEDER)) for each in range(500)]
    sends = [mop for op in ops if isinstance(op, Txn) for mop in op.mops if isinstance(mop, Send)]
    assert {send.key[0] for send in sends} == {"log-0", "log-1"}
    assert not any(op.handles or op.pause_s for op in ops if isinstance(op, Txn))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"topics": 1}, "topics: the workload pipeline needs two topics"),
        ({"concurrency": 3, "workers": 2}, "none would send: use 4 or more"),
        ({"system": "kafka:2.4.1"}, "workload: pipeline needs Kafka 2.5 or newer"),
        ({"system": "reference"}, "the reference cluster does not support transactions"),
    ],
)
def test_what_a_pipeline_cannot_be_is_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        plan_from({"workload": "pipeline", **values})
