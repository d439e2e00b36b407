"""The differences between Kafka versions and between metadata modes (KRaft and ZooKeeper).

A version is a tuple of numbers, such as `(2, 8, 2)`. Unless a source is named, the version limits
come from test runs of these versions: 0.11.0.3, 1.0.2, 1.1.1, 2.0.1, 2.1.1, 2.3.1, 2.4.1, 2.6.3,
2.8.2, 3.0.2, 3.3.2, 3.5.2, 3.7.2, 3.9.1, 4.0.0, 4.1.1 and 4.3.1.
"""

import re
from collections.abc import Mapping

Numbers = tuple[int, ...]

NO_TOPIC_ID = "00000000-0000-0000-0000-000000000000"
"""Logquake's id for a topic without an id. Before 2.8 (KIP-516), topics have no ids."""

_LOG4J1 = frozenset({"log4j:log4j", "org.slf4j:slf4j-log4j12"})
"""The artifacts of the abandoned log4j 1, which reload4j replaces. Kafka 0.11 depends on these
artifacts."""
_RELOAD4J = ("org.slf4j:slf4j-reload4j:1.7.36", "ch.qos.reload4j:reload4j:1.2.19")
_ZOOKEEPER = "org.apache.zookeeper:zookeeper"
_ZOOKEEPER_FOR_NEW_JAVA = f"{_ZOOKEEPER}:3.4.12"
_LOG4J2 = "2.24.3"
_LOG4J2_OF = {
    "1": "org.apache.logging.log4j:log4j-slf4j-impl",
    "2": "org.apache.logging.log4j:log4j-slf4j2-impl",
}
"""The artifact that connects slf4j to log4j 2, by slf4j's major version."""

LAST_WITH_LOG4J1: Numbers = (3, 9)
"""Versions up to this one use log4j 1 or its successor reload4j; later ones, log4j 2 (KIP-653)."""


def numbers_of(version: str) -> Numbers:
    """Return the numbers of a version.

    For example, `0.11.0.3` gives (0, 11, 0, 3), and a snapshot of 4.4.0 gives (4, 4, 0).
    """
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0]))


def server_artifact(numbers: Numbers) -> str:
    """Return the name of the server's artifact on Maven Central; it contains the Scala version."""
    scala = "2.13" if numbers >= (2, 4) else "2.12" if numbers >= (1,) else "2.11"
    return f"org.apache.kafka:kafka_{scala}"


def jars_replaced(numbers: Numbers) -> frozenset[str]:
    """Return the server's dependencies that Logquake leaves out; `jars_beside` replaces them."""
    return _LOG4J1 | {_ZOOKEEPER} if _has_old_zookeeper(numbers) else _LOG4J1


def jars_beside(numbers: Numbers, needed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the jars that a server needs but does not list as dependencies.

    Kafka's archives on its web site contain a logging library. But the POMs on Maven Central do not
    list this library. Without the library a server writes no log.

    Args:
        numbers: The version.
        needed: The server's listed dependencies: versions by artifact, such as `slf4j-api`.
    """
    if numbers >= (4,):
        return _log4j2(needed)
    if numbers < (1,):  # It needs a base64 class that Java 11 removed (KAFKA-4501).
        return (*_RELOAD4J, "javax.xml.bind:jaxb-api:2.3.1")
    if _has_old_zookeeper(numbers):
        return (*_RELOAD4J, _ZOOKEEPER_FOR_NEW_JAVA)
    return _RELOAD4J


def jars_of_tools(numbers: Numbers) -> tuple[str, ...]:
    """Return the additional jars that DumpLogSegments needs, but not the jars that these need."""
    version = ".".join(map(str, numbers))
    return (f"org.apache.kafka:kafka-tools:{version}",) if numbers >= (4, 3) else ()


def java_properties(numbers: Numbers) -> tuple[str, ...]:
    """Return the Java properties that a version needs to run on a newer Java."""
    if numbers >= (3,):
        return ()
    # ZooKeeper 3.4 registers log4j 1 with JMX through a class that reload4j lacks.
    return ("-Dzookeeper.jmx.log4j.disable=true",)


def logs_by_log4j2(numbers: Numbers) -> bool:
    """Return whether the server uses log4j 2 (KIP-653); older servers use log4j 1 or reload4j."""
    return numbers >= (4,)


def _has_old_zookeeper(numbers: Numbers) -> bool:
    """Return whether a version depends on ZooKeeper 3.4.13 or 3.4.14.

    The client of these ZooKeeper versions expects addresses in a format that Java used until
    version 13. With a newer Java such a client looks for a host `127.0.0.1/<unresolved>`. ZooKeeper
    3.4.12 and 3.5 do not have this bug.
    """
    return (2,) <= numbers < (2, 4)


def _log4j2(needed: Mapping[str, str]) -> tuple[str, ...]:
    own = needed.get("log4j-core")
    core = "org.apache.logging.log4j:log4j"
    # 4.0 lists no logging library. Later versions list log4j 2 without its slf4j binding.
    missing = () if own else (f"{core}-api:{_LOG4J2}", f"{core}-core:{_LOG4J2}")
    binding = _LOG4J2_OF[needed.get("slf4j-api", "1").split(".", maxsplit=1)[0]]
    return (*missing, f"{binding}:{own or _LOG4J2}")
