from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.java import find_java
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import fetch_kafka
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.topics import CreatedTopic


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
        distribution = fetch_kafka(plan.kafka_version, progress=lambda _words: None)
        cluster = KafkaCluster(
            plan, hosts, distribution=distribution, java=find_java(), paths=paths
        )
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
