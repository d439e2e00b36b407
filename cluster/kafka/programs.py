"""The programs that a cluster's servers run: Apache Kafka on Java, or the reference cluster."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cluster.java import Java
from cluster.kafka.collect import TEMPORARY
from cluster.kafka.configuration import JAVA_ENVIRONMENT, server_properties
from cluster.kafka.fetch import Distribution
from cluster.kafka.log_files import Logging, logging_to, node_files
from cluster.kafka.storage import format_storage, java_argv
from cluster.kafka.versions import LAST_WITH_LOG4J1
from cluster.protocol import Endpoint, unwritable
from results.record.declared import Sight
from results.record.nodes import node_id
from results.record.plan import Plan

SETTINGS = "server.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The place of a node's server, and the addresses of all nodes.

    Attributes:
        plan: The run's plan.
        node: The node's name, such as `n1`.
        folder: The folder of the node's files.
        endpoints: The addresses of all nodes.
        inner_ports: A second, free port on each node's machine.
        zookeeper: `host:port` of ZooKeeper, in ZooKeeper mode.
    """

    plan: Plan
    node: str
    folder: Path
    endpoints: Mapping[str, Endpoint]
    inner_ports: Mapping[str, int]
    zookeeper: str | None = None

    @property
    def data(self) -> Path:
        """The folder in which the node's server keeps its logs (Kafka's `log.dirs`)."""
        return self.folder / "data"

    def write_settings(self) -> None:
        """Write the node's `server.properties`."""
        settings = server_properties(
            self.plan,
            self.node,
            endpoints=self.endpoints,
            data=self.data,
            zookeeper=self.zookeeper,
        )
        (self.folder / SETTINGS).write_text(settings, encoding="utf-8")


class Programs(Protocol):
    """The interface of a class that prepares and starts servers of one kind.

    Attributes:
        software: The files that a machine with its own file system needs.
        reads_all_at_start: Whether servers read all their logs when they start.
        one_process: Whether one process on the first node's machine runs all brokers.
        sees: The kinds of data that can be observed on the servers.
    """

    @property
    def reads_all_at_start(self) -> bool:
        """Whether servers read all their logs at start; see `cluster.protocol.ReadsAllAtStart`."""

    @property
    def one_process(self) -> bool:
        """Whether one process runs all brokers."""

    @property
    def sees(self) -> frozenset[Sight]:
        """The observations that the servers support."""

    @property
    def software(self) -> Sequence[Path]:
        """The files to copy to machines with their own file system."""

    def environment(self, seat: Seat) -> Mapping[str, str]:
        """Return the environment variables for a node's process."""

    def configure(self, seat: Seat) -> None:
        """Write the configuration files of a server."""

    def format(self, seats: Sequence[Seat]) -> None:
        """Format the data folders of nodes."""

    def argv(self, seat: Seat, java: Callable[[], Path | None]) -> list[str]:
        """Return the command line of a node's server.

        Args:
            seat: The place of the server.
            java: Returns the Java of the server's machine; None if it uses the files of this
                machine.
        """


@dataclass(frozen=True, slots=True)
class KafkaPrograms:
    """Prepares and starts Apache Kafka.

    Attributes:
        plan: The run's plan.
        distribution: The Kafka version to run.
        java: The Java that runs Kafka.
    """

    plan: Plan
    distribution: Distribution
    java: Java

    @property
    def reads_all_at_start(self) -> bool:
        """False: Kafka skips cleanly closed logs; of other logs, it reads the last segments."""
        return False

    @property
    def one_process(self) -> bool:
        """False: each broker has its own process."""
        return False

    @property
    def sees(self) -> frozenset[Sight]:
        """All kinds of data: Logquake can observe all of them on Kafka."""
        return frozenset(Sight)

    @property
    def software(self) -> Sequence[Path]:
        """Kafka's jars."""
        return self.distribution.classpath

    def environment(self, seat: Seat) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return the environment variables for Java."""
        return JAVA_ENVIRONMENT

    def configure(self, seat: Seat) -> None:
        """Write `server.properties` and the logging configuration."""
        seat.write_settings()
        logging = self._logging(seat.folder)
        logging.file.write_text(logging.text, encoding="utf-8")

    def format(self, seats: Sequence[Seat]) -> None:
        """Format the disks with Kafka's StorageTool."""
        format_storage(
            self.java,
            self.distribution,
            settings={seat.node: seat.folder / SETTINGS for seat in seats},
            data={seat.node: seat.data for seat in seats},
            features=self.plan.features,
        )

    def argv(self, seat: Seat, java: Callable[[], Path | None]) -> list[str]:
        """Return the command line of the Java class `kafka.Kafka`."""
        own = java()
        return java_argv(
            replace(self.java, path=own, elsewhere=True) if own else self.java,
            self.distribution,
            self._logging(seat.folder).java_property,
            # Java unpacks native compression libraries here, and leaves them if killed.
            f"-Djava.io.tmpdir={seat.folder / TEMPORARY}",
            "kafka.Kafka",
            str(seat.folder / SETTINGS),
            heap_mb=self.plan.heap_mb,
        )

    def _logging(self, folder: Path) -> Logging:
        numbers = self.plan.version_numbers
        if any(jar.name.startswith("reload4j-") for jar in self.distribution.classpath):
            numbers = min(numbers, LAST_WITH_LOG4J1)  # Some 4.0 snapshots used reload4j.
        return logging_to(folder, node_files(self.plan.mode), numbers)


class ReferencePrograms:
    """Prepares and starts the reference cluster, which needs only this Python."""

    software: Sequence[Path] = ()
    reads_all_at_start = True
    one_process = False
    sees = frozenset(Sight)

    def environment(self, seat: Seat) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return no variables, because the reference cluster needs none."""
        return {}

    def configure(self, seat: Seat) -> None:
        """Write `server.properties`, the only file that the server needs."""
        seat.write_settings()

    def format(self, seats: Sequence[Seat]) -> None:
        """Write `meta.properties` into each data folder."""
        from cluster.reference.process.formatting import (  # noqa: PLC0415 - Kafka needs none of it
            format_log_dirs,
        )

        try:
            format_log_dirs({node_id(seat.node): seat.data for seat in seats})
        except OSError as error:
            raise unwritable(error.filename, error) from error

    def argv(self, seat: Seat, java: Callable[[], Path | None]) -> list[str]:
        """Return the command line of a reference node."""
        del java
        settings = str(seat.folder / SETTINGS)
        # -P: do not import modules from the node's folder, the working directory.
        return [sys.executable, "-P", "-m", "cluster.reference.process", settings]
