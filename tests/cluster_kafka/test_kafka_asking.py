"""What brokers of several versions and modes are asked, told to do, and seen to do."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from cluster.hosts.process import ProcessHosts
from cluster.hosts.signals import is_stopped
from cluster.kafka.asking import Answer, Asker, Belief, QuorumBelief, ReplicaAnswer
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.dialects import UnknownQuestionError
from cluster.kafka.observer import Observer
from cluster.kafka.versions import NO_TOPIC_ID
from cluster.kafka.wire import WireError
from cluster.kafka.zookeeper_admin import ZooKeeperAdmin
from cluster.protocol import ClusterError
from results.record.clock import RunClock, wait_until
from results.record.nodes import ZOOKEEPER_MACHINE, machines, node_id
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream
from results.record.topics import CreatedTopic
from tests.brokers import brokers_of

pytestmark = [pytest.mark.everything, pytest.mark.kafka]

WITH_ZOOKEEPER = ("kafka:0.11.0.3", "kafka:2.8.2")
SYSTEMS = (*WITH_ZOOKEEPER, "kafka:4.3.1:controllers")
LIMIT_S = 60
SNAPSHOT_S = 5
PLACE = ("t", 0)
EPOCHS_ARE_TOLD = (2, 1)
"""Since then metadata, ListOffsets and Fetch know leader epochs (KIP-320)."""


@pytest.fixture(scope="module", params=SYSTEMS)
def plan(request: pytest.FixtureRequest) -> Plan:
    controllers = 1 if "controllers" in request.param else 3
    return Plan(system=request.param, nodes=2, replication=2, controllers=controllers)


@pytest.fixture(scope="module")
def paths(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    paths = RunPaths(tmp_path_factory.mktemp("asking") / plan.system.replace(":", "-"))
    paths.live.mkdir(parents=True)
    return paths


@pytest.fixture(scope="module")
def cluster(plan: Plan, paths: RunPaths) -> Iterator[KafkaCluster]:
    hosts = ProcessHosts(machines(plan), paths.processes)
    hosts.up()
    cluster = brokers_of(plan, hosts, paths)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        hosts.down()


@pytest.fixture(scope="module")
def topic(cluster: KafkaCluster) -> CreatedTopic:
    """A topic with three records; broker 2 leads, broker 1 follows."""
    created = cluster.create_topic(
        "t", assignment={0: ["n2", "n1"]}, configs={"min.insync.replicas": "1"}
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all"})
    for _ in range(3):
        producer.produce("t", b"x" * 8, partition=0)
    assert producer.flush(LIMIT_S) == 0
    return created


@pytest.fixture(scope="module")
def asker(cluster: KafkaCluster) -> Iterator[Asker]:
    asker = Asker(cluster.endpoints, cluster.answers)
    yield asker
    asker.close()


def rows_of(live: Path, table: str) -> list[dict[str, object]]:
    batches = [batch for path in live.glob(f"{table}.*") for batch in read_stream(path)]
    return pa.Table.from_batches(batches).to_pylist()


def tells_epochs(plan: Plan) -> bool:
    return plan.version_numbers >= EPOCHS_ARE_TOLD


def replica_if_told(asker: Asker, node: str) -> ReplicaAnswer | None:
    """Return what a broker says; None: a broker that has just started was too slow."""
    try:
        return asker.replica(node, PLACE)
    except WireError:
        return None


def test_brokers_tell_what_they_believe_and_hold(
    plan: Plan, asker: Asker, topic: CreatedTopic
) -> None:
    told = tells_epochs(plan)
    assert (topic.topic_id == NO_TOPIC_ID) is not told
    whole = ReplicaAnswer(
        log_start_offset=0,
        log_end_offset=3,
        high_watermark=3,
        last_stable_offset=3,
    )
    for node in ("n1", "n2"):
        believed = Belief(leader=2, leader_epoch=0 if told else None, isr=(1, 2))
        assert asker.belief(node, PLACE) == believed
        wait_until(
            lambda node=node: replica_if_told(asker, node) == whole,  # type: ignore[misc]  # Bound.
            timeout_s=LIMIT_S,
            what=f"all records at {node}, below its high watermark",
        )
    assert asker.belief("n1", ("no-such-topic", 0)) is None


def test_only_the_leader_answers_and_only_to_who_knows_its_epoch(
    plan: Plan, asker: Asker, topic: CreatedTopic
) -> None:
    assert topic.partitions == 1
    told = tells_epochs(plan)
    refused = Answer(error="NOT_LEADER_OR_FOLLOWER", offset=None, leader_epoch=None)
    ask = asker.leader_answer
    served = ask("n2", PLACE, current_leader_epoch=None)
    assert (served.error, served.offset) == ("NONE", 3)
    assert ask("n1", PLACE, current_leader_epoch=None) == refused
    if told:
        assert ask("n2", PLACE, current_leader_epoch=0).error == "NONE"
        unknown = Answer(error="UNKNOWN_LEADER_EPOCH", offset=None, leader_epoch=None)
        assert ask("n2", PLACE, current_leader_epoch=1) == unknown
    else:
        with pytest.raises(UnknownQuestionError, match="has no current_leader_epoch"):
            ask("n2", PLACE, current_leader_epoch=0)


def test_a_leader_tells_where_an_epoch_ends(plan: Plan, asker: Asker, topic: CreatedTopic) -> None:
    assert topic.partitions == 1
    end = asker.epoch_end("n2", PLACE, epoch=0)
    assert (end.error, end.end_offset) == ("NONE", 3)
    assert end.leader_epoch == (0 if tells_epochs(plan) else None)
    assert asker.epoch_end("n1", PLACE, epoch=0).error == "NOT_LEADER_OR_FOLLOWER"


def test_the_quorum_is_asked_where_there_is_one(
    plan: Plan, cluster: KafkaCluster, asker: Asker
) -> None:
    at_a_broker = asker.quorum("n1")
    assert asker.quorum_belief("n1") is None
    if not cluster.controllers:
        assert at_a_broker is None
        return
    (controller,) = cluster.controllers
    own = asker.quorum(controller)
    assert at_a_broker is not None
    assert own is not None
    assert plan.controllers == len(own.voters) == 1
    assert own.leader == at_a_broker.leader == node_id(controller)
    assert set(own.observers) == {1, 2}
    believed = QuorumBelief(leader=own.leader, leader_epoch=own.leader_epoch)
    assert asker.quorum_belief(controller) == believed


def pause(cluster: KafkaCluster, node: str) -> None:
    """Pause a broker, and see that all of its threads stand still."""
    process = cluster.process(node)
    assert process is not None
    cluster.pause_node(node)
    wait_until(lambda: is_stopped(process), timeout_s=LIMIT_S, what=f"{node} to stand still")


def test_the_observer_looks_whenever_it_is_told_to(
    *, plan: Plan, cluster: KafkaCluster, topic: CreatedTopic, paths: RunPaths, asker: Asker
) -> None:
    brokers, everyone = {"n1", "n2"}, {"n1", "n2", *cluster.controllers}
    observer = Observer(cluster, [topic], clock=RunClock.starting_now(), live=paths.live)
    observer.start()
    try:
        assert observer.snapshot("step-01", LIMIT_S) == everyone
        cluster.reassign(PLACE, ["n1", "n2"])
        cluster.elect_preferred(PLACE)
        wait_until(
            lambda: observer.latest().partitions[PLACE].leader == "n1",
            timeout_s=LIMIT_S,
            what="the new leader to be seen",
        )
        pause(cluster, "n2")
        assert observer.snapshot("step-02", SNAPSHOT_S) == everyone - {"n2"}
        cluster.resume_node("n2")
        cluster.kill_node("n2")
        cluster.start_node("n2")
        wait_until(lambda: cluster.is_back("n2"), timeout_s=LIMIT_S, what="n2 to be back")
        wait_until(
            lambda: set(observer.latest().partitions[PLACE].isr) == brokers,
            timeout_s=LIMIT_S,
            what="a full ISR to be seen",
        )
        wait_until(
            lambda: (told := replica_if_told(asker, "n2")) and told.high_watermark == 3,
            timeout_s=LIMIT_S,
            what="its high watermark, which a broker that was killed forgets, to be back",
        )
        assert observer.note(LIMIT_S) == everyone
    finally:
        cluster.resume_node("n2")
        observer.stop()
    assert not observer.failures()
    check_snapshots(rows_of(paths.live, "replica_states"))
    check_leadership(plan, rows_of(paths.live, "leadership"))
    if cluster.controllers:
        check_quorum(rows_of(paths.live, "quorum_states"))


def check_snapshots(states: list[dict[str, object]]) -> None:
    looked = {(row["snapshot"], row["node"]) for row in states if row["snapshot"]}
    assert looked == {
        *(("step-01", node) for node in ("n1", "n2")),
        ("step-02", "n1"),
        *(("noted", node) for node in ("n1", "n2")),
    }
    for row in states:
        if row["snapshot"] == "noted":
            assert row["log_end_offset"] == row["high_watermark"] == 3
            assert row["incarnation"] == (2 if row["node"] == "n2" else 1)


def check_leadership(plan: Plan, rows: list[dict[str, object]]) -> None:
    beliefs = [row for row in rows if row["source"] == "metadata"]
    assert {row["observer"] for row in beliefs} == {"n1", "n2"}
    assert all((row["leader_epoch"] is not None) is tells_epochs(plan) for row in beliefs)
    claims = [row for row in rows if row["source"] == "list-offsets"]
    assert bool(claims) is tells_epochs(plan)
    truths = sorted(
        (row for row in rows if row["source"] == "zookeeper"),
        key=lambda row: str(row["observed_ns"]).zfill(20),
    )
    assert bool(truths) is (plan.version_numbers < (3,))
    if truths:
        assert {row["observer"] for row in truths} == {ZOOKEEPER_MACHINE}
        assert [truths[0][key] for key in ("leader", "leader_epoch", "isr")] == [2, 0, [1, 2]]
        assert truths[-1]["leader"] == 1
        assert truths[-1]["isr"] == [1, 2]


def check_quorum(rows: list[dict[str, object]]) -> None:
    assert {(row["node"], row["role"]) for row in rows} == {
        ("n1", "observer"),
        ("n2", "observer"),
        ("n101", "leader"),
    }
    own = [row for row in rows if row["node"] == "n101"]
    assert all(row["leader"] == 101 for row in own)
    assert own[-1]["log_end_offset"] is not None


def test_orders_that_cannot_be_carried_out_are_refused(
    plan: Plan, cluster: KafkaCluster, topic: CreatedTopic
) -> None:
    assert topic.partitions == 1
    with pytest.raises(ClusterError, match=r"reassignment of.*\b9\b"):
        cluster.reassign(PLACE, ["n1", "n9"])
    with pytest.raises(ClusterError, match="none-0"):
        cluster.elect_preferred(("none", 0))
    if tells_epochs(plan):
        cluster.elect_unclean(PLACE)  # Nothing to do, and so not refused.
    else:
        with pytest.raises(ClusterError, match="does not support ElectLeaders"):
            cluster.elect_unclean(PLACE)


def answers_at_all(admin: ZooKeeperAdmin) -> bool:
    """Tell whether ZooKeeper answers; one that stood still may need more than one question."""
    try:
        return admin.partition_state(PLACE) is not None
    except ClusterError:
        return False


@pytest.mark.parametrize("plan", WITH_ZOOKEEPER, indirect=True, scope="module")
def test_a_zookeeper_that_is_silent_keeps_nobody_waiting(cluster: KafkaCluster) -> None:
    assert cluster.zookeeper is not None
    before = threading.active_count()
    admin = ZooKeeperAdmin(
        {node: cluster.endpoints[node] for node in cluster.nodes},
        cluster.answers,
        zookeeper=cluster.zookeeper,
        incarnation=cluster.incarnation,
    )
    try:
        truth = admin.partition_state(PLACE)
        assert truth is not None
        # The controller may have died since it wrote the state, in a test before this one.
        assert 0 < truth.controller_epoch <= (admin.controller_epoch() or 0)
        assert (truth.leader, set(truth.isr)) == (1, {1, 2})
        pause(cluster, ZOOKEEPER_MACHINE)
        try:
            assert admin.view() is None
            with pytest.raises(ClusterError, match=r"ZooKeeper at .* does not answer"):
                admin.partition_state(PLACE)
        finally:
            cluster.resume_node(ZOOKEEPER_MACHINE)
        wait_until(
            lambda: answers_at_all(admin), timeout_s=LIMIT_S, what="ZooKeeper to answer again"
        )
    finally:
        admin.close()
    wait_until(
        lambda: threading.active_count() <= before, timeout_s=LIMIT_S, what="its threads to end"
    )
