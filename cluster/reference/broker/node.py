"""A node of the reference cluster: its quorum, replicas and groups as one state machine.

Each request goes to the quorum, the replicas or the groups. A request from the node to itself does
not leave the node. After each event, the node gives newly committed metadata to its replicas, and
sends the replicas' requests to the controller.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from cluster.files.group_offsets import OFFSETS_TOPIC
from cluster.reference.broker.coordinator import TIMERS as GROUP_TIMERS
from cluster.reference.broker.coordinator import Commit
from cluster.reference.broker.forwarding import FORWARDED, Forwarding
from cluster.reference.broker.forwarding import TIMERS as FORWARD_TIMERS
from cluster.reference.broker.groups import Groups
from cluster.reference.broker.lifecycle import Lifecycle, Stage
from cluster.reference.broker.producer_ids import ProducerIds
from cluster.reference.broker.states import eligible, told
from cluster.reference.broker.strangers import refused_as_replica
from cluster.reference.broker.views import address_of, cluster, configs, metadata, topic_partitions
from cluster.reference.controller.image import MetadataImage
from cluster.reference.controller.plane import KRaft, is_of_metadata
from cluster.reference.machine import (
    Answered,
    Arrived,
    Asker,
    CancelTimer,
    DiskFailed,
    Effect,
    End,
    Event,
    Fired,
    Hung,
    Nanoseconds,
    Reply,
    Request,
    Say,
    SetTimer,
    StopAsked,
)
from cluster.reference.messages import clients, data
from cluster.reference.messages.control import (
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
)
from cluster.reference.partition.replicas import TIMERS as REPLICA_TIMERS
from cluster.reference.partition.replicas import Replicas
from cluster.reference.settings import NANOSECONDS_A_MS, Settings

CLIENT = -1
INSIDE = 0
"""The connection number of requests inside a node. Drivers number connections from 1."""
CONTROL_TIMEOUT_MS = 2000
_HEARTBEAT, _RETRY_ISR, _OVERDUE, _LEAVE = "node:heartbeat", "node:isr", "node:overdue:", "node:end"
_LAST, _QUIET_MS = "node:last", 300
_LEAVE_MS = 300
_ISR_RETRY_MS = 50
_GROUP_REQUESTS = (
    clients.JoinGroupRequest,
    clients.SyncGroupRequest,
    clients.HeartbeatRequest,
    clients.LeaveGroupRequest,
    clients.OffsetFetchRequest,
)
Wishes = tuple[AlterPartition, ...]


class Node:
    """Implements `Machine` for a whole node.

    Args:
        settings: The node's settings.
        cluster_id: The cluster id from `meta.properties`.
        plane: The node's quorum and controller.
        replicas: The broker's replicas; None for a separate controller.
        lifecycle: The broker's registration; None for a separate controller.
        numbers: The counter for request numbers, which all parts of the node share.
        voters: The address of each voter.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        cluster_id: str,
        plane: KRaft,
        replicas: Replicas | None,
        lifecycle: Lifecycle | None,
        numbers: Iterator[int],
        voters: Mapping[int, tuple[str, int]],
    ) -> None:
        self.settings, self.id = settings, settings.node_id
        self._cluster_id, self._voters = cluster_id, voters
        self._plane, self._numbers = plane, numbers
        self._replicas, self._lifecycle = replicas, lifecycle
        self._forwarding = Forwarding(numbers, lambda: plane.controller)
        self._groups = Groups(
            self.id, settings, image=lambda: plane.image, replica=self, ask=self._tell_controller
        )
        self._ids = ProducerIds(self._ask_for_ids)
        self._owners: dict[int, Any] = {}
        self._inside: deque[Event] = deque()
        self._under_way: dict[int, None] = {}
        self._ending = self._wishes_rest = False
        self._gone_ns = self._leaver_ns = 0
        self._waiting_wishes: list[AlterPartition] = []

    @property
    def image(self) -> MetadataImage:
        """The cluster metadata, as far as this node knows them."""
        return self._plane.image

    @property
    def plane(self) -> KRaft:
        """Quorum and controller, read-only."""
        return self._plane

    @property
    def replicas(self) -> Replicas | None:
        """The replicas, read-only."""
        return self._replicas

    def address(self, node: int) -> tuple[str, int] | None:
        """Return a node's address, or None. Nodes accept each other's requests on any port."""
        if node in self._voters:
            return self._voters[node]
        broker = self.image.brokers.get(node)
        return address_of(broker) if broker is not None else None

    def epoch(self, partition: int) -> int | None:
        """Return the leader epoch in which this node leads a partition of `__consumer_offsets`."""
        mine = self._replicas and self._replicas.partitions.get(f"{OFFSETS_TOPIC}-{partition}")
        return mine.state.leader_epoch if mine and mine.leading is not None else None

    def batches(self, partition: int) -> bytes:
        """Return the whole log of a partition of `__consumer_offsets` that this node leads."""
        mine = self._replicas and self._replicas.partitions[f"{OFFSETS_TOPIC}-{partition}"]
        return b"".join(each.data for each in mine.log.batches()) if mine else b""

    def start(self, now: Nanoseconds) -> Sequence[Effect]:
        """Start the node with the content of its files; return the effects."""
        out = list(self._plane.start(now))
        if self._replicas is not None:
            out += self._replicas.start(now)
        if self._lifecycle is not None:
            out += self._heartbeat_after(0)
        return self._done(now, out)

    def on(self, now: Nanoseconds, event: Event) -> Sequence[Effect]:
        """Handle an event; return the effects."""
        return self._done(now, self._taken(now, event))

    def _done(self, now: Nanoseconds, first: Iterable[Effect]) -> list[Effect]:
        """Collect effects; immediately execute the requests that the node sends to itself."""
        out: list[Effect] = []
        replicas = self._replicas
        self._sort(first, out)
        while True:
            if self._plane.changed or (replicas is not None and replicas.isr.unsent):
                self._sort(self._followed(now), out)
            if not self._inside:
                return out
            self._sort(self._taken(now, self._inside.popleft()), out)

    def _sort(self, effects: Iterable[Effect], out: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Request and effect.to == self.id:
                self._go_round(effect, out)
            elif type(effect) is Reply and effect.asker.connection == INSIDE:
                self._come_round(effect, out)
            else:
                out.append(effect)

    def _go_round(self, asked: Request, out: list[Effect]) -> None:
        asker = Asker(who=self.id, connection=INSIDE, correlation=asked.number)
        self._inside.append(Arrived(asker=asker, message=asked.message))
        self._under_way[asked.number] = None
        timer = f"{_OVERDUE}{asked.number}"
        out.append(SetTimer(timer=timer, after_ns=asked.timeout_ns, at_most_ns=asked.timeout_ns))

    def _come_round(self, reply: Reply, out: list[Effect]) -> None:
        number = reply.asker.correlation
        if self._under_way.pop(number, number) is not None:
            return  # The request timed out and was answered then.
        out.append(CancelTimer(timer=f"{_OVERDUE}{number}"))
        self._inside.append(Answered(request=number, message=reply.message))

    def _taken(self, now: Nanoseconds, event: Event) -> Iterable[Effect]:
        if isinstance(event, Arrived):  # Most events are of this type.
            return self._requested(now, event)
        match event:
            case Answered():
                return self._answered(now, event)
            case Fired():
                return self._fired(now, event)
            case Hung(connection=connection):
                if self._replicas is not None:
                    self._replicas.hung(connection)
                return self._plane.on(now, event)
            case StopAsked():
                return self._stop(now)
            case DiskFailed(folder=folder, reason=reason):
                # The node has only one log dir. A broker without a log dir ends, as in Kafka.
                text = f"Shutdown broker because all log dirs have failed: {folder}: {reason}"
                return [Say(text=text), End()]

    def _requested(self, now: Nanoseconds, event: Arrived) -> Iterable[Effect]:
        asker, message = event.asker, event.message
        if isinstance(message, data.FetchRequest):  # Most frequent, so checked first.
            return self._fetch(now, event, message)
        if isinstance(message, data.ProduceRequest) and self._replicas is not None:
            return self._replicas.produce(now, asker, message)
        if isinstance(message, BrokerHeartbeatRequest) and message.want_shut_down:
            self._leaver_ns = now if message.broker_id != self.id else self._leaver_ns
        if asker.who == CLIENT and isinstance(message, FORWARDED) and self._replicas is not None:
            return self._forwarding.take(now, asker, message)
        if self._plane.concerns(event):
            return self._plane.on(now, event)
        if self._replicas is None:
            return self._asked_for_metadata(asker, message)
        return self._asked_for_data(now, asker, message)

    def _fetch(
        self, now: Nanoseconds, event: Arrived, asked: data.FetchRequest
    ) -> Iterable[Effect]:
        if asked.replica_id >= 0 and event.asker.who == CLIENT:
            return [Reply(asker=event.asker, message=refused_as_replica(asked))]
        if is_of_metadata(asked):
            return self._plane.on(now, event)
        if self._replicas is None:
            return []
        return self._replicas.fetch(now, event.asker, self._named(asked))

    def _asked_for_data(  # noqa: PLR0911 - a line for each request
        self, now: Nanoseconds, asker: Asker, message: object
    ) -> Iterable[Effect]:
        assert self._replicas is not None
        replicas = self._replicas
        match message:
            case data.ListOffsetsRequest():
                return [Reply(asker=asker, message=replicas.list_offsets(message))]
            case data.OffsetsForLeaderEpochRequest():
                return [Reply(asker=asker, message=replicas.epoch_ends(message))]
            case clients.OffsetCommitRequest():
                return self._commit(now, asker, message)
            case clients.InitProducerIdRequest():
                return self._ids.take(asker, message, (self.id, self._broker_epoch))
            case clients.FindCoordinatorRequest():
                return self._groups.find(asker, message)
            case _ if isinstance(message, _GROUP_REQUESTS):
                return self._groups.take(asker, message)
            case _:
                return self._asked_for_metadata(asker, message)

    def _asked_for_metadata(self, asker: Asker, message: object) -> Iterable[Effect]:
        image = self.image
        answer: object
        match message:
            case clients.MetadataRequest():
                answer = metadata(image, message, cluster_id=self._cluster_id, me=self.id)
            case clients.DescribeClusterRequest():
                leader = self._plane.controller
                answer = cluster(image, cluster_id=self._cluster_id, controller=leader)
            case clients.DescribeTopicPartitionsRequest():
                answer = topic_partitions(image, message)
            case clients.DescribeConfigsRequest():
                answer = configs(image, message, self.settings)
            case _:
                # A separate controller has neither data nor groups. No correct node asks it for
                # them.
                return []
        return [Reply(asker=asker, message=answer)]

    def _answered(  # noqa: PLR0911 - a line for each part that may have asked
        self, now: Nanoseconds, event: Answered
    ) -> Iterable[Effect]:
        number = event.request
        if self._replicas is not None and self._replicas.owns(number):
            return self._replicas.answered(now, event)
        if self._plane.concerns(event):
            return self._plane.on(now, event)
        if self._forwarding.owns(number):
            return self._forwarding.answered(now, number, event.message)
        owner = self._owners.pop(number, None)
        match owner:
            case Lifecycle():
                return self._controller_said(now, event.message)
            case ProducerIds():
                return owner.answered(event.message)
            case Commit():
                return [self._groups.committed(owner, event.message)]
            case tuple():
                return self._isr_answered(now, owner, event.message)
            case _:
                return []

    def _fired(self, now: Nanoseconds, event: Fired) -> Iterable[Effect]:
        timer = event.timer
        if self._plane.concerns(event):
            return self._plane.on(now, event)
        if timer.startswith(REPLICA_TIMERS) and self._replicas is not None:
            return self._replicas.fired(now, timer)
        if timer.startswith(GROUP_TIMERS):
            return self._groups.fired(timer)
        if timer.startswith(FORWARD_TIMERS):
            return self._forwarding.fired(now, timer)
        if timer.startswith(_OVERDUE):
            number = int(timer[len(_OVERDUE) :])
            self._under_way.pop(number, None)
            return self._answered(now, Answered(request=number, message=None))
        return self._fired_for_broker(now, timer)

    def _fired_for_broker(self, now: Nanoseconds, timer: str) -> Iterable[Effect]:
        if timer == _HEARTBEAT:
            return self._heartbeat()
        if timer == _LAST:
            return self._leave_as_last(now)
        if timer == _RETRY_ISR:
            self._wishes_rest = False
            return self._ask_for_isrs()
        return self._end(now)

    def _followed(self, now: Nanoseconds) -> Iterator[Effect]:
        """Pass committed metadata to the replicas, and the replicas' requests to the controller."""
        changes = self._plane.changes()
        replicas = self._replicas
        if replicas is None:
            return
        if changes:
            means = told(changes, self.image, self.settings)
            yield from replicas.remove(now, means.gone)
            yield from replicas.apply(now, means.states)
            if means.brokers:
                yield from self._tell_of_brokers(now)
            yield from self._groups.note(self._broker_epoch)
        wishes = replicas.isr_wishes()
        if wishes:
            self._waiting_wishes += wishes
            yield from self._ask_for_isrs()

    def _tell_of_brokers(self, now: Nanoseconds) -> Iterable[Effect]:
        assert self._replicas is not None
        epochs = eligible(self.image)
        return self._replicas.brokers(now, epochs, own_epoch=self._broker_epoch)

    def _ask_for_isrs(self) -> Iterator[Effect]:
        leader = self._plane.controller
        if not self._waiting_wishes or self._wishes_rest:
            return
        if leader < 0:
            self._wishes_rest = True
            yield _timer(_RETRY_ISR, _ISR_RETRY_MS)
            return
        wishes, self._waiting_wishes = tuple(self._waiting_wishes), []
        asked = AlterPartitionRequest(
            broker_id=self.id, broker_epoch=self._broker_epoch, partitions=wishes
        )
        yield self._request(leader, asked, wishes)

    def _isr_answered(
        self, now: Nanoseconds, wishes: Wishes, answer: object | None
    ) -> Iterator[Effect]:
        assert self._replicas is not None
        answers = None
        if isinstance(answer, AlterPartitionResponse) and answer.error_code is ErrorCode.none:
            answers = answer.partitions
        refused = answers is None
        if refused and not self._wishes_rest:
            # A repeated request must not become a tight loop.
            self._wishes_rest = True
            yield _timer(_RETRY_ISR, _ISR_RETRY_MS)
        yield from self._replicas.isr_answered(now, wishes, answers)

    def _commit(
        self, now: Nanoseconds, asker: Asker, asked: clients.OffsetCommitRequest
    ) -> Iterator[Effect]:
        commit = self._groups.commit(now, asker, asked)
        if isinstance(commit, Reply):
            yield commit
        else:
            yield self._request(self.id, commit.request, commit)

    def _heartbeat(self) -> Iterator[Effect]:
        assert self._lifecycle is not None
        if self._lifecycle.stage is Stage.GONE:
            return
        leader = self._plane.controller
        if leader < 0:
            yield from self._heartbeat_after(_ISR_RETRY_MS)
            return
        yield self._request(leader, self._lifecycle.request(self.image.offset), self._lifecycle)

    def _controller_said(self, now: Nanoseconds, answer: object | None) -> Iterator[Effect]:
        assert self._lifecycle is not None
        before = self._lifecycle.epoch
        wait_ms = self._lifecycle.answered(now, answer)
        if self._lifecycle.epoch != before:
            yield from self._tell_of_brokers(now)
        if self._lifecycle.stage is Stage.GONE:
            self._gone_ns = now
            yield from self._leave_as_last(now)
        else:
            yield from self._heartbeat_after(wait_ms)

    def _stop(self, now: Nanoseconds) -> Iterator[Effect]:
        yield Say(text=f"[BrokerServer id={self.id}] Transition from STARTED to SHUTTING_DOWN")
        if self._lifecycle is None:
            yield from self._leave(now)
            return
        self._lifecycle.leave(now)
        if self._lifecycle.stage is Stage.GONE:
            yield from self._leave(now)
        else:
            yield from self._heartbeat_after(0)

    def _leave_as_last(self, now: Nanoseconds) -> Iterator[Effect]:
        """Shut down; an active controller first waits until the other leaving nodes have ended.

        To stop a cluster, all nodes get a signal at once. If the controller ended first, the other
        nodes would need an election, which may have no winner.
        """
        quiet_ns = now - max(self._leaver_ns, self._gone_ns)
        if self._plane.is_active and quiet_ns < _QUIET_MS * NANOSECONDS_A_MS:
            yield _timer(_LAST, _QUIET_MS // 4)
        else:
            yield from self._leave(now)

    def _leave(self, now: Nanoseconds) -> Iterator[Effect]:
        """Shut down. The quorum's leader first gets a moment to inform its successors."""
        if self._ending:
            return
        self._ending = True
        if self._replicas is not None:
            yield from self._replicas.shut_down(self._broker_epoch)
        yield from self._plane.shut_down(now)
        yield _timer(_LEAVE, 0 if self._plane.quorum.has_ended else _LEAVE_MS)

    def _end(self, _now: Nanoseconds) -> Iterator[Effect]:
        yield Say(text=f"[BrokerServer id={self.id}] shut down completed")
        yield End()

    def _heartbeat_after(self, wait_ms: int) -> list[Effect]:
        return [_timer(_HEARTBEAT, wait_ms)]

    def _ask_for_ids(self, message: object) -> Iterator[Effect]:
        leader = self._plane.controller
        if leader < 0:
            yield from self._ids.answered(None)
        else:
            yield self._request(leader, message, self._ids)

    def _tell_controller(self, message: object) -> Iterator[Effect]:
        leader = self._plane.controller
        if leader >= 0:
            yield self._request(leader, message, _NOBODY)

    def _request(self, to: int, message: object, owner: object) -> Request:
        number = next(self._numbers)
        self._owners[number] = owner
        timeout_ns = CONTROL_TIMEOUT_MS * NANOSECONDS_A_MS
        if isinstance(owner, Commit):
            timeout_ns = 2 * owner.request.timeout_ms * NANOSECONDS_A_MS
        return Request(number=number, to=to, message=message, timeout_ns=timeout_ns)

    @property
    def _broker_epoch(self) -> int:
        return self._lifecycle.epoch if self._lifecycle is not None else -1

    def _named(self, asked: data.FetchRequest) -> data.FetchRequest:
        """If a client's request has only topic ids, add the topics' names (KIP-516)."""
        for each in asked.partitions:
            if not each.topic:
                return self._with_names(asked)
        return asked

    def _with_names(self, asked: data.FetchRequest) -> data.FetchRequest:
        named = []
        for each in asked.partitions:
            known = self.image.topic(each.topic_id) if each.topic_id else None
            named.append(replace(each, topic=known.name) if known and not each.topic else each)
        return replace(asked, partitions=tuple(named))


_NOBODY = object()
"""The owner of requests whose responses are not needed."""


def _timer(name: str, after_ms: int) -> SetTimer:
    after_ns = after_ms * NANOSECONDS_A_MS
    return SetTimer(timer=name, after_ns=after_ns, at_most_ns=after_ns)
