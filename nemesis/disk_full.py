"""The fault `disk-full`: a ballast takes all the room on a node's disk, to the last byte.

A real ENOSPC, on a file system that the node has for itself (`disk_mb` in the plan). A broker whose
only log folder takes no more ends by itself, as soon as it has to write anything; one that has
nothing to write may live on. Nothing that was acknowledged is lost by it: what did not fit was not
acknowledged. Healed by removing the ballast and starting the broker.
"""

from nemesis.brokers import GONE, on_each
from nemesis.disk_effects import DiskFullEffect, DiskRightEffect
from nemesis.disks import HitDisks
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import EmptyDisk, Restart
from results.record.clock import stopwatch_s

FULL = "ENOSPC"


class DiskFull:
    """Brokers whose disk has no room: a page of ours cannot be written, and most of them end.

    Args:
        aim: Which fault this is.
        site: Its hosts limit disks.

    Raises:
        ClusterError: They do not.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._site = site
        self._hit = HitDisks(aim, site)
        self._taken: dict[str, int] = {}
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[EmptyDisk | Restart, ...]:
        """Return the disks to empty, and the brokers to start again."""
        disks = tuple(EmptyDisk(node=node) for node in self.targets)
        return (*disks, *(Restart(node=node) for node in self.targets))

    def inject(self) -> None:
        """See that the disks take a page, then fill them."""
        self._started_s = stopwatch_s()
        for node in self.targets:
            self._hit.note_before(node)
            self._taken[node] = self._hit.disks.fill_disk(node)

    def confirm(self, patience: Patience) -> DiskFullEffect | None:
        """See that the disks take no page more, and wait a little for the brokers to end."""
        self._hit.brokers.wait_states(GONE, patience)
        errors = self._hit.refuse(FULL)
        if errors is None:
            return None
        changes = self._hit.brokers.changes()
        ended = tuple(each.node for each in changes if each.state_after in GONE)
        for node in ended:
            # They ended because of us, and nobody shall take it for a failure of the run.
            self._hit.killer.kill_node(node)
        return DiskFullEffect(
            took_s=stopwatch_s() - self._started_s,
            taken=self._taken,
            errors=errors,
            processes=changes,
            ended=ended,
        )

    def heal(self) -> None:
        """Give the room back; start the brokers anew: one that lived on has an offline log."""
        self._hit.brokers.note_heal()
        on_each(self.targets, self._mend)

    def confirm_healed(self, patience: Patience) -> DiskRightEffect | None:
        """See that the disks take a page, and that the brokers are registered again."""
        return self._hit.wait_right(patience)

    def _mend(self, node: str) -> None:
        self._hit.disks.empty_disk(node)
        if self._site.cluster.process(node) == self._hit.brokers.before[node]:
            self._hit.killer.kill_node(node)
        self._hit.brokers.start_missing([node])


SAYS = {
    "disk-full": InWords(
        does="a broker's disk has no room; it ends by itself as soon as it must write",
        injected="a ballast takes all room of the node's own file system",
        proven="a write of our own gets ENOSPC",
        undone="the ballast goes; a start; a write works",
    ),
}
