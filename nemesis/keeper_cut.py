"""The fault `keeper-cut`: brokers and ZooKeeper cannot reach each other, in both directions.

The fault cuts off all brokers, the controller, or any one broker. If no controller is known, it
cuts off any one broker instead. If the fault lasts long enough, the sessions of these brokers at
ZooKeeper end. ZooKeeper can report this only to the other brokers. So a leader that is cut off
continues to serve its clients until it learns of a later epoch (KIP-101). It also continues with
old versions of ZooKeeper's nodes (KAFKA-2729). The harness can still reach ZooKeeper.
"""

from nemesis.cut import Cut
from nemesis.grudges import split
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site

CONTROLLER, ONE_BROKER = 1 / 4, 1 / 2
"""The share of faults that cut off the controller, and the share that cut off one broker in all."""


def keeper_cut(aim: Aim, site: Site) -> Cut:
    """Make the fault. Its target is ZooKeeper."""
    brokers = tuple(site.cluster.nodes)
    drawn = aim.rng.random()
    if drawn < ONE_BROKER:
        view = site.cluster.view() if drawn < CONTROLLER else None
        controller = view.controller if view else None
        brokers = (controller or aim.rng.choice(brokers),)
    return Cut(aim, site, split((*aim.targets, *brokers), aim.targets))


SAYS = {
    "keeper-cut": InWords(
        does="the links between ZooKeeper and all brokers, or only one of them, are cut",
        injected="like `isolate`",
        proven="like `isolate`",
        undone="like `isolate`",
    ),
}
