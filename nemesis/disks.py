"""The disks of a fault's targets, used by the faults `disk-full` and `read-only`."""

from cluster.protocol import CanKill, CanLimitDisk, ClusterError
from nemesis.brokers import HitBrokers
from nemesis.disk_effects import DiskRightEffect
from nemesis.protocol import Aim, Patience, Site

Errors = dict[str, tuple[str, str]]
"""The errors of a test write on each node's disk, before and now. Empty if the write succeeded."""


class HitDisks:
    """The disks of a fault's targets, and the brokers on these disks.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to limit disks, and the cluster
            must be able to kill brokers.

    Attributes:
        brokers: The brokers before the fault.
        disks: The hosts, which fill, empty, lock and test disks.
        killer: The cluster, which kills brokers.

    Raises:
        ClusterError: The hosts do not limit disks, or the brokers cannot be killed.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.hosts is None or not isinstance(site.hosts, CanLimitDisk):
            raise ClusterError("the nodes have no disks of their own: set disk_mb in the plan")
        self.killer: CanKill = site.cluster
        self.disks: CanLimitDisk = site.hosts
        self.brokers = HitBrokers(site, aim.targets)
        self._nodes = aim.targets
        self._before: dict[str, str] = {}

    def note_before(self, node: str) -> None:
        """Write a test page to a disk before the fault changes it."""
        self._before[node] = self.disks.try_disk(node)

    def refuse(self, error: str) -> Errors | None:
        """Return the test errors if each disk accepted a page before and now fails with `error`."""
        errors = {node: (self._before[node], self.disks.try_disk(node)) for node in self._nodes}
        refuse = all(before == "" and now == error for before, now in errors.values())
        return errors if refuse else None

    def wait_right(self, patience: Patience) -> DiskRightEffect | None:
        """Check that the disks accept a test page, and wait until the brokers are registered again.

        Return None at once if a disk rejects the page. Return None after a timeout of the wait.
        """
        errors = {node: self.disks.try_disk(node) for node in self._nodes}
        if any(errors.values()):
            return None
        back = self.brokers.wait_back(patience)
        if back is None:
            return None
        return DiskRightEffect(took_s=back.took_s, errors=errors, processes=back.processes)
