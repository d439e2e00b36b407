"""The fault `isolate`: the targets and the other nodes cannot reach each other, in both directions.

If there are several targets, they cannot reach each other either. The fault cuts only links between
brokers. So the targets still reach ZooKeeper or separate controllers, if there are any.

Clients run on the control machine and still reach all nodes. So a leader that is cut off from its
followers continues to answer clients. This shows whether a broker acknowledges too early.
"""

from nemesis.cut import Cut
from nemesis.grudges import isolation
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def isolate(aim: Aim, site: Site) -> Cut:
    """Make the fault: cut every link from and to each target."""
    return Cut(aim, site, isolation(site.cluster.nodes, aim.targets))


SAYS = {
    "isolate": InWords(
        does="the targets and the other nodes cannot reach each other",
        injected="a separate nft chain on each receiver",
        proven="datagrams over each link arrived before and do not arrive now; nft counters",
        undone="removal of the chain; datagrams arrive",
    ),
}
