"""Three real brokers on this machine's loopback: started once, hit, watched, stopped."""

import os
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from cluster.hosts.process import ProcessHosts, free_ports
from cluster.hosts.signals import is_running
from cluster.kafka import by_hand, layout
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.collect import collect
from cluster.kafka.observer import Observer
from cluster.protocol import (
    CanKill,
    CanPause,
    Cluster,
    ClusterError,
    CoordinatorKind,
    UserError,
)
from results.record.clock import RunClock, wait_until
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream
from results.record.terms import Mode
from results.record.topics import CreatedTopic
from tests.brokers import brokers_of

pytestmark = pytest.mark.kafka

SYSTEM = f"kafka:{os.environ.get('LOGQUAKE_KAFKA', '4.3.1')}"
WITH_QUORUM = Plan(system=SYSTEM).mode is not Mode.ZOOKEEPER
LIMIT_S = 60


def make_cluster(plan: Plan, root: Path) -> tuple[KafkaCluster, ProcessHosts]:
    paths = RunPaths(root)
    paths.live.mkdir(parents=True)
    hosts = ProcessHosts(machines(plan), paths.processes)
    hosts.up()
    return brokers_of(plan, hosts, paths), hosts


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka") / "run"


@pytest.fixture(scope="module")
def cluster(root: Path) -> Iterator[KafkaCluster]:
    cluster, hosts = make_cluster(Plan(system=SYSTEM, topics=1, partitions=3), root)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        hosts.down()


@pytest.fixture(scope="module")
def topics(cluster: KafkaCluster) -> list[CreatedTopic]:
    return cluster.create_topics(
        ["log-0"], partitions=3, replication=3, configs={"segment.bytes": "1048576"}
    )


def rows_of(live: Path, table: str) -> list[dict[str, object]]:
    batches = [batch for path in live.glob(f"{table}.*") for batch in read_stream(path)]
    return pa.Table.from_batches(batches).to_pylist()


def until_back(cluster: KafkaCluster, node: str) -> None:
    """Wait until a node is back, with all its replicas: or the next fault could take the last."""

    def is_whole() -> bool:
        view = cluster.view()
        return (
            view is not None
            and cluster.is_back(node)
            and all(set(state.isr) == set(state.replicas) for state in view.partitions.values())
        )

    wait_until(is_whole, timeout_s=LIMIT_S, what=f"{node} to be back, with a full ISR")


def test_a_started_cluster_has_all_nodes_registered_and_a_controller(
    cluster: KafkaCluster,
) -> None:
    assert isinstance(cluster, Cluster)
    assert isinstance(cluster, CanKill)
    assert isinstance(cluster, CanPause)
    view = cluster.view()
    assert view is not None
    assert view.registered == {"n1", "n2", "n3"}
    assert view.controller in cluster.nodes
    assert all(cluster.is_back(node) for node in cluster.nodes)


def test_topics_are_created_whole(cluster: KafkaCluster, topics: list[CreatedTopic]) -> None:
    assert [(each.topic, each.partitions, len(each.topic_id)) for each in topics] == [
        ("log-0", 3, 36)
    ]
    view = cluster.view()
    assert view is not None
    assert set(view.partitions) == {("log-0", 0), ("log-0", 1), ("log-0", 2)}
    for state in view.partitions.values():
        assert set(state.isr) == {"n1", "n2", "n3"}
        assert state.leader in state.isr
    ends = cluster.leader_ends(view.partitions, committed=True, timeout_s=LIMIT_S)
    assert ends == dict.fromkeys(view.partitions, 0)


def test_a_topic_that_kafka_refuses_is_the_users_to_mend(cluster: KafkaCluster) -> None:
    with pytest.raises(UserError, match=r"(?i)log-9 cannot be created.*replication"):
        cluster.create_topics(["log-9"], partitions=1, replication=7)


def test_a_topic_whose_order_came_twice_is_the_one_that_was_made(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a broker sends it to its controller again, because an answer is late."""
    create = partial(cluster.by_hand.create, "twice", assignment={0: cluster.nodes}, configs={})
    made = create(known=())
    assert create(known=()) == made
    monkeypatch.setattr(by_hand, "ORDER_TIMEOUT_S", 0.5)
    with pytest.raises(ClusterError, match=r"the topic twice cannot be created: .* already exists"):
        create(known=[made])
    cluster.by_hand.delete("twice", made)


def test_a_deletion_that_comes_twice_leaves_the_topic_that_was_made_in_between(
    cluster: KafkaCluster,
) -> None:
    create = partial(cluster.by_hand.create, "again", assignment={0: cluster.nodes}, configs={})
    first = create(known=())
    cluster.by_hand.delete("again", first)
    second = create(known=[first])
    cluster.by_hand.delete("again", first)
    told = wait_until(
        lambda: cluster.by_hand.told_by("n1", "again"), timeout_s=20, what="word of the topic"
    )
    assert told.topic_id == second != first
    cluster.by_hand.delete("again", second)


def test_a_broker_that_was_killed_is_gone_from_the_view_and_comes_back_anew(
    cluster: KafkaCluster,
) -> None:
    before = cluster.process("n2")
    assert before is not None
    assert cluster.incarnation("n2") == 1
    cluster.kill_node("n2")
    assert not is_running(before)
    assert not cluster.is_back("n2")
    wait_until(
        lambda: (view := cluster.view()) and "n2" not in view.registered,
        timeout_s=LIMIT_S,
        what="the end of its session",
    )
    assert cluster.exited() == {}
    assert cluster.start_node("n2") != before
    with pytest.raises(ClusterError, match="runs already"):
        cluster.start_node("n2")
    until_back(cluster, "n2")
    assert cluster.incarnation("n2") == 2


def test_a_paused_broker_delays_no_view_and_comes_back(cluster: KafkaCluster) -> None:
    cluster.pause_node("n3")
    try:
        assert not cluster.answers("n3")
        assert not cluster.is_back("n3")
        wait_until(
            lambda: (view := cluster.view()) and view.registered == {"n1", "n2"},
            timeout_s=LIMIT_S,
            what="the end of its session",
        )
    finally:
        cluster.resume_node("n3")
    cluster.resume_node("n3")
    until_back(cluster, "n3")


def test_a_broker_that_stops_by_itself_does_so_and_can_be_started_again(
    cluster: KafkaCluster,
) -> None:
    assert cluster.stop_node("n1", LIMIT_S)
    assert cluster.exited() == {}
    cluster.start_node("n1")
    until_back(cluster, "n1")


def test_the_observer_writes_what_each_broker_says(
    cluster: KafkaCluster, topics: list[CreatedTopic], root: Path
) -> None:
    live = RunPaths(root).live
    observer = Observer(cluster, topics, clock=RunClock.starting_now(), live=live)
    observer.start()
    try:
        wait_until(
            lambda: (
                len(observer.latest().answered_ns) == 3
                and observer.latest().partitions["log-0", 1].high_watermark is not None
            ),
            timeout_s=LIMIT_S,
            what="a word of each broker, and of the leader",
        )
        led = {place: each.leader for place, each in observer.latest().partitions.items()}
        victim = led["log-0", 1]
        assert victim is not None
        cluster.kill_node(victim)
        wait_until(
            lambda: (
                (state := observer.latest().partitions["log-0", 1]).leader != victim
                and state.leader is not None
                and state.high_watermark is not None
                and len(state.isr) == 2
            ),
            timeout_s=LIMIT_S,
            what="another leader, seen by the observer",
        )
        cluster.start_node(victim)
        until_back(cluster, victim)
        assert observer.note(LIMIT_S) == {"n1", "n2", "n3"}
    finally:
        observer.stop()
    observer.stop()
    check_leadership(rows_of(live, "leadership"), victim)
    noted = [row for row in rows_of(live, "replica_states") if row["snapshot"] == "noted"]
    assert {(row["node"], row["partition"]) for row in noted} == {
        (node, partition) for node in cluster.nodes for partition in range(3)
    }
    for row in noted:
        assert row["topic_id"] == topics[0].topic_id
        assert row["log_end_offset"] == row["high_watermark"] == 0
        assert row["incarnation"] == cluster.incarnation(str(row["node"]))
    if WITH_QUORUM:
        quorum = rows_of(live, "quorum_states")
        assert {row["node"] for row in quorum} >= set(cluster.nodes)
        assert {row["role"] for row in quorum} >= {"leader", "follower"}


def check_leadership(rows: list[dict[str, object]], victim: str) -> None:
    claims = [row for row in rows if row["source"] == "list-offsets" and row["partition"] == 1]
    epochs_of: dict[object, set[object]] = {}
    for row in claims:
        assert f"n{row['leader']}" == row["observer"], "only a leader speaks for itself"
        epochs_of.setdefault(row["leader_epoch"], set()).add(row["leader"])
    assert len(epochs_of) >= 2, "an epoch before and one after the kill"
    assert all(len(leaders) == 1 for leaders in epochs_of.values())
    beliefs = [row for row in rows if row["source"] == "metadata" and row["partition"] == 1]
    assert {row["observer"] for row in beliefs} == {"n1", "n2", "n3"}
    assert any(victim[1:] not in map(str, row["isr"] or []) for row in beliefs)  # type: ignore[call-overload]
    assert all(row["high_watermark"] is None for row in beliefs)


def test_coordinators_are_found_by_group_and_transactional_id(
    cluster: KafkaCluster, topics: list[CreatedTopic]
) -> None:
    def found(kind: CoordinatorKind, key: str) -> str:
        return wait_until(
            lambda: cluster.coordinator(kind, key), timeout_s=LIMIT_S, what=f"who has {key}"
        )

    servers: dict[str, str | int | float | bool] = {"bootstrap.servers": cluster.bootstrap()}
    consumer = Consumer({**servers, "group.id": "readers"})
    try:
        consumer.subscribe([topics[0].topic])
        wait_until(
            lambda: consumer.poll(0.1) or consumer.assignment(), timeout_s=LIMIT_S, what="a part"
        )
        admin = AdminClient(servers)  # It must live until it has its answer.
        told = admin.describe_consumer_groups(["readers"])["readers"]
        coordinator = told.result(timeout=LIMIT_S).coordinator
        assert found(CoordinatorKind.GROUP, "readers") == f"n{coordinator.id}"
    finally:
        consumer.close()
    assert found(CoordinatorKind.TRANSACTION, "pay-0") in cluster.nodes


def test_the_end_to_read_to_has_everything_that_was_acknowledged(
    cluster: KafkaCluster, topics: list[CreatedTopic]
) -> None:
    view = cluster.view()
    assert topics
    assert view is not None
    place = ("log-0", 0)
    followers = [node for node in cluster.nodes if node != view.partitions[place].leader]
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": 1})
    producer.list_topics("log-0", timeout=LIMIT_S)

    def resume() -> None:
        for node in followers:
            cluster.resume_node(node)

    for node in followers:
        cluster.pause_node(node)
    try:
        for _ in range(10):
            producer.produce("log-0", b"x" * 8, partition=0)
        assert producer.flush(LIMIT_S) == 0
        assert cluster.leader_ends([place], committed=False, timeout_s=LIMIT_S) == {place: 0}
        later = threading.Timer(0.5, resume)
        later.start()
        ends = cluster.leader_ends([place], committed=True, timeout_s=LIMIT_S)
        later.join()
    finally:
        resume()
    assert ends == {place: 10}
    for node in followers:
        until_back(cluster, node)


def test_all_stop_by_themselves_and_what_stays_is_the_record(
    cluster: KafkaCluster, topics: list[CreatedTopic], root: Path
) -> None:
    assert topics
    assert cluster.stop(LIMIT_S) == {"n1": True, "n2": True, "n3": True}
    assert cluster.view() is None
    for node in cluster.nodes:
        folder = RunPaths(root).node(node)
        (folder / "tmp" / "libzstd-jni.so").touch()  # As a broker that was killed leaves it.
        assert collect(folder) > 0
        assert collect(folder) == 0
        kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        assert kept >= {
            "server.properties",
            "logs/server.log",
            "logs/controller.log",
            "logs/state-change.log",
            "data/meta.properties",
            "data/replication-offset-checkpoint",
            "data/log-0-0/00000000000000000000.log",
            "data/log-0-0/leader-epoch-checkpoint",
        }
        if WITH_QUORUM:
            assert "data/__cluster_metadata-0/00000000000000000000.log" in kept
            assert "data/__cluster_metadata-0/quorum-state" in kept
        assert not [path for path in kept if path.endswith("index") or path.startswith("tmp")]
        assert "shut down completed" in (folder / "logs" / "server.log").read_text()


@pytest.mark.everything
@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        (
            "log.segment.bytes",
            "abc",
            r"Invalid value abc for configuration log\.segment\.bytes.*--set",
        ),
        ("advertised.listeners", "BROKER://0.0.0.0:1", "rejects a setting.*advertised.listeners"),
    ],
)
def test_a_setting_that_kafka_refuses_is_named(
    tmp_path: Path, setting: str, value: str, sentence: str
) -> None:
    plan = Plan(system=SYSTEM, nodes=1, replication=1, min_insync=1, broker={setting: value})
    cluster, hosts = make_cluster(plan, tmp_path / "run")
    try:
        with pytest.raises(UserError, match=sentence):
            cluster.start()
    finally:
        hosts.down()


@pytest.mark.everything
def test_a_port_that_is_taken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(layout, "free_ports", lambda count: [port, *free_ports(count - 1)])
        plan = Plan(system=SYSTEM, nodes=1, replication=1, min_insync=1)
        cluster, hosts = make_cluster(plan, tmp_path / "run")
        try:
            with pytest.raises(UserError, match=f"its port is in use .*{port}"):
                cluster.start()
        finally:
            hosts.down()


@pytest.mark.everything
def test_paths_may_have_blanks_and_letters_beyond_ascii_in_any_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    plan = Plan(system=SYSTEM, nodes=1, replication=1, min_insync=1)
    cluster, hosts = make_cluster(plan, tmp_path / "läufe zum test" / "run")
    try:
        cluster.start()
        assert (tmp_path / "läufe zum test/run/nodes/n1/logs/server.log").stat().st_size
        assert cluster.stop(LIMIT_S) == {"n1": True}
    finally:
        hosts.down()


def test_a_path_with_a_comma_is_refused_with_the_remedy(tmp_path: Path) -> None:
    plan = Plan(system=SYSTEM, nodes=1, replication=1, min_insync=1)
    cluster, hosts = make_cluster(plan, tmp_path / "a,b" / "run")
    try:
        with pytest.raises(UserError, match=r"a,b.*--store.*no comma"):
            cluster.start()
    finally:
        hosts.down()
