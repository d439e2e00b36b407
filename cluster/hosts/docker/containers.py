"""Makes a run's network and containers; each carries the run's labels from its first moment."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import APIError
from docker.models.containers import Container
from docker.types import Mount

from cluster.hosts.docker import line
from cluster.hosts.docker.daemon import explained, socket_path
from cluster.hosts.docker.image import start
from cluster.hosts.docker.objects import NODE_LABEL, container_of, labels_of, prefix_of
from cluster.protocol import ClusterError, Command, UserError
from results.record.clock import WaitTimeoutError, wait_until

AS_ROOT = "0:0"
"""Like us: what a broker writes can be read and removed afterwards, whatever the image's user."""
NO_SUBNET_LEFT = ("non-overlapping", "could not find an available", "all predefined address pools")
"""What the daemon says when its address pools are used up; the words differ by version."""
ATTACH_TIMEOUT_S = 30.0
_INTO_LOG = 'exec "$@" >>"$0" 2>&1'


class ContainerMaker:
    """Makes what one run needs.

    Args:
        client: The line to the daemon.
        root: The run's folder: seen by each container, at its own path.
        image: What containers are made of.
    """

    def __init__(self, client: docker.DockerClient, root: Path, image: str) -> None:
        self._client = client
        self._root = root.absolute()
        self._image = image
        # By default all containers together weigh as much as one process of this machine
        # (`cpu.shares` of the cgroup `docker`): brokers starve beside a busy harness. With the
        # driver systemd a parent would have to be a slice.
        self._parent = "/" if client.info()["CgroupDriver"] == "cgroupfs" else None

    def network(self) -> str:
        """Make a bridge network without a way out, whose addresses the daemon chooses.

        The daemon knows what is taken by other networks and by this machine's routes, and decides
        at once for itself: two runs that start together never get the same.

        Raises:
            UserError: It has no addresses left.
        """
        name = prefix_of(self._root)
        try:
            self._client.networks.create(
                name,
                driver="bridge",
                internal=True,
                labels=labels_of(self._root),
                check_duplicate=True,
            )
        except APIError as refused:
            said = str(refused.explanation or refused)
            if any(words in said for words in NO_SUBNET_LEFT):
                raise UserError(
                    "Docker has no subnet left for another network; type: docker network prune, or"
                    " widen default-address-pools in /etc/docker/daemon.json"
                ) from refused
            raise ClusterError(f"Docker refuses to make a network: {said}") from refused
        return name

    def holder(self, node: str, network: str) -> Container:
        """Start the container that holds a node's namespaces as long as its input is open."""
        with explained():
            made = self._client.containers.create(
                self._image,
                entrypoint=["cat"],
                command=[],
                name=container_of(self._root, node),
                hostname=node,
                working_dir=str(self._root),  # For `docker exec`.
                user=AS_ROOT,
                network=network,
                stdin_open=True,  # And, not being detached, StdinOnce.
                mounts=[self._folder()],
                labels=self._labels(node),
            )
        start(made, self._image)
        return made

    def process(
        self,
        holder: Container,
        *,
        node: str,
        number: int,
        command: Command,
        software: Mapping[Path, Path],
    ) -> Container:
        """Start a process in a node's namespaces.

        Args:
            holder: Has the namespaces.
            node: Its name.
            number: Tells it from earlier ones.
            command: What to start.
            software: What it has to see, by where.
        """
        shared = f"container:{holder.id}"
        with explained():
            made = self._client.containers.create(
                self._image,
                entrypoint=["sh", "-c", _INTO_LOG, str(command.log.absolute())],
                command=list(command.argv),
                name=f"{container_of(self._root, node)}-{number}",
                user=AS_ROOT,
                working_dir=str(command.cwd.absolute()),
                environment=dict(command.env),
                network_mode=shared,
                pid_mode=shared,
                cgroup_parent=self._parent,
                mounts=[self._folder(), *(_read_only(at, what) for at, what in software.items())],
                labels=self._labels(node),
            )
            made.start()
        return made

    def _folder(self) -> Mount:
        return Mount(str(self._root), str(self._root), type="bind")

    def _labels(self, node: str) -> dict[str, str]:
        return labels_of(self._root) | {NODE_LABEL: node}


def line_to(holder: Container) -> Sequence[str]:
    """Return the command that keeps a holder's input open as long as it runs itself."""
    program = str(Path(line.__file__).resolve())
    return [sys.executable, "-I", "-S", program, socket_path(), str(holder.id)]


def wait_attached(holder: Container, log: Path, *, runs: Callable[[], bool]) -> None:
    """Wait until a holder's input is held: only then does it end with its harness.

    Args:
        holder: The container.
        log: Where the program of `line_to` writes.
        runs: Whether it still does.

    Raises:
        ClusterError: It is not held.
    """
    told = f"{line.ATTACHED} {holder.id}"

    def said() -> str:
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    with suppress(WaitTimeoutError):  # What it said until now tells more.
        wait_until(
            lambda: told in said() or not runs(),
            timeout_s=ATTACH_TIMEOUT_S,
            what=f"the line to the container {holder.name}",
        )
    if told not in said():
        words = said().splitlines() or ["what is to hold it says nothing"]
        raise ClusterError(f"the container {holder.name} is not held: {words[-1]}")


def refuse_unknown(holder: Container, program: str, image: str) -> None:
    """Refuse a program that is not in the image, which a shell would find out too late.

    Raises:
        ClusterError: It is not there.
    """
    with explained():
        found = holder.exec_run(["sh", "-c", 'command -v -- "$0"', program])
    if found.exit_code:
        raise ClusterError(f"there is no program {program} in the image {image}")


def _read_only(place: Path, source: Path) -> Mount:
    return Mount(str(place), str(source), type="bind", read_only=True)
