"""The generator of transactions, without a cluster."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.record.identities import watches
from results.record.plan import Plan, PlanError, plan_from
from results.record.terms import Isolation, Phase
from results.record.values import partition_number_of
from workloads.protocol import Assign, Crash, End, Key, Observed, Op, Poll, Send, Txn
from workloads.txn import MOST_MOPS, TxnGenerator, isolation_of

STEP_NS = 10_000_000
plans = st.builds(
    Plan,
    workload=st.just("txn"),
    seed=st.integers(0, 2**32),
    topics=st.integers(1, 4),
    partitions=st.integers(1, 8),
    concurrency=st.integers(4, 32),
    workers=st.integers(1, 4),
    sends_per_op=st.sampled_from([1, 3, 500]),
)


def observed(
    *,
    number: int = 0,
    thread: int = 0,
    assigned: bool = True,
    positions: Mapping[Key, int] | None = None,
    in_flight: Mapping[Key, int] | None = None,
    transacting: int = 0,
) -> Observed:
    return Observed(
        now_ns=number * STEP_NS,
        phase=Phase.MAIN,
        thread=thread,
        assigned=assigned,
        positions=positions or {},
        in_flight=in_flight or {},
        transacting=transacting,
    )


def ops_of(plan: Plan, worker: int, count: int) -> list[tuple[int, Op]]:
    """The ops of a worker whose threads take turns, each with its thread."""
    generator = TxnGenerator(plan, worker=worker, workers=plan.workers)
    threads = range(worker, plan.concurrency, plan.workers)
    turns = [threads[number % len(threads)] for number in range(count)]
    return [
        (
            thread,
            generator.next_op(
                observed(number=number, thread=thread, assigned=number >= len(threads))
            ),
        )
        for number, thread in enumerate(turns)
    ]


def txns_of(plan: Plan, worker: int, count: int) -> list[Txn]:
    return [op for _, op in ops_of(plan, worker, count) if isinstance(op, Txn)]


@settings(max_examples=25, deadline=None)
@given(plans)
def test_values_are_unique_in_the_run_and_reserved_before_use(plan: Plan) -> None:
    seen: Counter[int] = Counter()
    for worker in range(plan.workers):
        reserved: list[tuple[int, int]] = []
        for txn in txns_of(plan, worker, 120):
            for send in txn.sends:
                if send.reserved is not None:
                    reserved.append((send.reserved.value_from, send.reserved.value_to))
                values = send.values.tolist()
                assert len(values) == plan.sends_per_op
                assert {partition_number_of(value) for value in values} == {
                    plan.topic_partitions.index(send.key) + 1
                }
                assert all(any(low <= each < high for low, high in reserved) for each in values)
                seen.update(values)
    assert max(seen.values(), default=1) == 1


@settings(max_examples=25, deadline=None)
@given(plans)
def test_a_transaction_has_one_to_four_parts_each_with_numbers_of_its_own(plan: Plan) -> None:
    for txn in txns_of(plan, 0, 200):
        assert 1 <= len(txn.mops) <= MOST_MOPS
        lengths = [len(mop.values) if isinstance(mop, Send) else 1 for mop in txn.mops]
        taken = [
            number
            for first, length in zip(txn.numbers, lengths, strict=True)
            for number in range(first, first + length)
        ]
        assert taken == list(range(sum(lengths)))
        if txn.commits_positions:
            assert any(isinstance(mop, Poll) for mop in txn.mops)


@settings(max_examples=25, deadline=None)
@given(plans)
def test_who_reads_uncommitted_records_never_writes(plan: Plan) -> None:
    """What it has seen too early must not find its way into what others do."""
    for worker in range(plan.workers):
        for thread, op in ops_of(plan, worker, 150):
            watcher = watches(thread, workers=plan.workers)
            assert not (watcher and isinstance(op, Txn))
            isolation = isolation_of(thread, workers=plan.workers)
            assert (isolation is Isolation.READ_UNCOMMITTED) == watcher


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_the_same_seed_gives_the_same_ops_and_each_worker_has_its_own(seed: int) -> None:
    plan = Plan(workload="txn", seed=seed)

    def words(worker: int) -> list[str]:
        return [repr(op) for _, op in ops_of(plan, worker, 60)]

    assert words(0) == words(0)
    assert words(0) != words(1)


def test_a_minute_has_everything_in_it_in_its_share() -> None:
    plan = Plan(workload="txn")
    ops = [op for _, op in ops_of(plan, 0, 6000)]
    kinds = Counter(type(op) for op in ops)
    assert kinds[Crash] >= 2
    assert kinds[Assign] >= 10
    txns = [op for op in ops if isinstance(op, Txn)]
    ends = Counter(txn.end for txn in txns)
    assert 0.3 < len(txns) / len(ops) < 0.45  # Half of what the writers do: three of four.
    assert 0.07 < ends[End.ABORT] / len(txns) < 0.13
    assert 0 < ends[End.CRASH] / len(txns) < 0.03
    assert {len(txn.mops) for txn in txns} == {1, 2, 3, 4}
    assert {send.key for txn in txns for send in txn.sends} == set(plan.topic_partitions)
    assert any(len({send.key for send in txn.sends}) > 2 for txn in txns)
    mops = [mop for txn in txns for mop in txn.mops]
    assert 0.55 < sum(isinstance(mop, Send) for mop in mops) / len(mops) < 0.65
    polling = [txn for txn in txns if any(isinstance(mop, Poll) for mop in txn.mops)]
    assert 0.4 < sum(txn.commits_positions for txn in polling) / len(polling) < 0.6


def test_now_and_then_a_transaction_outlives_its_timeout_and_nothing_else_changes() -> None:
    plan = Plan(workload="txn", transaction_timeout_s=2)
    txns = txns_of(plan, 0, 6000)  # A minute.
    paused = [txn for txn in txns if txn.pause_s]
    assert 15 < len(paused) < 50
    assert any(txn.pause_s > 2.5 for txn in paused)
    assert any(txn.pause_s < 1.5 for txn in paused)
    assert any(txn.pause_s > 4 for txn in paused)
    assert all(txn.pause_s <= plan.budgets.unavailable_s / 2 for txn in paused)
    assert all(1 <= txn.pause_after <= len(txn.mops) for txn in paused)
    assert any(txn.pause_after < len(txn.mops) for txn in paused)
    patient = txns_of(plan.model_copy(update={"transaction_timeout_s": 10}), 0, 6000)
    assert [repr(replace(txn, pause_s=0, pause_after=1)) for txn in txns] == [
        repr(replace(txn, pause_s=0, pause_after=1)) for txn in patient
    ]


@pytest.mark.parametrize("phase", [Phase.WARMUP, Phase.RECOVERY])
def test_nobody_pauses_while_a_cluster_is_waited_for(phase: Phase) -> None:
    generator = TxnGenerator(Plan(workload="txn", transaction_timeout_s=1), worker=0, workers=1)
    ops = [
        generator.next_op(replace(observed(number=number), phase=phase)) for number in range(1000)
    ]
    assert not [op for op in ops if isinstance(op, Txn) and op.pause_s]


def test_a_process_that_has_no_consumer_yet_is_assigned_first() -> None:
    generator = TxnGenerator(Plan(workload="txn"), worker=0, workers=2)
    late = observed(number=10**6, assigned=False)
    assert isinstance(generator.next_op(late), Assign)


def test_a_stuck_partition_and_stuck_transactions_leave_processes_for_the_others() -> None:
    plan = Plan(workload="txn", topics=1, partitions=2, concurrency=8, workers=1)
    generator = TxnGenerator(plan, worker=0, workers=1)

    def ops(in_flight: dict[Key, int], transacting: int) -> list[Op]:
        seen = observed(in_flight=in_flight, transacting=transacting)
        return [generator.next_op(seen) for _ in range(200)]

    stuck = [op for op in ops({("log-0", 0): 2}, 2) if isinstance(op, Txn)]
    assert {send.key for txn in stuck for send in txn.sends} == {("log-0", 1)}
    # Six of the eight write; one of them goes on reading.
    assert any(isinstance(op, Txn) for op in ops({}, 4))
    assert {type(op) for op in ops({}, 5)} == {Poll}
    held = [op for op in ops({("log-0", 0): 2, ("log-0", 1): 2}, 2) if isinstance(op, Txn)]
    assert held
    assert not any(txn.sends for txn in held)


def test_the_plan_has_defaults_of_its_own_that_the_user_may_overrule() -> None:
    assert (Plan().name, Plan().rate) == ("log", 500)
    assert (Plan(workload="txn").name, Plan(workload="txn").rate) == ("txn", 100)
    assert (Plan(workload="groups").name, Plan(workload="groups").rate) == ("groups", 500)
    mine = plan_from({"workload": "txn", "rate": 7, "name": "mine"})
    assert (mine.name, mine.rate) == ("mine", 7)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"acks": "1"}, "acks: transactions need acks = \"all\", not '1'"),
        ({"acks": "0"}, "acks: transactions need acks = \"all\", not '0'"),
        ({"idempotence": False}, "idempotence: transactions need idempotent producers"),
        (
            {"system": "kafka:2.8.2", "broker": {"log.message.format.version": "0.10.2"}},
            "and thus message format v2",
        ),
        ({"transaction_timeout_s": 0.5}, "at least one second"),
    ],
)
def test_what_cannot_carry_transactions_is_refused_in_a_sentence(
    values: dict[str, object], says: str
) -> None:
    with pytest.raises(PlanError) as refused:
        plan_from({"workload": "txn", **values})
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("system", "seconds"),
    [
        ("kafka:0.11.0.1", 2 + 60 + 10),
        ("kafka:0.11.0.2", 2 + 1 + 10),
        ("kafka:4.3.1", 2 + 1 + 10),
    ],
)
def test_coordinators_of_before_0_11_0_2_look_once_a_minute(system: str, seconds: float) -> None:
    """KAFKA-6119: they had the interval of the setting written down, and did not use it."""
    plan = plan_from({"workload": "txn", "system": system, "transaction_timeout_s": 2})
    assert plan.hanging_after_s == seconds
