"""The simulated brokers of a run: made, started, stopped, looked at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kio.schema.errors import ErrorCode

from cluster.kafka.versions import broker_names, controller_names
from cluster.protocol import ClusterView, PartitionState
from cluster.reference.machine import Answered, Effect, Event, Fired, Request, SetTimer
from cluster.reference.messages.clients import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
)
from cluster.reference.messages.control import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from cluster.reference.simulator.host import Boot, Host
from cluster.reference.simulator.simulation import Simulation
from harness.simulated.controllers import ControllerWatcher
from harness.simulated.watcher import Watcher
from harness.simulated.worker import ClientHosts
from results.record.plan import Plan
from results.record.topics import CreatedTopic

MS = 1_000_000
ADMINS, WATCHERS = 98, 99
"""Which of those who make clients: behind all workers."""
_PID = 1000


def name_of(number: int) -> str:
    """Return a node's name: `n3` of 3."""
    return f"n{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcess:
    """A broker's process, told as on real hosts.

    Attributes:
        pid: A number of its own for each incarnation.
        start_ticks: When it began, in hundredths of a second of virtual time.
    """

    pid: int
    start_ticks: int


class SimulatedCluster:
    """Brokers on simulated machines; nodes are called as everywhere, `n1` and so on.

    Args:
        plan: The run.
        simulation: Where they live.
        boots: Makes a node of its disk, by node id.
    """

    def __init__(self, plan: Plan, simulation: Simulation, boots: Mapping[int, Boot]) -> None:
        self.simulation = simulation
        self.hosts: dict[str, Host] = {
            name_of(number): simulation.add(number, boot) for number, boot in boots.items()
        }
        self.nodes = tuple(broker_names(plan))
        self.controllers = tuple(controller_names(plan))
        self.watchers: dict[str, Watcher] = {}
        self._controller_watchers: list[ControllerWatcher] = []
        self._plan = plan
        self._started_ns: dict[str, int] = {}
        self._clients = ClientHosts(simulation, plan, self.broker_ids, first=ADMINS)

    @property
    def broker_ids(self) -> list[int]:
        """Whom clients ask."""
        return [self.hosts[node].id for node in self.nodes]

    def start_node(self, node: str) -> None:
        """Start a node on what its disk holds."""
        self._started_ns[node] = self.simulation.now_ns
        self.hosts[node].start()

    def process(self, node: str) -> NodeProcess:
        """Return the process that was started last."""
        host = self.hosts[node]
        ticks = self._started_ns.get(node, 0) // (10 * MS)
        return NodeProcess(pid=_PID * host.id + host.incarnation, start_ticks=ticks)

    def state_of(self, node: str) -> str | None:
        """Return the state of a node's process as `/proc` has it: S, T (stopped), None: gone."""
        process = self.hosts[node].process
        if process is None:
            return None
        return "T" if process.paused else "S"

    def watch(self, topics: Sequence[CreatedTopic], live: Path) -> None:
        """Ask each broker by itself from now on."""
        agenda = self.simulation.agenda
        clients = ClientHosts(self.simulation, self._plan, [], first=WATCHERS)
        for node in self.nodes:
            host = self.hosts[node]
            self.watchers[node] = Watcher(
                node,
                host.id,
                topics=topics,
                incarnation=_incarnation_of(host),
                clock=lambda: agenda.now,
                live=live,
            )
            clients.start(self.watchers[node])
        numbers = {node: self.hosts[node].id for node in self.controllers}
        for node in self.controllers:
            watcher = ControllerWatcher(
                node,
                numbers,
                incarnation=_incarnation_of(self.hosts[node]),
                clock=lambda: agenda.now,
                live=live,
            )
            self._controller_watchers.append(watcher)
            clients.start(watcher)

    def end_watch(self) -> None:
        """Write what was told; nothing is written any more."""
        for watcher in self.watchers.values():
            watcher.close()
        for controller in self._controller_watchers:
            controller.close()

    def incarnation(self, node: str) -> int:
        """Return how often a node was started."""
        return self.hosts[node].incarnation

    def create_topics(self, replicas: Sequence[str] = ()) -> "TopicMaker":
        """Ask for the plan's topics; whoever asks waits for the answer.

        Args:
            replicas: Of each partition, its preferred leader first; none: wherever.
        """
        maker = TopicMaker(self._plan, self.broker_ids, [self.hosts[each].id for each in replicas])
        self._clients.start(maker)
        return maker

    def view(self) -> ClusterView | None:
        """Return what the cluster says of itself: of each partition what is newest."""
        told = {
            node: watcher.metadata
            for node, watcher in self.watchers.items()
            if watcher.metadata is not None and self.answers(node)
        }
        if not told:
            return None
        newest: dict[tuple[str, int], PartitionState] = {}
        asked = max(told, key=lambda node: (self.watchers[node].answered_ns or 0, node))
        for metadata in told.values():
            for topic in metadata.topics:
                for each in topic.partitions:
                    place = (str(topic.name), each.partition_index)
                    known = newest.get(place)
                    if known is not None and _is_older(each, known):
                        continue
                    newest[place] = PartitionState(
                        topic=place[0],
                        partition=place[1],
                        leader=name_of(each.leader_id) if each.leader_id >= 0 else None,
                        leader_epoch=each.leader_epoch,
                        replicas=tuple(name_of(replica) for replica in each.replica_nodes),
                        isr=tuple(name_of(replica) for replica in each.isr_nodes),
                    )
        controller = told[asked].controller_id
        return ClusterView(
            asked=asked,
            registered=frozenset(name_of(each.node_id) for each in told[asked].brokers),
            controller=name_of(controller) if controller >= 0 else None,
            partitions=newest,
        )

    def answers(self, node: str) -> bool:
        """Tell whether a node's process runs, and answered within the last seconds."""
        watcher = self.watchers[node]
        fresh_ns = self.simulation.now_ns - 2000 * MS
        answered = watcher.answered_ns is not None and watcher.answered_ns > fresh_ns
        return self.state_of(node) == "S" and answered

    def is_back(self, node: str) -> bool:
        """Tell whether a node answers since its start, and all others that answer know it.

        Nobody asks controllers of their own: one that runs is back.
        """
        if node not in self.watchers:
            return self.state_of(node) == "S"
        watcher, host = self.watchers[node], self.hosts[node]
        if not self.answers(node) or watcher.of_incarnation != host.incarnation:
            return False
        words = [self.watchers[other].metadata for other in self.nodes if self.answers(other)]
        return all(
            host.id in {each.node_id for each in word.brokers} for word in words if word is not None
        )


def _is_older(told: MetadataResponsePartition, known: PartitionState) -> bool:
    """Tell whether another answer is to be believed rather; of one epoch the smaller ISR.

    A broker that is cut off still tells of a full ISR while the others have moved on.
    """
    return (told.leader_epoch, -len(told.isr_nodes)) < (known.leader_epoch, -len(known.isr))


def _incarnation_of(host: Host) -> Callable[[], int]:
    return lambda: host.incarnation


class TopicMaker:
    """Asks one node after the other for the plan's topics until they are there.

    Attributes:
        made: The topics; None: not yet.
    """

    def __init__(self, plan: Plan, brokers: Sequence[int], replicas: Sequence[int] = ()) -> None:
        self.made: list[CreatedTopic] | None = None
        self._plan, self._brokers = plan, brokers
        self._assignments = tuple(
            (part, tuple(replicas)) for part in range(plan.partitions) if replicas
        )
        # Whose leader shall be the first of them must not be made before that one is there.
        self._all_here = not self._assignments
        self._ids: dict[str, str] = {}
        self._number = 0

    def start(self, now: int) -> Sequence[Effect]:  # noqa: ARG002 - of all machines alike
        """Begin."""
        return self._ask()

    def on(self, now: int, event: Event) -> Sequence[Effect]:  # noqa: ARG002 - as above
        """Take the answer, or ask again."""
        match event:
            case Answered(message=MetadataResponse(brokers=brokers)):
                here = {each.node_id for each in brokers}
                self._all_here = here.issuperset(self._brokers)
                return self._ask() if self._all_here else [_again()]
            case Answered(message=CreateTopicsResponse(topics=topics)):
                for each in topics:
                    if each.error_code is ErrorCode.none:
                        self._ids[each.name] = str(each.topic_id)
                if len(self._ids) == len(self._plan.topic_names):
                    self.made = [
                        CreatedTopic(
                            topic=name, topic_id=self._ids[name], partitions=self._plan.partitions
                        )
                        for name in self._plan.topic_names
                    ]
                    return []
                return [_again()]
            case Answered():
                return [_again()]
            case Fired():
                return self._ask()
            case _:
                return []

    def _ask(self) -> list[Effect]:
        self._number += 1
        to = self._brokers[self._number % len(self._brokers)]
        if not self._all_here:
            return [self._request(to, MetadataRequest(topics=()))]
        wanted = tuple(
            CreatableTopic(
                name=name,
                num_partitions=-1 if self._assignments else self._plan.partitions,
                replication_factor=-1 if self._assignments else self._plan.replication,
                assignments=self._assignments,
                configs=(("min.insync.replicas", str(self._plan.min_insync)),),
            )
            for name in self._plan.topic_names
            if name not in self._ids
        )
        return [self._request(to, CreateTopicsRequest(topics=wanted))]

    def _request(self, to: int, message: object) -> Request:
        return Request(number=self._number, to=to, message=message, timeout_ns=5000 * MS)


def _again() -> SetTimer:
    return SetTimer(timer="again", after_ns=500 * MS, at_most_ns=500 * MS)
