"""The shapes of partitions, as graphs of what is cut: an edge a -> b drops what a sends to b.

Pure. A grudge, in Jepsen's word, says who refuses to hear whom; here the edges point the way that
packets travel, as `cluster.protocol.Link` does.
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
    """Cut each target from every other node, both ways; targets do not see each other either."""
    return _cut(
        nodes,
        ((a, b) for a, b in itertools.permutations(nodes, 2) if a in targets or b in targets),
    )


def split(nodes: Collection[str], half: Collection[str]) -> "nx.DiGraph[str]":
    """Cut the nodes of a half from all others, both ways; inside, each side is whole."""
    return _cut(
        nodes,
        ((a, b) for a, b in itertools.permutations(nodes, 2) if (a in half) != (b in half)),
    )


def deafness(nodes: Collection[str], targets: Collection[str]) -> "nx.DiGraph[str]":
    """Let the targets hear none of the other nodes; what they send still arrives."""
    return _cut(
        nodes,
        ((a, b) for a, b in itertools.permutations(nodes, 2) if b in targets and a not in targets),
    )


def muteness(nodes: Collection[str], targets: Collection[str]) -> "nx.DiGraph[str]":
    """Let none of the other nodes hear the targets; what is sent to them still arrives."""
    return deafness(nodes, targets).reverse()


def majorities_ring(order: Sequence[str]) -> "nx.DiGraph[str]":
    """Let each node see a majority, itself included, and no two nodes the same one.

    Each sees as many neighbours on a ring as a majority takes, on both sides alike, and of an even
    number of nodes the one opposite as well, where that is what is missing. Of three nodes, whose
    ring is whole, the first and the last do not see each other.

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
    """Cut two sides from each other, both ways; all see the bridge, and it sees all."""
    return _cut([*left, *bridge, *right], _both(itertools.product(left, right)))


def grudge_of(links: Collection[Link]) -> "nx.DiGraph[str]":
    """Cut exactly these links."""
    return _cut({node for link in links for node in link}, links)


def smaller_half(nodes: Collection[str], within: Collection[str], rng: Random) -> tuple[str, ...]:
    """Draw the smaller half of a split: as many of `within` as fit, filled up with others.

    Args:
        nodes: All of them; of five nodes two are drawn, of three one.
        within: The nodes that the fault aims at.
        rng: Draws who else belongs to the half.
    """
    size = len(nodes) // 2
    first = rng.sample(sorted(within), len(within))
    others = [node for node in sorted(nodes) if node not in within]
    return tuple(sorted([*first, *rng.sample(others, len(others))][:size]))


def links_of(grudge: "nx.DiGraph[str]") -> tuple[Link, ...]:
    """Return the cut links, in order."""
    return tuple(sorted(grudge.edges))


def kept_reverses(grudge: "nx.DiGraph[str]") -> tuple[Link, ...]:
    """Return the links that must go on working though their opposite direction is cut, in order."""
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
