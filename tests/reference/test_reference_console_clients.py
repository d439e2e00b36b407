"""Kafka's own console clients, of Java, produce to and consume from a reference cluster."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.kafka.fetch import fetch_kafka
from cluster.kafka.java import find_java
from cluster.kafka.storage import java_argv
from tests.reference.node_processes import node_processes

TOOLS = "org.apache.kafka.tools"
LIMIT_S = 120
PRODUCERS = {"3.9.1": "kafka.tools.ConsoleProducer", "4.3.1": f"{TOOLS}.ConsoleProducer"}


def console(version: str, *arguments: str, said: str = "") -> str:
    """Run a program of Kafka's with what it needs; return what it printed."""
    kafka = fetch_kafka(version, progress=lambda _: None)
    whole = replace(kafka, classpath=kafka.classpath + kafka.tools)
    ended = subprocess.run(
        java_argv(find_java(), whole, *arguments),
        input=said,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


@pytest.mark.kafka
def test_console_clients_of_two_versions_meet_at_the_reference_cluster(tmp_path: Path) -> None:
    with node_processes(tmp_path) as cluster:
        cluster.create("console", partitions=2)
        at = ("--bootstrap-server", cluster.bootstrap, "--topic", "console")
        sent = []
        for version, program in PRODUCERS.items():
            lines = [f"{version} says {number}" for number in range(50)]
            # Idempotent with acks=all, as Kafka's producers are since 3.0 (KIP-679).
            console(version, program, *at, said="\n".join(lines) + "\n")
            sent += lines
        read = console(
            "4.3.1", f"{TOOLS}.consumer.ConsoleConsumer", *at, "--from-beginning",
            "--group", "console", "--isolation-level", "read_committed",
            "--max-messages", str(len(sent)), "--timeout-ms", "60000",
        )  # fmt: skip
        assert sorted(read.splitlines()) == sorted(sent)
