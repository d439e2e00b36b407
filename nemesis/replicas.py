"""Check whether replicas are in sync, according to the cluster's own metadata."""

from collections.abc import Collection

from cluster.protocol import PartitionState
from nemesis.protocol import Patience, Site
from results.record.clock import WaitTimeoutError, wait_until


def unwhole(
    site: Site,
    nodes: Collection[str] | None = None,
    *,
    wanted: Collection[tuple[str, int]] = (),
) -> tuple[str, ...]:
    """Return the partitions without a leader or with an incomplete ISR, such as `log-0-1`.

    Args:
        site: The run's cluster and hosts.
        nodes: Only partitions with a replica on one of these nodes are checked. None means all
            partitions.
        wanted: Partitions that must be in the metadata. A missing partition is returned, too.

    Returns:
        The names of the partitions, sorted. If no node responds, the only name is `every
        partition`.
    """
    view = site.cluster.view()
    if view is None:
        return ("every partition",)
    lacking = {
        place
        for place, state in view.partitions.items()
        if (nodes is None or not set(nodes).isdisjoint(state.replicas)) and not _whole(state)
    }
    lacking |= set(wanted) - view.partitions.keys()
    return tuple(f"{topic}-{partition}" for topic, partition in sorted(lacking))


def _whole(state: PartitionState) -> bool:
    return state.leader is not None and set(state.isr) >= set(state.replicas)


def wait_whole(site: Site, patience: Patience, nodes: Collection[str] | None = None) -> bool:
    """Wait until partitions have a leader and a full ISR. Return False after a timeout."""
    try:
        return wait_until(
            lambda: not unwhole(site, nodes),
            timeout_s=patience.limit_s,
            what="a leader and a full ISR",
            interval_s=0.2,
            stop=patience.stop,
        )
    except WaitTimeoutError:
        return False
