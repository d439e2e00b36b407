"""Disks that break requests, and the brokers that live on them: what several faults share."""

from dataclasses import dataclass

from cluster.protocol import CanFaultDisk, CanKill, ClusterError, DiskAnswers
from nemesis.broker_effects import ProcessChange
from nemesis.brokers import GONE, HitBrokers, broker_is_gone, on_each
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import MendDisk, Restart
from results.record.clock import stopwatch_s

_ENDS_IN_S = 5.0
"""Most brokers meet the error that soon, and have time to say why they end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenDiskEffect:
    """Disks that broke requests, by what a page of our own met and what they count.

    Attributes:
        how: What became of requests: `refused`, `torn`, `short`.
        request: Of which: `read`, `write`, `fsync`.
        errors: By node: what the page met before the fault and then, `["", "EIO"]`.
        stored: By node: how many bytes of the page, of all that it has, lay on the disk then.
        met: By node: how many requests of its broker met the fault.
        processes: The brokers; what became of them within a few seconds.
        ended: Nodes whose broker ended by itself.
    """

    took_s: float
    how: str
    request: str
    errors: dict[str, tuple[str, str]]
    stored: dict[str, tuple[int, int]]
    met: dict[str, int]
    processes: tuple[ProcessChange, ...]
    ended: tuple[str, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        each = []
        for node, (_, error) in self.errors.items():
            stored, of = self.stored[node]
            part = f", of {of} bytes {stored} on the disk" if self.how != "refused" else ""
            lives = "ended by itself" if node in self.ended else "lives on"
            each.append(
                f"a {self.request} of a page on the disk of {node} got {error or 'no error'}{part};"
                f" {self.met[node]} requests of its broker were {self.how}; it {lives}"
            )
        return "; ".join(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedDiskEffect:
    """Disks that break nothing any more, and brokers that are back.

    Attributes:
        took_s: From the heal to the registration.
        stored: By node: how many bytes of a page of our own lay on its disk.
        flushed: By node: how many files were flushed before its broker started. Who opened one
            first was told of what the kernel could not write back of it, and that was us.
        how: What became of requests, until then.
        met: By node: how many requests of its broker met that in all, confirmed or not.
        processes: The brokers as they run now.
    """

    took_s: float
    stored: dict[str, int]
    flushed: dict[str, int]
    how: str
    met: dict[str, int]
    processes: tuple[ProcessChange, ...]

    @property
    def told(self) -> str:
        """What was measured."""
        pages = ", ".join(
            f"{size} bytes on the disk of {node}, of which {self.flushed[node]} files were flushed"
            for node, size in self.stored.items()
        )
        met = ", ".join(f"{count} of {node}" for node, count in self.met.items())
        return (
            f"a page was written, flushed and read without an error ({pages}); brokers are back;"
            f" of their requests {met} had been {self.how}"
        )


class BrokenDisks:
    """The disks of a fault's targets, which break requests, and the brokers on them.

    Args:
        aim: Which fault this is.
        site: Its hosts break requests, and its brokers can be killed.
        how: What becomes of requests, as `CanFaultDisk` has it.
        request: Of which.

    Attributes:
        brokers: As they were before the fault.
        disks: Break requests, and mend.
        killer: Ends brokers.

    Raises:
        ClusterError: They do not, or cannot.
    """

    def __init__(self, aim: Aim, site: Site, *, how: str, request: str) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.hosts is None or not isinstance(site.hosts, CanFaultDisk):
            raise ClusterError("these hosts have no disks that break requests")
        self.killer: CanKill = site.cluster
        self.disks: CanFaultDisk = site.hosts
        self.brokers = HitBrokers(site, aim.targets)
        self._site, self._nodes = site, aim.targets
        self._how, self._request = how, request
        self._before: dict[str, DiskAnswers] = {}
        self._met: dict[str, int] = {}
        self._flushed: dict[str, int] = {}
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[MendDisk | Restart, ...]:
        """Return the disks to mend, and the brokers to start again."""
        disks = tuple(MendDisk(node=node) for node in self._nodes)
        return (*disks, *(Restart(node=node) for node in self._nodes))

    def inject(self) -> None:
        """See that the disks take a page, then have them break requests.

        Raises:
            ClusterError: One does not, and none breaks anything then.
        """
        self._started_s = stopwatch_s()
        for node in self._nodes:
            self._before[node] = page = self.disks.try_requests(node)
            if not _is_sound(page):
                raise ClusterError(f"the disk of {node} does not take a page already")
        for node in self._nodes:
            self.disks.fault_disk(node, self._how, (self._request,))

    def confirm(self, patience: Patience) -> BrokenDiskEffect | None:
        """See that a page meets the fault, and wait a little for the brokers to end."""
        soon = Patience(limit_s=min(patience.limit_s, _ENDS_IN_S), stop=patience.stop)
        self.brokers.wait_states(GONE, soon)
        changes = self.brokers.changes()  # Before the count: who is gone met nothing after it.
        met = {node: self._count(node) for node in self._nodes}
        now = {node: self.disks.try_requests(node) for node in self._nodes}
        if not all(self._shows(each) for each in now.values()):
            return None
        ended = tuple(each.node for each in changes if each.state_after in GONE)
        for node in ended:
            # They ended because of us, and nobody shall take it for a failure of the run. A short
            # write is no reason to end: write(2) allows it. Nor is what the broker never met.
            if self._how != "short" and met[node]:
                self.killer.kill_node(node)
        return BrokenDiskEffect(
            took_s=stopwatch_s() - self._started_s,
            how=self._how,
            request=self._request,
            errors={
                node: (self._before[node].errors[self._request], each.errors[self._request])
                for node, each in now.items()
            },
            stored={node: (each.stored, each.written) for node, each in now.items()},
            met=met,
            processes=changes,
            ended=ended,
        )

    def heal(self) -> None:
        """Mend the disks; start the brokers anew: one that lived on may have an offline log."""
        self.brokers.note_heal()
        on_each(self._nodes, self._mend)

    def confirm_healed(self, patience: Patience) -> MendedDiskEffect | None:
        """See that the disks take a page, and that the brokers are registered again."""
        pages = {node: self.disks.try_requests(node) for node in self._nodes}
        if not all(_is_sound(each) for each in pages.values()) or not all(self._flushed.values()):
            return None
        back = self.brokers.wait_back(patience)
        if back is None:
            return None
        return MendedDiskEffect(
            took_s=back.took_s,
            stored={node: each.stored for node, each in pages.items()},
            flushed=dict(self._flushed),
            how=self._how,
            met=dict(self._met),
            processes=back.processes,
        )

    def _mend(self, node: str) -> None:
        self._flushed[node] = self.disks.mend_disk(node)
        self._met[node] = self._count(node)
        is_of_before = self._site.cluster.process(node) == self.brokers.before[node]
        if is_of_before and not broker_is_gone(self._site, node):
            self.killer.kill_node(node)
        self.brokers.start_missing([node])

    def _shows(self, now: DiskAnswers) -> bool:
        if self._how == "refused":
            return now.errors[self._request] == "EIO"
        torn = 0 < now.stored < now.written
        return torn and now.errors["write"] == ("EIO" if self._how == "torn" else "")

    def _count(self, node: str) -> int:
        return self.disks.disk_counts(node).get(f"{self._how} {self._request}", 0)


def _is_sound(page: DiskAnswers) -> bool:
    return not any(page.errors.values()) and page.stored == page.written
