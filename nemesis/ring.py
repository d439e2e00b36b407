"""The fault `ring`: each node reaches a majority, and no two nodes reach the same majority.

Jepsen calls this a majorities ring. Each node reaches a majority, so it continues to work. But any
two nodes reach different majorities. The order around the ring is random. A real ring needs more
than three nodes. With three nodes, the target and one other node cannot reach each other, but both
reach the third node. Three nodes are the fewest with which majorities can differ.
"""

from cluster.protocol import ClusterError
from nemesis.cut import Cut
from nemesis.grudges import LEAST_RING, majorities_ring
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def ring(aim: Aim, site: Site) -> Cut:
    """Make the fault, with the target as the first node of the ring."""
    nodes = sorted(site.cluster.nodes)
    if len(nodes) < LEAST_RING:
        raise ClusterError(f"a ring needs {LEAST_RING} nodes or more, but there are {len(nodes)}")
    first = [node for node in nodes if node in aim.targets][:1]
    others = [node for node in nodes if node not in first]
    return Cut(aim, site, majorities_ring([*first, *aim.rng.sample(others, len(others))]))


SAYS = {
    "ring": InWords(
        does="each node reaches a majority, and no two nodes reach the same one",
        injected="like `isolate`",
        proven="like `isolate`",
        undone="like `isolate`",
    ),
}
