"""Which servers a cluster runs: those of its plan's system, and no others."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.systems.registry import system_of
from results.record.paths import RunPaths
from results.record.plan import Plan
from tests.brokers import brokers_of

NODES = ["n1", "n2", "n3"]


def started(system: str, root: Path) -> Sequence[str]:
    """Return the command line of a node of a plan's system."""
    paths = RunPaths(root)
    cluster = brokers_of(Plan(system=system), ProcessHosts(NODES, paths.processes), paths)
    return cluster._layout.command("n1").argv


@pytest.mark.kafka
def test_the_servers_of_kafka_are_its_jars(tmp_path: Path) -> None:
    argv = started("kafka:4.3.1", tmp_path)
    assert "kafka.Kafka" in argv
    assert "kafka-clients-4.3.1.jar" in " ".join(argv)


def test_the_servers_of_the_reference_cluster_are_its_own(tmp_path: Path) -> None:
    argv = started("reference", tmp_path)
    assert "cluster.reference.process" in argv
    assert "kafka.Kafka" not in argv


def test_nothing_is_started_that_was_not_prepared(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    hosts = ProcessHosts(NODES, paths.processes)
    with pytest.raises(AssertionError, match="`prepare` was not called"):
        system_of(Plan()).cluster(hosts, paths)
