"""Creates the Java class archive of a Kafka version by starting and stopping a broker.

The module `classes` finds the archive; brokers start faster with it.
"""

import os
import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from cluster.cache import cache_folder, locked
from cluster.files.properties import properties
from cluster.java import Java
from cluster.kafka.brokers import BY_SIGTERM
from cluster.kafka.classes import archive_of
from cluster.kafka.configuration import JAVA_ENVIRONMENT, JVM_FLAGS
from cluster.kafka.fetch import Distribution
from cluster.kafka.log_files import logging_to, node_files
from cluster.kafka.storage import format_storage, java_argv
from cluster.kafka.versions import numbers_of
from cluster.kept_classes import (
    NotThisTimeError,
    flags_of,
    is_settled,
    keep,
    keeping_flags,
    starts_with,
)
from cluster.protocol import UserError
from results.record.clock import wait_until
from results.record.terms import Mode

LIFE_S = 90
"""The broker ends after this many seconds at the latest, even if its parent process dies."""
START_S = 60
END_S = 60


def keep_classes(
    java: Java, distribution: Distribution, *, progress: Callable[[str], None]
) -> None:
    """Create the class archive of a version unless it exists.

    A failure is ignored, because the only effect is that later starts are slower.

    Args:
        java: The Java that will use the archive.
        distribution: A version of Kafka that runs with KRaft.
        progress: Called with a message before the slow work begins.
    """
    with suppress(UserError):  # The user may have no cache folder.
        archive = archive_of(java, distribution)
        if is_settled(archive):
            return
        with locked(cache_folder() / "lock", progress):
            if not is_settled(archive):
                progress(f"preparing Kafka {distribution.version} for faster starts (only once)")
                keep(
                    archive,
                    lambda made: _make(made, java, distribution),
                    lambda made: starts_with(java.path, [*JVM_FLAGS, *flags_of(made)]),
                )


def _make(archive: Path, java: Java, distribution: Distribution) -> None:
    """Start a broker; stop it as soon as it listens. When its Java ends, it writes the archive."""
    folder = archive.parent / "n1"
    folder.mkdir()
    port, controllers = _free_ports()
    settings = folder / "server.properties"
    settings.write_text(_settings(folder / "data", port, controllers), encoding="utf-8")
    format_storage(java, distribution, settings={"n1": settings}, data={"n1": folder / "data"})
    logging = logging_to(folder, node_files(Mode.COMBINED), numbers_of(distribution.version))
    logging.file.write_text(logging.text, encoding="utf-8")
    argv = java_argv(java, distribution, *keeping_flags(archive),
                     logging.java_property, f"-Djava.io.tmpdir={folder}", "kafka.Kafka",
                     str(settings))  # fmt: skip
    with ExitStack() as undo:
        broker = subprocess.Popen(  # noqa: S603 - a program of the user's own PATH
            ["timeout", f"--kill-after={END_S}", f"{LIFE_S}", *argv],  # noqa: S607 - of coreutils
            env=os.environ | JAVA_ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        undo.callback(broker.wait)
        undo.callback(broker.terminate)  # `timeout` forwards SIGTERM, later kills.
        wait_until(
            lambda: broker.poll() is not None or _listens(port), timeout_s=START_S, what="a broker"
        )
        if broker.poll() is not None:  # Its archive is incomplete, but exists.
            raise NotThisTimeError(f"the broker exited with {broker.poll()} before it listened")
        broker.terminate()
        if (code := broker.wait(END_S)) not in (0, BY_SIGTERM):
            raise NotThisTimeError(f"the broker exited with {code} instead of a clean shutdown")


def _settings(data: Path, port: int, controllers: int) -> str:
    return properties({
        "process.roles": "broker,controller", "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controllers}",
        "listeners": f"BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "BROKER",
        "log.dirs": str(data), "log.cleaner.dedupe.buffer.size": "4194304",
    })  # fmt: skip


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
