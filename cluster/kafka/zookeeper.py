"""The ZooKeeper server of a cluster of Kafka up to 3.9: one, standalone, from Kafka's own jars.

It is no part of what is tested, but faults kill, pause and cut it. None takes its power, so it
syncs no file: a session of seconds must not end by a slow disk.
"""

import socket
from collections.abc import Sequence
from pathlib import Path

from cluster.files.properties import properties
from cluster.java import Java
from cluster.kafka.configuration import JAVA_ENVIRONMENT
from cluster.kafka.fetch import Distribution
from cluster.kafka.log_files import ZOOKEEPER_FILES, logging_to
from cluster.kafka.storage import java_argv
from cluster.kafka.versions import numbers_of
from cluster.protocol import Command

PORT = 2181
FOLDER = "zookeeper"
"""Of its files, in the run's."""
TICK_MS = 500
"""Sessions end at a multiple of it."""
SHORTEST_SESSION_MS, LONGEST_SESSION_MS = 1_000, 600_000
HEAP_MB = 192
ANSWER_TIMEOUT_S = 1.0


def prepare_zookeeper(folder: Path, address: tuple[str, int], version: str) -> None:
    """Write the configuration of the server.

    Args:
        folder: Its own, to be made; data that lie in it already are served.
        address: Host and port where it shall listen.
        version: Of Kafka.
    """
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "logs").mkdir(exist_ok=True)
    text = zookeeper_properties(folder / "data", address)
    (folder / "zoo.cfg").write_text(text, encoding="utf-8")
    logging = logging_to(folder, ZOOKEEPER_FILES, numbers_of(version))
    logging.file.write_text(logging.text, encoding="utf-8")


def zookeeper_properties(data: Path, address: tuple[str, int]) -> str:
    """Return `zoo.cfg`; what ZooKeeper does not know in it becomes a property of its Java."""
    host, port = address
    settings = {
        "dataDir": str(data),
        "clientPortAddress": host,
        "clientPort": str(port),
        "tickTime": str(TICK_MS),
        "minSessionTimeout": str(SHORTEST_SESSION_MS),
        "maxSessionTimeout": str(LONGEST_SESSION_MS),
        "maxClientCnxns": "0",  # No limit: with --hosts process all of them come from one address.
        "admin.enableServer": "false",  # Its Jetty is not among Kafka's jars.
        "forceSync": "no",
        "preAllocSize": "1024",  # In KiB; by default each log begins with 64 MiB of zeros.
    }
    return properties(settings)


def zookeeper_command(java: Java, distribution: Distribution, folder: Path) -> Command:
    """Return how the server is started; `folder` was prepared."""
    logging = logging_to(folder, ZOOKEEPER_FILES, numbers_of(distribution.version))
    argv: Sequence[str] = java_argv(
        java,
        distribution,
        logging.java_property,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(folder / "zoo.cfg"),
        heap_mb=HEAP_MB,
    )
    log = folder / "logs" / "stdout.log"
    return Command(argv=argv, log=log, cwd=folder, env=JAVA_ENVIRONMENT)


def serves(address: tuple[str, int]) -> bool:
    """Tell whether a ZooKeeper serves at an address (its command `srvr`, which is always on)."""
    try:
        with socket.create_connection(address, timeout=ANSWER_TIMEOUT_S) as connected:
            connected.settimeout(ANSWER_TIMEOUT_S)
            connected.sendall(b"srvr")
            return connected.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False
