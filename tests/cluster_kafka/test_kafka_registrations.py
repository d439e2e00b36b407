"""When a broker is started with ZooKeeper: not before its earlier registration is gone."""

import os
from pathlib import Path

import pytest

from cluster.hosts.local import LocalHosts
from cluster.hosts.signals import process_id
from cluster.java import Java
from cluster.kafka import cluster as cluster_module
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import Distribution
from cluster.kafka.programs import KafkaPrograms
from cluster.kafka.zookeeper_admin import ZooKeeperAdmin
from cluster.protocol import ClusterError, Command, ProcessId
from results.record.paths import RunPaths
from results.record.plan import Plan

PLAN = Plan(system="kafka:2.8.2", broker={"zookeeper.session.timeout.ms": "1000"})


class Remembering(LocalHosts):
    """Implements `Hosts`: remembers what it was told to start, which is always this process."""

    kind = "remembering"

    def __init__(self) -> None:
        super().__init__(Path("processes.jsonl"))
        self.started: list[str] = []

    def up(self) -> None:
        """It is."""

    def down(self) -> None:
        """It is not."""

    def address(self, node: str) -> str:
        return f"127.0.0.{len(node) + int(node[-1], 36)}"

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        raise NotImplementedError(f"{node}: {process}: nobody sees its end")

    def spawn(self, node: str, command: Command) -> ProcessId:
        assert command.argv
        self.started.append(node)
        return process_id(os.getpid())


class Told(ZooKeeperAdmin):
    """Says of every broker what it was told to, one word after another; the last one stays."""

    def __init__(self, words: list[bool | None]) -> None:
        super().__init__({}, lambda _: True, zookeeper="nowhere:1", incarnation=lambda _: 0)
        self.words = words

    def is_registered(self, node: str) -> bool | None:
        assert node == "n2"
        return self.words.pop(0) if len(self.words) > 1 else self.words[0]


def cluster_of(words: list[bool | None], root: Path) -> tuple[KafkaCluster, Remembering, Told]:
    hosts, admin = Remembering(), Told(words)
    programs = KafkaPrograms(
        PLAN, Distribution(version="2.8.2", classpath=()), Java(path=Path("java"), major=17)
    )
    cluster = KafkaCluster(PLAN, hosts, programs=programs, paths=RunPaths(root))
    cluster._admin.close()
    cluster._admin = admin
    return cluster, hosts, admin


def test_a_broker_waits_for_the_end_of_a_registration_and_silence_is_none(tmp_path: Path) -> None:
    """A kept cluster's ZooKeeper may know its brokers from before their first start, too."""
    cluster, hosts, admin = cluster_of([True, None, True, None, False], tmp_path)
    cluster.start_node("n2")
    assert hosts.started == ["n2"]
    assert admin.words == [False]


@pytest.mark.parametrize("word", [True, None])
def test_a_broker_that_zookeeper_would_refuse_is_not_started(
    word: bool | None,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_module, "SESSION_GRACE_S", -0.9)
    cluster, hosts, _admin = cluster_of([word], tmp_path)
    with pytest.raises(ClusterError, match=r"ZooKeeper to forget .*the broker of n2.*refuse"):
        cluster.start_node("n2")
    assert hosts.started == []
