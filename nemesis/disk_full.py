"""The fault `disk-full`: a ballast file takes all free space on a node's disk, to the last byte.

The error is a real ENOSPC, on a file system that only this node uses (`disk_mb` in the plan). A
broker with only one log folder ends by itself at its next write. A broker that has nothing to write
may continue. No acknowledged message is lost, because data that did not fit was not acknowledged.
The heal removes the ballast and restarts the broker.
"""

from nemesis.brokers import GONE, on_each
from nemesis.disk_effects import DiskFullEffect, DiskRightEffect
from nemesis.disks import HitDisks
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import EmptyDisk, Restart
from results.record.clock import stopwatch_s

FULL = "ENOSPC"
REFILL_S = 1.0
"""Seconds after which the fault fills the disks again, until it is confirmed."""


class DiskFull:
    """A fault that fills disks. A test page cannot be written, and most brokers end.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to limit disks.

    Raises:
        ClusterError: The hosts do not limit disks.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._site = site
        self._hit = HitDisks(aim, site)
        self._taken: dict[str, int] = {}
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[EmptyDisk | Restart, ...]:
        """Return the undo steps: empty the disks, and start the brokers."""
        disks = tuple(EmptyDisk(node=node) for node in self.targets)
        return (*disks, *(Restart(node=node) for node in self.targets))

    def inject(self) -> None:
        """Write a test page to each disk, note the result, and fill the disk."""
        self._started_s = stopwatch_s()
        for node in self.targets:
            self._hit.note_before(node)
            self._taken[node] = self._hit.disks.fill_disk(node)

    def confirm(self, patience: Patience) -> DiskFullEffect | None:
        """Confirm that the disks reject a test page. Wait briefly for the brokers to end."""
        self._stay_full(patience)
        errors = self._hit.refuse(FULL)
        if errors is None:
            return None
        changes = self._hit.brokers.changes()
        ended = tuple(each.node for each in changes if each.state_after in GONE)
        for node in ended:
            # The fault ended these brokers, so their end is not a failure of the run.
            self._hit.killer.kill_node(node)
        return DiskFullEffect(
            took_s=stopwatch_s() - self._started_s,
            taken=self._taken,
            errors=errors,
            processes=changes,
            ended=ended,
        )

    def heal(self) -> None:
        """Remove the ballast, and restart the brokers that ran before the fault.

        A broker that is still running is restarted, too, because its log may be offline.
        """
        self._hit.brokers.note_heal()
        on_each(self.targets, self._mend)

    def confirm_healed(self, patience: Patience) -> DiskRightEffect | None:
        """Confirm that the disks accept a test page, and that the brokers are registered again."""
        return self._hit.wait_right(patience)

    def _stay_full(self, patience: Patience) -> None:
        """Wait for the brokers to end. If they delete files, fill the free space again."""
        until_s = stopwatch_s() + patience.limit_s
        while (left_s := until_s - stopwatch_s()) > 0:
            moment = Patience(limit_s=min(REFILL_S, left_s), stop=patience.stop)
            if self._hit.brokers.wait_states(GONE, moment):
                return
            if patience.stop is not None and patience.stop.is_set():
                return
            for node in self.targets:
                self._hit.disks.fill_disk(node)

    def _mend(self, node: str) -> None:
        self._hit.disks.empty_disk(node)
        if self._site.cluster.process(node) == self._hit.brokers.before[node]:
            self._hit.killer.kill_node(node)
        self._hit.brokers.start_missing([node])


SAYS = {
    "disk-full": InWords(
        does="a broker's disk is full; the broker exits by itself at its next write",
        injected="a ballast file fills the node's own file system",
        proven="a test write gets ENOSPC",
        undone="removal of the ballast file; a start; a test write succeeds",
    ),
}
