"""The fault `slow-disk`: every flush on a broker's disk takes longer, by up to 1.5 s.

A busy disk, or a disk that is about to fail, acts like this. Code that must flush before it answers
has to wait. Examples are a quorum that counts only data on disk, and a broker that flushes before
it acknowledges. The fault is confirmed if a test write with a flush takes the planned time, and
took less time before the fault. The heal is confirmed if the same test write takes less than twice
the time before the fault, or less than half of the planned delay. No data is at risk, because a
flush is confirmed only after it has ended.

On real hosts every read and write is slow, too, except reads from the kernel's cache. On such
hosts, a test page is written, flushed and read. The file system that delays the requests also
counts them (`CanFaultDisk`). In virtual time only flushes are slow.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.protocol import DISK_REQUESTS, CanFaultDisk, CanSlowDisk, ClusterError
from nemesis.brokers import on_each, running_broker
from nemesis.disk_effects import QuickDiskEffect, SlowDiskEffect
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import QuickenDisk
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until

FLUSHES_S = (0.05, 0.2, 0.5, 1.5)
"""The possible durations of the longest flush in virtual time, in seconds. The shortest flush takes
half of this time. On real hosts, each request is delayed by exactly one of these durations."""
USUAL = 2.0
"""After the heal, a flush may take up to this many times as long as before the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDiskEffect:
    """Slow disks of real hosts, measured by a test page and by the hosts' counters.

    Attributes:
        flushes_s: For each node, the seconds for the test page before and during the fault.
        late: For each node, the number of slow reads, writes and flushes, test pages included.
    """

    took_s: float
    flushes_s: dict[str, tuple[float, float]]
    late: dict[str, int]

    @property
    def told(self) -> str:
        """Return the measurement as a sentence."""
        return "; ".join(
            f"a test page on the disk of {node} took {now_s:.3f} s, and {before_s:.3f} s before"
            f" the fault; {self.late[node]} requests were late"
            for node, (before_s, now_s) in self.flushes_s.items()
        )


def _count(counts: Mapping[str, int]) -> int:
    return sum(counts.get(f"late {request}", 0) for request in DISK_REQUESTS)


class SlowDisk:
    """A fault that makes flushes of disks slow.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to slow down disks.

    Raises:
        ClusterError: The hosts cannot slow down disks, or no broker runs on a target.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        if site.hosts is None or not isinstance(site.hosts, CanSlowDisk):
            raise ClusterError("these hosts cannot slow a disk down")
        for node in aim.targets:
            running_broker(site, node)
        self.targets = aim.targets
        self._hosts: CanSlowDisk = site.hosts
        self._flush_s = aim.rng.choice(FLUSHES_S)
        self._before_s: dict[str, float] = {}
        self._started_s = self._healed_s = stopwatch_s()

    def undo(self) -> tuple[QuickenDisk, ...]:
        """Return the undo steps that make the disks fast again."""
        return tuple(QuickenDisk(node=node) for node in self.targets)

    def inject(self) -> None:
        """Measure a flush, and then make flushes slow."""
        self._before_s = self._timed_s()
        self._started_s = stopwatch_s()
        for node in self.targets:
            self._hosts.slow_disk(node, self._flush_s)

    def confirm(self, patience: Patience) -> SlowDiskEffect | LateDiskEffect | None:
        """Confirm that a flush takes at least half of the planned time, and took less before.

        On real hosts, all requests for a test page together take at least their planned delays.
        """
        del patience  # One measurement is enough, without a wait.
        if isinstance(self._hosts, CanFaultDisk):
            return self._late(self._hosts)
        flushes_s = self._pairs(self._timed_s())
        if all(before < self._flush_s / 2 <= now for before, now in flushes_s.values()):
            took_s = stopwatch_s() - self._started_s
            return SlowDiskEffect(took_s=took_s, flushes_s=flushes_s)
        return None

    def _late(self, hosts: CanFaultDisk) -> LateDiskEffect | None:
        """Confirm that a test page took at least the planned delays of its requests together.

        Some requests may not occur. For example, another fault can prevent the read of the page.
        """
        pages = {node: hosts.try_requests(node) for node in self.targets}
        late = {node: _count(hosts.disk_counts(node)) for node in self.targets}
        flushes_s = self._pairs({node: page.took_s for node, page in pages.items()})
        for node, (before_s, now_s) in flushes_s.items():
            if not late[node] or now_s < max(before_s, pages[node].asked * self._flush_s):
                return None
        took_s = stopwatch_s() - self._started_s
        return LateDiskEffect(took_s=took_s, flushes_s=flushes_s, late=late)

    def _pairs(self, now_s: Mapping[str, float]) -> dict[str, tuple[float, float]]:
        return {node: (self._before_s[node], now_s[node]) for node in self.targets}

    def heal(self) -> None:
        """Make the disks as fast as before. Idempotent."""
        self._healed_s = stopwatch_s()
        on_each(self.targets, self._hosts.quicken_disk)

    def confirm_healed(self, patience: Patience) -> QuickDiskEffect | None:
        """Confirm that a flush is about as fast as before, or faster than any slow flush."""
        told: dict[str, float] = {}

        def are_quick() -> bool:
            told.update(self._timed_s())
            return all(
                took_s < max(USUAL * self._before_s.get(node, 0.0), self._flush_s / 2)
                for node, took_s in told.items()
            )

        try:
            wait_until(
                are_quick,
                timeout_s=patience.limit_s,
                what="the disks to be fast again",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return QuickDiskEffect(took_s=stopwatch_s() - self._healed_s, flushes_s=told)

    def _timed_s(self) -> dict[str, float]:
        return {node: self._hosts.time_flush_s(node) for node in self.targets}


SAYS = {
    "slow-disk": InWords(
        does=(
            "every flush on a broker's disk takes longer, by up to 1.5 s; on real hosts every"
            " disk request does"
        ),
        injected="the simulated disk; on real hosts a file system (FUSE) below the data",
        proven="the time to write and flush a test page",
        undone="the disk is as before; the same measurement",
    ),
}
