"""Members of a group on a real broker: what a rebalance does, and what a commit keeps."""

from collections.abc import Sequence

import numpy as np
import pytest

from cluster.kafka.cluster import KafkaCluster
from results.record.clock import RunClock, stopwatch_s, wait_until
from results.record.plan import Plan
from results.record.terms import AssignmentKind, GroupAct, Outcome
from results.record.topics import CreatedTopic
from workloads.clients.member import GroupConsumer
from workloads.clients.producer import SharedProducer
from workloads.member import GroupMember
from workloads.protocol import Batch, GroupOffset, Key, Rebalance, Send, SendResult

pytestmark = [pytest.mark.everything, pytest.mark.kafka]

PLAN = Plan(workload="groups", nodes=1, replication=1, min_insync=1)
LIMIT_S = 60.0
SESSION_S = 6.0
TOPIC = "members"
PARTITIONS = [(TOPIC, 0), (TOPIC, 1)]
RECORDS = 10


@pytest.fixture(scope="module", autouse=True)
def topic(one_broker: KafkaCluster) -> list[CreatedTopic]:
    """Two partitions with ten records each."""
    made = one_broker.create_topics([TOPIC], partitions=len(PARTITIONS), replication=1)
    producer = SharedProducer(PLAN, bootstrap=one_broker.bootstrap(), worker=0)
    results: list[SendResult] = []
    for number, key in enumerate(PARTITIONS, start=1):
        values = np.arange(RECORDS, dtype=np.int64) + (number << 32)
        producer.send(Send(key=key, values=values), results.append)

    def sent() -> bool:
        producer.serve(0.1)
        return len(results) == len(PARTITIONS)

    wait_until(sent, timeout_s=LIMIT_S, what="the records to be sent")
    assert {each.worst for each in results} == {Outcome.OK}
    producer.close()
    return made


class Group:
    """Members that are polled in turn, as a crew does."""

    def __init__(self, cluster: KafkaCluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self.members: dict[str, GroupMember] = {}
        self.owned: dict[str, set[Key]] = {}
        self.told: dict[str, list[Rebalance]] = {}
        self.read: dict[str, list[tuple[Key, int]]] = {}

    def join(self, *names: str) -> None:
        for name in names:
            client = GroupConsumer(
                PLAN, bootstrap=self._cluster.bootstrap(), client_id=name, group=self._name
            )
            member = GroupMember(client, group=self._name, clock=RunClock.starting_now())
            assert member.subscribe([TOPIC]) is None
            self.members[name] = member
            self.owned[name], self.told[name], self.read[name] = set(), [], []

    def poll(self) -> None:
        for name, member in self.members.items():
            batch = member.poll(100, 0.05)
            assert batch.error is None
            self.told[name] += batch.rebalances
            for each in batch.rebalances:
                given = each.kind is AssignmentKind.REBALANCE_ASSIGNED
                keys = set(each.starts)
                self.owned[name] = self.owned[name] | keys if given else self.owned[name] - keys
            self.read[name] += records(batch)

    def settles(self, *sizes: int) -> None:
        def settled() -> bool:
            self.poll()
            owned = [self.owned[name] for name in self.members]
            whole = set().union(*owned) == set(PARTITIONS)
            return whole and sorted(map(len, owned)) == sorted(sizes)

        wait_until(settled, timeout_s=LIMIT_S, what=f"partitions dealt as {sizes}")

    def reads(self, name: str, count: int) -> None:
        def enough() -> bool:
            self.poll()
            return len(self.read[name]) >= count

        wait_until(enough, timeout_s=LIMIT_S, what=f"{count} records of {name}")

    def close(self) -> None:
        for member in self.members.values():
            member.close()


def records(batch: Batch) -> list[tuple[Key, int]]:
    places = [key for key, length in batch.spans for _ in range(length)]
    return list(zip(places, batch.offsets.tolist(), strict=True))


def kinds(rebalances: Sequence[Rebalance]) -> list[str]:
    return [each.kind.value for each in rebalances]


def test_a_rebalance_is_told_of_with_its_partitions_and_its_times(one_broker: KafkaCluster) -> None:
    group = Group(one_broker, "told")
    group.join("first")
    group.settles(2)
    assert kinds(group.told["first"]) == ["rebalance-assigned"]
    group.join("second")
    group.settles(1, 1)
    assert kinds(group.told["first"]) == [
        "rebalance-assigned", "rebalance-revoked", "rebalance-assigned",
    ]  # fmt: skip
    times = [each.at_ns for each in group.told["first"]]
    assert times == sorted(times)
    assert times[0] > 0
    with pytest.raises(TypeError):
        group.members["first"].assign({})
    group.close()


def test_who_leaves_is_missed_and_who_vanishes_only_after_the_session(
    one_broker: KafkaCluster,
) -> None:
    group = Group(one_broker, "left")
    group.join("first", "second")
    group.settles(1, 1)
    group.members.pop("second").close()
    group.settles(2)
    group.join("third")
    group.settles(1, 1)
    began_s = stopwatch_s()
    group.members.pop("third").abandon()
    group.settles(2)
    # Its last heartbeat was a second before its end at most; had it left, the group would know.
    assert stopwatch_s() - began_s > SESSION_S - 2
    group.close()


def test_the_next_member_reads_on_where_the_group_has_committed_to(
    one_broker: KafkaCluster,
) -> None:
    group = Group(one_broker, "kept")
    group.join("first")
    group.reads("first", 2 * RECORDS)
    assert sorted(group.read["first"]) == [
        (key, offset) for key in PARTITIONS for offset in range(RECORDS)
    ]
    first = group.members.pop("first")
    assert [(each.act, each.offset) for each in first.told()] == [(GroupAct.FETCH, None)] * 2
    assert first.commit({PARTITIONS[0]: 4}, op_id=1, wait=True) is None
    assert first.commit({PARTITIONS[1]: 6}, op_id=2, wait=False) is None
    assert first.commit({PARTITIONS[1]: 7}, op_id=3, wait=True) is None
    told = list[GroupOffset]()

    def answered() -> bool:
        first.poll(1, 0.05)
        told.extend(first.told())
        return len(told) == 3

    wait_until(answered, timeout_s=LIMIT_S, what="answers to three commits")
    assert {(each.op_id, each.key, each.offset) for each in told} == {
        (1, PARTITIONS[0], 4), (2, PARTITIONS[1], 6), (3, PARTITIONS[1], 7),
    }  # fmt: skip
    assert all(each.outcome is Outcome.OK and each.asked_ns < (each.told_ns or 0) for each in told)
    first.close()
    group.join("second")
    group.reads("second", 6 + 3)
    expected = [(PARTITIONS[0], at) for at in range(4, 10)]
    expected += [(PARTITIONS[1], at) for at in range(7, 10)]
    assert sorted(group.read["second"]) == expected
    fetched = {
        (each.key, each.offset, each.committed_by) for each in group.members["second"].told()
    }
    assert fetched == {(PARTITIONS[0], 4, 1), (PARTITIONS[1], 7, 3)}
    given = {key: at for each in group.told["second"] for key, at in each.starts.items()}
    assert given == {PARTITIONS[0]: 4, PARTITIONS[1]: 7}
    group.close()


def test_a_commit_that_the_group_refuses_says_why(one_broker: KafkaCluster) -> None:
    group = Group(one_broker, "refused")
    group.join("first")
    group.settles(2)
    first = group.members["first"]
    first.told()
    error = first.commit({(TOPIC, 99): 1}, op_id=1, wait=True)
    assert error is not None
    assert [(each.outcome, each.error) for each in first.told()] == [(Outcome.INFO, error)]
    group.close()
