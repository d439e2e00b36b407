"""The fault `slow-disk`: every flush on a broker's disk takes up to 0.05 to 1.5 s longer.

As of a busy disk, or of one that is about to fail. Whoever waits for a flush before it answers is
held up: a quorum that counts only what is on disk, a broker that flushes before it acknowledges.
Confirmed when a page of our own, written and flushed, takes as long as it was meant to, and before
did not; its end, when it takes no longer than before. What was written is not at stake: a flush
that has not come to its end has not been answered.

On real hosts every read and write takes as long, too, but for reads that the kernel's cache
answers. There a page of our own is written, flushed and read, and the file system that makes them
late counts them (`CanFaultDisk`). In virtual time only flushes are late.
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
"""How long a flush takes at most, and half as long at least."""
USUAL = 2.0
"""How much longer than before a flush may take when the disk is said to be quick again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDiskEffect:
    """Disks of real hosts that take long, by a page of our own and by what they count.

    Attributes:
        flushes_s: By node: how long the page took before the fault, and then.
        late: By node: how many reads, writes and flushes were late, ours among them.
    """

    took_s: float
    flushes_s: dict[str, tuple[float, float]]
    late: dict[str, int]

    @property
    def told(self) -> str:
        """What was measured."""
        return "; ".join(
            f"a page on the disk of {node} took {now_s:.3f} s, before {before_s:.3f} s;"
            f" {self.late[node]} requests were late"
            for node, (before_s, now_s) in self.flushes_s.items()
        )


def _count(counts: Mapping[str, int]) -> int:
    return sum(counts.get(f"late {request}", 0) for request in DISK_REQUESTS)


class SlowDisk:
    """Disks whose flushes take long.

    Args:
        aim: Which fault this is.
        site: Its hosts slow disks down.

    Raises:
        ClusterError: They do not; or no broker runs on a target, to be held up by it.
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
        """Return the disks to make quick again."""
        return tuple(QuickenDisk(node=node) for node in self.targets)

    def inject(self) -> None:
        """See how long a flush takes, then have it take longer."""
        self._before_s = self._timed_s()
        self._started_s = stopwatch_s()
        for node in self.targets:
            self._hosts.slow_disk(node, self._flush_s)

    def confirm(self, patience: Patience) -> SlowDiskEffect | LateDiskEffect | None:
        """See that a flush takes half of what it is meant to, or more, and did not before."""
        del patience  # One look tells: nothing has to come about.
        if isinstance(self._hosts, CanFaultDisk):
            return self._late(self._hosts)
        flushes_s = self._pairs(self._timed_s())
        if all(before < self._flush_s / 2 <= now for before, now in flushes_s.values()):
            took_s = stopwatch_s() - self._started_s
            return SlowDiskEffect(took_s=took_s, flushes_s=flushes_s)
        return None

    def _late(self, hosts: CanFaultDisk) -> LateDiskEffect | None:
        """See that a page took as long as all that was asked for it, on a machine that is busy.

        Not every request comes about: of a page that another fault kept away nothing is read.
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
        """Have the disks be as quick as they were. Idempotent."""
        self._healed_s = stopwatch_s()
        on_each(self.targets, self._hosts.quicken_disk)

    def confirm_healed(self, patience: Patience) -> QuickDiskEffect | None:
        """See that a flush takes no longer than before, or than any flush of the fault would."""
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
                what="disks that are quick again",
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        return QuickDiskEffect(took_s=stopwatch_s() - self._healed_s, flushes_s=told)

    def _timed_s(self) -> dict[str, float]:
        return {node: self._hosts.time_flush_s(node) for node in self.targets}


SAYS = {
    "slow-disk": InWords(
        does="every flush on a broker's disk takes up to 0.05 to 1.5 s; on real hosts any request",
        injected="the simulated disk; on real hosts a file system (FUSE) below the data",
        proven="a page of our own, written and flushed, takes as long",
        undone="the disk is as it was; the same measure",
    ),
}
