"""Faults as deeds of the simulator: each is measured before, while it lasts, and after.

What kinds there are, whom they hit and what their effects are called is `nemesis`'s; only what is
done to machines is done here.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from cluster.files.batches import read_segment
from cluster.protocol import ClusterError, Link
from cluster.reference.simulator.network import Network
from harness.simulated.cluster import SimulatedCluster
from harness.simulated.errands import until
from harness.simulated.slowness import DriftingClock, SlowDisk
from nemesis.broker_effects import (
    BackEffect,
    KillEffect,
    PauseEffect,
    ProcessChange,
    StopEffect,
)
from nemesis.disk_effects import PowerLossEffect, ReplicaCut
from nemesis.effects import Effect, HealEffect
from nemesis.grudges import (
    deafness,
    grudge_of,
    isolation,
    kept_reverses,
    links_of,
    majorities_ring,
    muteness,
    smaller_half,
    split,
    split_around,
)
from nemesis.link_effects import CutEffect, JoinEffect, LinkEffect, LinkHealed
from results.record.clock import NS_PER_S

if TYPE_CHECKING:
    import networkx as nx

PROBES, PROBE_EVERY_S = 5, 0.1
"""So many datagrams of our own for each look: one may be as late as a packet that was lost."""
PROBE_S = 0.5
"""How long the last of them is waited for."""
CONFIRM_LIMIT_S = 5.0
STOP_LIMIT_S = 15.0

T = TypeVar("T")
Measuring = Generator[float, None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One fault at the moment at which it starts.

    Attributes:
        fault_id: Its number.
        kind: One of `VIRTUAL_KINDS`.
        targets: The nodes that its role expression means now.
        rng: Its own.
    """

    fault_id: int
    kind: str
    targets: tuple[str, ...]
    rng: Random


class Deed(Protocol):
    """One fault with its targets."""

    targets: tuple[str, ...]
    links: tuple[Link, ...]

    def inject(self) -> Measuring[None]:
        """Measure what is before, then do it."""

    def confirm(self) -> Measuring[Effect | None]:
        """Measure what it changed; None if that is nothing."""

    def heal(self) -> None:
        """Undo it. Idempotent."""

    def confirm_healed(self, limit_s: float) -> Measuring[HealEffect | None]:
        """Measure that it is over; None if it is not within the limit."""


def deed_of(aim: Aim, cluster: SimulatedCluster) -> Deed:
    """Return the fault; nothing is done yet.

    Raises:
        ClusterError: It is one of processes, and on a target none runs.
    """
    match aim.kind:
        case "slow-disk":
            return SlowDisk(aim.targets, aim.rng, cluster)
        case "clock-drift":
            return DriftingClock(aim.targets, aim.rng, cluster)
        case kind if kind in _OF_PROCESSES:
            return _OF_PROCESSES[kind](aim, cluster)
        case _:
            return _shaped_cut(aim, cluster)


def deed_of_links(cut_id: str, links: Collection[Link], cluster: SimulatedCluster) -> Deed:
    """Return a cut of some links; nothing is done yet."""
    receivers = tuple(sorted({receiver for _, receiver in links}))
    return _Cut(cut_id, receivers, grudge_of(links), cluster=cluster)


def _shaped_cut(aim: Aim, cluster: SimulatedCluster) -> Deed:
    nodes, targets = cluster.nodes, aim.targets
    if aim.kind in {"ring", "bridge"}:
        return _Cut(f"fault-{aim.fault_id}", targets, _around(aim, nodes), cluster=cluster)
    if aim.kind == "halves":
        targets = smaller_half(nodes, targets, aim.rng)
    shapes = {
        "isolate": isolation,
        "halves": split,
        "one-way-in": deafness,
        "one-way-out": muteness,
    }
    grudge = shapes[aim.kind](nodes, targets)
    return _Cut(f"fault-{aim.fault_id}", targets, grudge, cluster=cluster)


def _around(aim: Aim, nodes: Sequence[str]) -> "nx.DiGraph[str]":
    """Return the links that a ring or a bridge cuts around the first target."""
    first = min(aim.targets)
    others = aim.rng.sample([node for node in nodes if node != first], len(nodes) - 1)
    if aim.kind == "ring":
        return majorities_ring([first, *others])
    half = len(others) // 2
    return split_around([first], others[:half], others[half:])


class _OfProcesses:
    """What kill, stop, pause and power loss share: the processes before and after.

    Attributes:
        links: None.
    """

    links: tuple[Link, ...] = ()

    def __init__(self, aim: Aim, cluster: SimulatedCluster) -> None:
        self.targets = aim.targets
        self._cluster = cluster
        self._before = {node: cluster.process(node) for node in aim.targets}
        self._states = {node: cluster.state_of(node) for node in aim.targets}
        for node, state in self._states.items():
            if state is None:
                raise ClusterError(f"no broker runs on {node}")
        self._began_ns = cluster.simulation.now_ns
        self._healed_ns: int | None = None
        self._was_gone: set[str] = set()
        self._at_heal = dict(self._states)

    def inject(self) -> Measuring[None]:
        """Do it."""
        self._hit()
        yield 0.0

    def heal(self) -> None:
        """Start those that are gone, and let go on those that stand still."""
        if self._healed_ns is None:
            self._healed_ns = self._cluster.simulation.now_ns
            self._at_heal = {node: self._cluster.state_of(node) for node in self.targets}
            view = self._cluster.view()
            self._was_gone = {n for n in self.targets if view and n not in view.registered}
        for node in self.targets:
            process = self._cluster.hosts[node].process
            if process is None:
                self._cluster.start_node(node)
            elif process.paused:
                process.resume()

    def confirm_healed(self, limit_s: float) -> Measuring[HealEffect | None]:
        """See that the brokers are registered again, by all who answer."""
        cluster = self._cluster
        agenda = cluster.simulation.agenda
        back = yield from until(
            agenda, lambda: all(map(cluster.is_back, self.targets)), limit_s=limit_s
        )
        if not back:
            return None
        return BackEffect(
            took_s=self._since_s(self._healed_ns or 0),
            processes=tuple(self._now(node, self._at_heal[node]) for node in self.targets),
            pid_before={node: each.pid for node, each in self._before.items()},
            was_gone=tuple(sorted(self._was_gone)),
            asked=self.targets[0],
        )

    def _hit(self) -> None:
        raise NotImplementedError

    def _all(self, state: str | None) -> Measuring[bool]:
        cluster = self._cluster
        return (
            yield from until(
                cluster.simulation.agenda,
                lambda: all(cluster.state_of(node) == state for node in self.targets),
                limit_s=CONFIRM_LIMIT_S,
                interval_s=0.02,
            )
        )

    def _changes(self) -> tuple[ProcessChange, ...]:
        return tuple(
            ProcessChange(
                node=node,
                pid=process.pid,
                start_ticks=process.start_ticks,
                state_before=self._states[node],
                state_after=self._cluster.state_of(node),
            )
            for node, process in self._before.items()
        )

    def _now(self, node: str, before: str | None) -> ProcessChange:
        process = self._cluster.process(node)
        return ProcessChange(
            node=node,
            pid=process.pid,
            start_ticks=process.start_ticks,
            state_before=before,
            state_after=self._cluster.state_of(node),
        )

    def _since_s(self, time_ns: int) -> float:
        return (self._cluster.simulation.now_ns - time_ns) / NS_PER_S


class _Kill(_OfProcesses):
    def _hit(self) -> None:
        for node in self.targets:
            self._cluster.hosts[node].kill()

    def confirm(self) -> Measuring[Effect | None]:
        """See that the processes are gone."""
        gone = yield from self._all(None)
        if not gone:
            return None
        return KillEffect(took_s=self._since_s(self._began_ns), processes=self._changes())


class _Stop(_OfProcesses):
    def _hit(self) -> None:
        for node in self.targets:
            process = self._cluster.hosts[node].process
            if process is not None:
                process.ask_to_stop()

    def confirm(self) -> Measuring[Effect | None]:
        """Wait for their end; who does not end is killed."""
        cluster = self._cluster
        yield from until(
            cluster.simulation.agenda,
            lambda: all(cluster.state_of(node) is None for node in self.targets),
            limit_s=STOP_LIMIT_S,
        )
        graceful = tuple(node for node in self.targets if cluster.state_of(node) is None)
        for node in self.targets:
            cluster.hosts[node].kill()
        return StopEffect(
            took_s=self._since_s(self._began_ns), graceful=graceful, processes=self._changes()
        )


class _Pause(_OfProcesses):
    def _hit(self) -> None:
        for node in self.targets:
            process = self._cluster.hosts[node].process
            if process is not None:
                process.pause()

    def confirm(self) -> Measuring[Effect | None]:
        """See that the processes stand still."""
        still = yield from self._all("T")
        if not still:
            return None
        return PauseEffect(took_s=self._since_s(self._began_ns), processes=self._changes())


class _PowerLoss(_OfProcesses):
    def __init__(self, aim: Aim, cluster: SimulatedCluster) -> None:
        super().__init__(aim, cluster)
        self._cuts: list[ReplicaCut] = []

    def _hit(self) -> None:
        for node in self.targets:
            disk = self._cluster.hosts[node].disk
            logs = _logs(disk.paths())
            before = {folder: _end(b"".join(map(disk.read, logs[folder]))) for folder in logs}
            safe = {folder: _end(b"".join(map(disk.read_flushed, logs[folder]))) for folder in logs}
            lost = self._cluster.hosts[node].lose_power()
            for folder, paths in logs.items():
                topic, _, partition = folder.rpartition("-")
                self._cuts.append(
                    ReplicaCut(
                        topic=topic,
                        partition=int(partition),
                        recovery_point=safe[folder],
                        log_end_before=before[folder],
                        log_end_after=_end(b"".join(map(disk.read, paths))),
                        bytes_cut=sum(lost.get(path, 0) for path in paths),
                    )
                )

    def confirm(self) -> Measuring[Effect | None]:
        """See that the processes are gone; what was cut from the files is known already."""
        gone = yield from self._all(None)
        if not gone:
            return None
        return PowerLossEffect(
            took_s=self._since_s(self._began_ns),
            processes=self._changes(),
            replicas=tuple(self._cuts),
        )


_OF_PROCESSES: dict[str, Callable[[Aim, SimulatedCluster], Deed]] = {
    "kill": _Kill,
    "stop": _Stop,
    "pause": _Pause,
    "power-loss": _PowerLoss,
}


def _logs(paths: list[str]) -> dict[str, list[str]]:
    """Return the segments of the topics' logs, in order, by folder; not the quorum's."""
    logs: dict[str, list[str]] = {}
    for path in paths:
        folder, slash, name = path.partition("/")
        if slash and name.endswith(".log") and not folder.startswith("__"):
            logs.setdefault(folder, []).append(path)
    return logs


def _end(data: bytes) -> int:
    """Return the offset behind the last whole batch of a log, 0 if it has none."""
    batches = read_segment(data).batches
    return batches[-1].end_offset if batches else 0


class _Cut:
    """Links that are cut, seen by datagrams of our own over each of them."""

    def __init__(
        self,
        cut_id: str,
        targets: tuple[str, ...],
        grudge: "nx.DiGraph[str]",
        *,
        cluster: SimulatedCluster,
    ) -> None:
        self.targets, self.links = targets, links_of(grudge)
        self._kept = kept_reverses(grudge)
        self._cut_id = cut_id
        self._agenda = cluster.simulation.agenda
        self._network: Network = cluster.simulation.network
        self._numbers = {node: host.id for node, host in cluster.hosts.items()}
        self._in_force = False
        self._before: dict[Link, bool] = {}
        self._drops: dict[Link, tuple[int, int, int]] = {}
        self._began_ns = self._healed_ns = self._agenda.now

    def inject(self) -> Measuring[None]:
        """Probe the links, then cut them."""
        self._before = yield from self._probe((*self.links, *self._kept))
        self._drops = {link: (self._dropped(link), 0, 0) for link in self.links}
        self._network.cut([self._numbered(link) for link in self.links])
        self._in_force = True

    def confirm(self) -> Measuring[Effect | None]:
        """See that no probe comes through a cut link, and that opposite ways still work."""
        during = yield from self._probe((*self.links, *self._kept))
        kept = all(during[link] for link in self._kept if self._before[link])
        if any(during[link] for link in self.links) or not kept:
            return None
        if not any(self._before[link] for link in self.links):
            return None  # Every link of this cut was dead before it.
        for link in self.links:
            first = self._drops[link][0]
            self._drops[link] = (first, self._dropped(link), 0)
        links = tuple(
            LinkEffect(
                sender=link[0],
                receiver=link[1],
                cut=link in self.links,
                before=self._before[link],
                during=during[link],
            )
            for link in (*self.links, *self._kept)
        )
        took_s = (self._agenda.now - self._began_ns) / NS_PER_S
        return CutEffect(cut_id=self._cut_id, took_s=took_s, links=links)

    def heal(self) -> None:
        """Join the links again."""
        if self._in_force:
            self._in_force = False
            self._healed_ns = self._agenda.now
            for link in self.links:
                before, first, _ = self._drops[link]
                self._drops[link] = (before, first, self._dropped(link))
            self._network.join([self._numbered(link) for link in self.links])

    def confirm_healed(self, limit_s: float) -> Measuring[HealEffect | None]:
        """See that probes come through again, but where another fault still cuts."""
        deadline_ns = self._agenda.now + round(limit_s * NS_PER_S)
        while True:
            after = yield from self._probe(self.links)
            if all(after[link] or self._still_cut(link) for link in self.links):
                break
            if self._agenda.now >= deadline_ns:
                return None
        links = tuple(
            LinkHealed(
                sender=link[0],
                receiver=link[1],
                after=after[link],
                cut_by_others=self._still_cut(link),
                dropped_at_first=self._drops[link][1] - self._drops[link][0],
                dropped_while_held=max(0, self._drops[link][2] - self._drops[link][1]),
            )
            for link in self.links
        )
        took_s = (self._agenda.now - self._healed_ns) / NS_PER_S
        return JoinEffect(cut_id=self._cut_id, took_s=took_s, links=links)

    def _probe(self, links: tuple[Link, ...]) -> Measuring[dict[Link, bool]]:
        arrived: dict[Link, bool] = {}
        for _ in range(PROBES):
            for link in links:
                self._network.probe(self._numbered(link), _noting(arrived, link))
            yield PROBE_EVERY_S
        yield PROBE_S
        return {link: arrived.get(link, False) for link in links}

    def _still_cut(self, link: Link) -> bool:
        return self._network.is_cut(*self._numbered(link))

    def _dropped(self, link: Link) -> int:
        return self._network.dropped.get(self._numbered(link), 0)

    def _numbered(self, link: Link) -> tuple[int, int]:
        return self._numbers[link[0]], self._numbers[link[1]]


def _noting(arrived: dict[Link, bool], link: Link) -> Callable[[], None]:
    def note() -> None:
        arrived[link] = True

    return note
