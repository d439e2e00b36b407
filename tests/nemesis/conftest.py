"""A cluster and its hosts in memory, which obey the protocols as real ones do, but at once."""

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cluster.hosts.local import LocalHosts
from cluster.logs import KafkaLogs
from cluster.protocol import ClusterError, ClusterView, Command, Link, PartitionState, ProcessId
from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.tasks import Tasks
from nemesis.network import Network
from nemesis.protocol import Site
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from results.record.clock import NS_PER_S, RunClock
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import new_event, start
from results.record.stream import read_stream


class FakeNetwork(LocalHosts):
    """Hosts that can cut: a probe arrives unless a cut covers its link."""

    kind = "fake"

    def __init__(self) -> None:
        super().__init__(Path("processes.jsonl"))
        self.cuts: dict[str, dict[Link, int]] = {}
        self.deaf_to_join = False
        self.deaf_to_cut = False

    def up(self) -> None:
        """Nothing to make."""

    def address(self, node: str) -> str:
        return f"10.0.0.{node[1:]}"

    def spawn(self, node: str, command: Command) -> ProcessId:
        raise NotImplementedError(f"{node}: {command}: the fake cluster makes its own processes")

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        raise NotImplementedError(f"{node}: {process}: nobody sees its end")

    def down(self) -> None:
        self.cuts.clear()

    def cut(self, cut_id: str, links: Iterable[Link]) -> None:
        if not self.deaf_to_cut:
            self.cuts[cut_id] = dict.fromkeys(links, 0)

    def join(self, cut_id: str) -> None:
        if not self.deaf_to_join:
            self.cuts.pop(cut_id, None)

    def dropped(self, cut_id: str) -> Mapping[Link, int]:
        return self.cuts.get(cut_id, {})

    def probe(self, links: Iterable[Link], timeout_s: float = 0.5) -> Mapping[Link, bool]:
        assert timeout_s > 0
        return {link: not self._drops(link) for link in links}

    def send(self, link: Link, packets: int) -> None:
        """Let a broker send packets over a link."""
        for _ in range(packets):
            self._drops(link)

    def _drops(self, link: Link) -> bool:
        # As with nft, the first rule that matches drops and counts.
        for links in self.cuts.values():
            if link in links:
                links[link] += 1
                return True
        return False


class FakeHostsWithoutCuts(LocalHosts):
    """Hosts of the kind `process`: no `CanPartition`."""

    kind = "process"

    def __init__(self) -> None:
        super().__init__(Path("processes.jsonl"))

    def up(self) -> None:
        """Nothing to make."""

    def address(self, node: str) -> str:
        return f"{node} is at localhost"

    def spawn(self, node: str, command: Command) -> ProcessId:
        raise NotImplementedError(f"{node}: {command}: the fake cluster makes its own processes")

    def exit_of(self, node: str, process: ProcessId) -> int | None:
        raise NotImplementedError(f"{node}: {process}: nobody sees its end")

    def down(self) -> None:
        """Nothing to remove."""


class FakeCluster:
    """Brokers as entries of a process table; a broker that runs is registered at once."""

    logs = KafkaLogs()

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = nodes
        self.states: dict[ProcessId, str] = {}
        self.processes: dict[str, ProcessId] = {}
        self.refusals: dict[str, Exception] = {}
        """Exceptions by method and node (`kill n1`), raised once."""
        self.asleep: set[str] = set()
        """Nodes whose broker, once started again, never registers."""
        self.calls: list[str] = []
        self.on_call = threading.Event()
        self.leaders: dict[tuple[str, int], str | None] = {}
        """Who leads, whatever becomes of them; of the rest a node that runs takes over."""
        self.takes_over = True
        self._pids = itertools.count(1000)
        self.start()
        self.calls.clear()

    def start(self) -> None:
        for node in self.nodes:
            self.start_node(node)

    def start_node(self, node: str) -> ProcessId:
        self._called("start", node)
        process = ProcessId(pid=next(self._pids), start_ticks=7)
        self.states[process] = "S"
        self.processes[node] = process
        return process

    def stop_node(self, node: str, timeout_s: float) -> bool:
        assert timeout_s > 0
        self._called("stop", node)
        del self.states[self.processes[node]]
        return True

    def kill_node(self, node: str) -> None:
        self._called("kill", node)
        self.states.pop(self.processes[node], None)

    def pause_node(self, node: str) -> None:
        self._called("pause", node)
        self.states[self.processes[node]] = "T"

    def resume_node(self, node: str) -> None:
        self._called("resume", node)
        if self.states.get(self.processes[node]) == "T":
            self.states[self.processes[node]] = "S"

    def process(self, node: str) -> ProcessId | None:
        return self.processes.get(node)

    def state_of(self, process: ProcessId) -> str | None:
        return self.states.get(process)

    def view(self) -> ClusterView | None:
        running = [node for node in self.nodes if self.states.get(self.processes[node]) == "S"]
        if not running:
            return None
        return ClusterView(
            asked=running[-1],
            registered=frozenset(running) - self.asleep,
            controller=running[0],
            partitions={
                (topic, number): PartitionState(
                    topic=topic,
                    partition=number,
                    leader=self.leaders.get((topic, number), self._leader(number)),
                    leader_epoch=3,
                    replicas=tuple(self.nodes),
                    isr=tuple(running),
                )
                for topic in ("log-0", "log-1")
                for number in range(4)
            },
        )

    def _leader(self, number: int) -> str:
        first = self.nodes[number % len(self.nodes)]
        gone = [node for node in self.nodes if self.processes[node] not in self.states]
        others = [node for node in self.nodes if node not in gone]
        return others[0] if self.takes_over and others and first in gone else first

    def bootstrap(self) -> str:
        return "nowhere:9092"

    def _called(self, what: str, node: str) -> None:
        self.calls.append(f"{what} {node}")
        self.on_call.set()
        if refusal := self.refusals.pop(f"{what} {node}", None):
            raise refusal


@dataclass(kw_only=True)
class World:
    """All that a nemesis needs, in memory but for the run's folder."""

    paths: RunPaths
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster(["n1", "n2", "n3"]))
    hosts: FakeNetwork | FakeHostsWithoutCuts = field(default_factory=FakeNetwork)
    stop: threading.Event = field(default_factory=threading.Event)
    nemeses: list[Nemesis] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hosts.processes_file = self.paths.processes

    @property
    def network(self) -> FakeNetwork:
        assert isinstance(self.hosts, FakeNetwork)
        return self.hosts

    def site(self) -> Site:
        """Return what a single fault works upon."""
        network = Network(self.hosts) if isinstance(self.hosts, FakeNetwork) else None
        return Site(cluster=self.cluster, network=network, state_of=self.cluster.state_of)

    def nemesis(
        self,
        *faults: ScheduledFault,
        overlapping: bool = False,
        spares_majority: bool = True,
        lull_s: float = 0.0,
        plan: Plan | None = None,
    ) -> Nemesis:
        """Return a nemesis with a schedule of these faults."""
        made = Nemesis(
            plan=plan or Plan(),
            schedule=Schedule(
                faults=faults,
                overlapping=overlapping,
                spares_majority=spares_majority,
                lull_s=lull_s,
            ),
            cluster=self.cluster,
            hosts=self.hosts,
            clock=RunClock.starting_now(),
            paths=self.paths,
            state_of=self.cluster.state_of,
        )
        self.nemeses.append(made)
        return made

    def played(
        self,
        *faults: ScheduledFault,
        ends_s: float = 60.0,
        meanwhile: Callable[[], object] = lambda: None,
        spares_majority: bool = True,
        lull_s: float = 0.0,
        plan: Plan | None = None,
    ) -> dict[int, tuple[float | None, str | None]]:
        """Play faults in virtual time.

        Returns:
            Of each fault when it was begun or skipped, in seconds, and why it had no effect.
        """
        for node in self.cluster.nodes:
            self.paths.node(node).mkdir(parents=True)

        def life() -> None:
            stop = new_event()
            nemesis = self.nemesis(
                *faults, spares_majority=spares_majority, lull_s=lull_s, plan=plan
            )
            task = start(lambda: nemesis.run(stop), "nemesis", awaited=True)
            meanwhile()
            task.join(ends_s)
            stop.set()
            task.result()
            nemesis.heal_all()
            self.nemeses.remove(nemesis)
            nemesis.close()  # What repeats is written when there is much of it, or at the end.

        Tasks(Agenda()).run(life)
        return {
            row["fault_id"]: (
                round(row["requested_ns"] / NS_PER_S, 1),
                json.loads(row["spec"])["without_effect"],
            )
            for row in self.last_rows()
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the `faults` stream so far, all of them."""
        batches = read_stream(self.paths.live / "faults.nemesis.arrows")
        return [row for batch in batches for row in batch.to_pylist()]

    def last_rows(self) -> list[dict[str, Any]]:
        """Return the last row of each fault, as compaction keeps them."""
        return list({row["fault_id"]: row for row in self.rows()}.values())

    def refuse(self, what: str, why: str) -> None:
        """Let the next call fail, such as `kill n1`."""
        self.cluster.refusals[what] = ClusterError(why)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    paths = RunPaths(tmp_path / "log" / "20261121T120000Z-0")
    paths.live.mkdir(parents=True)
    made = World(paths=paths)
    yield made
    made.stop.set()  # No thread of a test that failed goes on.
    for nemesis in made.nemeses:
        nemesis.close()
