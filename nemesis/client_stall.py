"""The fault `client-stall`: packets between clients and the targets wait for seconds, then arrive.

The fault stalls one direction or both, at random. If the requests wait for too long, clients give
up and retry on the same broker or on another one. The first request arrives after a retry on
another broker. Such a request is enough to cause KAFKA-14402. If the responses wait, the broker has
already executed the requests. `nemesis.stalls` describes a stall. The brokers can reach each other
all the time. The harness and the observers are on the clients' machine, so their packets wait, too.
"""

from cluster.protocol import CLIENTS
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import PROVEN, UNDONE, StalledLinks, stalling


def client_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault. The direction and the length of its stalls are random."""
    requests = [(CLIENTS, node) for node in aim.targets]
    answers = [(node, CLIENTS) for node in aim.targets]
    links = aim.rng.choice((requests, answers, [*requests, *answers]))
    return stalling(aim, site, tuple(links))


SAYS = {
    "client-stall": InWords(
        does=(
            "requests of clients to the targets, or the answers, or both, are repeatedly held"
            " back for 2 to 8 s; then they arrive in order"
        ),
        injected="like `delay`, and in addition on the clients' machine",
        proven=PROVEN,
        undone=UNDONE,
    ),
}
