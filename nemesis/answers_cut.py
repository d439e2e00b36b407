"""The fault `answers-cut`: what clients send reaches the targets, and no answer comes back.

A broker that gets requests writes what they hold, and its client never knows: it sends again, here
or to another leader. So this is what idempotence and transactions are for, while `client-cut` lets
nothing be written at all. The brokers see each other all along.

TCP needs both directions: a client's window is full before long, and no new connection comes up.
What was on its way, and what fits into the window, is delivered; so the first moments of this fault
tell most. Harness and observer live where the clients do, and get no answer either.
"""

from cluster.protocol import CLIENTS
from nemesis.cut import Cut
from nemesis.grudges import grudge_of
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def answers_cut(aim: Aim, site: Site) -> Cut:
    """Make the fault: links from each target to the clients are cut, and none back."""
    return Cut(aim, site, grudge_of([(node, CLIENTS) for node in aim.targets]))


SAYS = {
    "answers-cut": InWords(
        does="what clients send reaches the targets, and no answer comes back",
        injected="as `isolate`, on the clients' machine",
        proven="as `isolate`, and the other way still works",
        undone="as `isolate`",
    ),
}
