from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.kafka.cluster import KafkaCluster
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.topics import CreatedTopic
from tests.brokers import brokers_of


@pytest.fixture(scope="session")
def broker_paths(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """Where the files of `one_broker` lie."""
    paths = RunPaths(tmp_path_factory.mktemp("broker") / "workloads" / "run")
    paths.root.mkdir(parents=True)
    return paths


@pytest.fixture(scope="session")
def one_broker(broker_paths: RunPaths) -> Iterator[KafkaCluster]:
    """A real broker on the loopback, for tests that bring topics of their own names."""
    paths = broker_paths
    plan = Plan(nodes=1, replication=1, min_insync=1)
    hosts = ProcessHosts(["n1"], paths.processes)
    hosts.up()
    try:
        cluster = brokers_of(plan, hosts, paths)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()
    finally:
        hosts.down()


@pytest.fixture(scope="session")
def log_topics(one_broker: KafkaCluster) -> list[CreatedTopic]:
    """The topics of a default plan; whoever comes later finds the records of others there."""
    plan = Plan()
    return one_broker.create_topics(plan.topic_names, partitions=plan.partitions, replication=1)


@pytest.fixture
def run_paths(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path / "log" / "run")
    paths.live.mkdir(parents=True)
    return paths
