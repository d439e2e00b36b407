"""A room in virtual time: one fault of each kind by the nemesis that ships, and who looks on.

Whoever looks sees the machines as they are, from inside of the simulation: links that are cut,
processes that stand still, bytes of disks. None of it is the fault's own measurement.
"""

import itertools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cluster.protocol import CLIENTS, MOST_FLOWS
from cluster.reference.simulator.host import Host
from cluster.reference.simulator.machines import SimulatedMachines
from cluster.reference.simulator.network import CLIENT
from cluster.systems.system import Deployment
from harness.life import whole
from harness.simulated.world import SimulatedWorld
from nemesis.life import FaultPhase
from nemesis.registry import KINDS
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from nemesis.targets import SERVERS
from results.record.clock import RunClock, pause_until, stopwatch_s, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.runtime import new_event, start
from results.record.terms import REMADE_PREFIX

S = 1_000_000_000
NODES = ("n1", "n2", "n3")
LOOK_S, HOLD_S = 0.083, 3.0
FLUSHES_IN_S = 12.0
"""A broker flushes once in so long, whatever its quorum decided."""
DATAGRAMS, EVERY_S, DATAGRAM_BYTES = 200, 0.002, 1200
TARGETS = {
    "client-cut": "leader(log-0,0)",
    "power-loss": "follower(log-0,0)",
    "wipe": "follower(log-0,0)",
    "bit-flip": "follower(log-0,0)",
    "preferred-election": "leader(log-0,0)",
    "reassignment": "leader(log-0,0)",
    "controller-failover": "controller",
    "unclean-election": "replicas(log-0,0)",
    "rolling-restart": "all",
    "disputed-election": "quorum-voters",
}
Look = Any


def _role(kind: str) -> str:
    if KINDS[kind].family == "client-connections":
        return "leader(log-0,0)"  # Over connections to others clients send next to nothing.
    dealt = {*KINDS[kind].aims} & {SERVERS, "majority"}
    return dealt.pop() if dealt else "n2"


@dataclass(slots=True)
class Story:
    """How one fault went.

    Attributes:
        before: What was seen before it.
        looks: What was seen while it was held, and of some kinds while it began.
        after: What was seen after its heal.
        row: The last row of its life.
        failed: What went wrong at its heal, in sentences.
    """

    before: Look
    looks: list[Look] = field(default_factory=list)
    after: Look = None
    row: Any = None
    failed: tuple[str, ...] = ()


Shows = Callable[[Story], bool]


def cuts_only(*links: tuple[int, int]) -> Shows:
    """Tell whether exactly these links were cut while the fault was held."""
    return lambda story: all(look == {*links} for look in story.looks)


def now(state: str, targets: int = 1) -> Shows:
    """Tell whether as many nodes were in another state all the while, and all others as before."""

    def shows(story: Story) -> bool:
        return all(
            [look[node] for node in story.row.targets]
            == [f"{story.before[node].split()[0]} {state}" for node in story.row.targets]
            and sum(look[node] != was for node, was in story.before.items()) == targets
            for look in story.looks
        )

    return shows


class SimulatedRoom:
    """Three simulated nodes under load.

    Args:
        folder: The run's.
    """

    def __init__(self, folder: Path) -> None:
        self.plan = plan_of_room()
        self._world = SimulatedWorld(self.plan)
        self.simulation = self._world.simulation
        self._folder = folder
        self.stories: dict[str, Story] = {}
        self.trouble: list[str] = []

    def play(self, kinds: Sequence[str]) -> None:
        """Play one fault of each kind, one after the other."""
        self._world.play(partial(self._live, kinds))

    def _live(self, kinds: Sequence[str]) -> None:
        paths, clock = _paths(self._folder / "room"), RunClock(start_ns=0)
        hosts = self._world.hosts(self.plan, paths)
        assert isinstance(hosts, SimulatedMachines)
        self.hosts = hosts
        hosts.up()
        self.cluster = self._world.cluster(self.plan, hosts, paths, say=print)
        self.cluster.start()
        topics = self.cluster.create_topics(
            self.plan.topic_names,
            partitions=self.plan.partitions,
            replication=self.plan.replication,
        )
        fleet = self._world.clients(
            self.plan, topics, self.cluster.bootstrap(), clock=clock, paths=paths
        )
        fleet.start()
        pause_until(stopwatch_s() + 2)
        for number, kind in enumerate(kinds, start=1):
            self.stories[kind] = self._told(kind, number, clock)
        self.trouble += [*fleet.died(), *fleet.stop(5)]
        self.cluster.stop(10)
        hosts.down()

    def _told(self, kind: str, number: int, clock: RunClock) -> Story:
        wait_until(
            lambda: whole(self.cluster.view(), self.plan), timeout_s=60, what="all to be whole"
        )
        look = WITNESSES[kind]
        story = Story(before=look(self))
        fault = ScheduledFault(
            fault_id=number,
            at_s=0,
            kind=kind,
            target=TARGETS.get(kind, _role(kind)),
            hold_s=2 * FLUSHES_IN_S if kind == "slow-disk" else HOLD_S,
        )
        nemesis = Nemesis(
            plan=self.plan,
            schedule=Schedule(faults=(fault,), overlapping=False),
            cluster=self.cluster,
            hosts=self.hosts,
            clock=clock,
            paths=_paths(self._folder / kind),
        )
        task = start(partial(nemesis.run, new_event()), kind, awaited=True)
        while not task.is_over():
            begins = any(each.phase is FaultPhase.STARTING for each in nemesis.in_force())
            held = any(each.phase is FaultPhase.HELD for each in nemesis.in_force())
            if held or (begins and _shows_from_start(kind)):
                story.looks.append(look(self))
            task.join(LOOK_S)
        task.result()
        (life,) = nemesis._lives
        story.row, story.after = life.row, look(self)
        story.failed = nemesis.heal_all(limit_s=30).failed
        nemesis.close()
        return story

    def host(self, node: str) -> Host:
        """Return a node's machine."""
        return self.hosts.host(node)


def plan_of_room() -> Plan:
    """Return the plan: two of three nodes have each partition, so that one is left to elect."""
    return plan_from({
        "system": "reference", "hosts": "simulated", "seed": 7, "rate": 20, "concurrency": 4,
        "topics": 1, "partitions": 1, "replication": 2, "min_insync": 1, "nemesis": [],
        "time_limit_s": 60, "disk_mb": 64,
    })  # fmt: skip


def _paths(root: Path) -> RunPaths:
    paths = RunPaths(root)
    paths.live.mkdir(parents=True)
    return paths


def _cuts(room: SimulatedRoom) -> frozenset[tuple[int, int]]:
    network = room.simulation.network
    return frozenset(
        link for link in itertools.permutations((CLIENT, 1, 2, 3), 2) if network.is_cut(*link)
    )


def _flows(room: SimulatedRoom) -> Mapping[tuple[int, int], int]:
    """Send a datagram of each of 20 flows over each link; return how many come at once."""
    network = room.simulation.network
    came = dict.fromkeys(itertools.permutations((CLIENT, 1, 2, 3), 2), 0)

    def arrived(link: tuple[int, int]) -> None:
        came[link] += 1

    for link, flow in itertools.product([*came], range(MOST_FLOWS)):
        network.probe(link, partial(arrived, link), flow=flow)
    pause_until(stopwatch_s() + 0.01)
    return dict(came)


def _numbers(story: Story) -> set[tuple[int, int]]:
    """Return the links that a fault says that it drew."""
    number = {CLIENTS: CLIENT, **{f"n{at}": at for at in (1, 2, 3)}}
    return {(number[a], number[b]) for a, b in story.row.spec.links}


def stalls_as_drawn(story: Story) -> bool:
    """Tell whether all flows of the links that were drawn, and no others, stalled by turns."""
    return _stalls(story, range(1))


def half_stall_as_drawn(story: Story) -> bool:
    """Tell whether some flows of the links that were drawn stalled by turns, and none of others."""
    return _stalls(story, range(3, MOST_FLOWS - 2))


def _stalls(story: Story, held: Collection[int]) -> bool:
    drawn, nearly_all = _numbers(story), MOST_FLOWS - 3  # One in a thousand is lost.
    others = all(
        came >= nearly_all
        for look in story.looks
        for link, came in look.items()
        if link not in drawn
    )
    by_turns = all(
        any(look[link] in held for look in story.looks)
        and all(look[link] in held or look[link] >= nearly_all for look in story.looks)
        for link in drawn
    )
    return others and by_turns and bool(drawn)


def _connections(room: SimulatedRoom) -> Mapping[int, tuple[int, int, bool, int]]:
    """Return of each connection from whom and to whom it is, whether it lets nothing through, and
    how many messages have come to wait for that."""
    return {
        each.number: (*each.ahead, bool(each.blocked), sum(each.blocked.values()))
        for each in room.simulation.network.connections()
        if each.at_client and each.at_server
    }


def replaced(*, clients: bool = False) -> Shows:
    """Tell whether connections of the target were gone, and others came in their place."""

    def shows(story: Story) -> bool:
        # One look alone shows no change; connections of before may end by themselves later.
        looks = [story.before, *story.looks] if len(story.looks) > 1 else story.looks
        pairs = [_of_node(look, _target(story), clients=clients) for look in looks]
        return any(
            one.keys() - other.keys() and {*one.values()} & {*_new(one, other)}
            for one, other in itertools.combinations(pairs, 2)
        )

    return shows


def _target(story: Story) -> int:
    (node,) = story.row.targets
    return int(node.removeprefix("n"))


def _new(one: Mapping[int, Look], other: Mapping[int, Look]) -> list[Look]:
    return [ends for number, ends in other.items() if number > max(one, default=0)]


def silent(*, clients: bool = False) -> Shows:
    """Tell whether some connections of the target, and no others, let nothing through."""

    def shows(story: Story) -> bool:
        for look in story.looks:
            mine = _of_node(look, _target(story), clients=clients)
            mute = {number for number, (*_, blocked, _) in look.items() if blocked}
            if not mute <= mine.keys():
                return False
        most = max(
            (seen for look in story.looks for *_, blocked, seen in look.values() if blocked),
            default=0,
        )
        return most > 0

    return shows


def _of_node(look: Look, node: int, *, clients: bool) -> Mapping[int, tuple[int, int]]:
    """Return the connections of a node with clients, or with other nodes, by who opened them."""
    return {
        number: (client, server)
        for number, (client, server, _, _) in look.items()
        if node in {client, server} and (client == CLIENT) == clients
    }


def _datagrams(room: SimulatedRoom) -> Mapping[str, float]:
    """Send datagrams from n2 to n1; tell what became of them."""
    simulation = room.simulation
    came: list[tuple[int, int]] = []
    began_ns = simulation.now_ns

    def sent(number: int) -> None:
        at_ns = simulation.now_ns
        simulation.network.probe(
            (2, 1), lambda: came.append((number, simulation.now_ns - at_ns)), size=DATAGRAM_BYTES
        )

    for number in range(DATAGRAMS):
        simulation.agenda.after(round(number * EVERY_S * S), sent, number)
    pause_until(stopwatch_s() + DATAGRAMS * EVERY_S + 0.8)
    numbers = [number for number, _ in came]
    first = list(dict.fromkeys(numbers))
    late_ms = sorted(late / 1e6 for _, late in came)
    lasted_s = max((at * EVERY_S + late / S for at, late in came), default=0.0)
    assert simulation.now_ns > began_ns
    return {
        "lost": 1 - len(first) / DATAGRAMS,
        "doubled": (len(numbers) - len(first)) / DATAGRAMS,
        "overtaken": sum(a > b for a, b in itertools.pairwise(first)) / DATAGRAMS,
        "least_ms": late_ms[0],
        "spread_ms": late_ms[len(late_ms) * 3 // 4] - late_ms[len(late_ms) // 4],
        "kbit": len(numbers) * DATAGRAM_BYTES * 8 / 1000 / lasted_s,
    }


def _processes(room: SimulatedRoom) -> Mapping[str, str]:
    """Return of each node which of its starts it is, and in which state."""
    told = {}
    for node in NODES:
        host = room.host(node)
        state = "off" if not host.powered else "gone" if host.process is None else "runs"
        if host.process is not None and host.process.paused:
            state = "stands"
        told[node] = f"{host.incarnation} {state}"
    return told


def _replicas(room: SimulatedRoom) -> Mapping[str, Look]:
    """Return of each node's replica its bytes, and what its broker said it found."""
    found = {}
    for node in NODES:
        disk = room.host(node).disk
        paths = [path for path in disk.paths() if path.startswith("log-0-0/") and ".log" in path]
        invalid = sum("Corruption found in segment" in text for _, text in room.host(node).said)
        found[node] = (b"".join(map(disk.read, paths)), invalid, _processes(room)[node])
    return found


def _disk(room: SimulatedRoom) -> tuple[str, str]:
    """Return the error that a write to n2's disk gets, and its process."""
    disk, error = room.host("n2").disk, ""
    try:
        disk.append("witness", b"?")
    except OSError as refused:
        error = os.strerror(refused.errno or 0)
    disk.remove("witness")
    return error, _processes(room)["n2"].split()[1]


def _flush_s(room: SimulatedRoom) -> float:
    """Wait for the next flush of n2's broker; return for how long it held that up."""
    since_ns, host = room.simulation.now_ns, room.host("n2")
    wait_until(
        lambda: host.flushed_ns[0] > since_ns, timeout_s=FLUSHES_IN_S, what="a flush of the broker"
    )
    return host.flushed_ns[1] / S


def _ahead_s(room: SimulatedRoom) -> Mapping[str, float]:
    """Return by how much each clock is ahead of the truth."""
    now_ns = room.simulation.now_ns
    return {node: room.host(node).clock.ahead_ns(now_ns) / S for node in NODES}


def _partition(room: SimulatedRoom) -> Look:
    view = room.cluster.view()
    state = view.partitions.get(("log-0", 0)) if view else None
    return None if state is None else (state.leader, state.leader_epoch, state.replicas)


def _controller(room: SimulatedRoom) -> Look:
    view = room.cluster.view()
    return (view.controller if view else None), _processes(room)


def _remade(room: SimulatedRoom) -> Mapping[str, tuple[str, frozenset[bytes]]]:
    """Return of each node its process, and the ids of the topics made again that it has logs of."""
    found = {}
    for node, process in _processes(room).items():
        disk = room.host(node).disk
        paths = [each for each in disk.paths() if each.startswith(REMADE_PREFIX)]
        ids = [disk.read(each) for each in paths if each.endswith("-0/partition.metadata")]
        found[node] = process, frozenset(ids)
    return found


def has_an_old_log(story: Story) -> bool:
    """Tell whether the target was gone, and had a log of a life of the topic that no other has."""
    (target,) = story.row.targets

    def is_old(look: Mapping[str, tuple[str, frozenset[bytes]]]) -> bool:
        others = [ids for node, (_, ids) in look.items() if node != target]
        state, ids = look[target]
        return state.endswith("gone") and all(ids - each and each - ids for each in others)

    return all(map(is_old, story.looks))


def _topics(room: SimulatedRoom) -> frozenset[str]:
    cluster: Deployment = room.cluster
    return frozenset().union(*(cluster.topics_of(node) or () for node in NODES))


_OF_FAMILIES: Mapping[str, Callable[[SimulatedRoom], Look]] = {
    "partition": _cuts, "splits": _cuts, "clients": _cuts, "network": _datagrams, "stall": _flows,
    "stall-clients": _flows, "connections": _connections, "client-connections": _connections,
    "kill": _processes, "stop": _processes, "pause": _processes, "rolling": _processes,
    "power-loss": _replicas, "wipe": _replicas, "bit-flip": _replicas, "disk": _disk,
    "clock": _ahead_s, "leadership": _partition, "topics": _topics,
    "remade": _remade,
}  # fmt: skip
WITNESSES: Mapping[str, Callable[[SimulatedRoom], Look]] = {
    **{name: _OF_FAMILIES.get(kind.family, _processes) for name, kind in KINDS.items()},
    "slow-disk": _flush_s,
    "controller-failover": _controller,
    "disputed-election": _processes,
}
_FROM_START = ("rolling-restart", "unclean-election", "topic-churn", "disputed-election")
"""Whose effect shows while they begin, not only afterwards."""


def _shows_from_start(kind: str) -> bool:
    return kind in _FROM_START or _connections is WITNESSES[kind]
