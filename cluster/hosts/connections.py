"""List, reset and open TCP connections between machines, through each machine's kernel.

On each machine, the program `sockets.py` lists and resets the kernel's connections.
"""

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from cluster.hosts.agent import Message
from cluster.hosts.machine import Machine
from cluster.protocol import CLIENTS, ClusterError, Connection, Ends, Link, Opening, Socket


def connections(
    links: Iterable[Link],
    *,
    machine: Callable[[str], Machine],
    address: Callable[[str], str],
) -> Mapping[Connection, Ends]:
    """Return the TCP connections over links, including those established at only one end.

    Args:
        links: The links; both directions count.
        machine: A function that returns a node's machine.
        address: A function that returns a node's address.
    """
    pairs = {frozenset(link) for link in links}
    nodes = sorted(frozenset().union(*pairs))
    tables = {node: machine(node).sockets({"do": "list"}) for node in nodes}
    return paired(tables, {node: address(node) for node in nodes}, pairs)


def paired(
    tables: Mapping[str, Message], addresses: Mapping[str, str], pairs: Collection[frozenset[str]]
) -> Mapping[Connection, Ends]:
    """Return the connections between pairs of nodes, as the nodes' socket tables show them.

    The tables come from `sockets.listed`. The server is the end with a listening port. Clients are
    never servers.
    """
    names = {address: node for node, address in addresses.items()}
    listening = {
        node: frozenset() if node == CLIENTS else frozenset(table["listening"])
        for node, table in tables.items()
    }
    found: dict[Connection, dict[str, Socket]] = defaultdict(dict)
    for node, table in tables.items():
        for own, port, other, at, inode, waits, again in table["established"]:
            peer = names.get(other)
            if own != addresses[node] or peer is None or frozenset({node, peer}) not in pairs:
                continue
            socket = Socket(inode=inode, unacknowledged=waits, again=again)
            if port in listening[node]:
                each = Connection(client=peer, client_port=at, server=node, server_port=port)
                found[each]["server"] = socket
            elif at in listening[peer]:
                each = Connection(client=node, client_port=port, server=peer, server_port=at)
                found[each]["client"] = socket
    return {
        each: Ends(client=ends.get("client"), server=ends.get("server"))
        for each, ends in sorted(found.items())
    }


def reset(
    wanted: Collection[Connection],
    *,
    machine: Callable[[str], Machine],
    address: Callable[[str], str],
) -> frozenset[Connection]:
    """Reset connections through each server's kernel. Return the connections that still existed.

    Args:
        wanted: The connections to reset.
        machine: A function that returns a node's machine.
        address: A function that returns a node's address.

    Raises:
        ClusterError: A kernel refuses to reset a connection.
    """
    ended = set[Connection]()
    for server, those in by_server(wanted).items():
        ends = [
            [address(server), each.server_port, address(each.client), each.client_port]
            for each in those
        ]
        order = {"do": "reset", "sockets": ends}
        errors = machine(server).sockets(order)["errors"]
        for each, error in zip(those, errors, strict=True):
            if error not in {0, errno.ENOENT}:
                raise ClusterError(
                    f"the kernel of {server} cannot reset a connection: {os.strerror(error)}"
                )
            if not error:
                ended.add(each)
    return frozenset(ended)


def connects(
    openings: Collection[Opening],
    *,
    machine: Callable[[str], Machine],
    address: Callable[[str], str],
) -> Mapping[Opening, bool]:
    """Open new connections, and close them at once. Return whether each connection was opened."""
    by_client: dict[str, list[Opening]] = defaultdict(list)
    for opening in openings:
        by_client[opening[0]].append(opening)
    opened: dict[Opening, bool] = {}
    for client, those in by_client.items():
        to = [[address(server), port] for _, server, port in those]
        worked = machine(client).sockets({"do": "connect", "to": to})["opened"]
        opened |= dict(zip(those, worked, strict=True))
    return opened


def by_server(wanted: Iterable[Connection]) -> Mapping[str, list[Connection]]:
    """Return connections grouped by their server node, in sorted order."""
    servers: dict[str, list[Connection]] = defaultdict(list)
    for each in sorted(wanted):
        servers[each.server].append(each)
    return servers
