"""What the servers of a cluster are: Java with Kafka's jars, or the reference cluster's own."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from cluster.java import Java
from cluster.kafka.collect import TEMPORARY
from cluster.kafka.configuration import JAVA_ENVIRONMENT
from cluster.kafka.fetch import Distribution
from cluster.kafka.log_files import Logging, logging_to, node_files
from cluster.kafka.storage import format_storage, java_argv
from cluster.nodes import node_id
from cluster.protocol import UserError
from cluster.reference.process.formatting import format_log_dirs
from results.record.plan import Plan

SETTINGS = "server.properties"


class Programs(Protocol):
    """How servers are prepared and started; a node's folder has its settings already.

    Attributes:
        software: Files that a machine needs which does not share ours.
        environment: Of their processes.
        reads_all_at_start: Whether they read all of their logs as they start.
    """

    @property
    def reads_all_at_start(self) -> bool:
        """As `cluster.protocol.ReadsAllAtStart`."""

    @property
    def software(self) -> Sequence[Path]:
        """What has to be brought to machines."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What processes are started with."""

    def configure(self, folder: Path) -> None:
        """Write what a server needs beside its settings."""

    def format(self, folders: Mapping[str, Path]) -> None:
        """Format the data folders of nodes, by name."""

    def argv(self, folder: Path, java: Path | None) -> list[str]:
        """Return the command line of a node's server; `java`: the machine's own, if it has one."""


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
    def software(self) -> Sequence[Path]:
        """Kafka's jars."""
        return self.distribution.classpath

    @property
    def environment(self) -> Mapping[str, str]:
        """For Java."""
        return JAVA_ENVIRONMENT

    def configure(self, folder: Path) -> None:
        """Write the configuration of its logging."""
        logging = self._logging(folder)
        logging.file.write_text(logging.text, encoding="utf-8")

    def format(self, folders: Mapping[str, Path]) -> None:
        """Have Kafka's own tool format the disks."""
        format_storage(
            self.java,
            self.distribution,
            settings={node: folder / SETTINGS for node, folder in folders.items()},
            data={node: folder / "data" for node, folder in folders.items()},
            features=self.plan.features,
        )

    def argv(self, folder: Path, java: Path | None) -> list[str]:
        """Return the command line of `kafka.Kafka`."""
        return java_argv(
            replace(self.java, path=java, elsewhere=True) if java else self.java,
            self.distribution,
            self._logging(folder).java_property,
            # Where compression's native libraries are unpacked; a killed Java leaves them there.
            f"-Djava.io.tmpdir={folder / TEMPORARY}",
            "kafka.Kafka",
            str(folder / SETTINGS),
            heap_mb=self.plan.heap_mb,
        )

    def _logging(self, folder: Path) -> Logging:
        return logging_to(folder, node_files(self.plan.mode), self.plan.version_numbers)


class ReferencePrograms:
    """The reference cluster: this Python, and nothing else."""

    software: Sequence[Path] = ()
    environment: Mapping[str, str] = {}
    reads_all_at_start = True

    def configure(self, folder: Path) -> None:
        """Do nothing: settings are all that it needs."""

    def format(self, folders: Mapping[str, Path]) -> None:
        """Write `meta.properties` into each data folder."""
        try:
            format_log_dirs({node_id(node): each / "data" for node, each in folders.items()})
        except OSError as error:
            raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error

    def argv(self, folder: Path, java: Path | None) -> list[str]:
        """Return the command line of a node."""
        del java
        # -P: the node's folder, where it runs, has no modules.
        return [sys.executable, "-P", "-m", "cluster.reference.process", str(folder / SETTINGS)]
