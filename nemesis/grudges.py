"""Shapes of network partitions, as graphs: an edge a -> b drops the packets from a to b.

The functions are pure. Jepsen calls such a shape a grudge: each node refuses to hear certain other
nodes. Here the edges have the direction of the packets, as in `cluster.protocol.Link`.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

from cluster.protocol import Link

if TYPE_CHECKING:
    import networkx as nx

T = TypeVar("T")
LEAST_RING = 3


def isolation(nodes: Collection[str], targets: Collection[str]) -> "nx.DiGraph[str]":
    """Cut all links of each target in both directions, including links to other targets."""
    return _cut(
        nodes,
        ((a, b) for a, b in itertools.permutations(nodes, 2) if a in targets or b in targets),
    )


def split(nodes: Collection[str], half: Collection[str]) -> "nx.DiGraph[str]":
    """Cut the nodes of one half from all others, in both directions. Links inside a half stay."""
    return _cut(
        nodes,
        ((a, b) for a, b in itertools.permutations(nodes, 2) if (a in half) != (b in half)),
    )


def deafness(nodes: Collection[str], targets: Collection[str]) -> "nx.DiGraph[str]":
    """Cut packets from the other nodes to the targets. Packets from the targets still arrive."""
    return _cut(
        nodes,
        ((a, b) for a, b in itertools.permutations(nodes, 2) if b in targets and a not in targets),
    )


def muteness(nodes: Collection[str], targets: Collection[str]) -> "nx.DiGraph[str]":
    """Cut the packets from the targets to the other nodes. Packets to the targets still arrive."""
    return deafness(nodes, targets).reverse()


def majorities_ring(order: Sequence[str]) -> "nx.DiGraph[str]":
    """Cut links so that each node reaches a majority, and no two nodes reach the same majority.

    The nodes form a ring. Each node reaches the same number of neighbours on both sides. The node
    and these neighbours are a majority. If the number of nodes is even, these nodes may be one too
    few for a majority. Then each node also reaches the opposite node. With three nodes, only the
    link between the first and the last node is cut.

    Args:
        order: The nodes around the ring.
    """
    import networkx as nx  # noqa: PLC0415 - most runs cut no ring

    size = len(order)
    if size <= LEAST_RING:
        return split_around(order[1:-1], order[:1], order[-1:])
    others = size // 2
    steps = set(range(1, (others + 1) // 2 + 1)) if size % 2 else set(range(1, others // 2 + 1))
    if size % 2 == 0 and others % 2:
        steps.add(size // 2)
    ring = nx.circulant_graph(size, sorted(steps))
    return _cut(order, ((order[a], order[b]) for a, b in _both(nx.complement(ring).edges)))


def split_around(
    bridge: Collection[str], left: Collection[str], right: Collection[str]
) -> "nx.DiGraph[str]":
    """Cut all links between two sides, in both directions. The bridge reaches all nodes."""
    return _cut([*left, *bridge, *right], _both(itertools.product(left, right)))


def grudge_of(links: Collection[Link]) -> "nx.DiGraph[str]":
    """Cut exactly these links."""
    return _cut({node for link in links for node in link}, links)


def smaller_half(nodes: Collection[str], within: Collection[str], rng: Random) -> tuple[str, ...]:
    """Return half of the nodes, rounded down, at random. Nodes of `within` are chosen first.

    Args:
        nodes: All nodes. The result has two of five nodes, two of four, or one of three.
        within: The nodes that the fault aims at.
        rng: The source of random choices.
    """
    size = len(nodes) // 2
    first = rng.sample(sorted(within), len(within))
    others = [node for node in sorted(nodes) if node not in within]
    return tuple(sorted([*first, *rng.sample(others, len(others))][:size]))


def links_of(grudge: "nx.DiGraph[str]") -> tuple[Link, ...]:
    """Return the cut links, sorted."""
    return tuple(sorted(grudge.edges))


def kept_reverses(grudge: "nx.DiGraph[str]") -> tuple[Link, ...]:
    """Return the open links whose opposite direction is cut, sorted. These must keep working."""
    return tuple(sorted((b, a) for a, b in grudge.edges if not grudge.has_edge(b, a)))


def _both(pairs: Iterable[tuple[T, T]]) -> Iterator[tuple[T, T]]:
    for a, b in pairs:
        yield a, b
        yield b, a


def _cut(nodes: Collection[str], links: Iterable[Link]) -> "nx.DiGraph[str]":
    import networkx as nx  # noqa: PLC0415 - as above

    grudge: nx.DiGraph[str] = nx.DiGraph()
    grudge.add_nodes_from(nodes)
    grudge.add_edges_from(links)
    return grudge
