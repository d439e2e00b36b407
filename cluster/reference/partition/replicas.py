"""All replicas of a broker: requests come in, responses and fetches go out.

This is Kafka's ReplicaManager.
"""

from collections.abc import Iterator, Mapping, Sequence

from kio.schema.errors import ErrorCode

from cluster.reference.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    clean_shutdown,
    offsets_file,
    partition_metadata,
    place_of,
)
from cluster.reference.log.log import Log
from cluster.reference.log.recovery import Recovered, RecoveredLog
from cluster.reference.machine import (
    Answered,
    Asker,
    DropLog,
    Effect,
    Nanoseconds,
    RollAt,
    Say,
    SetAside,
    SetTimer,
    WriteFile,
)
from cluster.reference.messages.control import AlteredPartition, AlterPartition
from cluster.reference.messages.data import (
    UNKNOWN,
    FetchRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    ProduceRequest,
)
from cluster.reference.partition.fetchers import BACKOFF_TIMER, Fetchers
from cluster.reference.partition.isr import IsrChanges
from cluster.reference.partition.partition import Partition
from cluster.reference.partition.registry import Registry
from cluster.reference.partition.requests import PARKED_TIMER, Requests
from cluster.reference.partition.state import PartitionState
from cluster.reference.partition.strays import stray_name, strays
from cluster.reference.settings import NANOSECONDS_A_MS, Settings

TIMERS = "replicas:"
"""Prefix of the names of all timers of the replicas."""
_LAG = "replicas:lag"
_HIGH_WATERMARKS = "replicas:high-watermarks"
_RECOVERY_POINTS = "replicas:recovery-points"


class Replicas:
    """All replicas of a broker. Methods that cause effects return the effects in order.

    Attributes:
        isr: The requested ISR changes, read-only.
    """

    def __init__(
        self, *, node_id: int, settings: Settings, recovered: Recovered, numbers: Iterator[int]
    ) -> None:
        """Create the replicas with the content of the files. They do not serve requests yet.

        Args:
            node_id: This broker's id.
            settings: The node's settings.
            recovered: The logs and high watermarks from the files.
            numbers: The node's common counter for `Request.number`.
        """
        self._registry = Registry(me=node_id, settings=settings)
        self.isr = IsrChanges(self._registry)
        self._requests = Requests(self._registry, self.isr)
        self._fetchers = Fetchers(me=node_id, settings=settings, next_number=numbers.__next__)
        self._recovered = dict(recovered.logs)
        self._high_watermarks = recovered.high_watermarks
        self._written: dict[str, bytes] = {}
        self._held: dict[str, PartitionState] | None = {}
        self._rolled_at: dict[str, int] = {}
        self._closed = False

    @property
    def partitions(self) -> Mapping[str, Partition]:
        """The broker's own replicas by folder, read-only."""
        return self._registry.partitions

    def start(self, now: Nanoseconds) -> list[Effect]:
        """Set the timers for ISR checks and checkpoints."""
        del now  # All timers count from the present event.
        return [self._timer(name) for name in (_LAG, _HIGH_WATERMARKS, _RECOVERY_POINTS)]

    def apply(self, now: Nanoseconds, states: Sequence[PartitionState]) -> list[Effect]:
        """Apply the controller's decisions about partitions on this broker and elsewhere.

        Partition states that are older than the known states are ignored. When the broker starts,
        states wait until the broker is known to be unfenced (`brokers`), because replayed states
        may be outdated. A broker that leads because of an outdated state would acknowledge records
        that no other broker keeps.
        """
        out: list[Effect] = []
        if self._closed:
            return out
        for state in states:
            if self._is_news(state):
                self._registry.known[state.folder] = state
                if self._held is None:
                    self._apply(now, state, out)
                else:
                    self._held[state.folder] = state
        return out

    def remove(self, now: Nanoseconds, folders: Sequence[str]) -> list[Effect]:
        """Remove the logs of deleted topics.

        A starting broker replays old deletions. Such a deletion may be about an earlier topic of
        the same name. So it removes no log, because the broker has no replicas yet. When all
        metadata are known, a log that belongs to no topic is set aside (`brokers`).
        """
        del now
        out: list[Effect] = []
        for folder in folders:
            self._registry.known.pop(folder, None)
            if self._held is not None:
                self._held.pop(folder, None)
            self._drop(folder, out)
        return out

    def brokers(
        self, now: Nanoseconds, epochs: Mapping[int, int], *, own_epoch: int
    ) -> list[Effect]:
        """Apply the epochs of all brokers that may be in an ISR.

        Args:
            now: The present time.
            epochs: The epoch of each broker that is registered, unfenced and not shutting down
                (KIP-841).
            own_epoch: This broker's epoch. The broker's fetches contain this epoch (KIP-903). -1
                means that it has none yet.
        """
        self._registry.eligible = dict(epochs)
        self._fetchers.broker_epoch = own_epoch
        out: list[Effect] = []
        known = epochs.get(self._registry.me) == own_epoch
        if self._held is not None and known and not self._closed:
            held, self._held = self._held, None
            self._set_strays_aside(held, out)
            for state in held.values():
                self._apply(now, state, out)
        for partition in self._registry.led():
            self._requests.settle(partition, now, out)
        return out

    def produce(self, now: Nanoseconds, asker: Asker, asked: ProduceRequest) -> list[Effect]:
        """Append records; the `Reply` may come later. With acks 0 a reply is also created."""
        out: list[Effect] = []
        self._requests.produce(now, asker, asked, out=out)
        return out

    def fetch(self, now: Nanoseconds, asker: Asker, asked: FetchRequest) -> list[Effect]:
        """Read for a follower or a consumer; the `Reply` may come later."""
        out: list[Effect] = []
        self._requests.fetch(now, asker, asked, out=out)
        return out

    def list_offsets(self, asked: ListOffsetsRequest) -> ListOffsetsResponse:
        """Answer ListOffsets at once."""
        return self._requests.list_offsets(asked)

    def epoch_ends(self, asked: OffsetsForLeaderEpochRequest) -> OffsetsForLeaderEpochResponse:
        """Answer OffsetsForLeaderEpoch at once."""
        return self._requests.epoch_ends(asked)

    def owns(self, request: int) -> bool:
        """Return whether this broker's fetchers sent the request with this number."""
        return request in self._fetchers.asked_by

    def answered(self, now: Nanoseconds, answer: Answered) -> list[Effect]:
        """Handle the response to a `Request` of these replicas."""
        out: list[Effect] = []
        self._fetchers.answered(now, answer.request, answer.message, out=out)
        return out

    def fired(self, now: Nanoseconds, timer: str) -> list[Effect]:
        """Handle a timer whose name begins with `TIMERS`."""
        out: list[Effect] = []
        if timer == PARKED_TIMER:
            self._requests.overdue(now, out)
        elif timer.startswith(BACKOFF_TIMER):
            self._fetchers.rested(now, int(timer.removeprefix(BACKOFF_TIMER)), out)
        elif timer == _LAG:
            self.isr.remove_laggards(now, out)
            out.append(self._timer(_LAG))
        elif timer == _HIGH_WATERMARKS:
            self._write(HIGH_WATERMARKS, self._marks(), out)
            out.append(self._timer(_HIGH_WATERMARKS))
        elif timer == _RECOVERY_POINTS:
            self._write(RECOVERY_POINTS, self._points(), out)
            self._write(LOG_STARTS, self._starts(), out)
            out.append(self._timer(_RECOVERY_POINTS))
        return out

    def hung(self, connection: int) -> None:
        """Drop the waiting requests of a closed connection."""
        self._requests.hung(connection)

    def isr_wishes(self) -> tuple[AlterPartition, ...]:
        """Return the new ISR changes to request from the controller. Each is returned only once.

        Call this after every event. Send the requests to the controller, and pass its responses to
        `isr_answered`.
        """
        return self.isr.wishes()

    def isr_answered(
        self,
        now: Nanoseconds,
        wishes: Sequence[AlterPartition],
        answers: Sequence[AlteredPartition] | None,
    ) -> list[Effect]:
        """Handle the controller's results. None means that all must be requested again."""
        out: list[Effect] = []
        for partition in self.isr.answered(wishes, answers, out):
            self._requests.settle(partition, now, out)
        return out

    def shut_down(self, broker_epoch: int) -> list[Effect]:
        """Flush all logs, write the checkpoints and the marker of a clean shutdown.

        The marker means that all logs are flushed. So no log is written after the marker. Leaders
        stop leading, followers append no records, and new states are ignored.
        """
        out: list[Effect] = []
        self._closed = True
        for partition in self._registry.partitions.values():
            self._fetchers.leave(partition.log.folder)
            self.isr.forget(partition.log.folder)
            if partition.leading is not None:
                partition.leading = None
                self._requests.stop(partition, ErrorCode.not_leader_or_follower, out)
            partition.log.flush(out)
        for name, offsets in (
            (RECOVERY_POINTS, self._points()),
            (LOG_STARTS, self._starts()),
            (HIGH_WATERMARKS, self._marks()),
        ):
            out.append(WriteFile(path=name, data=offsets_file(offsets)))
        out.append(WriteFile(path=CLEAN_SHUTDOWN, data=clean_shutdown(broker_epoch)))
        return out

    def _is_news(self, state: PartitionState) -> bool:
        known = self._registry.known.get(state.folder)
        return known is None or known.topic_id != state.topic_id or not _is_older(state, known)

    def _apply(self, now: Nanoseconds, state: PartitionState, out: list[Effect]) -> None:
        folder = state.folder
        partition = self._registry.partitions.get(folder)
        mine = self._registry.me in state.replicas
        if partition and not (mine and partition.state.topic_id == state.topic_id):
            self._drop(folder, out)
            partition = None
        if not mine:
            return
        if partition is None:
            partition = self._registry.partitions[folder] = self._made(state, out)
        if state.leader_epoch < partition.log.last_epoch:
            return  # The log was written in a later epoch, so this state is outdated.
        self._take_log_settings(partition.log, state, out)
        if _is_same(state, partition.state):
            partition.take_settings(state)
        elif state.leader == self._registry.me:
            self._lead(partition, state, now, out)
        else:
            self._follow(partition, state, now, out)

    def _lead(
        self, partition: Partition, state: PartitionState, now: Nanoseconds, out: list[Effect]
    ) -> None:
        self._fetchers.leave(state.folder)
        self.isr.forget(state.folder)
        lag_ns = self._registry.settings.lag_time_max_ns
        partition.lead(state, now, lag_ns=lag_ns, out=out)
        self._requests.settle(partition, now, out)

    def _follow(
        self, partition: Partition, state: PartitionState, now: Nanoseconds, out: list[Effect]
    ) -> None:
        led, before = partition.leading is not None, partition.state
        partition.follow(state, out)
        self.isr.forget(state.folder)
        if led:
            self._requests.stop(partition, ErrorCode.not_leader_or_follower, out)
        if state.leader == UNKNOWN:
            self._fetchers.leave(state.folder)
        elif led or state.leader_epoch > before.leader_epoch:
            # Even with the same leader, the records between two epochs may differ (KAFKA-7164).
            self._fetchers.follow(partition, now, out)

    def _made(self, state: PartitionState, out: list[Effect]) -> Partition:
        """Return a new replica. Its log is the recovered one, or else an empty one (KIP-516)."""
        found = self._recovered.pop(state.folder, None)
        if found is not None:
            mark = self._high_watermarks.get(state.folder, 0)
            log = found.log()
            log.mend(out)
            return Partition(state, log, me=self._registry.me, high_watermark=mark)
        log = Log(state.folder)
        log.create(out)
        path = f"{state.folder}/{PARTITION_METADATA}"
        out.append(WriteFile(path=path, data=partition_metadata(state.topic_id)))
        return Partition(state, log, me=self._registry.me, high_watermark=0)

    def _take_log_settings(self, log: Log, state: PartitionState, out: list[Effect]) -> None:
        log.flush_messages = state.settings.flush_messages
        size = state.settings.segment_bytes
        if size != self._rolled_at.get(log.folder, self._registry.settings.log_segment_bytes):
            self._rolled_at[log.folder] = size
            out.append(RollAt(folder=log.folder, segment_bytes=size))

    def _set_strays_aside(self, states: Mapping[str, PartitionState], out: list[Effect]) -> None:
        """Set aside the recovered logs that, by the metadata, are not replicas of this broker."""
        found = strays(self._recovered, states, me=self._registry.me)
        for number, (folder, why) in enumerate(found.items()):
            del self._recovered[folder]
            name = stray_name(folder, broker_epoch=self._fetchers.broker_epoch, number=number)
            out.append(Say(text=f"Found stray log dir {folder}: {why}"))
            out.append(Say(text=f"Log in {folder} marked stray and renamed to {name}"))
            out.append(SetAside(folder=folder, name=name))

    def _drop(self, folder: str, out: list[Effect]) -> None:
        self._fetchers.leave(folder)
        self.isr.forget(folder)
        partition = self._registry.partitions.pop(folder, None)
        if partition is not None:
            partition.leading = None
            self._requests.stop(partition, ErrorCode.not_leader_or_follower, out)
            self._rolled_at.pop(folder, None)
            out.append(DropLog(folder=folder))

    def _marks(self) -> dict[tuple[str, int], int]:
        kept = self._high_watermarks
        found = {place_of(folder): kept[folder] for folder in self._recovered if folder in kept}
        return found | {place: each.high_watermark for place, each in self._places()}

    def _points(self) -> dict[tuple[str, int], int]:
        found = {place: each.recovery_point for place, each in self._unclaimed_logs()}
        return found | {place: each.log.recovery_point for place, each in self._places()}

    def _starts(self) -> dict[tuple[str, int], int]:
        starts = {place: each.start_offset for place, each in self._unclaimed_logs()}
        starts |= {place: each.log.start_offset for place, each in self._places()}
        return {place: start for place, start in starts.items() if start}

    def _unclaimed_logs(self) -> Iterator[tuple[tuple[str, int], RecoveredLog]]:
        """Yield recovered logs that have no state yet: checkpoints must keep the logs' offsets."""
        for folder, each in self._recovered.items():
            yield place_of(folder), each

    def _places(self) -> Iterator[tuple[tuple[str, int], Partition]]:
        for each in self._registry.partitions.values():
            yield (each.state.topic, each.state.partition), each

    def _write(self, name: str, offsets: Mapping[tuple[str, int], int], out: list[Effect]) -> None:
        """Write a checkpoint if it has changed since the last time."""
        data = offsets_file(offsets)
        if self._written.get(name) != data:
            self._written[name] = data
            out.append(WriteFile(path=name, data=data))

    def _timer(self, name: str) -> SetTimer:
        settings = self._registry.settings
        after_ms = {
            _LAG: settings.replica_lag_time_max_ms // 2,
            _HIGH_WATERMARKS: settings.replica_high_watermark_checkpoint_interval_ms,
            _RECOVERY_POINTS: settings.log_flush_offset_checkpoint_interval_ms,
        }[name]
        after = max(after_ms, 1) * NANOSECONDS_A_MS
        return SetTimer(timer=name, after_ns=after, at_most_ns=after)


def _is_older(state: PartitionState, known: PartitionState) -> bool:
    older = state.partition_epoch < known.partition_epoch
    return older or state.leader_epoch < known.leader_epoch


def _is_same(state: PartitionState, known: PartitionState) -> bool:
    return (state.leader_epoch, state.partition_epoch) == (
        known.leader_epoch,
        known.partition_epoch,
    )
