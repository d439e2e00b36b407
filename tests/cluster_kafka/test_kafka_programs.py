"""Which servers a cluster runs: those of its plan's system, or none."""

from pathlib import Path

import pytest

from cluster.hosts.process import ProcessHosts
from cluster.java import Java
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import Distribution
from results.record.paths import RunPaths
from results.record.plan import Plan

KAFKA = Distribution(version="4.3.1", classpath=())
JAVA = Java(path=Path("java"), major=17)


@pytest.mark.parametrize(
    ("system", "given", "takes"),
    [
        ("kafka:4.3.1", (None, None), "both a Kafka and a Java; given: nothing"),
        ("kafka:4.3.1", (KAFKA, None), "both a Kafka and a Java; given: a Kafka"),
        ("kafka:4.3.1", (None, JAVA), "both a Kafka and a Java; given: a Java"),
        ("reference", (KAFKA, JAVA), "neither a Kafka nor a Java; given: a Kafka, a Java"),
        ("reference", (None, JAVA), "neither a Kafka nor a Java; given: a Java"),
    ],
)
def test_a_cluster_is_never_another_one_than_its_plan_says(
    system: str, given: tuple[Distribution | None, Java | None], takes: str, tmp_path: Path
) -> None:
    paths, (kafka, java) = RunPaths(tmp_path), given
    hosts = ProcessHosts(["n1", "n2", "n3"], paths.processes)
    with pytest.raises(ValueError, match=f"^{system} takes {takes}$"):
        KafkaCluster(Plan(system=system), hosts, distribution=kafka, java=java, paths=paths)
