"""The fault `isolate`: the targets and the other nodes do not reach each other, either way.

Clients live on the controlling side and still reach everybody: a leader that is cut from its
followers goes on answering them, which is where a broker that acknowledges too early is found out.
"""

from nemesis.cut import Cut
from nemesis.grudges import isolation
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def isolate(aim: Aim, site: Site) -> Cut:
    """Make the fault: every link from and to each target is cut."""
    return Cut(aim, site, isolation(site.cluster.nodes, aim.targets))


SAYS = {
    "isolate": InWords(
        does="the targets see no other node, and none sees them",
        injected="an nft chain of its own on each receiver",
        proven="datagrams over each link arrived before, do not now; nft counters",
        undone="removal of its chain; datagrams arrive",
    ),
}
