"""Kafka's own clients on a real broker: sends, polls, a group, transactions."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cluster.kafka.cluster import KafkaCluster
from harness.java_client import java_client
from results.record.clock import RunClock, wait_until
from results.record.plan import Plan
from results.record.terms import (
    AssignmentKind,
    Decision,
    GroupAct,
    Isolation,
    Outcome,
    TransactionOutcome,
)
from results.record.topics import CreatedTopic
from workloads.clients.java.bridge import Bridge
from workloads.clients.java.consumer import JavaConsumer
from workloads.clients.java.member import JavaMember
from workloads.clients.java.producer import JavaProducer
from workloads.clients.java.transactions import JavaTransactor
from workloads.member import GroupMember
from workloads.protocol import Batch, End, Key, Rebalance, Send, SendResult, Txn

pytestmark = [pytest.mark.everything, pytest.mark.kafka]

PLAN = Plan(
    nodes=1, replication=1, min_insync=1, name="java", client_kind="java:4.3.1",
    compression="lz4", transaction_timeout_s=5,
)  # fmt: skip
LIMIT_S = 60.0
HERE, THERE, GROUPED = ("java-here", 0), ("java-there", 0), ("java-grouped", 0)
COUNT = 40


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    bridge = Bridge(java_client(PLAN))
    yield bridge
    bridge.close()


@pytest.fixture(scope="module")
def topics(one_broker: KafkaCluster) -> list[CreatedTopic]:
    names = [HERE[0], THERE[0], GROUPED[0]]
    return one_broker.create_topics(names, partitions=1, replication=1)


@pytest.fixture(name="bootstrap", scope="module")
def brokers(one_broker: KafkaCluster, topics: list[CreatedTopic]) -> str:
    assert topics
    return one_broker.bootstrap()


def values_of(key: Key, count: int, *, start: int = 0) -> Any:  # noqa: ANN401 - an array
    number = 1 + [HERE, THERE, GROUPED].index(key)
    return np.arange(start, start + count, dtype=np.int64) + (number << 32)


def send(bridge: Bridge, bootstrap: str, key: Key, count: int) -> SendResult:
    producer = JavaProducer(bridge, PLAN, bootstrap=bootstrap, worker=0)
    producer.check_reachable(key[0], timeout_s=LIMIT_S)
    results: list[SendResult] = []
    producer.send(Send(key=key, values=values_of(key, count)), results.append)

    def is_sent() -> bool:
        producer.serve(0.05)
        return bool(results)

    wait_until(is_sent, timeout_s=LIMIT_S, what="the delivery reports")
    assert producer.waiting() == 0
    assert not producer.fatal
    producer.close()
    return results[0]


def gathered(poll: Callable[[], Batch], count: int) -> list[Batch]:
    batches: list[Batch] = []

    def enough() -> bool:
        batches.append(poll())
        assert batches[-1].error is None
        return sum(len(each.offsets) for each in batches) >= count

    wait_until(enough, timeout_s=LIMIT_S, what=f"{count} records")
    return batches


def test_what_was_sent_is_read_whole_and_a_limit_is_kept(bridge: Bridge, bootstrap: str) -> None:
    result = send(bridge, bootstrap, HERE, COUNT)
    assert result.outcomes is None
    assert result.offsets.tolist() == list(range(COUNT))
    reader = JavaConsumer(bridge, PLAN, bootstrap=bootstrap, client_id="process-1")
    assert reader.assign({HERE: None}) is None
    batches = gathered(lambda: reader.poll(15, 0.05), COUNT)
    assert max(len(each.offsets) for each in batches) == 15
    values = [value for each in batches for value in each.values]
    assert values == values_of(HERE, COUNT).tolist()
    for each in batches:
        assert each.damage is not None
        assert not any(each.damage)
        assert set(each.leader_epochs) <= {0}
    assert reader.assign({HERE: 30}) is None
    assert gathered(lambda: reader.poll(15, 0.05), 10)[-1].positions == {HERE: COUNT}
    reader.close()


def test_a_reader_that_is_put_behind_the_end_is_told(bridge: Bridge, bootstrap: str) -> None:
    reader = JavaConsumer(bridge, PLAN, bootstrap=bootstrap, client_id="process-2")
    assert reader.assign({THERE: 1_000_000}) is None
    errors: list[str | None] = []

    def failed() -> bool:
        errors.append(reader.poll(10, 0.05).error)
        return errors[-1] is not None

    wait_until(failed, timeout_s=LIMIT_S, what="an error")
    assert (errors[-1] or "").partition(":")[0] == "OffsetOutOfRangeException"
    reader.close()


def test_a_group_goes_on_where_it_has_committed(bridge: Bridge, bootstrap: str) -> None:
    send(bridge, bootstrap, GROUPED, COUNT)
    clock = RunClock.starting_now()

    def member(name: str) -> GroupMember:
        client = JavaMember(bridge, PLAN, bootstrap=bootstrap, client_id=name, group="java-group")
        joined = GroupMember(client, group="java-group", clock=clock)
        assert joined.subscribe([GROUPED[0]]) is None
        return joined

    first = member("process-3")
    batches = gathered(lambda: first.poll(25, 0.05), COUNT)
    given = [each for batch in batches for each in batch.rebalances]
    assert [(each.kind, each.starts) for each in given] == [
        (AssignmentKind.REBALANCE_ASSIGNED, {GROUPED: 0})
    ]
    assert first.commit({GROUPED: 20}, op_id=71, wait=True) is None
    assert first.commit({GROUPED: 30}, op_id=72, wait=False) is None
    told = first.told()

    def have_ended() -> bool:
        first.poll(1, 0.05)
        told.extend(first.told())
        return len(told) >= 3

    wait_until(have_ended, timeout_s=LIMIT_S, what="the end of both commits")
    assert [(each.act, each.offset, each.outcome, each.op_id) for each in told] == [
        (GroupAct.FETCH, None, Outcome.OK, None),
        (GroupAct.COMMIT, 20, Outcome.OK, 71),
        (GroupAct.COMMIT, 30, Outcome.OK, 72),
    ]
    first.close()
    second = member("process-4")
    batches = gathered(lambda: second.poll(25, 0.05), 10)
    assert batches[-1].positions == {GROUPED: COUNT}
    (fetched,) = [each for each in second.told() if each.act is GroupAct.FETCH]
    assert (fetched.offset, fetched.committed_by) == (30, 72)
    # Who vanishes is missed after its session; who comes next waits for that long.
    vanished_ns = clock.now_ns()
    second.abandon()
    third = member("process-5")
    rebalances: list[Rebalance] = []

    def is_given() -> bool:
        rebalances.extend(third.poll(1, 0.05).rebalances)
        return bool(rebalances)

    wait_until(is_given, timeout_s=LIMIT_S, what="the group's partitions")
    assert rebalances[0].starts == {GROUPED: 30}
    assert rebalances[0].at_ns - vanished_ns > 3_000_000_000
    third.close()


def test_transactions_are_seen_whole_or_not_at_all_and_a_crashed_one_is_fenced(
    bridge: Bridge, bootstrap: str
) -> None:
    transactor = JavaTransactor(bridge, PLAN, bootstrap=bootstrap, thread=1)
    reader = JavaConsumer(bridge, PLAN, bootstrap=bootstrap, client_id="process-6")
    reader.assign({HERE: 0})

    def transact(number: int, end: End = End.COMMIT, pause_s: float = 0) -> Any:  # noqa: ANN401 - a result
        values = values_of(THERE, 1, start=number)
        op = Txn(
            mops=[Send(key=THERE, values=values)], end=end, pause_s=pause_s, commits_positions=True
        )
        return transactor.transact(op, reader, {HERE: 5})

    kept, dropped = transact(1), transact(2, End.ABORT)
    lost, again = transact(3, End.CRASH), transact(4, pause_s=0.2)
    assert [(each.outcome, each.decision, each.ended) for each in (kept, dropped, lost, again)] == [
        (Outcome.OK, Decision.COMMIT, TransactionOutcome.COMMITTED),
        (Outcome.FAIL, Decision.ABORT, TransactionOutcome.ABORTED),
        (Outcome.INFO, Decision.ABORT, TransactionOutcome.UNKNOWN),
        (Outcome.OK, Decision.COMMIT, TransactionOutcome.COMMITTED),
    ]
    assert all(each.deliveries[0].acked for each in (kept, dropped, lost, again))
    late = JavaTransactor(bridge, PLAN, bootstrap=bootstrap, thread=1)
    op = Txn(mops=[Send(key=THERE, values=values_of(THERE, 1, start=5))])
    assert late.transact(op, reader, {}).outcome is Outcome.OK
    assert transact(6).outcome is not Outcome.OK, "the later producer of the thread fences it"
    committed = JavaConsumer(
        bridge, PLAN, bootstrap=bootstrap, client_id="r", isolation=Isolation.READ_COMMITTED
    )
    committed.assign({THERE: None})
    batches = gathered(lambda: committed.poll(100, 0.05), 3)
    values = [value for each in batches for value in each.values]
    assert values == [values_of(THERE, 1, start=number)[0] for number in (1, 4, 5)]
    for each in (transactor, late, reader, committed):
        each.close()
