"""The fault `link-stall`: links between the targets and other brokers hold all packets for seconds.

The fault stalls one direction or both, at random. For example, a leader gets fetch requests late,
or its responses arrive late. If brokers are also the controllers, a controller gets heartbeats that
are up to 8 s old. `nemesis.stalls` describes a stall.

Unlike after a cut, all packets arrive when the stall ends, even very old packets.
"""

from nemesis.grudges import deafness, isolation, links_of, muteness
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import PROVEN, UNDONE, StalledLinks, stalling


def link_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault. The direction and the length of each stall are random."""
    ways = aim.rng.choice((isolation, deafness, muteness))
    return stalling(aim, site, links_of(ways(site.cluster.nodes, aim.targets)))


SAYS = {
    "link-stall": InWords(
        does=(
            "packets between the targets and all other brokers, in one direction or both, are"
            " repeatedly held back for 2 to 8 s; then they arrive in order"
        ),
        injected="like `delay`",
        proven=PROVEN,
        undone=UNDONE,
    ),
}
