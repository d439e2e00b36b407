"""The faults `one-way-in` and `one-way-out`: packets between nodes travel in one direction only.

TCP needs both directions, so no connection lasts under either; but who notices, and when, differs,
and that asymmetry is what breaks elections: who hears nobody still has its requests delivered.
"""

from nemesis.cut import Cut
from nemesis.grudges import deafness, muteness
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def one_way_in(aim: Aim, site: Site) -> Cut:
    """Make the fault by which the targets hear none of the other nodes."""
    return Cut(aim, site, deafness(site.cluster.nodes, aim.targets))


def one_way_out(aim: Aim, site: Site) -> Cut:
    """Make the fault by which none of the other nodes hears the targets."""
    return Cut(aim, site, muteness(site.cluster.nodes, aim.targets))


SAYS = {
    "one-way-in": InWords(
        does="nothing reaches the targets; what they send arrives",
        injected="as `isolate`",
        proven="as `isolate`, and the other way still works",
        undone="as `isolate`",
    ),
    "one-way-out": InWords(
        does="nothing that the targets send arrives",
        injected="as `isolate`",
        proven="as `one-way-in`",
        undone="as `isolate`",
    ),
}
