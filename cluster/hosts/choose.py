"""Which kind of hosts works on this machine, found out by trying."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from cluster.hosts.examine import namespace_trials
from cluster.hosts.faulty_disks import FaultyNamespaceDisks, FaultyNamespaces, FaultyProcesses
from cluster.hosts.namespace import NamespaceHosts
from cluster.hosts.node_disks import NamespaceDisks
from cluster.hosts.process import ProcessHosts
from cluster.protocol import Hosts, UserError


class HostKind(StrEnum):
    """The kinds of hosts there are, from the best to the least."""

    NAMESPACE = "namespace"
    DOCKER = "docker"
    SSH = "ssh"
    PROCESS = "process"
    SIMULATED = "simulated"
    ATTACHED = "attached"


FORMS = ("auto", "namespace", "docker", "ssh:HOSTS.toml", "process", "simulated")
"""What `--hosts` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which kind a run uses.

    Attributes:
        kind: The kind.
        why: A sentence for people.
        file: Of ssh hosts: which they are, an absolute path.
        kafka: Of containers: the version of Kafka that their image brings; empty: none.
    """

    kind: HostKind
    why: str
    file: Path | None = None
    kafka: str = ""

    @property
    def hosts(self) -> str:
        """As it stands in the plan of a run: `namespace`, `ssh:/etc/hosts.toml`."""
        return f"{self.kind}:{self.file}" if self.file else self.kind.value


def choose_hosts(
    hosts: str, *, image: str | None = None, nodes: Sequence[str] = (), own_cuts: bool = False
) -> Choice:
    """Return the kind of hosts to use, found out by trying.

    Args:
        hosts: `auto` for the best that works here without being told more, `namespace`, `docker`,
            `ssh:HOSTS.toml`, `process` or `simulated`.
        image: Of the containers.
        nodes: That will be asked for; ssh hosts must be enough for them.
        own_cuts: Whether the nodes cut links by themselves where nobody else can.

    Raises:
        UserError: There is no such kind, or it was asked for by name and does not work here.
    """
    name, colon, file = hosts.partition(":")
    if name not in {"auto", *HostKind} or bool(colon) != (name == HostKind.SSH):
        raise UserError(f"--hosts {hosts} is not one of {', '.join(FORMS)}")
    if name == HostKind.ATTACHED:
        return Choice(kind=HostKind.ATTACHED, why="the cluster runs already, its file says where")
    if name in {HostKind.PROCESS, HostKind.SIMULATED}:
        return Choice(kind=HostKind(name), why="it was asked for")
    if name == HostKind.DOCKER:
        from cluster.hosts.docker.image import try_image  # noqa: PLC0415 - others wait for no library

        inside = try_image(image)
        own = f", with its own Kafka {inside.kafka}" if inside.kafka else ""
        why = f"containers of {image}{own}"
        return Choice(kind=HostKind.DOCKER, why=why, kafka=inside.kafka)
    if name == HostKind.SSH:
        from cluster.hosts.ssh.hosts import try_hosts  # noqa: PLC0415 - as above

        path = Path(file).expanduser().absolute()
        return Choice(kind=HostKind.SSH, why=try_hosts(path, nodes), file=path)
    failed = next((finding for finding in namespace_trials() if not finding.works), None)
    if failed is None:
        return Choice(kind=HostKind.NAMESPACE, why="network namespaces work here")
    why = f"{failed.what} does not work here ({failed.detail}); {failed.remedy}"
    if name == HostKind.NAMESPACE:
        instead = "where its nodes cut their own links" if own_cuts else "without partitions"
        raise UserError(f"{why}; or use --hosts process, {instead}")
    without = "the nodes cut their own links" if own_cuts else "the network cannot be cut"
    return Choice(kind=HostKind.PROCESS, why=f"{why}. Without it {without}")


def make_hosts(
    hosts: str,
    nodes: Sequence[str],
    processes_file: Path,
    *,
    image: str | None = None,
    disk_mb: int | None = None,
    faulty_disks: bool = False,
    own_software: bool = False,
) -> Hosts:
    """Return hosts of a kind that was chosen before; `up` makes them.

    Args:
        hosts: As in a plan that was played; namespace hosts also need the harness to be in a hub
            (`enter_prefix`).
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`.
        image: Of the containers.
        disk_mb: Each node keeps its data on a disk of its own, of so many MiB; None: on the run's.
        faulty_disks: Each node's data lie below a file system that can be late and break requests.
        own_software: Whether software is the user's: an image's own Kafka does not stand in for it.
    """
    name, _, file = hosts.partition(":")
    match HostKind(name):
        case HostKind.NAMESPACE if disk_mb is not None:
            with_disks = FaultyNamespaceDisks if faulty_disks else NamespaceDisks
            return with_disks(nodes, processes_file, disk_mb=disk_mb)
        case HostKind.NAMESPACE:
            return (FaultyNamespaces if faulty_disks else NamespaceHosts)(nodes, processes_file)
        case HostKind.PROCESS:
            return (FaultyProcesses if faulty_disks else ProcessHosts)(nodes, processes_file)
        case HostKind.SSH:
            from cluster.hosts.ssh.hosts import SshHosts  # noqa: PLC0415 - as above

            return SshHosts(nodes, processes_file, file=Path(file))
        case HostKind.DOCKER:
            from cluster.hosts.docker.hosts import DockerHosts  # noqa: PLC0415 - as above

            return DockerHosts(nodes, processes_file, image=image or "", own_software=own_software)
        case HostKind.SIMULATED | HostKind.ATTACHED:
            raise ValueError(f"{name} machines are made by their system")
        case never:
            assert_never(never)
