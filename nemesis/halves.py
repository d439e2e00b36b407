"""The fault `halves`: the nodes are split in two; each half is whole, neither reaches the other.

The targets are in the smaller half, as far as they fit; the others of it are drawn.
"""

from dataclasses import replace

from nemesis.cut import Cut
from nemesis.grudges import smaller_half, split
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def halves(aim: Aim, site: Site) -> Cut:
    """Make the fault; its targets are the nodes of the smaller half."""
    nodes = site.cluster.nodes
    half = smaller_half(nodes, aim.targets, aim.rng)
    return Cut(replace(aim, targets=half), site, split(nodes, half))


SAYS = {
    "halves": InWords(
        does="a minority with the target, and the rest, do not see each other",
        injected="as `isolate`",
        proven="as `isolate`",
        undone="as `isolate`",
    ),
}
