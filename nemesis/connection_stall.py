"""The fault `connection-stall`: half of the connections between targets and other brokers stall.

Both directions of a connection stall. In practice, one of several network paths, or one queue of a
network card, can delay a flow like this. If a broker gives up and connects again, its new
connection may work at once. Later the requests on the old connection arrive, too. So the requests
of one sender arrive out of order. `nemesis.stalls` describes a stall.

The effect depends on the connections that exist at that time. A follower has one connection to each
leader.
"""

from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import HALF, HALF_PROVEN, UNDONE, StalledLinks, stalling


def connection_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault. The connections, and the length of all stalls, are random."""
    return stalling(aim, site, (), share=HALF)


SAYS = {
    "connection-stall": InWords(
        does=(
            "half of the connections between the targets and all others stall for 2 to 8 s at a"
            " time; the other half works"
        ),
        injected="like `delay`",
        proven=HALF_PROVEN,
        undone=UNDONE,
    ),
}
