"""The fault `keeper-cut`: brokers and ZooKeeper cannot reach each other, in both directions.

The fault cuts off either all brokers or only the controller. If no controller is known, it cuts off
one broker instead. If the fault lasts long enough, the sessions of these brokers at ZooKeeper end.
ZooKeeper can report this only to the other brokers. So a leader that is cut off continues to serve
its clients until it learns of a later epoch (KIP-101). The harness can still reach ZooKeeper.
"""

from nemesis.cut import Cut
from nemesis.grudges import split
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def keeper_cut(aim: Aim, site: Site) -> Cut:
    """Make the fault. Its target is ZooKeeper."""
    brokers = tuple(site.cluster.nodes)
    if aim.rng.random() < 0.5:  # noqa: PLR2004 - one half of them
        view = site.cluster.view()
        controller = view.controller if view else None
        brokers = (controller or aim.rng.choice(brokers),)
    return Cut(aim, site, split((*aim.targets, *brokers), aim.targets))


SAYS = {
    "keeper-cut": InWords(
        does="the links between ZooKeeper and all brokers, or only the controller, are cut",
        injected="like `isolate`",
        proven="like `isolate`",
        undone="like `isolate`",
    ),
}
