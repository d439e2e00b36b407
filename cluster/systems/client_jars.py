"""Fetch Kafka's Java client from Maven Central, and a compiler for programs that use the client."""

import hashlib
import os
from pathlib import Path

import requests

from cluster.cache import cache_folder, locked, refused
from cluster.kafka.fetch import MAVEN_CENTRAL, REPOSITORY_VARIABLE, TIMEOUT_S, fetch_kafka
from cluster.protocol import UserError
from cluster.systems.system import Say

_NEEDED = ("kafka-clients-", "lz4-java-", "snappy-java-", "zstd-jni-", "slf4j-api-")
"""The prefixes of the jars that a client needs.

Without a backend for slf4j, a client logs nothing.
"""
_ECJ = "org/eclipse/jdt/ecj/3.36.0/ecj-3.36.0.jar"
_ECJ_SHA256 = "a9a969911a55ffd7ad04d3ca4caf4f363b7b80a27701289dba3cc713084080c0"


def client_jars(version: str, say: Say) -> tuple[Path, ...]:
    """Return the verified jars of a version of Kafka's client, from the cache or a download.

    These are the jars of the whole release, which the cache also keeps for brokers.

    Args:
        version: The version, such as `4.3.1`.
        say: Gets short messages about the progress.

    Raises:
        UserError: The version does not exist, there is no network, or the disk is full.
    """
    try:
        jars = fetch_kafka(version, progress=say).classpath
    except UserError as absent:
        why, _, _ = str(absent).partition(", such as --system")
        raise UserError(f"--client-kind java:{version}: {why.rstrip(' ;,')}") from absent
    return tuple(jar for jar in jars if jar.name.startswith(_NEEDED))


def compiler_jar(say: Say) -> Path:
    """Return Eclipse's compiler, for a Java without a compiler (JDT's `ecj`, EPL 2.0).

    Args:
        say: Gets a message before a download.

    Raises:
        UserError: The jar is not in the cache and cannot be downloaded, or its hash is wrong.
    """
    file = cache_folder() / "maven" / _ECJ
    if _is_whole(file):
        return file
    address = (os.environ.get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL).rstrip("/")
    with locked(cache_folder() / "lock", say), refused(cache_folder()):
        if _is_whole(file):
            return file
        say("fetching a compiler for Java (ecj)")
        try:
            answer = requests.get(f"{address}/{_ECJ}", timeout=TIMEOUT_S)
            answer.raise_for_status()
        except requests.RequestException as unreachable:
            raise UserError(
                "this Java has no compiler, and ecj cannot be fetched from"
                f" {address}: connect to the network once, name a mirror in"
                f" {REPOSITORY_VARIABLE}, or install a JDK"
            ) from unreachable
        if hashlib.sha256(answer.content).hexdigest() != _ECJ_SHA256:
            raise UserError(
                f"the file {_ECJ} of {address} does not match its SHA-256; use another repository"
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_bytes(answer.content)
        draft.replace(file)
    return file


def _is_whole(file: Path) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == _ECJ_SHA256
    except OSError:
        return False
