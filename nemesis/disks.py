"""Disks that nodes have for themselves, as the faults `disk-full` and `read-only` use them."""

from collections.abc import Sequence

from cluster.protocol import CanLimitDisk, ClusterError
from nemesis.brokers import HitBrokers
from nemesis.disk_effects import DiskRightEffect
from nemesis.protocol import Patience, Site


def limited_disks(site: Site) -> CanLimitDisk:
    """Return the hosts of a site as those that limit disks.

    Raises:
        ClusterError: They do not.
    """
    if site.hosts is None or not isinstance(site.hosts, CanLimitDisk):
        raise ClusterError("the nodes have no disks of their own: give the plan a disk_mb")
    return site.hosts


def back_on_disks(
    disks: CanLimitDisk, brokers: HitBrokers, nodes: Sequence[str], patience: Patience
) -> DiskRightEffect | None:
    """See that disks take a page, and that the brokers are registered again.

    Args:
        disks: The hosts.
        brokers: Those that the fault hit.
        nodes: Theirs.
        patience: How long to wait.
    """
    errors = {node: disks.try_disk(node) for node in nodes}
    if any(errors.values()):
        return None
    back = brokers.wait_back(patience)
    if back is None:
        return None
    return DiskRightEffect(took_s=back.took_s, errors=errors, processes=back.processes)
