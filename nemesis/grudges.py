"""The shapes of partitions, as graphs of what is cut: an edge a -> b drops what a sends to b.

Pure. A grudge, in Jepsen's word, says who refuses to hear whom; here the edges point the way that
packets travel, as `cluster.protocol.Link` does.
"""

import itertools
from collections.abc import Collection, Iterable
from random import Random

import networkx as nx

from cluster.protocol import Link


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


def _cut(nodes: Collection[str], links: Iterable[Link]) -> "nx.DiGraph[str]":
    grudge: nx.DiGraph[str] = nx.DiGraph()
    grudge.add_nodes_from(nodes)
    grudge.add_edges_from(links)
    return grudge
