"""The faults `one-way-in` and `one-way-out`: packets between nodes pass in one direction only.

TCP needs both directions, so no connection survives a long fault. But the direction decides which
nodes notice the loss, and when. This asymmetry can disturb elections, because a node that receives
nothing from other nodes can still send requests that arrive.
"""

from nemesis.cut import Cut
from nemesis.grudges import deafness, muteness
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def one_way_in(aim: Aim, site: Site) -> Cut:
    """Make the fault: the targets receive nothing from the other nodes."""
    return Cut(aim, site, deafness(site.cluster.nodes, aim.targets))


def one_way_out(aim: Aim, site: Site) -> Cut:
    """Make the fault: the other nodes receive nothing from the targets."""
    return Cut(aim, site, muteness(site.cluster.nodes, aim.targets))


SAYS = {
    "one-way-in": InWords(
        does="the targets receive nothing from the other nodes; packets that they send arrive",
        injected="like `isolate`",
        proven="like `isolate`; the other direction still works",
        undone="like `isolate`",
    ),
    "one-way-out": InWords(
        does="packets that the targets send to the other nodes do not arrive",
        injected="like `isolate`",
        proven="like `one-way-in`",
        undone="like `isolate`",
    ),
}
