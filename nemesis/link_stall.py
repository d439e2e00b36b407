"""The fault `link-stall`: links between the targets and other brokers hold all packets for seconds.

Both ways, or one of them, as is drawn: a leader whose followers' fetches arrive late, one whose
answers do, a controller that hears heartbeats of 8 s ago. See `stalls` for what a stall is.

It differs from a cut in what comes afterwards: all that was sent arrives, old as it is.
"""

from nemesis.grudges import deafness, isolation, links_of, muteness
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import StalledLinks, stalling


def link_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault; the direction is drawn, and how long links stall."""
    ways = aim.rng.choice((isolation, deafness, muteness))
    return stalling(aim, site, links_of(ways(site.cluster.nodes, aim.targets)))


SAYS = {
    "link-stall": InWords(
        does="packets between the targets and all others, one way or both, wait for 2 to 8 s and"
        " then go on in order, again and again",
        injected="as `delay`",
        proven="of numbered datagrams, sent at once, none has arrived after a third of a stall; in"
        " the end all have, in order, hardly any lost; over the other way, if it does not stall,"
        " all arrive soon and no answer does",
        undone="removal of its shape, which lets all go; for longer than links are open between two"
        " stalls all datagrams come back soon",
    ),
}
