"""The fault `client-connection-stall`: of connections of clients to the targets, half stall.

A client that gives a request up closes its connection and opens another: on that its next try is
heard, and answered, and after that the first one arrives. See `stalls` for what a stall is.
"""

from cluster.protocol import CLIENTS
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import HALF, HALF_PROVEN, UNDONE, StalledLinks, stalling


def client_connection_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault; how long connections stall, and which, is drawn."""
    links = [link for node in aim.targets for link in ((CLIENTS, node), (node, CLIENTS))]
    return stalling(aim, site, tuple(links), share=HALF)


SAYS = {
    "client-connection-stall": InWords(
        does="half of the connections between clients and the targets stall as with a whole link;"
        " the other half passes",
        injected="as `delay`, on the clients' machine too",
        proven=HALF_PROVEN,
        undone=UNDONE,
    ),
}
