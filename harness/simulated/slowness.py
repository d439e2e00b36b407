"""Disks that take long and clocks that run too fast or too slow, as deeds of the simulator."""

from collections.abc import Generator
from random import Random
from typing import TypeVar

from cluster.protocol import ClusterError, Link
from cluster.reference.simulator.clock import PPM
from harness.simulated.cluster import SimulatedCluster
from harness.simulated.errands import until
from nemesis.cluster_effects import ClockEffect, ClockShifted, ClockTrueEffect
from nemesis.disk_effects import QuickDiskEffect, SlowDiskEffect
from results.record.clock import NS_PER_S

FLUSHES_S = (0.05, 0.2, 0.5, 1.5)
"""How long a flush takes at most: from a busy disk to one that is about to fail."""
RATES = (0.5, 0.75, 1.25, 2.0)
"""Seconds of a drifting clock in one; real hosts go no further forward because of their heal."""
FLUSHED_LIMIT_S = 10.0
"""A broker flushes at least once in so long: whatever its quorum decided, if nothing else."""
_LOOK_S = 0.2
_OFF_BY = 0.001
"""How far a rate that was measured may be from what it should be."""

T = TypeVar("T")
Measuring = Generator[float, None, T]


class SlowDisk:
    """Disks whose flushes take long, seen by how long they hold up the brokers' own processes.

    Args:
        targets: The nodes.
        rng: Draws how long.
        cluster: Of the run.

    Raises:
        ClusterError: No broker runs on one of them: nobody would wait for its disk.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, targets: tuple[str, ...], rng: Random, cluster: SimulatedCluster) -> None:
        refuse_dead(targets, cluster)
        self.targets = targets
        self._most_ns = round(rng.choice(FLUSHES_S) * NS_PER_S)
        self._hosts = {node: cluster.hosts[node] for node in targets}
        self._usual_ns = {node: host.slow_flush_ns for node, host in self._hosts.items()}
        self._agenda = cluster.simulation.agenda
        self._before: dict[str, int] = {}
        self._began_ns = self._agenda.now
        self._healed_ns: int | None = None

    def inject(self) -> Measuring[None]:
        """See how long a flush takes, then have all of them take long."""
        self._before = yield from self._flushed(FLUSHED_LIMIT_S)
        for host in self._hosts.values():
            host.slow_flush_ns = self._most_ns

    def confirm(self) -> Measuring[SlowDiskEffect | None]:
        """See that a flush of each broker takes as long as it was meant to."""
        during = yield from self._flushed(FLUSHED_LIMIT_S)
        seen = self._before.keys() & during.keys()
        if any(node not in seen or during[node] < self._most_ns // 2 for node in self.targets):
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
        if self._healed_ns is None:
            self._healed_ns = self._agenda.now
        for node, host in self._hosts.items():
            host.slow_flush_ns = self._usual_ns[node]

    def confirm_healed(self, limit_s: float) -> Measuring[QuickDiskEffect | None]:
        """See that a flush of each broker that runs takes no longer than it usually does."""
        deadline_ns = self._agenda.now + round(limit_s * NS_PER_S)
        while True:
            left_s = (deadline_ns - self._agenda.now) / NS_PER_S
            after = yield from self._flushed(left_s)
            running = [node for node, host in self._hosts.items() if host.process is not None]
            if all(after.get(node, deadline_ns) <= self._usual_ns[node] for node in running):
                break
            if self._agenda.now >= deadline_ns:
                return None
        return QuickDiskEffect(
            took_s=(self._agenda.now - (self._healed_ns or 0)) / NS_PER_S,
            flushes_s={node: took_ns / NS_PER_S for node, took_ns in after.items()},
        )

    def _flushed(self, limit_s: float) -> Measuring[dict[str, int]]:
        """Return how long the next flush held up each broker that flushed, and runs."""
        since_ns = self._agenda.now
        hosts = self._hosts

        def running() -> list[str]:
            return [node for node, host in hosts.items() if host.process is not None]

        yield from until(
            self._agenda,
            lambda: all(hosts[node].flushed_ns[0] >= since_ns for node in running()),
            limit_s=limit_s,
            interval_s=0.02,
        )
        found = {node: hosts[node].flushed_ns for node in running()}
        return {node: took_ns for node, (at_ns, took_ns) in found.items() if at_ns >= since_ns}


def refuse_dead(targets: tuple[str, ...], cluster: SimulatedCluster) -> None:
    """Refuse targets on which no broker runs.

    Raises:
        ClusterError: One is down.
    """
    for node in targets:
        if cluster.state_of(node) is None:
            raise ClusterError(f"no broker runs on {node}")


class DriftingClock:
    """Clocks that pass at another rate, seen by reading them twice.

    A node has no other clock: its time-outs, sessions and heartbeats go by it. It goes on from
    where it is when it is healed, since no monotonic clock goes back.

    Args:
        targets: The nodes.
        rng: Draws the rate.
        cluster: Of the run.

    Raises:
        ClusterError: No broker runs on one of them: nobody would go by its clock.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, targets: tuple[str, ...], rng: Random, cluster: SimulatedCluster) -> None:
        refuse_dead(targets, cluster)
        self._cluster = cluster
        self.targets = targets
        self._rate = rng.choice(RATES)
        self._clocks = {node: cluster.hosts[node].clock for node in targets}
        self._agenda = cluster.simulation.agenda
        self._before: dict[str, float] = {}
        self._began_ns = self._agenda.now
        self._healed_ns: int | None = None

    def inject(self) -> Measuring[None]:
        """Look at the clocks, then have them drift."""
        self._before = yield from self._gained_s()
        for clock in self._clocks.values():
            clock.drift(self._agenda.now, round((self._rate - 1) * PPM))

    def confirm(self) -> Measuring[ClockEffect | None]:
        """See that each gains or loses as its rate has it."""
        during = yield from self._gained_s()
        wanted_s = (self._rate - 1) * _LOOK_S
        if any(self._cluster.state_of(node) is None for node in self.targets):
            return None
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
        if self._healed_ns is None:
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
        took_s = (self._agenda.now - (self._healed_ns or 0)) / NS_PER_S
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
