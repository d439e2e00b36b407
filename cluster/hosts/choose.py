"""Try the kinds of hosts, and choose a kind that works on this machine."""

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
    """The kinds of hosts, from the most capable to the least."""

    NAMESPACE = "namespace"
    DOCKER = "docker"
    SSH = "ssh"
    PROCESS = "process"
    SIMULATED = "simulated"
    ATTACHED = "attached"


FORMS = ("auto", "namespace", "docker", "ssh:HOSTS.toml", "process", "simulated")
"""The values that `--hosts` accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The kind of hosts that a run uses.

    Attributes:
        kind: The kind.
        why: A sentence that explains the choice.
        file: The absolute path of the hosts file; for ssh hosts only.
        kafka: For containers: the version of Kafka in the image. An empty string if the image has
            no Kafka, and for all other kinds of hosts.
    """

    kind: HostKind
    why: str
    file: Path | None = None
    kafka: str = ""

    @property
    def hosts(self) -> str:
        """The hosts as written in the plan of a run: `namespace` or `ssh:/etc/hosts.toml`."""
        return f"{self.kind}:{self.file}" if self.file else self.kind.value


def choose_hosts(
    hosts: str, *, image: str | None = None, nodes: Sequence[str] = (), own_cuts: bool = False
) -> Choice:
    """Test which kinds of hosts work on this machine, and return the kind to use.

    Args:
        hosts: `namespace`, `docker`, `ssh:HOSTS.toml`, `process`, `simulated`, or `auto`. `auto`
            selects the best kind that works here without further options.
        image: The image of the containers.
        nodes: The names of the run's nodes. The ssh hosts file must list enough machines for these
            nodes.
        own_cuts: Whether the nodes can cut links themselves if the hosts cannot cut links.

    Raises:
        UserError: The kind that the user named does not exist, or does not work here.
    """
    name, colon, file = hosts.partition(":")
    if name not in {"auto", *HostKind} or bool(colon) != (name == HostKind.SSH):
        raise UserError(f"--hosts {hosts} is not one of {', '.join(FORMS)}")
    if name == HostKind.ATTACHED:
        return Choice(
            kind=HostKind.ATTACHED, why=("the cluster already runs at the addresses in its file")
        )
    if name in {HostKind.PROCESS, HostKind.SIMULATED}:
        return Choice(kind=HostKind(name), why="--hosts names it")
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
        return Choice(kind=HostKind.NAMESPACE, why="network namespaces work on this machine")
    why = f"{failed.what} does not work on this machine ({failed.detail}); {failed.remedy}"
    if name == HostKind.NAMESPACE:
        instead = "whose nodes cut their own links" if own_cuts else "without partitions"
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
    """Create the hosts of a kind that was chosen before. The method `up` starts the machines.

    Args:
        hosts: The hosts as written in a plan. For namespace hosts the harness must already run in a
            hub (`enter_prefix`).
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`.
        image: The image of the containers.
        disk_mb: The size in MiB of a separate disk for each node. None: nodes use the disk of the
            run's folder.
        faulty_disks: Whether each node's data are stored on Logquake's file system, which can delay
            requests and let requests fail.
        own_software: Whether the user provides the software. If true, Logquake does not use the
            Kafka in the image.
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
