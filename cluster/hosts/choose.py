"""Which kind of hosts works on this machine, found out by trying."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import assert_never

from cluster.hosts.namespace import NamespaceHosts
from cluster.hosts.process import ProcessHosts
from cluster.protocol import Hosts


class HostKind(StrEnum):
    """The kinds of hosts there are, from the best to the least."""

    NAMESPACE = "namespace"
    PROCESS = "process"


def make_hosts(kind: str, nodes: Sequence[str], processes_file: Path) -> Hosts:
    """Return hosts of a kind that was chosen before; `up` makes them."""
    match HostKind(kind):
        case HostKind.NAMESPACE:
            return NamespaceHosts(nodes, processes_file)
        case HostKind.PROCESS:
            return ProcessHosts(nodes, processes_file)
        case never:
            assert_never(never)
