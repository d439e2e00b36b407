"""What is in an image, asked of a container that was made of it."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound
from docker.models.containers import Container

from cluster.hosts.cuts import cut_rules, drop_marked
from cluster.hosts.docker.daemon import connect, connected, explained
from cluster.hosts.docker.trials import TRIAL_LABEL, TRIAL_S, Owner
from cluster.hosts.namespace import search_path
from cluster.protocol import ClusterError, UserError

OLDEST_JAVA = 17
KAFKA_LIBRARIES = "/opt/kafka/libs"
"""Where the official images (apache/kafka) have their jars."""
TRIAL_TIMEOUT_S = 10.0
_LOOK = f"""
for java in "$JAVA_HOME/bin/java" "$(command -v java)" /opt/java/*/bin/java /usr/lib/jvm/*/bin/java
do [ -x "$java" ] && break; done
echo "java at $java"
"$java" -version 2>&1
ls {KAFKA_LIBRARIES} 2>/dev/null
exit 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What matters of an image.

    Attributes:
        java: Its program `java`, new enough.
        kafka: The version of the Kafka that it brings at `KAFKA_LIBRARIES`; empty: none.
    """

    java: Path
    kafka: str = ""


def contents_of(container: Container, image: str) -> Contents:
    """Look into a container that runs.

    Args:
        container: Made of the image.
        image: For messages.

    Raises:
        UserError: It has no Java, or one that is too old.
    """
    with explained():
        output = container.exec_run(["sh", "-c", _LOOK]).output
    text = b"".join([output] if isinstance(output, bytes) else output).decode(errors="replace")
    version = re.search(r'version "(?:1\.)?(\d+)', text)
    if version is None:
        raise UserError(
            f"the image {image} has no Java; name one that has, as --image eclipse-temurin:17-jre"
        )
    if int(version[1]) < OLDEST_JAVA:
        raise UserError(
            f"the image {image} has Java {version[1]}, but {OLDEST_JAVA} or later is needed; name"
            " another, as --image eclipse-temurin:17-jre"
        )
    java = re.search(r"^java at (.+)$", text, re.MULTILINE)
    kafka = re.search(r"^kafka_[\d.]+-(\d[\w.]*)\.jar$", text, re.MULTILINE)
    return Contents(
        java=Path(java[1] if java else "java"), kafka=kafka[1] if kafka is not None else ""
    )


def try_image(image: str | None) -> Contents:
    """Find out whether containers of an image can be hosts here; nothing is left behind.

    Raises:
        UserError: They cannot; one sentence with the remedy.
    """
    try_daemon()
    if not image:
        raise UserError(
            "--hosts docker needs an image with Java; name one, as --image eclipse-temurin:17-jre,"
            " or an official Kafka image, as --image apache/kafka:4.1.0"
        )
    with connected() as client, _trial_container(client, image) as container:
        _try_namespace(container)
        return contents_of(container, image)


def try_daemon() -> None:
    """Find out whether there is a daemon that can be used here.

    Raises:
        UserError: There is none, or we are not root; one sentence with the remedy.
    """
    if os.geteuid() != 0:
        raise UserError(
            "--hosts docker needs root, to enter the network namespaces of containers; type: sudo"
            " logquake ..., or use --hosts namespace"
        )
    connect().close()


def refuse_absent(client: docker.DockerClient, image: str) -> None:
    """Refuse an image that is not on this machine: a run fetches nothing behind one's back.

    Raises:
        UserError: It is not there.
    """
    try:
        client.images.get(image)
    except ImageNotFound as absent:
        raise UserError(
            f"the image {image} is not on this machine; type: docker pull {image}"
        ) from absent
    except APIError as refused:
        raise UserError(
            f"{image} is no image that Docker knows ({refused.explanation})"
        ) from refused


@contextmanager
def _trial_container(client: docker.DockerClient, image: str) -> Iterator[Container]:
    refuse_absent(client, image)
    container = client.containers.create(
        image,
        entrypoint=["sleep", str(TRIAL_S)],
        command=[],
        user="0:0",
        network_mode="none",
        labels={TRIAL_LABEL: Owner.me().label()},
        auto_remove=True,  # Should we be killed meanwhile.
    )
    try:
        start(container, image)
        container.reload()
        yield container
    finally:
        with suppress(APIError):  # The daemon removes it itself, maybe just now.
            container.remove(force=True, v=True)


def start(container: Container, image: str) -> None:
    """Start a container.

    Raises:
        UserError: Its image has not the programs that every host needs.
        ClusterError: The daemon refuses it for another reason.
    """
    try:
        with explained():
            container.start()
    except ClusterError as refused:
        if "executable file not found" in str(refused) or "no such file" in str(refused):
            raise UserError(
                f"the image {image} has no shell and no cat or sleep, which a host needs; name"
                " another, as --image eclipse-temurin:17-jre"
            ) from refused
        raise


def _try_namespace(container: Container) -> None:
    """Make a cut's rules in a container's network namespace; they go with it."""
    rules = drop_marked() + cut_rules("trial", {"n1": "192.0.2.1"})
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            [*enter(container.attrs["State"]["Pid"]), "nft", "-f", "-"],
            input=rules,
            env={**os.environ, "PATH": search_path()},
            capture_output=True,
            text=True,
            timeout=TRIAL_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as missing:
        package = "util-linux" if missing.filename == "nsenter" else "nftables"
        raise UserError(
            f"the command {missing.filename} is missing; type: apt-get install {package}"
        ) from missing
    if done.returncode:
        raise UserError(
            "nft cannot be used in the network namespace of a container"
            f" ({done.stderr.strip() or done.returncode}); use --hosts namespace, and see: logquake"
            " doctor"
        )


def enter(pid: int) -> Sequence[str]:
    """Return the start of a command line that enters the network namespace of a process."""
    return ("nsenter", f"--net=/proc/{pid}/ns/net", "--")
