"""Leadership, topics and clocks on three real brokers, started once; told by others than the fault.

The witnesses are clients: what confluent-kafka's own metadata say of leaders, replicas and topics,
and the timestamps that a broker gives to records (`LogAppendTime`).
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cluster.hosts.process import ProcessHosts
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import fetch_kafka
from cluster.kafka.java import find_java
from cluster.kafka.versions import machines
from cluster.protocol import ClusterError, CoordinatorKind
from nemesis.clock_drift import ClockDrift
from nemesis.clock_offset import ClockOffset
from nemesis.clock_strobe import ClockStrobe
from nemesis.cluster_effects import (
    ClockEffect,
    ClockTrueEffect,
    ControllerFailoverEffect,
    PreferredElectionEffect,
    ReassignmentEffect,
    TopicsGoneEffect,
)
from nemesis.controller_failover import ControllerFailover
from nemesis.preferred_election import PreferredElection
from nemesis.protocol import Aim, Fault, Patience, Site
from nemesis.reassignment import Reassignment
from nemesis.topic_churn import TopicChurn
from nemesis.unclean_election import UncleanElection
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan

pytestmark = pytest.mark.kafka

LIMIT = Patience(limit_s=60)
PLACE = ("log-0", 0)
OWN_TIME = "own-time"
"""A topic of one partition a broker, that it leads alone and stamps with its own clock."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, Site]]:
    plan = Plan(topics=1, partitions=2, nemesis=("clock",))
    paths = RunPaths(tmp_path_factory.mktemp("faults") / "run")
    paths.live.mkdir(parents=True)
    hosts = ProcessHosts(machines(plan), paths.processes)
    hosts.up()
    distribution = fetch_kafka(plan.kafka_version, progress=print)
    made = KafkaCluster(plan, hosts, distribution=distribution, java=find_java(), paths=paths)
    try:
        made.start()
        made.create_topics(["log-0"], partitions=2, replication=3)
        made.create_topic(
            OWN_TIME,
            assignment={number: [node] for number, node in enumerate(made.nodes)},
            configs={"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1"},
        )
        yield made, Site(cluster=made, network=None, state_of=hosts.state_of, hosts=hosts)
    finally:
        made.close()
        hosts.down()
    shared = Path("/dev/shm").iterdir()  # noqa: S108 - looked at
    left = [path for path in shared if path.name.rpartition("_")[2] in _pids(paths)]
    assert not left, "what libfaketime leaves of killed brokers is removed"


def _pids(paths: RunPaths) -> set[str]:
    lines = paths.processes.read_text().splitlines()
    return {str(each["pid"]) for each in map(json.loads, lines) if each["what"] == "java"}


def aim(targets: tuple[str, ...], place: tuple[str, int] | None = None, seed: int = 0) -> Aim:
    return Aim(fault_id=7, targets=targets, rng=Random(seed), place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A partition, by broker ids."""

    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


def told(cluster: KafkaCluster, place: tuple[str, int] = PLACE) -> Told:
    """Return what a client learns of a partition."""
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap()}).list_topics(timeout=20)
    state = metadata.topics[place[0]].partitions[place[1]]
    return Told(leader=state.leader, replicas=tuple(state.replicas), isr=frozenset(state.isrs))


def topics_told(cluster: KafkaCluster) -> set[str]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap()})
    return set(admin.list_topics(timeout=20).topics)


def stamp_s(cluster: KafkaCluster, node: str) -> float:
    """Return by how much a record that a broker stamps is ahead of our clock."""
    partition = cluster.nodes.index(node)
    producer = Producer({"bootstrap.servers": cluster.bootstrap()})
    at: list[int] = []
    producer.produce(
        OWN_TIME,
        b"?",
        partition=partition,
        on_delivery=lambda _, sent: at.append(sent.offset() or 0),
    )
    before_s = time.time()  # noqa: TID251 - compared with a wall clock
    assert producer.flush(20) == 0
    after_s = time.time()  # noqa: TID251 - as above
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "witness"})
    try:
        consumer.assign([TopicPartition(OWN_TIME, partition, at[0])])
        record = consumer.poll(20)
        assert record is not None
        stamp = float(record.timestamp()[1]) / 1000
        # A clock like ours stamps it between the two.
        return min(0, stamp - before_s) + max(0, stamp - after_s)
    finally:
        consumer.close()


def until_whole(cluster: KafkaCluster) -> None:
    def is_whole() -> bool:
        view = cluster.view()
        return view is not None and all(
            set(state.isr) == set(state.replicas) for state in view.partitions.values()
        )

    wait_until(is_whole, timeout_s=60, what="every ISR to be full")


def test_a_preferred_election_moves_the_leader_and_gives_the_order_back(
    cluster: tuple[KafkaCluster, Site],
) -> None:
    kafka, site = cluster
    before = told(kafka)
    fault = PreferredElection(aim((f"n{before.leader}",), PLACE), site)
    fault.inject()
    effect = fault.confirm(LIMIT)
    assert isinstance(effect, PreferredElectionEffect)
    wait_until(lambda: told(kafka).leader != before.leader, timeout_s=20, what="another leader")
    during = told(kafka)
    assert during.leader == during.replicas[0] == int((effect.after.leader or "n0")[1:])
    assert effect.after.leader_epoch > effect.before.leader_epoch
    fault.heal()
    assert fault.confirm_healed(LIMIT) is not None
    wait_until(lambda: told(kafka).replicas == before.replicas, timeout_s=20, what="the old order")


def test_a_reassignment_changes_the_replicas_and_the_heal_brings_them_back(
    cluster: tuple[KafkaCluster, Site],
) -> None:
    kafka, site = cluster
    before = told(kafka)
    fault = Reassignment(aim(("n1",), PLACE), site)
    fault.inject()
    effect = fault.confirm(LIMIT)
    assert isinstance(effect, ReassignmentEffect)
    assert len(effect.after.replicas) == 2
    wait_until(lambda: len(told(kafka).replicas) == 2, timeout_s=20, what="two replicas")
    fault.heal()
    assert fault.confirm_healed(LIMIT) is not None
    wait_until(lambda: len(told(kafka).isr) == 3, timeout_s=20, what="a full ISR")
    assert told(kafka).replicas == before.replicas


def test_topics_come_and_go_and_none_is_left(cluster: tuple[KafkaCluster, Site]) -> None:
    kafka, site = cluster
    before = topics_told(kafka)
    fault = TopicChurn(aim(("n2",)), site)
    fault.inject()
    effect = fault.confirm(LIMIT)
    assert effect is not None
    assert effect.seen.startswith("__logquake-churn-7-")
    assert effect.by != "n2"
    wait_until(lambda: topics_told(kafka) - before, timeout_s=30, what="a client to see one")
    fault.heal()
    gone = fault.confirm_healed(LIMIT)
    assert isinstance(gone, TopicsGoneEffect)
    assert gone.created >= 1
    wait_until(lambda: topics_told(kafka) == before, timeout_s=20, what="the topics of before")


@pytest.mark.parametrize("kind", [ClockOffset, ClockDrift, ClockStrobe])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_clock_goes_wrong_by_the_stamps_of_records_and_is_right_again(
    cluster: tuple[KafkaCluster, Site],
    kind: type[ClockOffset | ClockDrift | ClockStrobe],
    seed: int,
) -> None:
    kafka, site = cluster
    node = kafka.nodes[seed]
    assert abs(stamp_s(kafka, node)) < 1
    fault: Fault = kind(aim((node,), seed=seed), site)
    fault.inject()
    effect = fault.confirm(LIMIT)
    assert isinstance(effect, ClockEffect)
    wait_until(lambda: abs(stamp_s(kafka, node)) > 1, timeout_s=30, what="a wrong stamp")
    assert abs(stamp_s(kafka, kafka.nodes[2])) < 1, "no other broker's clock is touched"
    fault.heal()
    healed = fault.confirm_healed(LIMIT)
    assert isinstance(healed, ClockTrueEffect)
    assert healed.unasked == ()
    wait_until(lambda: abs(stamp_s(kafka, node)) < 0.5, timeout_s=30, what="a true stamp")


def test_coordinators_are_found_by_group_and_transactional_id(
    cluster: tuple[KafkaCluster, Site],
) -> None:
    kafka, _ = cluster

    def found(kind: CoordinatorKind, key: str) -> str:
        return wait_until(
            lambda: kafka.coordinator(kind, key), timeout_s=60, what=f"a coordinator of {key}"
        )

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap()})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap(), "group.id": "readers"})
    try:
        consumer.subscribe(["log-0"])
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), timeout_s=60, what="a part")
        described = admin.describe_consumer_groups(["readers"])["readers"].result(timeout=20)
        assert found(CoordinatorKind.GROUP, "readers") == f"n{described.coordinator.id}"
    finally:
        consumer.close()
    assert found(CoordinatorKind.TRANSACTION, "pay-0") in kafka.nodes


def test_a_controller_that_is_killed_is_followed_by_another(
    cluster: tuple[KafkaCluster, Site],
) -> None:
    kafka, site = cluster
    view = kafka.view()
    assert view is not None
    assert view.controller is not None
    other = next(node for node in kafka.nodes if node != view.controller)
    with pytest.raises(ClusterError, match=f"{other} is not the controller: {view.controller} is"):
        ControllerFailover(aim((other,)), site)
    fault = ControllerFailover(aim((view.controller,)), site)
    fault.inject()
    effect = fault.confirm(LIMIT)
    assert isinstance(effect, ControllerFailoverEffect)
    assert effect.after != effect.before == view.controller
    assert effect.epoch_after > effect.epoch_before
    fault.heal()
    assert fault.confirm_healed(LIMIT) is not None
    until_whole(kafka)


def test_an_unclean_election_is_refused_where_nobody_would_be_left_to_elect(
    cluster: tuple[KafkaCluster, Site],
) -> None:
    kafka, site = cluster
    with pytest.raises(ClusterError, match="nobody would be left to elect a leader; use --repl"):
        UncleanElection(aim(tuple(kafka.nodes), PLACE), site)
    with pytest.raises(ClusterError, match=r"use the target replicas\(log-0,0\)"):
        UncleanElection(aim(("n1",), PLACE), site)
