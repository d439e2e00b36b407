"""The controller's rules for brokers: registration, fencing, shutdown and removal.

A broker's epoch is the offset of its registration (KIP-631). So the controller can recognize
requests of an older incarnation. A broker whose session ends is fenced: the controller removes it
from all ISRs and leaderships.
"""

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32, i64, u16

from cluster.files.messages import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    Feature,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from cluster.reference.controller.draft import Draft
from cluster.reference.controller.image import BrokerImage
from cluster.reference.controller.partitions import find_leaders, has_leaderships, leave_isrs
from cluster.reference.machine import Nanoseconds
from cluster.reference.messages.control import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from cluster.reference.settings import NANOSECONDS_A_MS, Settings

PRODUCER_IDS_A_BLOCK = 1000


class Sessions:
    """The time of each broker's last heartbeat. Only the active controller keeps these times."""

    def __init__(self, settings: Settings) -> None:
        self._timeout = settings.broker_session_timeout_ms * NANOSECONDS_A_MS
        self._heard: dict[int, Nanoseconds] = {}
        self._offsets: dict[int, int] = {}
        self._left_at: dict[int, int] = {}

    def touch(self, broker: int, now: Nanoseconds) -> None:
        """Record that a broker has sent a heartbeat now."""
        self._heard[broker] = now

    def note_offset(self, broker: int, offset: int) -> None:
        """Record the offset up to which a broker has replayed the metadata."""
        self._offsets[broker] = offset

    def note_leaving(self, broker: int, offset: int) -> None:
        """Record the metadata offset from which on a leaving broker leads no partition."""
        self._left_at.setdefault(broker, offset)

    def may_end(self, broker: int, active: list[int]) -> bool:
        """Return whether all active brokers know that a leaving broker no longer leads."""
        wanted = self._left_at.get(broker, -1)
        return all(self._offsets.get(each, -1) >= wanted for each in active)

    def drop(self, broker: int) -> None:
        """Delete the session data of a broker or of its former process."""
        for table in (self._heard, self._offsets, self._left_at):
            table.pop(broker, None)

    def is_valid(self, broker: int, now: Nanoseconds) -> bool:
        """Return whether a broker's last heartbeat is so recent that its session is valid."""
        heard = self._heard.get(broker)
        return heard is not None and now < heard + self._timeout

    def next_end(self, brokers: list[int]) -> Nanoseconds | None:
        """Return the time at which the first session of the given brokers ends.

        The result is None if no broker has a session.
        """
        ends = [self._heard[each] + self._timeout for each in brokers if each in self._heard]
        return min(ends, default=None)


def register(
    draft: Draft, request: BrokerRegistrationRequest, *, cluster_id: str, sessions: Sessions
) -> BrokerRegistrationResponse:
    """Register a broker's process. The broker stays fenced until it has caught up (KIP-631)."""
    if request.cluster_id != cluster_id:
        return BrokerRegistrationResponse(error_code=ErrorCode.inconsistent_cluster_id)
    known = draft.image.brokers.get(request.broker_id)
    if known is not None:
        if known.incarnation_id == request.incarnation_id:
            sessions.touch(request.broker_id, draft.now)
            return BrokerRegistrationResponse(
                error_code=ErrorCode.none, broker_epoch=known.broker_epoch
            )
        if sessions.is_valid(request.broker_id, draft.now) and not known.in_controlled_shutdown:
            # Its former process may still run. Two brokers must not have the same id.
            return BrokerRegistrationResponse(error_code=ErrorCode.duplicate_broker_registration)
        leave(draft, known)
    epoch = draft.next_offset
    draft.write(_registration(request, epoch))
    sessions.drop(request.broker_id)
    sessions.touch(request.broker_id, draft.now)
    return BrokerRegistrationResponse(error_code=ErrorCode.none, broker_epoch=epoch)


def heartbeat(
    draft: Draft, request: BrokerHeartbeatRequest, *, sessions: Sessions
) -> BrokerHeartbeatResponse:
    """Handle a broker's heartbeat and answer with its state (KIP-631: BrokerHeartbeatManager)."""
    broker = draft.image.brokers.get(request.broker_id)
    if broker is None:
        return BrokerHeartbeatResponse(error_code=ErrorCode.broker_id_not_registered)
    if broker.broker_epoch != request.broker_epoch:
        return BrokerHeartbeatResponse(error_code=ErrorCode.stale_broker_epoch)
    sessions.touch(request.broker_id, draft.now)
    sessions.note_offset(request.broker_id, request.current_metadata_offset)
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    if broker.fenced:
        ends = request.want_shut_down
        if caught_up and not ends and not request.want_fence:
            _unfence(draft, broker)
    else:
        ends = _served(draft, broker, request, sessions=sessions)
    after = draft.image.brokers[request.broker_id]
    return BrokerHeartbeatResponse(
        error_code=ErrorCode.none,
        is_caught_up=caught_up,
        is_fenced=after.fenced,
        should_shut_down=ends,
    )


def fence_expired(draft: Draft, sessions: Sessions) -> list[int]:
    """Fence the brokers whose sessions have ended (KIP-631); return their ids."""
    gone = [
        broker
        for broker in list(draft.image.brokers.values())
        if not broker.fenced and not sessions.is_valid(broker.broker_id, draft.now)
    ]
    for broker in gone:
        leave(draft, broker)
    return [broker.broker_id for broker in gone]


def leave(draft: Draft, broker: BrokerImage) -> None:
    """Fence a broker, and remove it from ISRs and leaderships."""
    if not broker.fenced:
        draft.write(
            BrokerRegistrationChangeRecord(
                broker_id=i32(broker.broker_id),
                broker_epoch=i64(broker.broker_epoch),
                fenced=i8(1),
            )
        )
        leave_isrs(draft, broker.broker_id)


def unregister(
    draft: Draft, request: UnregisterBrokerRequest, *, sessions: Sessions
) -> UnregisterBrokerResponse:
    """Remove a broker's registration."""
    broker = draft.image.brokers.get(request.broker_id)
    if broker is None:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.broker_id_not_registered,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )
    leave(draft, broker)
    draft.write(
        UnregisterBrokerRecord(
            broker_id=i32(broker.broker_id), broker_epoch=i64(broker.broker_epoch)
        )
    )
    sessions.drop(request.broker_id)
    return UnregisterBrokerResponse(error_code=ErrorCode.none)


def allocate_producer_ids(
    draft: Draft, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Give a broker the next block of producer ids."""
    broker = draft.image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        return AllocateProducerIdsResponse(error_code=ErrorCode.stale_broker_epoch)
    first = draft.image.next_producer_id
    draft.write(
        ProducerIdsRecord(
            broker_id=i32(request.broker_id),
            broker_epoch=i64(request.broker_epoch),
            next_producer_id=i64(first + PRODUCER_IDS_A_BLOCK),
        )
    )
    return AllocateProducerIdsResponse(
        error_code=ErrorCode.none,
        producer_id_start=first,
        producer_id_len=PRODUCER_IDS_A_BLOCK,
    )


def _served(
    draft: Draft, broker: BrokerImage, request: BrokerHeartbeatRequest, *, sessions: Sessions
) -> bool:
    """Fence an unfenced broker, or let it shut down, if it asks; return whether it may end."""
    if request.want_fence:
        leave(draft, broker)
        return request.want_shut_down
    if not request.want_shut_down:
        return False
    if not broker.in_controlled_shutdown:
        draft.write(
            BrokerRegistrationChangeRecord(
                broker_id=i32(broker.broker_id),
                broker_epoch=i64(broker.broker_epoch),
                in_controlled_shutdown=i8(1),
            )
        )
        leave_isrs(draft, broker.broker_id)
    sessions.note_leaving(broker.broker_id, draft.image.offset)
    active = [each.broker_id for each in draft.image.brokers.values() if each.active]
    return not has_leaderships(draft, broker.broker_id) and sessions.may_end(
        broker.broker_id, active
    )


def _unfence(draft: Draft, broker: BrokerImage) -> None:
    draft.write(
        BrokerRegistrationChangeRecord(
            broker_id=i32(broker.broker_id),
            broker_epoch=i64(broker.broker_epoch),
            fenced=i8(-1),
        )
    )
    find_leaders(draft)


def _registration(request: BrokerRegistrationRequest, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=i32(request.broker_id),
        is_migrating_zk_broker=False,
        incarnation_id=request.incarnation_id,
        broker_epoch=i64(epoch),
        end_points=tuple(
            Endpoint(
                name=each.name,
                host=each.host,
                port=u16(each.port),
                security_protocol=i16(each.security_protocol),
            )
            for each in request.listeners
        ),
        features=tuple(
            Feature(
                name=each.name,
                min_supported_version=i16(each.min_supported_version),
                max_supported_version=i16(each.max_supported_version),
            )
            for each in request.features
        ),
        rack=request.rack,
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=request.log_dirs,
    )
