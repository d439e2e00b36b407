"""Kafka's own console clients, of Java, produce to and consume from a reference cluster."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import pytest
from jgo.maven import MavenContext, PythonResolver

from cluster.cache import cache_folder
from cluster.java import find_java
from cluster.kafka.fetch import MAVEN_CENTRAL, REPOSITORY_VARIABLE, Distribution, fetch_kafka
from cluster.kafka.storage import java_argv
from tests.reference.node_processes import NodeProcesses, node_processes

pytestmark = pytest.mark.everything

TOOLS = "org.apache.kafka.tools"
LIMIT_S = 120
PRODUCERS = {"3.9.1": "kafka.tools.ConsoleProducer", "4.3.1": f"{TOOLS}.ConsoleProducer"}
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
"""Since 3.8, in a jar of its own."""


def with_tools(version: str) -> Distribution:
    """Return a Kafka with all its tools: no server needs them, so that not all are fetched."""
    kafka = fetch_kafka(version, progress=lambda _: None)
    tools = kafka.tools
    if not tools:
        maven = MavenContext(
            resolver=PythonResolver(),
            repo_cache=cache_folder() / "maven",
            remote_repos={"central": os.environ.get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL},
        )
        jar = maven.create_dependency(f"org.apache.kafka:kafka-tools:{version}")
        tools = (Path(jar.artifact.resolve()),)
    return replace(kafka, classpath=kafka.classpath + tools)


def run(version: str, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program of Kafka's with what it needs."""
    return subprocess.run(
        java_argv(find_java(), with_tools(version), *arguments),
        input=said,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def write(version: str, cluster: NodeProcesses) -> list[str]:
    """Have a version's console producer send lines; return them."""
    lines = [f"{version} says {number}" for number in range(50)]
    # Idempotent with acks=all, as Kafka's producers are since 3.0 (KIP-679).
    ended = run(
        version, PRODUCERS[version], "--bootstrap-server", cluster.bootstrap, "--topic", "console",
        said="\n".join(lines) + "\n",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    return lines


def read(version: str, cluster: NodeProcesses, messages: int) -> list[str]:
    """Have a version's console consumer read what is committed, as a group of its own."""
    ended = run(
        version, CONSUMER, "--bootstrap-server", cluster.bootstrap, "--topic", "console",
        "--from-beginning", "--group", f"console-{version}",
        "--isolation-level", "read_committed",
        "--max-messages", str(messages), "--timeout-ms", "60000",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout.splitlines()


def transact(cluster: NodeProcesses) -> str:
    """Have a producer of Java's begin a transaction; return what it fails with."""
    ended = run(
        "4.3.1", f"{TOOLS}.ProducerPerformance", "--topic", "console", "--num-records", "10",
        "--record-size", "10", "--throughput", "-1", "--transactional-id", "mine",
        "--producer-props", f"bootstrap.servers={cluster.bootstrap}",
    )  # fmt: skip
    assert ended.returncode == 1
    return ended.stderr


@pytest.mark.night
@pytest.mark.kafka
def test_console_clients_of_two_versions_meet_at_the_reference_cluster(tmp_path: Path) -> None:
    """There are no transactions: all that is committed is read, and a transaction is refused."""
    with node_processes(tmp_path) as cluster, ThreadPoolExecutor(2) as pool:
        cluster.create("console", partitions=2)
        sent = [line for lines in pool.map(write, PRODUCERS, repeat(cluster)) for line in lines]
        refused = pool.submit(transact, cluster)
        for found in pool.map(read, PRODUCERS, repeat(cluster), repeat(len(sent))):
            assert sorted(found) == sorted(sent)
        assert "this cluster does not support transactions" in refused.result()
