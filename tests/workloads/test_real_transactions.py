"""Transactions of real clients on a real broker: who sees what, and who is fenced."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from rich.console import Console

from cluster.kafka.cluster import KafkaCluster
from harness.arena import Arena
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.world import RealWorld
from results.record.clock import RunClock, wait_until
from results.record.milestones import OPEN, STACKS, load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Decision, Isolation, Outcome, TransactionOutcome
from results.record.topics import CreatedTopic
from workloads.clients.consumer import ProcessConsumer
from workloads.clients.transactions import TransactionalProducer
from workloads.protocol import End, Key, Poll, Send, Txn, TxnResult

pytestmark = [pytest.mark.everything, pytest.mark.kafka]

PLAN = Plan(
    workload="txn", nodes=1, replication=1, min_insync=1, name="transactions",
    transaction_timeout_s=5,
)  # fmt: skip
LIMIT_S = 30.0
HERE, THERE = ("txn-here", 0), ("txn-there", 0)


@pytest.fixture(scope="module")
def topics(one_broker: KafkaCluster) -> list[CreatedTopic]:
    return one_broker.create_topics(["txn-here", "txn-there"], partitions=1, replication=1)


@pytest.fixture(name="bootstrap")
def brokers(one_broker: KafkaCluster, topics: list[CreatedTopic]) -> str:
    assert topics
    return one_broker.bootstrap()


@contextmanager
def consumer(bootstrap: str, isolation: Isolation, *keys: Key) -> Iterator[ProcessConsumer]:
    reader = ProcessConsumer(
        PLAN, bootstrap=bootstrap, client_id="reader", isolation=isolation, report_ends=True
    )
    reader.assign(dict.fromkeys(keys))
    try:
        yield reader
    finally:
        reader.close()


def read(bootstrap: str, isolation: Isolation, key: Key) -> list[int]:
    """Read a partition to the end that such a reader has."""
    values: list[int] = []
    with consumer(bootstrap, isolation, key) as reader:

        def ended() -> bool:
            batch = reader.poll(1000, 0.1)
            assert batch.error is None
            assert batch.isolation is isolation
            values.extend(value for value in batch.values if value is not None)
            return bool(batch.ends)

        wait_until(ended, timeout_s=LIMIT_S, what="the end of the partition")
    return values


def sends(number: int) -> list[Send]:
    """One value to each partition, never used elsewhere."""
    return [
        Send(key=key, values=np.array([base + number], np.int64))
        for key, base in ((HERE, 1 << 32), (THERE, 2 << 32))
    ]


def transact(
    producer: TransactionalProducer,
    bootstrap: str,
    op: Txn,
    starts: Mapping[Key, int] | None = None,
) -> TxnResult:
    with consumer(bootstrap, Isolation.READ_COMMITTED, HERE, THERE) as reader:
        return producer.transact(op, reader, starts or {})


def test_what_is_committed_is_seen_and_what_is_aborted_only_by_who_reads_uncommitted(
    bootstrap: str,
) -> None:
    producer = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=1)
    kept = transact(producer, bootstrap, Txn(mops=sends(1)))
    dropped = transact(producer, bootstrap, Txn(mops=sends(2), end=End.ABORT))
    again = transact(producer, bootstrap, Txn(mops=sends(3)))
    assert [each.outcome for each in (kept, dropped, again)] == [
        Outcome.OK, Outcome.FAIL, Outcome.OK,
    ]  # fmt: skip
    assert (kept.decision, kept.ended) == (Decision.COMMIT, TransactionOutcome.COMMITTED)
    assert (dropped.decision, dropped.ended) == (Decision.ABORT, TransactionOutcome.ABORTED)
    # Aborted records lie in the log as well: their delivery reports are good, and have offsets.
    deliveries = [*kept.deliveries, *dropped.deliveries, *again.deliveries]
    assert all(each.acked and each.offset is not None for each in deliveries)
    for base, key in ((1 << 32, HERE), (2 << 32, THERE)):
        assert read(bootstrap, Isolation.READ_COMMITTED, key)[-2:] == [base + 1, base + 3]
        assert read(bootstrap, Isolation.READ_UNCOMMITTED, key)[-3:] == [
            base + 1, base + 2, base + 3,
        ]  # fmt: skip
    producer.close()


def test_who_pauses_longer_than_its_timeout_is_fenced_and_nothing_of_it_is_seen(
    bootstrap: str,
) -> None:
    patient = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=5)
    in_time = Txn(mops=sends(41), pause_s=0.2)  # A new coordinator takes its time to begin.
    assert transact(patient, bootstrap, in_time).outcome is Outcome.OK
    patient.close()
    hasty = PLAN.model_copy(update={"transaction_timeout_s": 2})
    producer = TransactionalProducer(hasty, bootstrap=bootstrap, thread=5)
    late = transact(producer, bootstrap, Txn(mops=sends(42), pause_s=5))
    assert late.outcome in {Outcome.FAIL, Outcome.INFO}
    assert late.error is not None
    assert late.deliveries[0].acked  # What was sent before the pause.
    assert transact(producer, bootstrap, Txn(mops=sends(43))).outcome is Outcome.OK
    for base, key in ((1 << 32, HERE), (2 << 32, THERE)):
        assert read(bootstrap, Isolation.READ_COMMITTED, key)[-2:] == [base + 41, base + 43]
    producer.close()


def test_a_later_producer_of_the_thread_fences_the_one_before(bootstrap: str) -> None:
    first = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=2)
    assert transact(first, bootstrap, Txn(mops=sends(11))).outcome is Outcome.OK
    second = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=2)
    assert transact(second, bootstrap, Txn(mops=sends(12))).outcome is Outcome.OK
    fenced = transact(first, bootstrap, Txn(mops=sends(13)))
    # It never sent its commit: a send was refused before.
    assert (fenced.outcome, fenced.decision) == (Outcome.FAIL, Decision.ABORT)
    assert fenced.error is not None
    seen = read(bootstrap, Isolation.READ_UNCOMMITTED, HERE)
    assert (1 << 32) + 12 in seen
    assert (1 << 32) + 13 not in seen
    # It comes back with a new producer, which fences the other one in its turn.
    assert transact(first, bootstrap, Txn(mops=sends(14))).outcome is Outcome.OK
    for each in (first, second):
        each.close()


def test_what_a_crash_left_open_is_aborted_by_the_next_producer_of_the_thread(
    bootstrap: str,
) -> None:
    producer = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=3)
    crashed = transact(producer, bootstrap, Txn(mops=sends(21), end=End.CRASH))
    assert (crashed.outcome, crashed.ended) == (Outcome.INFO, TransactionOutcome.UNKNOWN)
    assert all(each.acked for each in crashed.deliveries)
    assert transact(producer, bootstrap, Txn(mops=sends(22))).outcome is Outcome.OK
    seen = read(bootstrap, Isolation.READ_COMMITTED, HERE)
    assert (1 << 32) + 22 in seen
    assert (1 << 32) + 21 not in seen
    assert (1 << 32) + 21 in read(bootstrap, Isolation.READ_UNCOMMITTED, HERE)
    producer.close()


def test_what_nobody_ends_holds_up_readers_until_the_coordinator_aborts_it(
    bootstrap: str, one_broker: KafkaCluster
) -> None:
    producer = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=4)
    transact(producer, bootstrap, Txn(mops=sends(31), end=End.CRASH))
    held = one_broker.leader_ends([HERE], committed=True, timeout_s=0)[HERE]
    end = one_broker.leader_ends([HERE], committed=False, timeout_s=0)[HERE]
    assert held < end
    limit_s = PLAN.transaction_timeout_s + LIMIT_S
    assert one_broker.leader_ends([HERE], committed=True, timeout_s=limit_s)[HERE] > held
    assert (1 << 32) + 31 not in read(bootstrap, Isolation.READ_COMMITTED, HERE)
    producer.close()


def test_polls_are_part_of_a_transaction_and_so_are_the_positions_behind_them(
    bootstrap: str,
) -> None:
    producer = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=5)
    assert transact(producer, bootstrap, Txn(mops=sends(41))).outcome is Outcome.OK
    with consumer(bootstrap, Isolation.READ_COMMITTED, HERE) as reader:
        everything = Poll(limit=10_000)
        read_so_far: dict[Key, int] = {}

        def reads_and_commits() -> bool:
            op = Txn(mops=[everything, *sends(42 + len(done))], commits_positions=True)
            result = producer.transact(op, reader, read_so_far)
            assert result.outcome is Outcome.OK
            (number, batch), *others = result.batches
            assert (number, others) == (0, [])
            read_so_far.update(batch.positions)
            done.append(result)
            return len(batch.offsets) > 0

        done: list[TxnResult] = []
        wait_until(reads_and_commits, timeout_s=LIMIT_S, what="records in a transaction")
        at = read_so_far[HERE]
        assert committed(reader, HERE) == at
        before = dict(read_so_far)
        op = Txn(mops=[everything, *sends(90)], end=End.ABORT, commits_positions=True)
        assert producer.transact(op, reader, before).outcome is Outcome.FAIL
        assert committed(reader, HERE) == at, "an aborted transaction commits no positions"
    producer.close()


def committed(reader: ProcessConsumer, key: Key) -> int:
    from confluent_kafka import TopicPartition  # noqa: PLC0415 - only to ask the broker

    (answer,) = reader._handle.committed([TopicPartition(*key)], timeout=LIMIT_S)
    return int(answer.offset)


def test_a_coordinator_that_is_away_ends_no_transaction_in_doubt(
    bootstrap: str, one_broker: KafkaCluster
) -> None:
    """Nothing was sent, so nothing can commit; it takes no longer than its limits."""
    producer = TransactionalProducer(PLAN, bootstrap=bootstrap, thread=6)
    assert transact(producer, bootstrap, Txn(mops=sends(50))).outcome is Outcome.OK
    one_broker.kill_node("n1")
    try:
        lost = transact(producer, bootstrap, Txn(mops=sends(51)))
    finally:
        one_broker.start_node("n1")
    assert (lost.outcome, lost.decision) == (Outcome.FAIL, Decision.ABORT)
    assert [each.acked for each in lost.deliveries] == [False, False]
    # Its sequence numbers are in doubt: it must be fenced, not used again.
    assert lost.ended is TransactionOutcome.UNKNOWN
    assert producer._handle is None
    wait_until(
        lambda: transact(producer, bootstrap, Txn(mops=sends(52))).outcome is Outcome.OK,
        timeout_s=LIMIT_S,
        what="a transaction after the coordinator came back",
    )
    producer.close()


@pytest.mark.night
def test_a_transaction_that_stays_open_is_told_of_before_the_final_reads(
    bootstrap: str, one_broker: KafkaCluster, run_paths: RunPaths
) -> None:
    patient = PLAN.model_copy(update={"transaction_timeout_s": 60})
    producer = TransactionalProducer(patient, bootstrap=bootstrap, thread=7)
    transact(producer, bootstrap, Txn(mops=sends(61), end=End.CRASH))
    plan = PLAN.model_copy(update={"scenario": ScenarioPlan(name="none", topic=HERE[0])})
    arena = Arena(
        plan=plan.model_copy(update={"partitions": 1, "transaction_timeout_s": 1}),
        paths=run_paths,
        clock=RunClock.starting_now(),
        progress=Progress(Console(quiet=True), Snapshot),
        interrupts=Interrupts(),
        undo=ExitStack(),
        world=RealWorld(),
    )
    held = arena._last_stable_offsets(one_broker)
    told, stacks = load_milestones(run_paths.milestones)
    assert (told.name, stacks.name) == (OPEN, STACKS)
    (place, witness), *_ = told.detail.items()
    assert place == "txn-here-0"
    assert "the transaction of producer" in witness
    assert "has been open since offset" in witness
    assert "; n1 is the coordinator of " in witness
    assert "which is in state Ongoing, with this partition" in witness
    # The next producer of the thread fences the one that vanished, and so ends its transaction.
    assert transact(producer, bootstrap, Txn(mops=sends(62))).outcome is Outcome.OK
    assert arena._last_stable_offsets(one_broker)[HERE] > held[HERE]
    assert len(load_milestones(run_paths.milestones)) == 2
    producer.close()
