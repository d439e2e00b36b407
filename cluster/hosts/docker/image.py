"""Run commands in a container of a Docker image, to check the contents of the image."""

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
"""The folder of Kafka's jars in the official images (apache/kafka)."""
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
    """The relevant contents of an image.

    Attributes:
        java: The path of the program `java` in the image. This Java is new enough.
        kafka: The version of Kafka at `KAFKA_LIBRARIES`; an empty string if the image has no Kafka.
    """

    java: Path
    kafka: str = ""


def contents_of(container: Container, image: str) -> Contents:
    """Return the relevant contents of the image of a running container.

    Args:
        container: A container of the image.
        image: The image's name, for error messages.

    Raises:
        UserError: The image has no Java, or has a Java that is too old.
    """
    with explained():
        output = container.exec_run(["sh", "-c", _LOOK]).output
    text = b"".join([output] if isinstance(output, bytes) else output).decode(errors="replace")
    version = re.search(r'version "(?:1\.)?(\d+)', text)
    if version is None:
        raise UserError(
            f"the image {image} has no Java; use an image with Java, such as --image"
            " eclipse-temurin:17-jre"
        )
    if int(version[1]) < OLDEST_JAVA:
        raise UserError(
            f"the image {image} has Java {version[1]}, but {OLDEST_JAVA} or later is needed; use"
            " another image, such as --image eclipse-temurin:17-jre"
        )
    java = re.search(r"^java at (.+)$", text, re.MULTILINE)
    kafka = re.search(r"^kafka_[\d.]+-(\d[\w.]*)\.jar$", text, re.MULTILINE)
    return Contents(
        java=Path(java[1] if java else "java"), kafka=kafka[1] if kafka is not None else ""
    )


def try_image(image: str | None) -> Contents:
    """Check that containers of an image can be hosts here, and return the image's contents.

    The check leaves nothing behind.

    Raises:
        UserError: The containers cannot be hosts. The message is one sentence with the remedy.
    """
    try_daemon()
    if not image:
        raise UserError(
            "--hosts docker needs an image with Java: add --image eclipse-temurin:17-jre, or use"
            " an official Kafka image, such as --image apache/kafka:4.1.0"
        )
    with connected() as client, _trial_container(client, image) as container:
        _try_namespace(container)
        return contents_of(container, image)


def try_daemon() -> None:
    """Check that this machine has a Docker daemon that Logquake can use.

    Raises:
        UserError: There is no daemon, or the user is not root. The message is one sentence with the
            remedy.
    """
    if os.geteuid() != 0:
        raise UserError(
            "--hosts docker needs root to enter the network namespaces of containers; type: sudo"
            " logquake ..., or use --hosts namespace"
        )
    connect().close()


def refuse_absent(client: docker.DockerClient, image: str) -> None:
    """Raise if an image is not on this machine; a run never pulls an image by itself.

    Raises:
        UserError: The image is not on this machine.
    """
    try:
        client.images.get(image)
    except ImageNotFound as absent:
        raise UserError(
            f"the image {image} is not on this machine; type: docker pull {image}"
        ) from absent
    except APIError as refused:
        raise UserError(
            f"Docker does not accept the image {image} ({refused.explanation})"
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
        auto_remove=True,  # It ends by itself if we are killed.
    )
    try:
        start(container, image)
        container.reload()
        yield container
    finally:
        with suppress(APIError):  # The daemon removes it itself, perhaps at this moment.
            container.remove(force=True, v=True)


def start(container: Container, image: str) -> None:
    """Start a container.

    Raises:
        UserError: The container's image lacks programs that every host needs.
        ClusterError: The daemon refuses for another reason.
    """
    try:
        with explained():
            container.start()
    except ClusterError as refused:
        if "executable file not found" in str(refused) or "no such file" in str(refused):
            raise UserError(
                f"the image {image} lacks a shell, cat or sleep, which each host needs; use"
                " another image, such as --image eclipse-temurin:17-jre"
            ) from refused
        raise


def _try_namespace(container: Container) -> None:
    """Check that nft can make a cut's rules in a container's network namespace.

    The rules vanish with the container.
    """
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
            "nft does not work in the network namespace of a container"
            f" ({done.stderr.strip() or done.returncode}); use --hosts namespace, and type:"
            " logquake doctor"
        )


def enter(pid: int) -> Sequence[str]:
    """Return a prefix for a command line, which enters a process's network namespace."""
    return ("nsenter", f"--net=/proc/{pid}/ns/net", "--")
