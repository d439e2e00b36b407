"""The fault `client-cut`: clients cannot reach the targets, and the targets cannot reach clients.

The other brokers can still reach the targets. So a leader stays the leader and its followers
continue to fetch, but no client can reach this leader. The cluster has no reason to change
anything. The harness and the observers are on the clients' machine, and cannot reach the targets
either. Meanwhile only other nodes can report the state of the targets.
"""

from cluster.protocol import CLIENTS
from nemesis.cut import Cut
from nemesis.grudges import grudge_of
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def client_cut(aim: Aim, site: Site) -> Cut:
    """Make the fault: cut the links between the clients and each target, in both directions."""
    inward = [(CLIENTS, node) for node in aim.targets]
    return Cut(aim, site, grudge_of([*inward, *((node, CLIENTS) for node in aim.targets)]))


SAYS = {
    "client-cut": InWords(
        does="clients and the targets cannot reach each other; brokers can reach the targets",
        injected=(
            "like `isolate`, and in addition on the clients' machine; with containers, chains on"
            " the target drop both directions"
        ),
        proven="like `isolate`",
        undone="like `isolate`",
    ),
}
