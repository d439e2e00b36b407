"""Disks that nodes have for themselves, as the faults `disk-full` and `read-only` use them."""

from cluster.protocol import CanKill, CanLimitDisk, ClusterError
from nemesis.brokers import HitBrokers
from nemesis.disk_effects import DiskRightEffect
from nemesis.protocol import Aim, Patience, Site

Errors = dict[str, tuple[str, str]]
"""What the disk of each node said to a page of ours, before and now; empty: it took it."""


class HitDisks:
    """The disks of a fault's targets, and the brokers that live on them.

    Args:
        aim: Which fault this is.
        site: Its hosts limit disks, and its brokers can be killed.

    Attributes:
        brokers: As they were before the fault.
        disks: Fills, empties, locks and tries them.
        killer: Ends brokers.

    Raises:
        ClusterError: They do not, or cannot.
    """

    def __init__(self, aim: Aim, site: Site) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.hosts is None or not isinstance(site.hosts, CanLimitDisk):
            raise ClusterError("the nodes have no disks of their own: give the plan a disk_mb")
        self.killer: CanKill = site.cluster
        self.disks: CanLimitDisk = site.hosts
        self.brokers = HitBrokers(site, aim.targets)
        self._nodes = aim.targets
        self._before: dict[str, str] = {}

    def note_before(self, node: str) -> None:
        """Try a disk that nothing was done to yet."""
        self._before[node] = self.disks.try_disk(node)

    def refuse(self, error: str) -> Errors | None:
        """Return what all disks say, if each took a page before and now refuses it so."""
        errors = {node: (self._before[node], self.disks.try_disk(node)) for node in self._nodes}
        refuse = all(before == "" and now == error for before, now in errors.values())
        return errors if refuse else None

    def wait_right(self, patience: Patience) -> DiskRightEffect | None:
        """See that the disks take a page, and that the brokers are registered again."""
        errors = {node: self.disks.try_disk(node) for node in self._nodes}
        if any(errors.values()):
            return None
        back = self.brokers.wait_back(patience)
        if back is None:
            return None
        return DiskRightEffect(took_s=back.took_s, errors=errors, processes=back.processes)
