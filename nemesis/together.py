"""Brokers that one process plays: what hits one of them hits all, and no link lies between them."""

from collections.abc import Iterable

from cluster.protocol import Ability, ClusterError
from nemesis.claims import Aspect
from nemesis.kind import Kind
from nemesis.protocol import Fault, Site


def widened(nodes: tuple[str, ...], kind: Kind | None, site: Site) -> tuple[str, ...]:
    """Return targets with all brokers that their processes play.

    Args:
        nodes: The targets.
        kind: Of the fault; None: a script's own.
        site: Where.

    Raises:
        ClusterError: One process plays several brokers, and the fault needs them apart.
    """
    if kind is not None and kind.aspect is Aspect.CLUSTER:
        return nodes  # Nothing is done to them.
    together = site.together(nodes)
    if kind is not None and Ability.APART in kind.needs:
        _refuse_shared(site.cluster.nodes, site)
    return together


def _refuse_shared(nodes: Iterable[str], site: Site) -> None:
    for node in nodes:
        shared = site.together([node])
        if len(shared) > 1:
            raise ClusterError(
                f"one process plays the brokers {', '.join(shared)}: none of them can be hit alone"
            )


def refuse_links_within(fault: Fault, site: Site) -> None:
    """Refuse links within a process: a script names them, and nothing would be cut.

    Raises:
        ClusterError: There is one.
    """
    brokers = {*site.cluster.nodes}
    for sender, receiver in fault.links:
        if sender in brokers and receiver in site.together([sender]):
            raise ClusterError(
                f"one process plays {sender} and {receiver}: no link lies between them"
            )
