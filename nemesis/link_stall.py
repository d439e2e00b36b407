"""The fault `link-stall`: links between the targets and other brokers hold all packets for seconds.

Both ways, or one of them, as is drawn: a leader whose followers' fetches arrive late, one whose
answers do, a controller that hears heartbeats of 8 s ago. See `stalls` for what a stall is.

It differs from a cut in what comes afterwards: all that was sent arrives, old as it is.
"""

from nemesis.grudges import deafness, isolation, links_of, muteness
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import PROVEN, UNDONE, StalledLinks, stalling


def link_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault; the direction is drawn, and how long links stall."""
    ways = aim.rng.choice((isolation, deafness, muteness))
    return stalling(aim, site, links_of(ways(site.cluster.nodes, aim.targets)))


SAYS = {
    "link-stall": InWords(
        does="packets between the targets and all others, one way or both, wait for 2 to 8 s and"
        " then go on in order, again and again",
        injected="as `delay`",
        proven=PROVEN,
        undone=UNDONE,
    ),
}
