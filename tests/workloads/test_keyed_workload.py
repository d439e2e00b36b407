"""The keyed workload: its ops, its keys, and the brokers' settings of its plan."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.record.keys import are_tombstones, key_numbers
from results.record.loads import Load
from results.record.plan import Plan, PlanError, plan_from
from results.record.terms import Isolation, Phase
from results.record.values import partition_number_of
from workloads.keyed import KeyedGenerator
from workloads.protocol import Assign, Crash, End, Key, Observed, Op, Poll, Send, Txn
from workloads.txn import isolation_of

STEP_NS = 10_000_000
PLAN = plan_from({"seed": 4, "workload": "keyed"})
WATCHER = 6
"""The fourth thread of worker 0, of two."""


def observed(
    number: int,
    *,
    thread: int = 0,
    assigned: bool = True,
    in_flight: dict[Key, int] | None = None,
    transacting: int = 0,
) -> Observed:
    return Observed(
        now_ns=number * STEP_NS,
        phase=Phase.MAIN,
        thread=thread,
        assigned=assigned,
        positions={},
        in_flight=in_flight or {},
        transacting=transacting,
    )


def ops_of(plan: Plan, count: int, *, worker: int = 0, thread: int = 0) -> list[Op]:
    generator = KeyedGenerator(plan, worker=worker, workers=plan.workers)
    return [
        generator.next_op(observed(number, thread=thread, assigned=number > 0))
        for number in range(count)
    ]


def sends(ops: list[Op]) -> list[Send]:
    """All of them, in transactions and not."""
    return [
        send
        for op in ops
        for send in ([op] if isinstance(op, Send) else op.sends if isinstance(op, Txn) else [])
    ]


@settings(max_examples=30, deadline=None)
@given(
    st.builds(
        lambda **values: plan_from({"workload": "keyed", **values}),
        seed=st.integers(0, 2**32),
        topics=st.integers(1, 4),
        partitions=st.integers(1, 8),
        concurrency=st.integers(4, 32),
        workers=st.integers(1, 4),
    )
)
def test_values_are_unique_in_the_run_and_made_for_their_partition(plan: Plan) -> None:
    """An oracle in plain Python: plain sends and transactions share the worker's values."""
    seen = Counter[int]()
    for worker in range(plan.workers):
        for op in sends(ops_of(plan, 300, worker=worker)):
            number = plan.topic_partitions.index(op.key) + 1
            assert {partition_number_of(int(value)) for value in op.values} == {number}
            seen.update(op.values.tolist())
    assert max(seen.values(), default=0) <= 1


def test_a_writer_sends_transacts_polls_crashes_and_is_assigned_first() -> None:
    ops = ops_of(PLAN, 4000)
    assert isinstance(ops[0], Assign)
    assert {type(op) for op in ops} == {Assign, Send, Txn, Poll, Crash}
    txns = [op for op in ops if isinstance(op, Txn)]
    assert {op.end for op in txns} == set(End)
    assert any(op.pause_s > 0 for op in txns)
    plain = sum(isinstance(op, Send) for op in ops)
    assert plain / len(ops) == pytest.approx(0.5, abs=0.05)
    assert len(txns) / len(ops) == pytest.approx(0.25, abs=0.05)


def test_all_of_a_partitions_keys_are_written_and_deleted() -> None:
    values = np.concatenate([send.values for send in sends(ops_of(PLAN, 8000))])
    for number in range(1, 5):
        mine = values[values >> 32 == number]
        assert set(key_numbers(mine, PLAN.keys).tolist()) == set(range(PLAN.keys))
        assert 0 < are_tombstones(mine).sum() < len(mine) / 4


def test_a_watcher_writes_nothing() -> None:
    assert isolation_of(WATCHER, workers=2) is Isolation.READ_UNCOMMITTED
    assert not sends(ops_of(PLAN, 2000, thread=WATCHER))


def test_a_partition_that_takes_nothing_does_not_hold_up_all() -> None:
    generator = KeyedGenerator(PLAN, worker=0, workers=2)
    first, *rest = PLAN.topic_partitions
    stuck = [
        generator.next_op(observed(at, in_flight={first: 2}, transacting=9)) for at in range(1000)
    ]
    assert {send.key for send in sends(stuck)} == {*rest}
    full = dict.fromkeys(PLAN.topic_partitions, 2)
    held = [
        generator.next_op(observed(at, in_flight=full, transacting=9)) for at in range(1000, 2000)
    ]
    assert not sends(held)


def test_the_seed_decides_keys_and_cleaning() -> None:
    plans = [plan_from({"workload": "keyed", "seed": seed}) for seed in range(60)]
    assert {8, 32} <= {plan.keys for plan in plans} <= set(range(8, 33))
    for plan in plans:
        assert plan.broker["log.cleanup.policy"] == "compact"
        assert plan_from(plan.model_dump()) == plan
    for name in ("log.roll.ms", "log.cleaner.backoff.ms", "log.cleaner.delete.retention.ms"):
        assert len({plan.broker[name] for plan in plans}) > 2
    stay_ms = [int(plan.broker["log.cleaner.delete.retention.ms"]) for plan in plans]
    assert {*stay_ms} == {0, 500, 2000, 10_000, 120_000}
    assert 5 < stay_ms.count(120_000) < 20
    # What the map holds, as the broker works it out: entries of 24 bytes, rounded down.
    held = [
        int(int(plan.broker["log.cleaner.dedupe.buffer.size"]) // 24
            * float(plan.broker["log.cleaner.io.buffer.load.factor"]))
        for plan in plans
    ]  # fmt: skip
    small = [(each, plan.keys) for each, plan in zip(held, plans, strict=True) if each < 100]
    assert 20 < len(small) < 40
    assert all(0 < each < keys for each, keys in small)


def test_the_user_decides_over_the_seed() -> None:
    plan = plan_from({"workload": "keyed", "keys": 3, "broker": {"log.roll.ms": "100"}})
    assert (plan.keys, plan.broker["log.roll.ms"], plan.rate) == (3, "100", 200)
    assert plan.broker["log.cleanup.policy"] == "compact"
    heavy = plan_from({"workload": "keyed", "load": Load.HEAVY})
    assert (heavy.rate, heavy.sends_per_op, heavy.concurrency) == (0, 100, 16)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"workload": "log", "keys": 3}, "only the workload keyed has few keys"),
        ({"workload": "keyed", "keys": 0}, "needs at least one key"),
        ({"workload": "keyed", "system": "reference"}, "needs compaction"),
        ({"workload": "keyed", "system": "attached:lab.toml"}, "needs compaction"),
        (
            {"workload": "keyed", "broker": {"log.cleanup.policy": "compact,delete"}},
            "remove log.cleanup.policy",
        ),
        (
            {"workload": "keyed", "node": {"n1": {"log.cleanup.policy": "delete"}}},
            "remove log.cleanup.policy",
        ),
        (
            {"workload": "keyed", "broker": {"log.message.format.version": "0.10.2"}},
            "value of a tombstone is in a header",
        ),
        ({"workload": "keyed", "acks": "1"}, 'transactions need acks = "all"'),
    ],
)
def test_what_does_not_go_together_is_refused(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        plan_from(values)
