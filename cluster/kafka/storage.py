"""Formats the disks of a cluster's nodes with a single start of Java."""

import base64
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.java import Java
from cluster.kafka.classes import class_flags
from cluster.kafka.configuration import JAVA_ENVIRONMENT, JVM_FLAGS
from cluster.kafka.failures import sentence
from cluster.kafka.fetch import Distribution
from cluster.kafka.versions import java_properties, numbers_of
from cluster.protocol import ClusterError, unwritable
from results.record.nodes import node_id

FORMAT_TIMEOUT_S = 60
LEAST_HEAP_MB = 128
"""The initial heap of a JVM in MiB. If the maximum heap is smaller, it is the initial heap."""
DEFAULT_HEAP_MB = 512


def java_argv(
    java: Java, distribution: Distribution, *arguments: str, heap_mb: int = DEFAULT_HEAP_MB
) -> list[str]:
    """Return the command line of a Kafka program.

    Args:
        java: The Java to run.
        distribution: The Kafka version with the program's jars.
        arguments: Java properties, then the program's class and its arguments.
        heap_mb: The largest heap in MiB.
    """
    classpath = ":".join(str(jar) for jar in distribution.classpath)
    properties = java_properties(numbers_of(distribution.version))
    heap = (f"-Xms{min(LEAST_HEAP_MB, heap_mb)}m", f"-Xmx{heap_mb}m")
    flags = (*heap, *JVM_FLAGS, *class_flags(java, distribution), *properties)
    return [str(java.path), *flags, "-cp", classpath, *arguments]


def format_storage(
    java: Java,
    distribution: Distribution,
    *,
    settings: Mapping[str, Path],
    data: Mapping[str, Path],
    features: Mapping[str, int] | None = None,
) -> None:
    """Format each node's data folder with Kafka's own StorageTool.

    With static voters, the formatted folders of all nodes differ only in two lines of
    `meta.properties`. The tool therefore runs for the first node only, and the other nodes get
    copies.

    Args:
        java: The Java that runs the tool.
        distribution: The Kafka version with the tool.
        settings: The path of `server.properties` by node.
        data: The folder to create, by node.
        features: Feature levels (KIP-584) that differ from the version's defaults.

    Raises:
        UserError: The tool refuses the settings, or the disk is full.
    """
    first, *others = settings
    levels = [f"{name}={level}" for name, level in (features or {}).items()]
    _run_tool(java, distribution, settings[first], levels)
    try:
        for node in others:
            shutil.copytree(data[first], data[node])
            _make_own(data[node] / "meta.properties", node)
    except OSError as error:
        raise unwritable(data[first].parent, error) from error


def random_uuid() -> str:
    """Return a random id in Kafka's form: 16 bytes as 22 characters of URL-safe base64.

    An id only has to be unique. No decision depends on the id, so it does not need the run's seed.
    """
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):  # Like Kafka, avoid an id that looks like an option.
            return text


def _run_tool(
    java: Java, distribution: Distribution, settings: Path, levels: Sequence[str]
) -> None:
    argv = java_argv(java, distribution, "kafka.tools.StorageTool", "format")
    named = [word for level in levels for word in ("--feature", level)]
    try:
        ended = subprocess.run(  # noqa: S603 - Kafka's own tool
            [*argv, "-t", random_uuid(), "-c", str(settings), *named],
            capture_output=True,
            text=True,
            env=os.environ | JAVA_ENVIRONMENT,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise ClusterError(f"Kafka's StorageTool could not be run: {failure}") from failure
    if ended.returncode:
        raise sentence("Kafka's StorageTool rejected the settings", ended.stdout + ended.stderr)


def _make_own(meta: Path, node: str) -> None:
    text = meta.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^node\.id=.*$", f"node.id={node_id(node)}", text)
    # The controller refuses two brokers with the same directory id (KIP-858).
    text = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={random_uuid()}", text)
    meta.write_text(text, encoding="utf-8")
