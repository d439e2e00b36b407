"""The fault `bridge`: two halves that do not see each other, and one node that sees both.

The target is the bridge; who is on which side of it is drawn. Of three nodes the two others do not
see each other. Each side takes the bridge for alive, and the other side for dead.
"""

from cluster.protocol import ClusterError
from nemesis.cut import Cut
from nemesis.grudges import split_around
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site

LEAST_NODES = 3


def bridge(aim: Aim, site: Site) -> Cut:
    """Make the fault around one of the targets."""
    nodes = sorted(site.cluster.nodes)
    if len(nodes) < LEAST_NODES:
        raise ClusterError(f"a bridge takes {LEAST_NODES} nodes, and there are {len(nodes)}")
    middle = sorted(aim.targets)[0]
    others = aim.rng.sample([node for node in nodes if node != middle], len(nodes) - 1)
    half = len(others) // 2
    return Cut(aim, site, split_around([middle], others[:half], others[half:]))


SAYS = {
    "bridge": InWords(
        does="two halves that do not see each other, and the target, which sees both",
        injected="as `isolate`",
        proven="as `isolate`",
        undone="as `isolate`",
    ),
}
