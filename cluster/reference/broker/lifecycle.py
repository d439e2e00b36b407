"""A broker's registration with the controller, its heartbeats and its controlled shutdown.

A broker registers in the fenced state. After the broker has replayed its own registration, its
heartbeats ask the controller to unfence it (KIP-631). When a broker wants to end, it first asks the
controller for permission. It continues to serve until the controller has elected other leaders for
the broker's partitions.
"""

from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from kio.schema.errors import ErrorCode

from cluster.reference.machine import Nanoseconds
from cluster.reference.messages.control import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from cluster.reference.settings import NANOSECONDS_A_MS

RETRY_MS = 50
SHUTDOWN_LIMIT_MS = 5000
"""Milliseconds that a broker waits for a controller to allow its shutdown. (Kafka:
five minutes.)"""


class Stage(Enum):
    """The stages of a broker's life."""

    REGISTERING = "registering"
    FENCED = "fenced"
    ACTIVE = "active"
    LEAVING = "leaving"
    GONE = "gone"
    """The controller has allowed the shutdown, or no controller answered in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """The identity with which a broker registers.

    Attributes:
        node: The node's id.
        cluster_id: The cluster id from `meta.properties`.
        incarnation: A new UUID for each process.
        listeners: The broker's addresses.
        directory: The id of the broker's log dir.
        previous_epoch: The broker's epoch at its last clean shutdown, or -1.
    """

    node: int
    cluster_id: str
    incarnation: UUID
    listeners: tuple[Listener, ...]
    directory: UUID | None
    previous_epoch: int


class Lifecycle:
    """A broker's own requests to the controller. The broker sends one at a time.

    Args:
        who: The broker's identity.
        interval_ms: `broker.heartbeat.interval.ms`.
    """

    def __init__(self, who: Incarnation, *, interval_ms: int) -> None:
        self._who, self._interval_ms = who, interval_ms
        self.stage = Stage.REGISTERING
        self.epoch = -1
        self._caught_up = False
        self._leave_until: Nanoseconds | None = None

    def request(self, replayed: int) -> object:
        """Return the next request to the controller: a registration or a heartbeat.

        Args:
            replayed: The last replayed offset of the metadata log.
        """
        if self.epoch < 0:
            who = self._who
            return BrokerRegistrationRequest(
                broker_id=who.node,
                cluster_id=who.cluster_id,
                incarnation_id=who.incarnation,
                listeners=who.listeners,
                log_dirs=() if who.directory is None else (who.directory,),
                previous_broker_epoch=who.previous_epoch,
            )
        return BrokerHeartbeatRequest(
            broker_id=self._who.node,
            broker_epoch=self.epoch,
            current_metadata_offset=replayed,
            want_fence=not self._caught_up,
            want_shut_down=self.stage is Stage.LEAVING,
        )

    def answered(self, now: Nanoseconds, answer: object | None) -> int:
        """Handle the controller's response; return the milliseconds until the next request."""
        self._give_up_when_late(now)
        match answer:
            case BrokerRegistrationResponse(error_code=ErrorCode.none):
                self.epoch = answer.broker_epoch
                if self.stage is Stage.REGISTERING:
                    self.stage = Stage.FENCED
                return 0
            case BrokerHeartbeatResponse(error_code=ErrorCode.none):
                return self._heard(answer)
            case BrokerHeartbeatResponse(
                error_code=ErrorCode.stale_broker_epoch | ErrorCode.broker_id_not_registered
            ) if self.stage is not Stage.LEAVING:
                # The controller does not know this registration, perhaps because its record was
                # never committed. Register again.
                self.epoch, self._caught_up = -1, False
                self.stage = Stage.REGISTERING
        return RETRY_MS

    def leave(self, now: Nanoseconds) -> None:
        """Begin the controlled shutdown."""
        if self.stage in {Stage.LEAVING, Stage.GONE}:
            return
        self.stage = Stage.GONE if self.epoch < 0 else Stage.LEAVING
        self._leave_until = now + SHUTDOWN_LIMIT_MS * NANOSECONDS_A_MS

    def _heard(self, answer: BrokerHeartbeatResponse) -> int:
        if self.stage in {Stage.LEAVING, Stage.GONE}:
            if answer.should_shut_down:
                self.stage = Stage.GONE
            return RETRY_MS
        caught_up_now = answer.is_caught_up and not self._caught_up
        self._caught_up = self._caught_up or answer.is_caught_up
        self.stage = Stage.FENCED if answer.is_fenced else Stage.ACTIVE
        if caught_up_now:
            return 0
        return self._interval_ms if self.stage is Stage.ACTIVE else RETRY_MS

    def _give_up_when_late(self, now: Nanoseconds) -> None:
        late = self._leave_until is not None and now >= self._leave_until
        if self.stage is Stage.LEAVING and late:
            self.stage = Stage.GONE
