"""Make a run's Docker network and containers. Each of these gets the run's label at once."""

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
"""The user of the containers is root, because the harness must read and remove brokers' files."""
NO_SUBNET_LEFT = ("non-overlapping", "could not find an available", "all predefined address pools")
"""The daemon's messages when no address pool is left. The words differ by version."""
ATTACH_TIMEOUT_S = 30.0
_INTO_LOG = 'exec "$@" >>"$0" 2>&1'


class ContainerMaker:
    """A maker of the network and the containers of one run.

    Args:
        client: The client of the daemon.
        root: The run's folder. Each container sees this folder at the same path.
        image: The image of the containers.
    """

    def __init__(self, client: docker.DockerClient, root: Path, image: str) -> None:
        self._client = client
        self._root = root.absolute()
        self._image = image
        # By default all containers together get the CPU share of one process of this machine
        # (`cpu.shares` of the cgroup `docker`). Brokers then starve beside a busy harness. With the
        # cgroup driver systemd the parent would have to be a slice.
        self._parent = "/" if client.info()["CgroupDriver"] == "cgroupfs" else None

    def network(self) -> str:
        """Create a bridge network without outside access. The daemon chooses the addresses.

        The daemon knows which addresses other networks and this machine's routes use. The daemon
        chooses atomically, so two runs that start together never get the same addresses.

        Raises:
            UserError: The daemon has no addresses left.
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
            raise ClusterError(f"Docker refused to create a network: {said}") from refused
        return name

    def holder(self, node: str, network: str) -> Container:
        """Start a node's container, which keeps the namespaces alive while its input is open."""
        with explained():
            made = self._client.containers.create(
                self._image,
                entrypoint=["cat"],
                command=[],
                name=container_of(self._root, node),
                hostname=node,
                working_dir=str(self._root),  # `docker exec` starts here.
                user=AS_ROOT,
                network=network,
                stdin_open=True,  # Without `detach`, the container gets StdinOnce.
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
        """Start a process in a separate container that shares a node's namespaces.

        Args:
            holder: The container that keeps the node's namespaces alive.
            node: The node's name.
            number: A number that differs from the numbers of the node's earlier processes.
            command: The command to start.
            software: The files that the container must see. The keys are paths inside the
                container.
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
    """Return the command line of the program that keeps the input of `holder` open."""
    program = str(Path(line.__file__).resolve())
    return [sys.executable, "-I", "-S", program, socket_path(), str(holder.id)]


def wait_attached(holder: Container, log: Path, *, runs: Callable[[], bool]) -> None:
    """Wait until a program holds a container's input. When the program ends, the container ends.

    Args:
        holder: The container.
        log: The log file of the program, which `line_to` starts.
        runs: A function that returns whether the program still runs.

    Raises:
        ClusterError: The program did not attach to the container.
    """
    told = f"{line.ATTACHED} {holder.id}"

    def said() -> str:
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    with suppress(WaitTimeoutError):  # The log that exists by then gives a better error message.
        wait_until(
            lambda: told in said() or not runs(),
            timeout_s=ATTACH_TIMEOUT_S,
            what=f"a connection to the input of the container {holder.name}",
        )
    if told not in said():
        words = said().splitlines() or ["the program that should hold its input printed nothing"]
        raise ClusterError(
            f"the input of the container {holder.name} is not held open: {words[-1]}"
        )


def refuse_unknown(holder: Container, program: str, image: str) -> None:
    """Raise if a program is missing in the image; a shell would report that too late.

    Raises:
        ClusterError: The image has no such program.
    """
    with explained():
        found = holder.exec_run(["sh", "-c", 'command -v -- "$0"', program])
    if found.exit_code:
        raise ClusterError(f"the image {image} has no program {program}")


def _read_only(place: Path, source: Path) -> Mount:
    return Mount(str(place), str(source), type="bind", read_only=True)
