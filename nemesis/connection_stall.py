"""The fault `connection-stall`: of connections between the targets and other brokers, half stall.

Both directions of each, as a flow that one of several paths or one queue of a network card holds
up. A broker that loses patience and connects again may be heard at once, and then again by what it
sent before: requests of one sender arrive out of order. See `stalls` for what a stall is.

Which connections there are at the time decides what it meets: followers have one to each leader.
"""

from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import HALF, HALF_PROVEN, UNDONE, StalledLinks, stalling


def connection_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault; how long connections stall, and which, is drawn."""
    return stalling(aim, site, (), share=HALF)


SAYS = {
    "connection-stall": InWords(
        does="half of the connections between the targets and all others stall as with a whole"
        " link; the other half passes",
        injected="as `delay`",
        proven=HALF_PROVEN,
        undone=UNDONE,
    ),
}
