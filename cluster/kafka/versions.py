"""What differs between Kafka's versions, and between those who keep its metadata. Pure.

A version is its numbers, `(2, 8, 2)`. Where nothing else is said, the limits were found by trying:
0.11.0.3, 1.0.2, 1.1.1, 2.0.1, 2.1.1, 2.3.1, 2.4.1, 2.6.3, 2.8.2, 3.0.2, 3.3.2, 3.5.2, 3.7.2, 3.9.1,
4.0.0, 4.1.1 and 4.3.1 were run.
"""

import re
from collections.abc import Mapping

Numbers = tuple[int, ...]

NO_TOPIC_ID = "00000000-0000-0000-0000-000000000000"
"""Of a topic that has none: topics have ids since 2.8 (KIP-516)."""

_LOG4J1 = frozenset({"log4j:log4j", "org.slf4j:slf4j-log4j12"})
"""What reload4j stands in for: the abandoned log4j 1, which 0.11 names among its needs."""
_RELOAD4J = ("org.slf4j:slf4j-reload4j:1.7.36", "ch.qos.reload4j:reload4j:1.2.19")
_ZOOKEEPER = "org.apache.zookeeper:zookeeper"
_ZOOKEEPER_FOR_NEW_JAVA = f"{_ZOOKEEPER}:3.4.12"
_LOG4J2 = "2.24.3"
_LOG4J2_OF = {
    "1": "org.apache.logging.log4j:log4j-slf4j-impl",
    "2": "org.apache.logging.log4j:log4j-slf4j2-impl",
}
"""By the major version of slf4j: what leads its calls to log4j2."""

LAST_WITH_LOG4J1: Numbers = (3, 9)
"""Or with what continues it, reload4j; later ones log by log4j2 (KIP-653)."""


def numbers_of(version: str) -> Numbers:
    """Return the numbers of a version: (0, 11, 0, 3) of `0.11.0.3`, (4, 4, 0) of a snapshot."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0]))


def server_artifact(numbers: Numbers) -> str:
    """Return what the server is called on Maven Central: by the Scala that it was built with."""
    scala = "2.13" if numbers >= (2, 4) else "2.12" if numbers >= (1,) else "2.11"
    return f"org.apache.kafka:kafka_{scala}"


def jars_replaced(numbers: Numbers) -> frozenset[str]:
    """Return the artifacts that a server names and is run without: `jars_beside` has others."""
    return _LOG4J1 | {_ZOOKEEPER} if _has_old_zookeeper(numbers) else _LOG4J1


def jars_beside(numbers: Numbers, needed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the jars that a server does not name among its needs, and does not run without.

    Kafka's own archives have a logging library, its descriptions have not: without one a server
    writes no log at all.

    Args:
        numbers: The version.
        needed: What the server names: versions by artifact, `slf4j-api`.
    """
    if numbers >= (4,):
        return _log4j2(needed)
    if numbers < (1,):  # It encodes base64 with what Java has lacked since 11 (KAFKA-4501).
        return (*_RELOAD4J, "javax.xml.bind:jaxb-api:2.3.1")
    if _has_old_zookeeper(numbers):
        return (*_RELOAD4J, _ZOOKEEPER_FOR_NEW_JAVA)
    return _RELOAD4J


def jars_of_tools(numbers: Numbers) -> tuple[str, ...]:
    """Return the jars that DumpLogSegments needs beside the server's, without what they need."""
    version = ".".join(map(str, numbers))
    return (f"org.apache.kafka:kafka-tools:{version}",) if numbers >= (4, 3) else ()


def java_properties(numbers: Numbers) -> tuple[str, ...]:
    """Return the properties of Java that a version needs to run on a newer one."""
    if numbers >= (3,):
        return ()
    # ZooKeeper 3.4 registers log4j 1 with JMX by a class that reload4j does not have.
    return ("-Dzookeeper.jmx.log4j.disable=true",)


def logs_by_log4j2(numbers: Numbers) -> bool:
    """Tell whether the server logs by log4j2 (KIP-653), or by log4j 1, which reload4j continues."""
    return numbers >= (4,)


def _has_old_zookeeper(numbers: Numbers) -> bool:
    """Tell whether a version names ZooKeeper 3.4.13 or 3.4.14.

    Their client takes an address apart as Java wrote it until 13: with a newer Java it looks for a
    machine called `127.0.0.1/<unresolved>`. 3.4.12 does not, nor does 3.5.
    """
    return (2,) <= numbers < (2, 4)


def _log4j2(needed: Mapping[str, str]) -> tuple[str, ...]:
    own = needed.get("log4j-core")
    core = "org.apache.logging.log4j:log4j"
    # 4.0 names no logging library at all, later ones name log4j2 without what leads to it.
    missing = () if own else (f"{core}-api:{_LOG4J2}", f"{core}-core:{_LOG4J2}")
    binding = _LOG4J2_OF[needed.get("slf4j-api", "1").split(".", maxsplit=1)[0]]
    return (*missing, f"{binding}:{own or _LOG4J2}")
