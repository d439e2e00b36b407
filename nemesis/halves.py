"""The fault `halves`: the nodes are split into two halves that cannot reach each other.

Links inside a half work. As many targets as possible are in the smaller half. The rest of the
smaller half is chosen at random. If the number of nodes is even, the halves have the same size, and
neither is a majority.
"""

from dataclasses import replace

from nemesis.cut import Cut
from nemesis.grudges import smaller_half, split
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def halves(aim: Aim, site: Site) -> Cut:
    """Make the fault. The nodes of the smaller half become the fault's targets."""
    nodes = site.cluster.nodes
    half = smaller_half(nodes, aim.targets, aim.rng)
    return Cut(replace(aim, targets=half), site, split(nodes, half))


SAYS = {
    "halves": InWords(
        does="the smaller half with the target, and the other nodes, cannot reach each other",
        injected="like `isolate`",
        proven="like `isolate`",
        undone="like `isolate`",
    ),
}
