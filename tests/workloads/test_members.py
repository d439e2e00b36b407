"""Members of a group: what a rebalance does, and what a commit keeps.

The same on a real broker, by librdkafka, and in virtual time.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from cluster.hosts.process import ProcessHosts
from cluster.kafka.cluster import KafkaCluster
from harness.simulated.worker import ClientHosts
from harness.simulated.world import SimulatedWorld
from results.record.clock import RunClock, pause_until, stopwatch_s, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.terms import AssignmentKind, GroupAct, Outcome
from tests.brokers import brokers_of
from workloads.clients.member import VANISHING, GroupConsumer
from workloads.clients.producer import SharedProducer
from workloads.member import GroupClient, GroupMember
from workloads.protocol import Batch, GroupOffset, Key, Rebalance, Send, SendResult

LIMIT_S = 60.0
SESSION_S = 6.0
POLL_S = 10.0
PARTS = 2
RECORDS = 10
RANGE = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}


def plan_of(**settings: object) -> Plan:
    return plan_from({
        "name": "members", "workload": "groups", "nodes": 1, "replication": 1, "min_insync": 1,
        "topics": 1, "partitions": PARTS, **settings,
    })  # fmt: skip


PLAN = plan_of()


def places(topic: str) -> list[Key]:
    return [(topic, part) for part in range(PARTS)]


def send_all(topic: str, send: Callable[[Send, Callable[[SendResult], None]], object],
             serve: Callable[[], object]) -> None:  # fmt: skip
    """Put ten records into each partition."""
    results: list[SendResult] = []
    for number, key in enumerate(places(topic), start=1):
        values = np.arange(RECORDS, dtype=np.int64) + (number << 32)
        send(Send(key=key, values=values), results.append)

    def sent() -> bool:
        serve()
        return len(results) == PARTS

    wait_until(sent, timeout_s=LIMIT_S, what="the records to be sent")
    assert {each.worst for each in results} == {Outcome.OK}


class Lab(Protocol):
    """Where members live, beside a broker with a topic of two partitions of ten records each."""

    topic: str

    def client(self, number: int, group: str, way: dict[str, str]) -> GroupClient:
        """Return a consumer that has not joined."""

    def run(self, work: Callable[[], None]) -> None:
        """Do something there."""


class RealLab:
    topic = "members"

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        cluster.create_topics([self.topic], partitions=PARTS, replication=1)
        producer = SharedProducer(PLAN, bootstrap=cluster.bootstrap(), worker=0)
        send_all(self.topic, producer.send, lambda: producer.serve(0.1))
        producer.close()

    def client(self, number: int, group: str, way: dict[str, str]) -> GroupClient:
        return GroupConsumer(
            plan_of(client=way),
            bootstrap=self._cluster.bootstrap(),
            client_id=f"process-{number}",
            group=group,
        )

    def run(self, work: Callable[[], None]) -> None:
        work()


class SimulatedLab:
    (topic,) = PLAN.topic_names

    def __init__(self, folder: Path) -> None:
        self._paths = RunPaths(folder / "members" / "run")
        self._paths.root.mkdir(parents=True)
        self._plan = plan_of(system="reference", hosts="simulated")
        self._world = SimulatedWorld(self._plan)

    def client(self, number: int, group: str, way: dict[str, str]) -> GroupClient:
        plan = self._plan.model_copy(update={"client": way})
        hosts = ClientHosts(self._world.simulation, plan, [1], first=1 + number)
        return hosts.member(number, group)

    def run(self, work: Callable[[], None]) -> None:
        def life() -> None:
            hosts = self._world.hosts(self._plan, self._paths)
            hosts.up()
            cluster = self._world.cluster(self._plan, hosts, self._paths, say=print)
            cluster.start()
            cluster.create_topics([self.topic], partitions=PARTS, replication=1)
            producer = ClientHosts(self._world.simulation, self._plan, [1]).producer()
            send_all(self.topic, producer.send, lambda: None)
            work()
            cluster.close()
            hosts.down()

        self._world.play(life)


@pytest.fixture(scope="module")
def real_lab(one_broker: KafkaCluster) -> RealLab:
    return RealLab(one_broker)


@pytest.fixture(scope="module")
def reference_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLab]:
    paths = RunPaths(tmp_path_factory.mktemp("reference") / "members" / "run")
    paths.root.mkdir(parents=True)
    hosts = ProcessHosts(["n1"], paths.processes)
    hosts.up()
    try:
        cluster = brokers_of(plan_of(system="reference"), hosts, paths)
        cluster.start()
        yield RealLab(cluster)
        cluster.close()
    finally:
        hosts.down()


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("reference", marks=pytest.mark.everything),
        pytest.param("kafka", marks=[pytest.mark.night, pytest.mark.kafka]),
    ]
)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    if request.param == "simulated":
        return SimulatedLab(tmp_path)
    name = "real_lab" if request.param == "kafka" else "reference_lab"
    real: RealLab = request.getfixturevalue(name)
    return real


class Group:
    """Members that are polled in turn, as a crew does."""

    def __init__(self, lab: Lab, name: str, way: dict[str, str] = RANGE) -> None:
        self._lab, self._name, self._way = lab, name, way
        self._joined = 0
        self.places = places(lab.topic)
        self.members: dict[str, GroupMember] = {}
        self.owned: dict[str, set[Key]] = {}
        self.told: dict[str, list[Rebalance]] = {}
        self.read: dict[str, list[tuple[Key, int]]] = {}

    def join(self, *names: str) -> None:
        for name in names:
            self._joined += 1
            client = self._lab.client(self._joined, self._name, self._way)
            member = GroupMember(client, group=self._name, clock=RunClock.starting_now())
            assert member.subscribe([self._lab.topic]) is None
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
            whole = set().union(*owned) == set(self.places)
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


def test_a_rebalance_is_told_of_with_its_partitions_and_its_times(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "told")
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

    lab.run(work)


def test_who_leaves_is_missed_and_who_vanishes_only_after_the_session(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "left")
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

    lab.run(work)


def vanish_unheard(lab: Lab, name: str, way: dict[str, str]) -> None:
    group = Group(lab, name, way)
    group.join("first")
    group.settles(2)
    group.join("second")
    unheard = group.members.pop("second")

    def shared() -> bool:
        group.poll()
        return len(group.owned["first"]) == 1

    wait_until(shared, timeout_s=LIMIT_S, what="the first member to have one partition")
    pause_until(stopwatch_s() + 3)  # The second is given the other one, and does not poll.
    unheard.abandon()
    group.settles(2)
    group.close()
    wait_until(
        lambda: not any(each.name == VANISHING for each in threading.enumerate()),
        timeout_s=LIMIT_S,
        what="the end of the client",
    )


def test_who_vanishes_before_it_hears_of_its_partitions_is_missed_and_ends(lab: Lab) -> None:
    lab.run(lambda: vanish_unheard(lab, "unheard", RANGE))


@pytest.mark.everything
@pytest.mark.kafka
def test_so_it_is_with_the_consumer_protocol(real_lab: RealLab) -> None:
    vanish_unheard(real_lab, "unheard-by-brokers", CONSUMER)


def test_the_next_member_reads_on_where_the_group_has_committed_to(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "kept")
        group.join("first")
        group.reads("first", 2 * RECORDS)
        assert sorted(group.read["first"]) == [
            (key, offset) for key in group.places for offset in range(RECORDS)
        ]
        first = group.members.pop("first")
        assert [(each.act, each.offset) for each in first.told()] == [(GroupAct.FETCH, None)] * 2
        assert first.commit({group.places[0]: 4}, op_id=1, wait=True) is None
        assert first.commit({group.places[1]: 6}, op_id=2, wait=False) is None
        assert first.commit({group.places[1]: 7}, op_id=3, wait=True) is None
        told = list[GroupOffset]()

        def answered() -> bool:
            first.poll(1, 0.05)
            told.extend(first.told())
            return len(told) == 3

        wait_until(answered, timeout_s=LIMIT_S, what="answers to three commits")
        assert {(each.op_id, each.key, each.offset) for each in told} == {
            (1, group.places[0], 4), (2, group.places[1], 6), (3, group.places[1], 7),
        }  # fmt: skip
        assert all(
            each.outcome is Outcome.OK and each.asked_ns < (each.told_ns or 0) for each in told
        )
        first.close()
        group.join("second")
        group.reads("second", 6 + 3)
        expected = [(group.places[0], at) for at in range(4, 10)]
        expected += [(group.places[1], at) for at in range(7, 10)]
        assert sorted(group.read["second"]) == expected
        fetched = {
            (each.key, each.offset, each.committed_by) for each in group.members["second"].told()
        }
        assert fetched == {(group.places[0], 4, 1), (group.places[1], 7, 3)}
        given = {key: at for each in group.told["second"] for key, at in each.starts.items()}
        assert given == {group.places[0]: 4, group.places[1]: 7}
        group.close()

    lab.run(work)


def test_a_commit_that_the_group_refuses_says_why(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "refused")
        group.join("first")
        group.settles(2)
        first = group.members["first"]
        first.told()
        error = first.commit({(lab.topic, 99): 1}, op_id=1, wait=True)
        assert error is not None
        assert [(each.outcome, each.error) for each in first.told()] == [(Outcome.INFO, error)]
        group.close()

    lab.run(work)


def test_a_cooperative_member_keeps_what_nobody_else_shall_have(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "cooperative", COOPERATIVE)
        group.join("first")
        group.settles(2)
        group.join("second")
        group.settles(1, 1)
        told = group.told["first"]
        assert kinds(told)[:2] == ["rebalance-assigned", "rebalance-revoked"]
        (gone,) = told[1].starts
        assert set(told[0].starts) == {*group.places}
        assert gone in {key for each in group.told["second"] for key in each.starts}
        assert all(not each.starts for each in told[2:]), "it was given nothing again"
        group.close()

    lab.run(work)


def test_a_member_that_seeks_reads_again_from_there(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "seeks")
        group.join("first")
        first = group.members["first"]
        assert first.seek(3).starts == {}, "it has read nothing"
        group.reads("first", 2 * RECORDS)
        one, other = group.places
        for back, starts in ((3, {one: 7, other: 7}), (2 * RECORDS, {one: 0, other: 0})):
            group.read["first"].clear()
            sought = first.seek(back)
            assert (sought.starts, sought.error) == (starts, None)
            again = [(key, at) for key, start in starts.items() for at in range(start, RECORDS)]
            group.reads("first", len(again))
            assert sorted(group.read["first"]) == again
        assert first.commit({one: 4}, op_id=5, wait=True) is None
        first.told()
        group.read["first"].clear()
        assert first.seek(None).starts == {one: 4, other: 0}, "nothing was committed of the other"
        asked = [(each.act, each.key, each.offset, each.committed_by) for each in first.told()]
        assert asked == [(GroupAct.FETCH, one, 4, 5), (GroupAct.FETCH, other, None, None)]
        group.reads("first", RECORDS + 6)
        assert min(at for key, at in group.read["first"] if key == one) == 4
        group.close()

    lab.run(work)


def test_who_has_lost_a_partition_seeks_in_what_it_has_kept(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "kept-on", COOPERATIVE)
        group.join("first")
        group.reads("first", 2 * RECORDS)
        group.join("second")
        group.settles(1, 1)
        (kept,) = group.owned["first"]
        sought = group.members["first"].seek(1)
        assert (sought.starts, sought.error) == ({kept: RECORDS - 1}, None)
        group.close()

    lab.run(work)


@pytest.mark.everything
@pytest.mark.kafka
def test_a_group_of_the_consumer_protocol_moves_single_partitions(real_lab: RealLab) -> None:
    group = Group(real_lab, "consumer", CONSUMER)
    group.join("first")
    group.reads("first", 2 * RECORDS)
    group.join("second")
    group.settles(1, 1)
    told = [each for each in group.told["first"] if each.starts]
    assert kinds(told) == ["rebalance-assigned", "rebalance-revoked"]
    (kept,) = group.owned["first"]
    first = group.members["first"]
    assert first.seek(RECORDS).starts == {kept: 0}
    assert first.commit({kept: 2}, op_id=1, wait=True) is None
    assert first.seek(None).starts == {kept: 0}, "it stands at 0, and seeks back alone"
    began_s = stopwatch_s()
    group.members.pop("second").abandon()
    group.settles(2)
    assert stopwatch_s() - began_s > SESSION_S - 3, "it did not leave, but was missed"
    group.close()


def test_who_does_not_poll_is_told_so_and_loses_what_it_had(lab: Lab) -> None:
    def work() -> None:
        group = Group(lab, "late")
        group.join("first")
        group.settles(2)
        late = group.members["first"]
        pause_until(stopwatch_s() + POLL_S + 2)
        seen: list[Batch] = []

        def told_all() -> bool:
            seen.append(late.poll(100, 0.05))
            errors = [each.error for each in seen if each.error is not None]
            lost = [each for batch in seen for each in batch.rebalances]
            return bool(errors and "_MAX_POLL_EXCEEDED" in errors[0] and lost)

        wait_until(told_all, timeout_s=LIMIT_S, what="the member to be told")
        (lost,) = [each for batch in seen for each in batch.rebalances][:1]
        assert (lost.kind, {*lost.starts}) == (AssignmentKind.REBALANCE_REVOKED, {*group.places})
        late.close()

    lab.run(work)
