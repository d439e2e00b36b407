"""Three brokers' replicas on simulated disks, a network that a test drives, and a controller.

Everything that may happen is a method; whoever calls decides what happens when.
"""

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from kio.schema.errors import ErrorCode

from cluster.reference.log.files import LogFiles
from cluster.reference.log.recovery import recovered
from cluster.reference.machine import (
    Answered,
    Append,
    Asker,
    CancelTimer,
    DropLog,
    Effect,
    Flush,
    Reply,
    Request,
    RollAt,
    Say,
    SetAside,
    SetTimer,
    Truncate,
    WriteFile,
)
from cluster.reference.messages.control import AlteredPartition, AlterPartition
from cluster.reference.messages.data import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetsForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.reference.partition.replicas import Replicas
from cluster.reference.partition.state import PartitionState
from cluster.reference.settings import NANOSECONDS_A_MS, Settings, TopicSettings
from cluster.reference.simulator.disk import SimulatedDisk

NODES = (1, 2, 3)
TOPIC_ID = UUID(int=7)
CLIENT = -1


Verdicts = Sequence[AlteredPartition] | None


@dataclass(eq=False)
class Connection:
    """From one incarnation to another; messages stay in order, each way."""

    number: int
    asker: int
    target: int
    requests: deque[Request] = field(default_factory=deque)
    answers: deque[tuple[int, object]] = field(default_factory=deque)
    waiting: dict[int, None] = field(default_factory=dict)


@dataclass(eq=False)
class Broker:
    id: int
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    replicas: Replicas | None = None
    files: LogFiles | None = None
    epoch: int = -1
    timers: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


class Lab:
    """The cluster."""

    def __init__(
        self,
        *,
        settings: Settings,
        partitions: int = 1,
        min_insync: int = 1,
        nodes: tuple[int, ...] = NODES,
        segment_bytes: int = 400,
    ) -> None:
        self.settings, self.now, self.nodes = settings, 0, nodes
        self.segment_bytes = segment_bytes
        self.brokers = {node: Broker(node) for node in nodes}
        self.connections: list[Connection] = []
        self.numbers, self.requests = itertools.count(1), itertools.count(1)
        self.broker_epochs = itertools.count(10)
        self.alive: dict[int, int] = {}
        self.wishes: deque[tuple[int, int, tuple[AlterPartition, ...]]] = deque()
        self.verdicts: deque[tuple[int, int, tuple[AlterPartition, ...], Verdicts]] = deque()
        self.answers: dict[int, ProduceResponse] = {}
        self.fetched: dict[int, object] = {}
        topic = TopicSettings(min_insync_replicas=min_insync)
        self.states = {
            number: PartitionState(
                topic="t",
                topic_id=TOPIC_ID,
                partition=number,
                leader=nodes[number % len(nodes)],
                leader_epoch=0,
                partition_epoch=0,
                replicas=nodes,
                isr=nodes,
                settings=topic,
            )
            for number in range(partitions)
        }
        for node in nodes:
            self.start(node)
        for node in nodes:
            self.tell(node)

    # What happens to nodes.

    def start(self, node: int) -> None:
        broker = self.brokers[node]
        found = recovered(broker.disk)
        broker.files = LogFiles(broker.disk, segment_bytes=self.segment_bytes)
        broker.said += found.said
        broker.timers = {}
        broker.replicas = Replicas(
            node_id=node, settings=self.settings, recovered=found, numbers=self.requests
        )
        broker.epoch = next(self.broker_epochs)
        if node in self.alive:
            self.fence(node)  # A registration of a new incarnation ends the old one's session.
        self.alive[node] = broker.epoch
        self._carry(broker, broker.replicas.start(self.now))
        for number, state in self.states.items():
            if state.leader == -1 and node in state.isr:
                self._change(number, leader=node, leader_epoch=state.leader_epoch + 1)

    def stop(self, node: int) -> None:
        """Shut a node down in good order."""
        broker = self.brokers[node]
        if broker.replicas is not None:
            self._carry(broker, broker.replicas.shut_down(broker.epoch))
        self.kill(node)

    def kill(self, node: int) -> None:
        broker = self.brokers[node]
        if broker.replicas is None:
            return
        broker.replicas = broker.files = None
        for connection in list(self.connections):
            if node in (connection.asker, connection.target):
                self.break_connection(connection)

    def lose_power(self, node: int, random: Random) -> None:
        self.kill(node)
        self.fence(node)
        self.brokers[node].disk.lose_power(random)

    def running(self, node: int) -> bool:
        return self.brokers[node].replicas is not None

    def replicas(self, node: int) -> Replicas:
        found = self.brokers[node].replicas
        assert found is not None
        return found

    # The network.

    def deliver(self, connection: Connection) -> None:
        """Hand over the next request of a connection, or else its next answer."""
        if connection.requests:
            request = connection.requests.popleft()
            asker = Asker(
                who=connection.asker, connection=connection.number, correlation=request.number
            )
            self._ask(connection.target, asker, request.message)
        elif connection.answers:
            number, message = connection.answers.popleft()
            del connection.waiting[number]
            self._answer(connection.asker, number, message)

    def break_connection(self, connection: Connection) -> None:
        """Lose all that is on a connection; both ends see that it is gone."""
        self.connections.remove(connection)
        if (target := self.brokers[connection.target].replicas) is not None:
            target.hung(connection.number)
        for number in connection.waiting:
            if self.running(connection.asker):
                self._answer(connection.asker, number, None)

    def advance(self, ms: int) -> None:
        """Let time pass, and the timers fire in their order."""
        until = self.now + ms * NANOSECONDS_A_MS
        while True:
            due = [
                (at, node, name)
                for node, broker in self.brokers.items()
                if broker.replicas is not None
                for name, at in broker.timers.items()
                if at <= until
            ]
            if not due:
                break
            at, node, name = min(due)
            self.now = max(self.now, at)
            broker = self.brokers[node]
            del broker.timers[name]
            self._carry(broker, self.replicas(node).fired(self.now, name))
        self.now = until

    # Clients.

    def produce(self, node: int, partition: int, records: bytes, *, acks: int = -1) -> int:
        """Send; the answer comes to be in `answers`."""
        number = next(self.numbers)
        asker = Asker(who=CLIENT, connection=0, correlation=number)
        sent = ProducePartition(topic="t", partition=partition, records=records)
        asked = ProduceRequest(acks=acks, timeout_ms=2000, partitions=(sent,))
        self._carry(self.brokers[node], self.replicas(node).produce(self.now, asker, asked))
        return number

    def fetch(self, node: int, asked: FetchRequest) -> int:
        number = next(self.numbers)
        asker = Asker(who=CLIENT, connection=0, correlation=number)
        self._carry(self.brokers[node], self.replicas(node).fetch(self.now, asker, asked))
        return number

    # The controller.

    def tell(self, node: int) -> None:
        """Have a node catch up with the controller's metadata."""
        broker = self.brokers[node]
        replicas = self.replicas(node)
        states = tuple(self.states.values())
        self._carry(broker, replicas.apply(self.now, states))
        self._carry(broker, replicas.brokers(self.now, self.alive, own_epoch=broker.epoch))

    def fence(self, node: int) -> None:
        """End a node's session: it leaves the ISRs, but never as the last."""
        self.alive.pop(node, None)
        for number, state in self.states.items():
            isr = tuple(each for each in state.isr if each != node) or state.isr
            leader, epoch = state.leader, state.leader_epoch
            if leader == node:
                leader = next((each for each in isr if each in self.alive), -1)
                epoch += 1
            if (isr, leader) != (state.isr, state.leader):
                self._change(number, isr=isr, leader=leader, leader_epoch=epoch)

    def elect(self, number: int, node: int) -> bool:
        """Move a leadership within the ISR."""
        state = self.states[number]
        if node not in state.isr or node not in self.alive or node == state.leader:
            return False
        self._change(number, leader=node, leader_epoch=state.leader_epoch + 1)
        return True

    def decide(self) -> None:
        """Have the controller take the next AlterPartition; its answer can be lost."""
        node, epoch, wishes = self.wishes.popleft()
        answers: list[AlteredPartition] | None = None
        if self.alive.get(node) == epoch:
            answers = [self._decided(wish) for wish in wishes]
        self.verdicts.append((node, epoch, wishes, answers))

    def hear(self, *, lost: bool = False) -> None:
        """Have a leader hear the next answer of the controller."""
        node, epoch, wishes, answers = self.verdicts.popleft()
        broker = self.brokers[node]
        if broker.replicas is not None and broker.epoch == epoch:
            told = None if lost else answers
            self._carry(broker, broker.replicas.isr_answered(self.now, wishes, told))

    def calm_down(self) -> None:
        """Start whoever is down, and let everything come to rest."""
        for node in self.nodes:
            if not self.running(node):
                self.start(node)
            self.alive.setdefault(node, self.brokers[node].epoch)
        for number, state in self.states.items():
            if state.leader == -1:
                leader = next(each for each in state.isr if each in self.alive)
                self._change(number, leader=leader, leader_epoch=state.leader_epoch + 1)
        for _ in range(12):
            for node in self.nodes:
                self.tell(node)
            self.exchange()
            self.advance(600)

    def exchange(self) -> None:
        """Deliver all that is under way, until nothing is."""
        for _ in range(1000):
            busy = [each for each in self.connections if each.requests or each.answers]
            if not (busy or self.wishes or self.verdicts):
                return
            for connection in busy:
                self.deliver(connection)
            while self.wishes:
                self.decide()
            while self.verdicts:
                self.hear()
        raise AssertionError("the replicas never come to rest")

    def _decided(self, wish: AlterPartition) -> AlteredPartition:
        state = self.states[wish.partition_index]
        code = ErrorCode.none
        if wish.leader_epoch != state.leader_epoch:
            code = ErrorCode.fenced_leader_epoch
        elif wish.partition_epoch != state.partition_epoch:
            code = ErrorCode.invalid_update_version
        elif any(self.alive.get(broker) != epoch for broker, epoch in wish.new_isr_with_epochs):
            code = ErrorCode.ineligible_replica
        else:
            isr = tuple(broker for broker, _ in wish.new_isr_with_epochs)
            state = self._change(wish.partition_index, isr=isr)
        return AlteredPartition(
            topic_id=wish.topic_id,
            partition_index=wish.partition_index,
            error_code=code,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
        )

    def _change(self, number: int, **changes: object) -> PartitionState:
        state = self.states[number]
        changed = replace(state, partition_epoch=state.partition_epoch + 1, **changes)  # type: ignore[arg-type]  # names of its fields
        self.states[number] = changed
        return changed

    # Effects.

    def _ask(self, node: int, asker: Asker, message: object) -> None:
        broker, replicas = self.brokers[node], self.replicas(node)
        match message:
            case FetchRequest():
                self._carry(broker, replicas.fetch(self.now, asker, message))
            case ListOffsetsRequest():
                self._reply(asker, replicas.list_offsets(message))
            case OffsetsForLeaderEpochRequest():
                self._reply(asker, replicas.epoch_ends(message))
            case _:
                raise AssertionError(f"no follower asks {message}")

    def _answer(self, node: int, number: int, message: object) -> None:
        replicas = self.replicas(node)
        effects = replicas.answered(self.now, Answered(request=number, message=message))
        self._carry(self.brokers[node], effects)

    def carry(self, node: int, effects: list[Effect]) -> None:
        """Carry out effects that came by another way than an event."""
        self._carry(self.brokers[node], effects)

    def _carry(self, broker: Broker, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Append() | Flush() | Truncate() | DropLog() | WriteFile():
                    assert broker.files is not None
                    broker.files.write(effect)
                case SetAside() | RollAt():
                    assert broker.files is not None
                    broker.files.write(effect)
                case Say():
                    broker.said.append(effect.text)
                case SetTimer():
                    broker.timers[effect.timer] = self.now + effect.after_ns
                case CancelTimer():
                    broker.timers.pop(effect.timer, None)
                case Request():
                    self._send(broker.id, effect)
                case Reply():
                    self._reply(effect.asker, effect.message)
                case _:
                    raise AssertionError(f"replicas have no such effect: {effect}")
        if broker.replicas is not None and (wishes := broker.replicas.isr_wishes()):
            self.wishes.append((broker.id, broker.epoch, wishes))

    def _send(self, node: int, request: Request) -> None:
        if not self.running(request.to):
            self._answer(node, request.number, None)
            return
        ends = (node, request.to)
        connection = next((c for c in self.connections if (c.asker, c.target) == ends), None)
        if connection is None:
            connection = Connection(next(self.numbers), *ends)
            self.connections.append(connection)
        connection.requests.append(request)
        connection.waiting[request.number] = None

    def _reply(self, asker: Asker, message: object) -> None:
        if asker.who == CLIENT:
            kept = self.answers if isinstance(message, ProduceResponse) else self.fetched
            assert asker.correlation not in kept, "a request was answered twice"
            kept[asker.correlation] = message  # type: ignore[assignment]  # each holds its kind
            return
        for connection in self.connections:
            if connection.number == asker.connection:
                connection.answers.append((asker.correlation, message))
