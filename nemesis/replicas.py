"""Whether replicas are whole, as far as the cluster's own view tells."""

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
    """Return the partitions that lack a leader or a member of their ISR, `log-0-1`, in order.

    Args:
        site: Where.
        nodes: Only partitions with a replica on one of them count; None: all.
        wanted: Partitions that are not whole if nobody knows of them, either.

    Returns:
        `every partition` alone if nobody answers.
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
    """Wait until partitions have a leader and a full ISR; False if that does not come."""
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
