"""The active controller: it appends metadata records, and responds when they are committed.

The controller of the quorum's leader becomes active when a record of the leader's epoch is
committed. From then on the controller knows all committed metadata. The controller bases its
decisions on its own image, which also contains uncommitted records. When its node is no longer the
leader, it discards that image and all waiting responses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from cluster.files.messages import FeatureLevelRecord, NoOpRecord
from cluster.reference.controller.brokers import (
    Sessions,
    allocate_producer_ids,
    fence_expired,
    heartbeat,
    register,
    unregister,
)
from cluster.reference.controller.configs import alter_configs
from cluster.reference.controller.draft import Draft
from cluster.reference.controller.image import MetadataImage
from cluster.reference.controller.partitions import alter_partitions, elect_leaders
from cluster.reference.controller.reassignments import alter_reassignments, list_reassignments
from cluster.reference.controller.refusals import refusal
from cluster.reference.controller.topics import create_partitions, create_topics, delete_topics
from cluster.reference.machine import (
    Asker,
    CancelTimer,
    Effect,
    Nanoseconds,
    Reply,
    Say,
    SetTimer,
)
from cluster.reference.messages.control import (
    PREFERRED,
    AllocateProducerIdsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControlRequest,
    ControlResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
)
from cluster.reference.quorum.quorum import Quorum
from cluster.reference.settings import NANOSECONDS_A_MS, Settings

T = TypeVar("T")

SESSIONS, IDLE, BALANCE = "controller-sessions", "controller-idle", "controller-balance"
METADATA_VERSION = "metadata.version"
_METADATA_LEVEL = 30  # 4.3-IV0.


_DECISIONS: Mapping[type[ControlRequest], Callable[..., ControlResponse]] = {
    AllocateProducerIdsRequest: allocate_producer_ids,
    AlterPartitionRequest: alter_partitions,
    CreatePartitionsRequest: create_partitions,
    DeleteTopicsRequest: delete_topics,
    ElectLeadersRequest: elect_leaders,
    AlterPartitionReassignmentsRequest: alter_reassignments,
    ListPartitionReassignmentsRequest: list_reassignments,
    IncrementalAlterConfigsRequest: alter_configs,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A response that waits until all records below an offset are committed."""

    offset: int
    asker: Asker
    request: ControlRequest
    response: ControlResponse


class Controller:
    """The controller of a voter; it may be active or not.

    Args:
        settings: The node's settings.
        node: The node's id.
        cluster_id: The cluster id from `meta.properties`.
        quorum: The same node's quorum member.
    """

    def __init__(self, settings: Settings, *, node: int, cluster_id: str, quorum: Quorum) -> None:
        self._settings = settings
        self._node = node
        self._cluster_id = cluster_id
        self._quorum = quorum
        self._image: MetadataImage | None = None
        self._epoch = -1
        self._sessions = Sessions(settings)
        self._waiting: list[_Waiting] = []
        self._wrote_at: Nanoseconds = 0
        self._out: list[Effect] = []

    @property
    def active(self) -> bool:
        """Whether the controller is active, so that it handles requests."""
        return self._image is not None

    def follow(self, now: Nanoseconds, committed: MetadataImage) -> list[Effect]:
        """Become active or inactive as the quorum requires.

        Return the responses whose records are now committed.

        Args:
            now: The node's clock.
            committed: The image of all records that this node knows to be committed.
        """
        self._out = []
        if self.active and (not self._quorum.may_write or self._quorum.epoch != self._epoch):
            self._deactivate()
        if not self.active and self._quorum.may_write:
            self._activate(now, committed)
        self._answer()
        return self._out

    def on_request(self, now: Nanoseconds, asker: Asker, request: ControlRequest) -> list[Effect]:
        """Handle a request. The response waits until the records of the decision are committed."""
        self._out = []
        if self._image is None:
            response = refusal(request, ErrorCode.not_controller)
            return [Reply(asker=asker, message=response)]
        response = self._write(now, lambda draft: self._decided(draft, request))
        offset = self._quorum.log.end_offset
        self._waiting.append(
            _Waiting(offset=offset, asker=asker, request=request, response=response)
        )
        self._answer()
        return self._out

    def on_timer(self, now: Nanoseconds, timer: str) -> list[Effect]:
        """Handle a timer: fence silent brokers, write a no-op record, or rebalance leaderships."""
        self._out = []
        if self._image is None:
            return []
        if timer == SESSIONS:
            gone = self._write(now, lambda draft: fence_expired(draft, self._sessions))
            for broker in gone:
                self._say(f"Fencing broker {broker} because its session has timed out.")
            self._watch_sessions(now)
        elif timer == IDLE:
            idle = self._settings.metadata_max_idle_interval_ms * NANOSECONDS_A_MS
            if now - self._wrote_at >= idle:
                # KIP-835: no-op records distinguish a node that lags from a node with nothing to
                # replay.
                self._write(now, lambda draft: draft.write(NoOpRecord()))
            self._watch_idleness()
        elif timer == BALANCE:
            self._write(now, _prefer)
            self._watch_balance()
        return self._out

    def on_hung(self, connection: int) -> None:
        """Drop the responses for a closed connection. Their records stay in the log."""
        self._waiting = [each for each in self._waiting if each.asker.connection != connection]

    def _activate(self, now: Nanoseconds, committed: MetadataImage) -> None:
        self._image = committed.copy()
        self._epoch = self._quorum.epoch
        self._sessions = Sessions(self._settings)
        for broker in self._image.brokers:
            # The previous controller may just have received a heartbeat from this broker.
            self._sessions.touch(broker, now)
        self._say(f"Becoming the active controller at epoch {self._epoch}.")
        if not self._image.features:
            self._write(now, _bootstrap)
        self._watch_sessions(now)
        self._watch_idleness()
        self._watch_balance()

    def _deactivate(self) -> None:
        self._image = None
        self._say(f"Renouncing the leadership of epoch {self._epoch}.")
        self._out += [CancelTimer(timer=each) for each in (SESSIONS, IDLE, BALANCE)]
        for each in self._waiting:
            # The next leader may still commit the request's records. The broker must check, and ask
            # again.
            response = refusal(each.request, ErrorCode.not_controller)
            self._out.append(Reply(asker=each.asker, message=response))
        self._waiting = []

    def _answer(self) -> None:
        """Send the waiting responses whose records are committed."""
        known = self._quorum.high_watermark
        ready = 0
        while ready < len(self._waiting) and self._waiting[ready].offset <= known:
            each = self._waiting[ready]
            self._out.append(Reply(asker=each.asker, message=each.response))
            ready += 1
        del self._waiting[:ready]

    def _write(self, now: Nanoseconds, decide: Callable[[Draft], T]) -> T:
        """Make a decision, and append its records as one batch."""
        assert self._image is not None
        draft = Draft(
            self._image, settings=self._settings, offset=self._quorum.log.end_offset, now=now
        )
        decided = decide(draft)
        if draft.values:
            self._wrote_at = now
            self._out += self._quorum.append(now, draft.values)[1]
            self._watch_sessions(now)
        return decided

    def _decided(self, draft: Draft, request: ControlRequest) -> ControlResponse:
        match request:
            case BrokerRegistrationRequest():
                return register(
                    draft, request, cluster_id=self._cluster_id, sessions=self._sessions
                )
            case BrokerHeartbeatRequest():
                return heartbeat(draft, request, sessions=self._sessions)
            case UnregisterBrokerRequest():
                return unregister(draft, request, sessions=self._sessions)
            case _:
                return self._decided_on_topics(draft, request)

    def _decided_on_topics(self, draft: Draft, request: ControlRequest) -> ControlResponse:
        if isinstance(request, CreateTopicsRequest):
            return create_topics(draft, request, cluster_id=self._cluster_id)
        return _DECISIONS[type(request)](draft, request)

    def _watch_sessions(self, now: Nanoseconds) -> None:
        assert self._image is not None
        live = [each.broker_id for each in self._image.brokers.values() if not each.fenced]
        end = self._sessions.next_end(live)
        if end is None:
            self._out.append(CancelTimer(timer=SESSIONS))
        else:
            after = max(end - now, 0)
            self._out.append(SetTimer(timer=SESSIONS, after_ns=after, at_most_ns=after))

    def _watch_idleness(self) -> None:
        interval = self._settings.metadata_max_idle_interval_ms * NANOSECONDS_A_MS
        if interval:
            self._out.append(SetTimer(timer=IDLE, after_ns=interval, at_most_ns=interval))

    def _watch_balance(self) -> None:
        interval = self._settings.leader_imbalance_check_interval_seconds * 1000 * NANOSECONDS_A_MS
        if self._settings.auto_leader_rebalance_enable:
            self._out.append(SetTimer(timer=BALANCE, after_ns=interval, at_most_ns=interval))

    def _say(self, text: str) -> None:
        of = "org.apache.kafka.controller.QuorumController"
        self._out.append(Say(text=f"[QuorumController id={self._node}] {text} ({of})"))


def _prefer(draft: Draft) -> None:
    """Give leaderships back to the preferred replicas (`auto.leader.rebalance.enable`)."""
    elect_leaders(draft, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))


def _bootstrap(draft: Draft) -> None:
    """Write the metadata version as the first record of the metadata log (KIP-778)."""
    draft.write(FeatureLevelRecord(name=METADATA_VERSION, feature_level=i16(_METADATA_LEVEL)))
