"""A cluster with ZooKeeper and one with controllers of their own: started, hit, stopped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.collect import collect
from cluster.protocol import ClusterError, UserError
from results.record.clock import wait_until
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.brokers import brokers_of

pytestmark = [pytest.mark.everything, pytest.mark.kafka]

LIMIT_S = 60
PLACE = ("t", 0)


def make_cluster(plan: Plan, root: Path) -> tuple[KafkaCluster, ProcessHosts]:
    paths = RunPaths(root)
    paths.live.mkdir(parents=True)
    hosts = ProcessHosts(machines(plan), paths.processes)
    hosts.up()
    return brokers_of(plan, hosts, paths), hosts


@pytest.fixture(scope="module")
def old_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("with blanks") / "läufe mit zookeeper"


@pytest.fixture(scope="module")
def with_zookeeper(old_root: Path) -> Iterator[KafkaCluster]:
    cluster, hosts = make_cluster(Plan(system="kafka:2.8.2"), old_root)
    try:
        cluster.start(first=["n3", "n1"])
        yield cluster
    finally:
        hosts.down()


@pytest.fixture(scope="module")
def new_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka") / "controllers"


@pytest.fixture(scope="module")
def with_controllers(new_root: Path) -> Iterator[KafkaCluster]:
    plan = Plan(
        system="kafka:4.3.1:controllers",
        nodes=2,
        replication=2,
        node={"n102": {"num.io.threads": "3"}},
        features={"eligible.leader.replicas.version": 0},
    )
    cluster, hosts = make_cluster(plan, new_root)
    try:
        cluster.start()
        yield cluster
    finally:
        hosts.down()


def until_whole(cluster: KafkaCluster, node: str) -> None:
    def is_whole() -> bool:
        view = cluster.view()
        state = view.partitions.get(PLACE) if view else None
        return state is not None and cluster.is_back(node) and len(state.isr) == 2

    wait_until(is_whole, timeout_s=LIMIT_S, what=f"{node} to be back, and in the ISR")


def test_the_broker_that_is_started_first_becomes_the_controller(
    with_zookeeper: KafkaCluster,
) -> None:
    view = with_zookeeper.view()
    assert view is not None
    assert view.controller == "n3"
    assert view.registered == {"n1", "n2", "n3"}
    assert with_zookeeper.zookeeper
    assert not with_zookeeper.controllers


def test_replicas_lie_where_they_are_wanted(with_zookeeper: KafkaCluster) -> None:
    created = with_zookeeper.create_topic(
        "t", assignment={0: ["n2", "n1"]}, configs={"min.insync.replicas": "1"}
    )
    assert (created.topic, created.partitions) == ("t", 1)
    view = with_zookeeper.view()
    assert view is not None
    state = view.partitions[PLACE]
    assert (state.leader, state.leader_epoch, state.replicas) == ("n2", 0, ("n2", "n1"))
    with pytest.raises(UserError, match="u cannot be created"):
        with_zookeeper.create_topic("u", assignment={0: ["n1", "n1"]}, configs={})


def test_a_broker_that_was_killed_starts_as_soon_as_zookeeper_has_forgotten_it(
    with_zookeeper: KafkaCluster, old_root: Path
) -> None:
    with_zookeeper.kill_node("n2")
    assert not with_zookeeper.is_back("n2")
    with_zookeeper.start_node("n2")
    until_whole(with_zookeeper, "n2")
    with pytest.raises(ClusterError, match="the broker of n2 runs already"):
        with_zookeeper.start_node("n2")
    log = (RunPaths(old_root).node("n2") / "logs" / "server.log").read_text()
    assert "NodeExists" not in log
    assert with_zookeeper.exited() == {}


def test_state_changes_are_told_in_their_file(with_zookeeper: KafkaCluster, old_root: Path) -> None:
    assert with_zookeeper.nodes
    text = (RunPaths(old_root).node("n2") / "logs" / "state-change.log").read_text()
    assert "become-leader transition for partition t-0" in text
    assert "become-follower transition for partition t-0" in text


def test_with_zookeeper_all_brokers_end_by_themselves_and_zookeeper_last(
    with_zookeeper: KafkaCluster, old_root: Path
) -> None:
    assert with_zookeeper.stop(LIMIT_S) == {"n1": True, "n2": True, "n3": True}
    assert with_zookeeper.exited() == {}
    folder = RunPaths(old_root).node("n2")
    collect(folder)
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert kept >= {
        "data/replication-offset-checkpoint",
        "data/t-0/00000000000000000000.log",
        "data/t-0/leader-epoch-checkpoint",
        "logs/controller.log",
        "server.properties",
    }
    assert (old_root / "zookeeper" / "logs" / "zookeeper.log").stat().st_size
    assert {path.name for path in RunPaths(old_root).nodes.iterdir()} == {"n1", "n2", "n3"}


def test_controllers_of_their_own_lead_the_quorum(
    with_controllers: KafkaCluster, new_root: Path
) -> None:
    assert with_controllers.controllers == ["n101", "n102", "n103"]
    view = with_controllers.view()
    assert view is not None
    assert view.controller in with_controllers.controllers
    assert view.registered == {"n1", "n2"}
    own = (RunPaths(new_root).node("n102") / "server.properties").read_text()
    assert "num.io.threads=3\n" in own
    assert "101" not in with_controllers.bootstrap()


def test_a_broker_beside_controllers_is_killed_and_comes_back(
    with_controllers: KafkaCluster,
) -> None:
    created = with_controllers.create_topic("t", assignment={0: ["n2", "n1"]}, configs={})
    assert created.topic_id.count("0") < 32
    with_controllers.kill_node("n2")
    with_controllers.start_node("n2")
    until_whole(with_controllers, "n2")


def test_the_quorums_leader_is_killed_and_another_one_leads(
    with_controllers: KafkaCluster,
) -> None:
    view = with_controllers.view()
    assert view is not None
    first = view.controller
    assert first is not None
    with_controllers.kill_node(first)
    assert not with_controllers.is_back(first)

    def another_leads() -> bool:
        now = with_controllers.view()
        return now is not None and now.controller not in (None, first)

    wait_until(another_leads, timeout_s=LIMIT_S, what="another leader of the quorum")
    with_controllers.start_node(first)
    assert with_controllers.incarnation(first) == 2
    wait_until(lambda: with_controllers.is_back(first), timeout_s=LIMIT_S, what="its return")


def test_brokers_end_by_themselves_before_their_controllers(
    with_controllers: KafkaCluster, new_root: Path
) -> None:
    nodes = ("n1", "n2", "n101", "n102", "n103")
    assert with_controllers.stop(LIMIT_S) == dict.fromkeys(nodes, True)
    folder = RunPaths(new_root).node("n101")
    collect(folder)
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert kept >= {
        "data/__cluster_metadata-0/00000000000000000000.log",
        "data/__cluster_metadata-0/quorum-state",
        "logs/controller.log",
    }
