"""Brokers that a command line starts: a process each, and one process for all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.kafka.cluster import KafkaCluster
from cluster.protocol import UserError
from cluster.systems.command import CommandSystem
from results.record.clock import wait_until
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from tests.brokers import brokers_of
from tests.machine import needs
from tests.systems.by_template import reference_file


def settled(file: Path, **values: object) -> Plan:
    plan = plan_from({"system": f"command:{file}", "hosts": "process", **values})
    return CommandSystem(plan).settled(print)


@contextmanager
def started(plan: Plan, root: Path) -> Iterator[KafkaCluster]:
    paths = RunPaths(root)
    hosts = ProcessHosts(machines(plan), paths.processes)
    hosts.up()
    try:
        cluster = brokers_of(plan, hosts, paths)
        cluster.start()
        yield cluster
    finally:
        hosts.down()


def wait(what: str, until: Callable[[], object]) -> None:
    wait_until(until, timeout_s=30, what=what)


@pytest.mark.night
def test_each_broker_is_a_process_of_its_own(tmp_path: Path) -> None:
    plan = settled(reference_file(tmp_path), nodes=3)
    with started(plan, tmp_path / "run") as cluster:
        view = cluster.view()
        assert view is not None
        assert view.registered == {"n1", "n2", "n3"}
        assert view.controller in view.registered, "metadata name it: nobody was asked for a quorum"
        assert view.controller_epoch == -1
        (topic,) = cluster.create_topics(["a"], partitions=2, replication=3)
        assert topic.partitions == 2
        assert cluster.played_with("n2") == ("n2",)
        cluster.kill_node("n2")
        assert not cluster.answers("n2")
        assert cluster.answers("n1")
        cluster.start_node("n2")
        wait("n2 to be back", lambda: cluster.is_back("n2"))
        assert cluster.incarnation("n2") == 2
        places = [("a", 0), ("a", 1)]
        ends = cluster.leader_ends(places, committed=True, timeout_s=10)
        assert ends == dict.fromkeys(places, 0)
        assert cluster.exited() == {}
        assert cluster.stop(20) == dict.fromkeys(("n1", "n2", "n3"), True)


def test_a_broker_that_cannot_be_prepared_is_told_of(tmp_path: Path) -> None:
    file = reference_file(tmp_path, prepare=["sh", "-c", "echo no disk >&2; exit 3"])
    with (
        pytest.raises(UserError, match="cannot prepare n1: it exited with 3 and printed: no disk"),
        started(settled(file, nodes=1, replication=1, min_insync=1), tmp_path / "run"),
    ):
        pass


@needs("go")
def test_one_process_plays_all_brokers_of_kfake(tmp_path: Path, kfake: Path) -> None:
    nodes = ("n0", "n1", "n2")
    with started(settled(kfake), tmp_path / "run") as cluster:
        assert tuple(cluster.nodes) == nodes
        assert len({cluster.process(node) for node in nodes}) == 1
        assert cluster.lives() == 1
        assert all(cluster.played_with(node) == nodes for node in nodes)
        assert len({cluster.endpoints[node].broker_port for node in nodes}) == 3
        cluster.create_topics(["a"], partitions=3, replication=3)
        cluster.kill_node("n1")
        cluster.kill_node("n2")
        assert not any(map(cluster.answers, nodes))
        first = cluster.start_node("n2")
        assert cluster.start_node("n0") == first, "it runs already, and that is no mistake"
        wait("n1 to be back", lambda: all(map(cluster.is_back, nodes)))
        assert cluster.incarnation("n1") == 2
        view = cluster.view()
        assert view is not None
        assert {topic for topic, _ in view.partitions} == {"a"}, "its folder kept them"
        assert cluster.exited() == {}
        assert cluster.stop_node("n1", 20)
        assert cluster.stop_node("n0", 20), "with the same process"
        assert cluster.stop(20) == dict.fromkeys(nodes, True)
