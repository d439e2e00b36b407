"""The fault `keeper-cut`: brokers and ZooKeeper do not reach each other, either way.

All brokers are cut off, or the controller alone (any broker, where none is known). Their sessions
end at ZooKeeper, which tells nobody but the others: a broker that is cut off leads on, for clients
that reach it, until it hears of a later epoch (KIP-101). The harness still reaches ZooKeeper.
"""

from nemesis.cut import Cut
from nemesis.grudges import split
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Site


def keeper_cut(aim: Aim, site: Site) -> Cut:
    """Return the fault; its target is ZooKeeper."""
    brokers = tuple(site.cluster.nodes)
    if aim.rng.random() < 0.5:  # noqa: PLR2004 - one half of them
        view = site.cluster.view()
        controller = view.controller if view else None
        brokers = (controller or aim.rng.choice(brokers),)
    return Cut(aim, site, split((*aim.targets, *brokers), aim.targets))


SAYS = {
    "keeper-cut": InWords(
        does="ZooKeeper and all brokers, or the controller alone, do not reach each other",
        injected="as `isolate`",
        proven="as `isolate`",
        undone="as `isolate`",
    ),
}
