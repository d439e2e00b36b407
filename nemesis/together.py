"""If brokers share a process, a fault hits all of them, and cuts no link between them."""

from collections.abc import Iterable

from cluster.protocol import Ability, ClusterError
from nemesis.claims import Aspect
from nemesis.kind import Kind
from nemesis.protocol import Fault, Site


def widened(nodes: tuple[str, ...], kind: Kind | None, site: Site) -> tuple[str, ...]:
    """Return targets together with all brokers in the same processes.

    A fault on leadership or topics touches no process, so its targets stay as they are.

    Args:
        nodes: The targets.
        kind: The kind of the fault. None for a fault of a scenario.
        site: The run's cluster and hosts.

    Raises:
        ClusterError: A process runs several brokers, but the fault needs brokers in separate
            processes.
    """
    if kind is not None and kind.aspect is Aspect.CLUSTER:
        return nodes  # The fault does not touch them.
    together = site.together(nodes)
    if kind is not None and Ability.APART in kind.needs:
        _refuse_shared(site.cluster.nodes, site)
    return together


def _refuse_shared(nodes: Iterable[str], site: Site) -> None:
    for node in nodes:
        shared = site.together([node])
        if len(shared) > 1:
            raise ClusterError(
                f"the brokers {', '.join(shared)} run in one process, so no fault can hit one of"
                " them alone"
            )


def refuse_links_within(fault: Fault, site: Site) -> None:
    """Reject a fault on a link inside one process, because there is no such link.

    Raises:
        ClusterError: There is such a link.
    """
    brokers = {*site.cluster.nodes}
    for sender, receiver in fault.links:
        if sender in brokers and receiver in site.together([sender]):
            raise ClusterError(
                f"{sender} and {receiver} run in one process, so there is no link between them"
            )
