"""Code shared by the faults that make disk requests fail: the disks and the brokers on them."""

from dataclasses import dataclass

from cluster.protocol import CanFaultDisk, CanKill, ClusterError, DiskAnswers
from nemesis.broker_effects import ProcessChange
from nemesis.brokers import GONE, HitBrokers, broker_is_gone, on_each
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import MendDisk, Restart
from results.record.clock import stopwatch_s

_ENDS_IN_S = 5.0
"""Seconds within which most brokers meet the disk error, log it and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenDiskEffect:
    """Disks with failing requests, measured by a test page and by the disks' own counters.

    Attributes:
        how: How the requests fail: `refused`, `torn` or `short`.
        request: The kind of failing requests: `read`, `write`, `fsync`.
        errors: For each node, the error of a test page before and during the fault: `["", "EIO"]`.
        stored: For each node, how many bytes of the test page were on the disk, and the full size
            of the page.
        met: For each node, the number of failed requests of the broker.
        processes: The broker processes, and their states a few seconds later.
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
        """Return the measurement as a sentence."""
        each = []
        for node, (_, error) in self.errors.items():
            stored, of = self.stored[node]
            part = (
                f", and {stored} of its {of} bytes are on the disk" if self.how != "refused" else ""
            )
            lives = "ended by itself" if node in self.ended else "still runs"
            each.append(
                f"a {self.request} of a page on the disk of {node} got"
                f" {error or 'no error'}{part}; {self.met[node]} requests of its broker were"
                f" {self.how}; the broker {lives}"
            )
        return "; ".join(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedDiskEffect:
    """Disks without failing requests, and brokers that are back.

    Attributes:
        took_s: Seconds from the heal to the registration.
        stored: For each node, how many bytes of a test page were on the disk.
        flushed: For each node, the number of files that Logquake flushed before the broker started.
            The kernel reports a lost write once, to the first process that opens the file. So
            Logquake receives that error, and the broker does not.
        how: How the requests failed until the heal.
        met: For each node, the number of the broker's requests that failed during the whole fault.
        processes: The current broker processes.
    """

    took_s: float
    stored: dict[str, int]
    flushed: dict[str, int]
    how: str
    met: dict[str, int]
    processes: tuple[ProcessChange, ...]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        pages = ", ".join(
            f"{size} bytes on the disk of {node}, where {self.flushed[node]} files were flushed"
            for node, size in self.stored.items()
        )
        met = ", ".join(f"{count} of {node}" for node, count in self.met.items())
        return (
            f"a page was written, flushed and read without an error ({pages}); brokers are back;"
            f" requests that were {self.how} until the heal: {met}"
        )


class BrokenDisks:
    """The base of faults that make disk requests fail: the targets' disks and brokers.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts make requests fail, and the brokers can be
            killed.
        how: How the requests fail, as in `CanFaultDisk`.
        request: The kind of requests that fail.

    Attributes:
        brokers: The brokers before the fault.
        disks: The hosts, which make disk requests fail and repair disks.
        killer: The cluster, which kills brokers.

    Raises:
        ClusterError: The hosts cannot make requests fail, or the cluster cannot kill brokers.
    """

    def __init__(self, aim: Aim, site: Site, *, how: str, request: str) -> None:
        if not isinstance(site.cluster, CanKill):
            raise ClusterError("the brokers of this cluster cannot be killed")
        if site.hosts is None or not isinstance(site.hosts, CanFaultDisk):
            raise ClusterError("these hosts cannot make disk requests fail")
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
        """Return the undo steps: repair the disks, and start the brokers."""
        disks = tuple(MendDisk(node=node) for node in self._nodes)
        return (*disks, *(Restart(node=node) for node in self._nodes))

    def inject(self) -> None:
        """Check that each disk accepts a test page, and then make its requests fail.

        Raises:
            ClusterError: A disk does not accept the page. Then no disk is changed.
        """
        self._started_s = stopwatch_s()
        for node in self._nodes:
            self._before[node] = page = self.disks.try_requests(node)
            if not _is_sound(page):
                raise ClusterError(f"the disk of {node} rejected a test page before the fault")
        for node in self._nodes:
            self.disks.fault_disk(node, self._how, (self._request,))

    def confirm(self, patience: Patience) -> BrokenDiskEffect | None:
        """Wait a few seconds for the brokers to end. Confirm that a test page shows the fault."""
        soon = Patience(limit_s=min(patience.limit_s, _ENDS_IN_S), stop=patience.stop)
        self.brokers.wait_states(GONE, soon)
        # Check the brokers before the counters, because an ended broker makes no more requests.
        changes = self.brokers.changes()
        met = {node: self._count(node) for node in self._nodes}
        now = {node: self.disks.try_requests(node) for node in self._nodes}
        if not all(self._shows(each) for each in now.values()):
            return None
        ended = tuple(each.node for each in changes if each.state_after in GONE)
        for node in ended:
            # The fault ended these brokers, so their end is not a failure of the run. A short write
            # is not a reason to end, because write(2) allows it. An error that no call of the
            # broker met is not a reason either.
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
        """Repair the disks, and restart the brokers that ran before. Their logs may be offline."""
        self.brokers.note_heal()
        on_each(self._nodes, self._mend)

    def confirm_healed(self, patience: Patience) -> MendedDiskEffect | None:
        """Confirm that the disks are flushed and accept a page, and that brokers are registered."""
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
