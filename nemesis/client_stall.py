"""The fault `client-stall`: packets between clients and the targets wait for seconds; then they go.

Both ways, or one of them, as is drawn. Requests that wait are given up by their clients, which ask
again, here or elsewhere; the first one arrives after that (KAFKA-14402 takes no more than this).
Answers that wait are of requests that were done long ago. See `stalls` for what a stall is. The
brokers see each other all along; harness and observer live where clients do, and wait like them.
"""

from cluster.protocol import CLIENTS
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site
from nemesis.stalls import PROVEN, UNDONE, StalledLinks, stalling


def client_stall(aim: Aim, site: Site) -> StalledLinks:
    """Make the fault; the direction is drawn, and how long links stall."""
    requests = [(CLIENTS, node) for node in aim.targets]
    answers = [(node, CLIENTS) for node in aim.targets]
    links = aim.rng.choice((requests, answers, [*requests, *answers]))
    return stalling(aim, site, tuple(links))


SAYS = {
    "client-stall": InWords(
        does="what clients send to the targets, or the answers, or both, waits for 2 to 8 s and"
        " then goes on in order, again and again",
        injected="as `delay`, on the clients' machine too",
        proven=PROVEN,
        undone=UNDONE,
    ),
}
