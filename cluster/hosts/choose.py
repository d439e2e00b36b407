"""Which kind of hosts works on this machine, found out by trying."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from cluster.hosts.examine import namespace_trials
from cluster.hosts.namespace import NamespaceHosts
from cluster.hosts.process import ProcessHosts
from cluster.protocol import Hosts, UserError


class HostKind(StrEnum):
    """The kinds of hosts there are, from the best to the least."""

    NAMESPACE = "namespace"
    PROCESS = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which kind a run uses.

    Attributes:
        kind: The kind.
        why: A sentence for people.
    """

    kind: HostKind
    why: str


def choose_hosts(kind: str) -> Choice:
    """Return the kind of hosts to use.

    Args:
        kind: `auto` for the best that works here, or a kind by name.

    Raises:
        UserError: There is no such kind, or it was asked for by name and does not work here.
    """
    if kind not in {"auto", *HostKind}:
        raise UserError(f"--hosts {kind} is not one of auto, {', '.join(HostKind)}")
    if kind == HostKind.PROCESS:
        return Choice(kind=HostKind.PROCESS, why="it was asked for")
    failed = next((finding for finding in namespace_trials() if not finding.works), None)
    if failed is None:
        return Choice(kind=HostKind.NAMESPACE, why="network namespaces work here")
    why = f"{failed.what} does not work here ({failed.detail}); {failed.remedy}"
    if kind == HostKind.NAMESPACE:
        raise UserError(f"{why}; or use --hosts process, without partitions")
    return Choice(kind=HostKind.PROCESS, why=f"{why}. Without it the network cannot be cut")


def make_hosts(kind: str, nodes: Sequence[str], processes_file: Path) -> Hosts:
    """Return hosts of a kind that was chosen before; `up` makes them.

    Args:
        kind: A `HostKind`; namespace hosts also need the harness to be in a hub (`enter_prefix`).
        nodes: The names of the nodes.
        processes_file: `RunPaths.processes`.
    """
    match HostKind(kind):
        case HostKind.NAMESPACE:
            return NamespaceHosts(nodes, processes_file)
        case HostKind.PROCESS:
            return ProcessHosts(nodes, processes_file)
        case never:
            assert_never(never)
