"""What the servers of a cluster are: Java with Kafka's jars, or the reference cluster's own."""

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
from cluster.nodes import node_id
from cluster.protocol import Endpoint, unwritable
from results.record.declared import Sight
from results.record.plan import Plan

SETTINGS = "server.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a node's server runs, and beside whom.

    Attributes:
        plan: What decides the run.
        node: `n1`.
        folder: Of its files.
        endpoints: Of all nodes.
        inner_ports: A second port of each node's machine, which nobody listens on yet.
        zookeeper: `host:port` in ZooKeeper mode.
    """

    plan: Plan
    node: str
    folder: Path
    endpoints: Mapping[str, Endpoint]
    inner_ports: Mapping[str, int]
    zookeeper: str | None = None

    @property
    def data(self) -> Path:
        """Where it keeps records."""
        return self.folder / "data"

    def write_settings(self) -> None:
        """Write Kafka's settings of the node."""
        settings = server_properties(
            self.plan,
            self.node,
            endpoints=self.endpoints,
            data=self.data,
            zookeeper=self.zookeeper,
        )
        (self.folder / SETTINGS).write_text(settings, encoding="utf-8")


class Programs(Protocol):
    """How servers are prepared and started.

    Attributes:
        software: Files that a machine needs which does not share ours.
        reads_all_at_start: Whether they read all of their logs as they start.
        one_process: Whether one process, on the first node's machine, plays all brokers.
        sees: What observers may ask them for, and their files show.
    """

    @property
    def reads_all_at_start(self) -> bool:
        """As `cluster.protocol.ReadsAllAtStart`."""

    @property
    def one_process(self) -> bool:
        """Whether one process plays all brokers."""

    @property
    def sees(self) -> frozenset[Sight]:
        """What can be seen of them."""

    @property
    def software(self) -> Sequence[Path]:
        """What has to be brought to machines."""

    def environment(self, seat: Seat) -> Mapping[str, str]:
        """Return what a node's process is started with."""

    def configure(self, seat: Seat) -> None:
        """Write what a server needs."""

    def format(self, seats: Sequence[Seat]) -> None:
        """Format the data folders of nodes."""

    def argv(self, seat: Seat, java: Callable[[], Path | None]) -> list[str]:
        """Return the command line of a node's server.

        Args:
            seat: Where it runs.
            java: Asks a machine that does not share our files for its Java; None: it does.
        """


@dataclass(frozen=True, slots=True)
class KafkaPrograms:
    """Apache Kafka.

    Attributes:
        plan: What decides the run.
        distribution: The Kafka to run.
        java: The Java to run it with.
    """

    plan: Plan
    distribution: Distribution
    java: Java

    @property
    def reads_all_at_start(self) -> bool:
        """No: of a log that was closed in order nothing is read, of others the last segments."""
        return False

    @property
    def one_process(self) -> bool:
        """No: each broker is one."""
        return False

    @property
    def sees(self) -> frozenset[Sight]:
        """All."""
        return frozenset(Sight)

    @property
    def software(self) -> Sequence[Path]:
        """Kafka's jars."""
        return self.distribution.classpath

    def environment(self, seat: Seat) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return what Java needs."""
        return JAVA_ENVIRONMENT

    def configure(self, seat: Seat) -> None:
        """Write the settings, and the configuration of its logging."""
        seat.write_settings()
        logging = self._logging(seat.folder)
        logging.file.write_text(logging.text, encoding="utf-8")

    def format(self, seats: Sequence[Seat]) -> None:
        """Have Kafka's own tool format the disks."""
        format_storage(
            self.java,
            self.distribution,
            settings={seat.node: seat.folder / SETTINGS for seat in seats},
            data={seat.node: seat.data for seat in seats},
            features=self.plan.features,
        )

    def argv(self, seat: Seat, java: Callable[[], Path | None]) -> list[str]:
        """Return the command line of `kafka.Kafka`."""
        own = java()
        return java_argv(
            replace(self.java, path=own, elsewhere=True) if own else self.java,
            self.distribution,
            self._logging(seat.folder).java_property,
            # Where compression's native libraries are unpacked; a killed Java leaves them there.
            f"-Djava.io.tmpdir={seat.folder / TEMPORARY}",
            "kafka.Kafka",
            str(seat.folder / SETTINGS),
            heap_mb=self.plan.heap_mb,
        )

    def _logging(self, folder: Path) -> Logging:
        numbers = self.plan.version_numbers
        if any(jar.name.startswith("reload4j-") for jar in self.distribution.classpath):
            numbers = min(numbers, LAST_WITH_LOG4J1)  # Snapshots of 4.0 had it for a while.
        return logging_to(folder, node_files(self.plan.mode), numbers)


class ReferencePrograms:
    """The reference cluster: this Python, and nothing else."""

    software: Sequence[Path] = ()
    reads_all_at_start = True
    one_process = False
    sees = frozenset(Sight)

    def environment(self, seat: Seat) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Return nothing: it is this Python."""
        return {}

    def configure(self, seat: Seat) -> None:
        """Write the settings, which are all that it needs."""
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
        """Return the command line of a node."""
        del java
        settings = str(seat.folder / SETTINGS)
        # -P: the node's folder, where it runs, has no modules.
        return [sys.executable, "-P", "-m", "cluster.reference.process", settings]
