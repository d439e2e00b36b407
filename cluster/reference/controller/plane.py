"""The KRaft part of a node: the quorum, the metadata image, and, on voters, the controller.

Only committed records change the image. The changes of the image then go to the node's partitions.
(In Kafka before KRaft, the controller made the same changes to partitions with LeaderAndIsr
requests.)
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from kio.schema.errors import ErrorCode

from cluster.files.batches import read_segment, records
from cluster.files.damage import DamagedFileError
from cluster.files.messages import Message, decode_message, encode_message
from cluster.reference.controller.controller import Controller
from cluster.reference.controller.image import Change, MetadataImage
from cluster.reference.controller.refusals import CONTROL_REQUESTS, refusal
from cluster.reference.log.batches import CONTROL, Batch
from cluster.reference.log.log import Log
from cluster.reference.machine import (
    Answered,
    Arrived,
    Effect,
    Event,
    Fired,
    Hung,
    Nanoseconds,
    Reply,
)
from cluster.reference.messages.data import FetchRequest
from cluster.reference.quorum.member import Identity, Snapshot
from cluster.reference.quorum.quorum import QUORUM_REQUESTS, Quorum
from cluster.reference.quorum.records import snapshot_bytes
from cluster.reference.quorum.state import FOLDER, ElectionState
from cluster.reference.settings import Settings

_TOPIC = FOLDER.rpartition("-")[0]
_TIMERS = ("quorum-", "controller-")
_REQUESTS = frozenset({*QUORUM_REQUESTS, *CONTROL_REQUESTS})


class KRaft:
    """The control plane of a node.

    After each call, `changes` returns the newly committed changes. `concerns` returns whether an
    event is for the control plane.

    Args:
        identity: The node's identity, and the voters.
        settings: The node's settings.
        log: The log of `__cluster_metadata-0`, with the valid batches from the files.
        state: The content of `quorum-state` (`quorum.state.election_state`).
        snapshot: The latest valid snapshot among the files.
        numbers: The counter for request numbers, which all modules of a node share.

    Attributes:
        image: The committed metadata, as far as this node knows.
        quorum: This node's quorum member.
        changed: The changes that `changes` will return.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        settings: Settings,
        log: Log,
        state: ElectionState,
        snapshot: Snapshot | None,
        numbers: Iterator[int],
    ) -> None:
        self.image = MetadataImage()
        self.quorum = Quorum(
            identity,
            settings=settings,
            log=log,
            state=state,
            snapshot=snapshot,
            numbers=numbers,
        )
        self._settings = settings
        self._controller: Controller | None = None
        if identity.node in identity.voters:
            self._controller = Controller(
                settings, node=identity.node, cluster_id=identity.cluster_id, quorum=self.quorum
            )
        self.changed: list[Change] = []
        self._bytes_since_snapshot = 0

    @property
    def controller(self) -> int:
        """The node that this node considers the active controller; -1 if unknown."""
        return self.quorum.leader

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._controller is not None and self._controller.active

    def concerns(self, event: Event) -> bool:
        """Return whether an event is for the control plane."""
        match event:
            case Arrived(message=FetchRequest() as fetch):
                return is_of_metadata(fetch)
            case Arrived(message=message):
                return type(message) in _REQUESTS
            case Answered(request=request):
                return self.quorum.owns(request)
            case Fired(timer=timer):
                return timer.startswith(_TIMERS)
            case _:
                return isinstance(event, Hung)

    def start(self, now: Nanoseconds) -> Sequence[Effect]:
        """Start with the content of the files; return the effects."""
        out = list(self.quorum.start(now))
        self._settle(now, out)
        return out

    def on(self, now: Nanoseconds, event: Event) -> Sequence[Effect]:
        """Handle an event of the control plane; return the effects."""
        out: list[Effect] = []
        match event:
            case Arrived(asker=asker, message=message) if isinstance(message, CONTROL_REQUESTS):
                if self._controller is None:
                    response = refusal(message, ErrorCode.not_controller)
                    return [Reply(asker=asker, message=response)]
                out += self._controller.on_request(now, asker, message)
            case Fired(timer=timer) if timer.startswith("controller-"):
                out += self._controller.on_timer(now, timer) if self._controller else []
            case _:
                if isinstance(event, Hung) and self._controller is not None:
                    self._controller.on_hung(event.connection)
                out += self.quorum.on(now, event)
        self._settle(now, out)
        return out

    def changes(self) -> list[Change]:
        """Return, in order, the changes that were committed since the last call."""
        changes, self.changed = self.changed, []
        return changes

    def shut_down(self, now: Nanoseconds) -> Sequence[Effect]:
        """Begin to hand over the quorum's leadership. All other leaving brokers have ended."""
        out = list(self.quorum.shut_down(now))
        self._settle(now, out)
        return out

    def _settle(self, now: Nanoseconds, out: list[Effect]) -> None:
        """Replay committed records. Repeat this while the controller writes new records."""
        while True:
            snapshot, batches = self.quorum.committed()
            if snapshot is not None:
                self._load(snapshot)
            for batch in batches:
                self._replay(batch)
            if self._controller is not None:
                out += self._controller.follow(now, self.image)
            if not batches:
                break
        most = self._settings.metadata_log_max_record_bytes_between_snapshots
        if self._bytes_since_snapshot >= most:
            out += self.take_snapshot()

    def take_snapshot(self) -> Sequence[Effect]:
        """Store the image as a snapshot. Then the next start needs no earlier records (KIP-630)."""
        self._bytes_since_snapshot = 0
        data = snapshot_bytes(
            [encode_message(each) for each in self.image.records()],
            epoch=self.image.epoch,
            time_ms=0,
        )
        return self.quorum.keep_snapshot(
            data, end_offset=self.image.offset + 1, epoch=self.image.epoch
        )

    def _load(self, snapshot: Snapshot) -> None:
        before, self.image = self.image, image_of(snapshot)
        self._bytes_since_snapshot = 0
        self.changed += self.image.changes_since(before)

    def _replay(self, batch: Batch) -> None:
        self._bytes_since_snapshot += len(batch.data)
        self.image.epoch = batch.leader_epoch
        if not batch.attributes & CONTROL:
            for offset, message in _messages_of(batch.data):
                self.changed += self.image.replay(message, offset)
        self.image.offset = batch.end_offset - 1


def is_of_metadata(fetch: FetchRequest) -> bool:
    """Return whether a fetch is for the quorum's topic (KIP-595).

    Such a fetch must not name other topics.
    """
    return bool(fetch.partitions) and fetch.partitions[0].topic == _TOPIC


@lru_cache(maxsize=256)
def _messages_of(data: bytes) -> tuple[tuple[int, Message], ...]:
    """Return a batch's messages with their offsets.

    The result is cached, because all simulated nodes read the same batches.
    """
    read = ((offset, decode_message(value)) for offset, value in values_of(data))
    return tuple((offset, message) for offset, message in read if message is not None)


def values_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the value of each metadata record in the batches of `data`."""
    for batch in read_segment(data).batches:
        if not batch.control:
            for record in records(batch):
                yield record.offset, record.value or b""


def image_of(snapshot: Snapshot) -> MetadataImage:
    """Return the image that a snapshot contains.

    Raises:
        DamagedFileError: The snapshot is incomplete or damaged.
    """
    segment = read_segment(snapshot.data)
    if segment.damage:
        raise DamagedFileError(f"a snapshot cannot be read: {segment.damage[0]}")
    image = MetadataImage()
    for _, value in values_of(snapshot.data):
        message = decode_message(value)
        if message is not None:
            image.replay(message, snapshot.end_offset - 1)
    image.offset, image.epoch = snapshot.end_offset - 1, snapshot.epoch
    return image
