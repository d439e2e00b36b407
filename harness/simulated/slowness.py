"""Disks that take long and clocks that run too fast or too slow, as deeds of the simulator."""

from collections.abc import Callable, Generator
from random import Random
from typing import TypeVar

from cluster.protocol import Link
from cluster.reference.simulator.clock import PPM
from cluster.reference.simulator.host import Host
from harness.simulated.cluster import SimulatedCluster
from harness.simulated.errands import until
from nemesis.cluster_effects import ClockEffect, ClockShifted, ClockTrueEffect
from nemesis.disk_effects import QuickDiskEffect, SlowDiskEffect
from results.record.clock import NS_PER_S

FLUSHES_S = (0.05, 0.2, 0.5, 1.5)
"""How long a flush takes at most: from a busy disk to one that is about to fail."""
RATES = (0.5, 0.75, 1.25, 2.0)
"""Seconds of a drifting clock in one; real hosts go no further forward because of their heal."""
_PAGE, _PAGE_BYTES = "page-of-the-nemesis", 4096
_LOOK_S = 0.2
_OFF_BY = 0.001
"""How far a rate that was measured may be from what it should be."""

T = TypeVar("T")
Measuring = Generator[float, None, T]


class SlowDisk:
    """Disks whose flushes take long, seen by pages of our own that are written and flushed.

    Args:
        targets: The nodes.
        rng: Draws how long.
        cluster: Of the run.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, targets: tuple[str, ...], rng: Random, cluster: SimulatedCluster) -> None:
        self.targets = targets
        self._most_ns = round(rng.choice(FLUSHES_S) * NS_PER_S)
        self._hosts = {node: cluster.hosts[node] for node in targets}
        self._usual_ns = {node: host.slow_flush_ns for node, host in self._hosts.items()}
        self._agenda = cluster.simulation.agenda
        self._before: dict[str, int] = {}
        self._began_ns = self._healed_ns = self._agenda.now

    def inject(self) -> Measuring[None]:
        """Flush a page on each disk, then have all of them take long."""
        self._before = yield from self._flushed()
        for host in self._hosts.values():
            host.slow_flush_ns = self._most_ns

    def confirm(self) -> Measuring[SlowDiskEffect | None]:
        """See that a page takes as long as it was meant to."""
        during = yield from self._flushed()
        if any(took_ns < self._most_ns // 2 for took_ns in during.values()):
            return None
        return SlowDiskEffect(
            took_s=(self._agenda.now - self._began_ns) / NS_PER_S,
            flushes_s={
                node: (self._before[node] / NS_PER_S, during[node] / NS_PER_S)
                for node in self.targets
            },
        )

    def heal(self) -> None:
        """Have the disks be as they were. Idempotent."""
        self._healed_ns = self._agenda.now
        for node, host in self._hosts.items():
            host.slow_flush_ns = self._usual_ns[node]

    def confirm_healed(self, limit_s: float) -> Measuring[QuickDiskEffect | None]:
        """See that a page takes no longer than it usually does."""
        deadline_ns = self._agenda.now + round(limit_s * NS_PER_S)
        while True:
            after = yield from self._flushed()
            if all(after[node] <= self._usual_ns[node] for node in self.targets):
                break
            if self._agenda.now >= deadline_ns:
                return None
        return QuickDiskEffect(
            took_s=(self._agenda.now - self._healed_ns) / NS_PER_S,
            flushes_s={node: took_ns / NS_PER_S for node, took_ns in after.items()},
        )

    def _flushed(self) -> Measuring[dict[str, int]]:
        """Return how long a page took on each disk."""
        took: dict[str, int] = {}
        for node, host in self._hosts.items():
            delay_ns = host.flush_ns()
            self._agenda.after(delay_ns, self._write, host, _noting(took, node, self._agenda.now))
        yield from until(
            self._agenda, lambda: len(took) == len(self._hosts), limit_s=60.0, interval_s=0.02
        )
        return took

    def _write(self, host: Host, note: Callable[[int], None]) -> None:
        host.disk.append(_PAGE, bytes(_PAGE_BYTES))
        host.disk.flush(_PAGE)
        host.disk.remove(_PAGE)
        note(self._agenda.now)


def _noting(took: dict[str, int], node: str, since_ns: int) -> Callable[[int], None]:
    def note(now_ns: int) -> None:
        took[node] = now_ns - since_ns

    return note


class DriftingClock:
    """Clocks that pass at another rate, seen by reading them twice.

    A node has no other clock: its time-outs, sessions and heartbeats go by it. It goes on from
    where it is when it is healed, since no monotonic clock goes back.

    Args:
        targets: The nodes.
        rng: Draws the rate.
        cluster: Of the run.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, targets: tuple[str, ...], rng: Random, cluster: SimulatedCluster) -> None:
        self.targets = targets
        self._rate = rng.choice(RATES)
        self._clocks = {node: cluster.hosts[node].clock for node in targets}
        self._agenda = cluster.simulation.agenda
        self._before: dict[str, float] = {}
        self._began_ns = self._healed_ns = self._agenda.now

    def inject(self) -> Measuring[None]:
        """Look at the clocks, then have them drift."""
        self._before = yield from self._gained_s()
        for clock in self._clocks.values():
            clock.drift(self._agenda.now, round((self._rate - 1) * PPM))

    def confirm(self) -> Measuring[ClockEffect | None]:
        """See that each gains or loses as its rate has it."""
        during = yield from self._gained_s()
        wanted_s = (self._rate - 1) * _LOOK_S
        if any(abs(gained_s - wanted_s) > _OFF_BY for gained_s in during.values()):
            return None
        return ClockEffect(
            took_s=(self._agenda.now - self._began_ns) / NS_PER_S,
            offset_s=0.0,
            rate=self._rate,
            clocks=tuple(
                ClockShifted(node=node, before_s=self._before[node], during_s=(during[node],))
                for node in self.targets
            ),
        )

    def heal(self) -> None:
        """Have the clocks run as all others do. Idempotent."""
        self._healed_ns = self._agenda.now
        for clock in self._clocks.values():
            clock.drift(self._agenda.now, 0)

    def confirm_healed(self, limit_s: float) -> Measuring[ClockTrueEffect | None]:
        """See that none of them gains or loses any more."""
        deadline_ns = self._agenda.now + round(limit_s * NS_PER_S)
        while True:
            gained = yield from self._gained_s()
            if all(abs(gained_s) <= _OFF_BY for gained_s in gained.values()):
                break
            if self._agenda.now >= deadline_ns:
                return None
        took_s = (self._agenda.now - self._healed_ns) / NS_PER_S
        return ClockTrueEffect(took_s=took_s, ahead_s=gained, unasked=())

    def _gained_s(self) -> Measuring[dict[str, float]]:
        """Return by how much each clock gains while one looks."""
        start_ns = self._agenda.now
        shown = {node: clock.read(start_ns) for node, clock in self._clocks.items()}
        yield _LOOK_S
        passed_ns = self._agenda.now - start_ns
        return {
            node: (clock.read(self._agenda.now) - shown[node] - passed_ns) / NS_PER_S
            for node, clock in self._clocks.items()
        }
