"""Formats the disks of a cluster's nodes: with one start of Java, however many nodes there are."""

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
from cluster.nodes import node_id
from cluster.protocol import ClusterError, unwritable

FORMAT_TIMEOUT_S = 60
LEAST_HEAP_MB = 128
"""What a JVM begins with, unless it may not have so much."""
DEFAULT_HEAP_MB = 512


def java_argv(
    java: Java, distribution: Distribution, *arguments: str, heap_mb: int = DEFAULT_HEAP_MB
) -> list[str]:
    """Return the command line of a program of Kafka: properties of Java, then its class.

    Its heap has at most `heap_mb` MiB.
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
    """Format the data folder of each node, by Kafka's own StorageTool.

    What it writes is the same for all nodes of a cluster with static voters but for two lines of
    `meta.properties`, so that it is run for the first node and the rest are copies.

    Args:
        java: Runs the tool.
        distribution: Has it.
        settings: `server.properties` by node.
        data: The folders to be made, by node.
        features: Levels of features (KIP-584) that differ from the version's own.

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
    """Return an id as Kafka writes it: 16 random bytes in 22 letters of URL-safe base64.

    Ids only have to differ from each other: they decide nothing, so they need no seed.
    """
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):  # Kafka never makes one that looks like an option.
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
        raise sentence("Kafka's StorageTool refused the settings", ended.stdout + ended.stderr)


def _make_own(meta: Path, node: str) -> None:
    text = meta.read_text(encoding="utf-8")
    text = re.sub(r"(?m)^node\.id=.*$", f"node.id={node_id(node)}", text)
    # Two brokers with one directory id are refused by the controller (KIP-858).
    text = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={random_uuid()}", text)
    meta.write_text(text, encoding="utf-8")
