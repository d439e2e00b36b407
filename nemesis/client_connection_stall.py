"""The fault `client-connection-stall`: half of the clients' connections to the targets stall.

A client that gives up a request closes its connection and opens a new one. With a probability of
one half, the new connection does not stall. Then the broker receives and answers the client's next
attempt on the new connection. After that, the first request arrives on the old connection.
`nemesis.stalls` describes a stall.
"""

from cluster.protocol import CLIENTS
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import HALF, HALF_PROVEN, UNDONE, StalledLinks, stalling


def client_connection_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault. The connections, and the length of all stalls, are random."""
    links = [link for node in aim.targets for link in ((CLIENTS, node), (node, CLIENTS))]
    return stalling(aim, site, tuple(links), share=HALF)


SAYS = {
    "client-connection-stall": InWords(
        does=(
            "half of the connections between clients and the targets stall for 2 to 8 s at a"
            " time; the other half works"
        ),
        injected="like `delay`, and in addition on the clients' machine",
        proven=HALF_PROVEN,
        undone=UNDONE,
    ),
}
