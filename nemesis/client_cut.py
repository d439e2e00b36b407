"""The fault `client-cut`: clients and the targets do not reach each other; brokers are whole.

The leader goes on leading, and its followers follow it, while no client gets through: nothing moves
that could help. Harness and observer live where the clients do, and lose sight of the targets, too:
what is known of them meanwhile is what other brokers say.
"""

from cluster.protocol import CLIENTS
from nemesis.cut import Cut
from nemesis.grudges import grudge_of
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def client_cut(aim: Aim, site: Site) -> Cut:
    """Make the fault: links between clients and each target are cut, both ways."""
    inward = [(CLIENTS, node) for node in aim.targets]
    return Cut(aim, site, grudge_of([*inward, *((node, CLIENTS) for node in aim.targets)]))


SAYS = {
    "client-cut": InWords(
        does="clients and the targets do not reach each other; brokers are whole",
        injected="as `isolate`, on the clients' machine too",
        proven="as `isolate`",
        undone="as `isolate`",
    ),
}
