"""Runs the ZooKeeper server for Kafka up to 3.9: one standalone server from Kafka's own jars.

ZooKeeper itself is not tested, but faults kill it, pause it and cut its network. No fault simulates
a power failure of ZooKeeper. Logquake therefore turns off the sync of ZooKeeper's files: on a slow
disk, a sync could last longer than ZooKeeper's short sessions.
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
"""The folder of ZooKeeper's files, inside the run's folder."""
TICK_MS = 500
"""ZooKeeper's tick in milliseconds. Sessions end only at multiples of the tick."""
SHORTEST_SESSION_MS, LONGEST_SESSION_MS = 1_000, 600_000
HEAP_MB = 192
ANSWER_TIMEOUT_S = 1.0


def prepare_zookeeper(folder: Path, address: tuple[str, int], version: str) -> None:
    """Write the configuration of the server.

    Args:
        folder: The server's folder. If it is missing, it is created; if it contains data, ZooKeeper
            uses them.
        address: Host and port to listen on.
        version: The Kafka version.
    """
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "logs").mkdir(exist_ok=True)
    text = zookeeper_properties(folder / "data", address)
    (folder / "zoo.cfg").write_text(text, encoding="utf-8")
    logging = logging_to(folder, ZOOKEEPER_FILES, numbers_of(version))
    logging.file.write_text(logging.text, encoding="utf-8")


def zookeeper_properties(data: Path, address: tuple[str, int]) -> str:
    """Return the text of `zoo.cfg`; ZooKeeper turns unknown settings into Java properties."""
    host, port = address
    settings = {
        "dataDir": str(data),
        "clientPortAddress": host,
        "clientPort": str(port),
        "tickTime": str(TICK_MS),
        "minSessionTimeout": str(SHORTEST_SESSION_MS),
        "maxSessionTimeout": str(LONGEST_SESSION_MS),
        "maxClientCnxns": "0",  # No limit: all clients may have the same address.
        "admin.enableServer": "false",  # Kafka's jars do not include its Jetty.
        "forceSync": "no",
        "preAllocSize": "1024",  # In KiB; the default preallocates 64 MiB per log.
    }
    return properties(settings)


def zookeeper_command(java: Java, distribution: Distribution, folder: Path) -> Command:
    """Return the command that starts the server in a prepared folder."""
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
    """Return whether a ZooKeeper at an address answers the command `srvr`."""
    try:
        with socket.create_connection(address, timeout=ANSWER_TIMEOUT_S) as connected:
            connected.settimeout(ANSWER_TIMEOUT_S)
            connected.sendall(b"srvr")
            return connected.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False
