"""The fault `answers-cut`: requests of clients reach the targets, but no response comes back.

A broker that receives a produce request appends the records, but the client never gets the
response. The client sends the records again, to this broker or to another leader. Idempotence and
transactions exist for this case. With `client-cut`, in contrast, no record is written. The brokers
can reach each other all the time.

TCP needs both directions. Soon the client's window is full, and no new connection can be opened.
The targets still receive the data that is in flight and the data that fits into the window. So the
fault has its main effect in the first moments. The harness and the observers are on the clients'
machine, so they get no responses either.
"""

from cluster.protocol import CLIENTS
from nemesis.cut import Cut
from nemesis.grudges import grudge_of
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def answers_cut(aim: Aim, site: Site) -> Cut:
    """Make the fault: cut links from targets to clients, but not the opposite direction."""
    return Cut(aim, site, grudge_of([(node, CLIENTS) for node in aim.targets]))


SAYS = {
    "answers-cut": InWords(
        does="requests of clients reach the targets, but no answer returns",
        injected="like `isolate`, on the clients' machine",
        proven="like `isolate`; the other direction still works",
        undone="like `isolate`",
    ),
}
