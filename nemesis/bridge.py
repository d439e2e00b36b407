"""The fault `bridge`: two halves cannot reach each other, and one node can reach both.

The target is the bridge. If there are several targets, the bridge is the first of them by name. The
other nodes are assigned to a side at random. In a cluster of three nodes, the two other nodes
cannot reach each other. Each side can reach the bridge, but not the other side.
"""

from cluster.protocol import ClusterError
from nemesis.cut import Cut
from nemesis.grudges import split_around
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site

LEAST_NODES = 3


def bridge(aim: Aim, site: Site) -> Cut:
    """Make the fault with the first target as the bridge."""
    nodes = sorted(site.cluster.nodes)
    if len(nodes) < LEAST_NODES:
        raise ClusterError(
            f"a bridge needs {LEAST_NODES} nodes or more, but there are {len(nodes)}"
        )
    middle = sorted(aim.targets)[0]
    others = aim.rng.sample([node for node in nodes if node != middle], len(nodes) - 1)
    half = len(others) // 2
    return Cut(aim, site, split_around([middle], others[:half], others[half:]))


SAYS = {
    "bridge": InWords(
        does="two halves cannot reach each other; the target can reach both",
        injected="like `isolate`",
        proven="like `isolate`",
        undone="like `isolate`",
    ),
}
