"""The fault `ring`: each node sees a majority, and no two nodes see the same one.

Jepsen's majorities ring: nobody has reason to give up, and no two agree on who is there. The order
around the ring is drawn. Three nodes are too few for it: the target and one other node do not see
each other, and both see the third, which is the smallest case in which majorities differ.
"""

from cluster.protocol import ClusterError
from nemesis.cut import Cut
from nemesis.grudges import LEAST_RING, majorities_ring
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def ring(aim: Aim, site: Site) -> Cut:
    """Make the fault, which begins its ring with the target."""
    nodes = sorted(site.cluster.nodes)
    if len(nodes) < LEAST_RING:
        raise ClusterError(f"a ring takes {LEAST_RING} nodes, and there are {len(nodes)}")
    first = [node for node in nodes if node in aim.targets][:1]
    others = [node for node in nodes if node not in first]
    return Cut(aim, site, majorities_ring([*first, *aim.rng.sample(others, len(others))]))


SAYS = {
    "ring": InWords(
        does="each node sees a majority, and no two the same one",
        injected="as `isolate`",
        proven="as `isolate`",
        undone="as `isolate`",
    ),
}
