from pathlib import Path

import pytest

from benchmarks.kafka_dump import dump_argv
from cluster.java import Java
from cluster.kafka.fetch import Distribution
from cluster.kafka.versions import (
    jars_beside,
    jars_of_tools,
    jars_replaced,
    numbers_of,
    server_artifact,
)
from results.record.nodes import machines
from results.record.plan import Plan


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("kafka:4.3.1", ["n1", "n2", "n3"]),
        ("kafka:4.3.1:controllers", ["n1", "n2", "n3", "n101", "n102"]),
        ("kafka:2.8.2", ["n1", "n2", "n3", "zk"]),
        ("kafka:3.9.1", ["n1", "n2", "n3"]),
        ("kafka:3.9.1:zookeeper", ["n1", "n2", "n3", "zk"]),
    ],
)
def test_each_node_and_zookeeper_have_a_machine(system: str, expected: list[str]) -> None:
    assert machines(Plan(system=system, controllers=2)) == expected


@pytest.mark.parametrize(
    ("version", "scala"),
    [
        ("0.11.0.3", "2.11"), ("1.1.1", "2.12"), ("2.3.1", "2.12"), ("2.4.0", "2.13"),
        ("4.3.1", "2.13"),
    ],
)  # fmt: skip
def test_a_server_is_looked_for_by_its_scala(version: str, scala: str) -> None:
    assert server_artifact(numbers_of(version)) == f"org.apache.kafka:kafka_{scala}"


def test_before_4_reload4j_does_the_logging() -> None:
    beside = jars_beside((2, 8, 2), {"slf4j-api": "1.7.30"})
    assert [jar.split(":")[1] for jar in beside] == ["slf4j-reload4j", "reload4j"]


@pytest.mark.parametrize(
    ("version", "stands_in"), [("1.1.1", 0), ("2.0.1", 1), ("2.3.1", 1), ("2.4.0", 0)]
)
def test_one_zookeeper_leaves_and_one_comes_where_java_has_outrun_it(
    version: str, stands_in: int
) -> None:
    numbers, zookeeper = numbers_of(version), "org.apache.zookeeper:zookeeper"
    assert (zookeeper in jars_replaced(numbers)) == bool(stands_in)
    beside = jars_beside(numbers, {"slf4j-api": "1.7.30"})
    assert sum(jar.startswith(zookeeper) for jar in beside) == stands_in


def test_log4j2_is_led_to_in_the_version_that_is_named() -> None:
    named = {"slf4j-api": "1.7.36", "log4j-core": "2.25.4"}
    assert jars_beside((4, 3, 1), named) == ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",)
    newer = named | {"slf4j-api": "2.0.17"}
    assert jars_beside((4, 9, 9), newer) == ("org.apache.logging.log4j:log4j-slf4j2-impl:2.25.4",)


def test_4_0_which_names_no_logging_library_gets_one_whole() -> None:
    beside = jars_beside((4, 0, 0), {"slf4j-api": "1.7.36"})
    names = [jar.split(":")[1] for jar in beside]
    assert names == ["log4j-api", "log4j-core", "log4j-slf4j-impl"]


def test_only_where_the_tools_moved_out_of_the_server_are_they_fetched() -> None:
    assert jars_of_tools((4, 2, 0)) == ()
    assert jars_of_tools((4, 3, 1)) == ("org.apache.kafka:kafka-tools:4.3.1",)


def dump_of(version: str) -> list[str]:
    distribution = Distribution(
        version=version, classpath=(Path("server.jar"),), tools=(Path("tools.jar"),)
    )
    java = Java(path=Path("java"), major=17)
    return dump_argv(java, distribution, [Path("a/0.log"), Path("b/0.log")])


def test_segments_are_dumped_by_the_class_of_their_version() -> None:
    assert "kafka.tools.DumpLogSegments" in dump_of("4.1.1")
    argv = dump_of("4.3.1")
    assert argv[argv.index("-cp") + 1] == "server.jar:tools.jar"
    assert argv[argv.index("org.apache.kafka.tools.DumpLogSegments") + 1 :][:2] == [
        "--files", "a/0.log,b/0.log",
    ]  # fmt: skip
