"""One replica of a partition: its log, its high watermark and its leadership."""

from dataclasses import replace

from kio.schema.errors import ErrorCode

from cluster.reference.log.checkpoints import kafka_id
from cluster.reference.log.log import Log
from cluster.reference.machine import Effect, Nanoseconds, Say
from cluster.reference.messages.data import UNKNOWN, FetchedPartition
from cluster.reference.partition.leader import Leading
from cluster.reference.partition.parked import ParkedFetch, ParkedProduces
from cluster.reference.partition.produced import RefusedError
from cluster.reference.partition.state import PartitionState


class Partition:
    """A replica of a partition.

    Attributes:
        log: The replica's batches.
        high_watermark: All offsets before the high watermark are committed, as far as this replica
            knows.
        state: The controller's last decision.
        leading: A leader's knowledge of its followers; None for a follower.
        produces: Waiting produce requests with acks=all, by the awaited offset.
        fetches: Waiting fetches.
        nothing_new: The last empty response to a fetch, which can be sent again.
    """

    __slots__ = (
        "_me", "fetches", "high_watermark", "leading", "log", "nothing_new", "produces", "state",
    )  # fmt: skip

    def __init__(self, state: PartitionState, log: Log, *, me: int, high_watermark: int) -> None:
        """Create a replica. It becomes a leader or a follower later."""
        self._me = me
        self.log = log
        # A crash may have removed records below the stored high watermark.
        self.high_watermark = max(min(high_watermark, log.end_offset), log.start_offset)
        self.state = replace(state, leader=UNKNOWN, leader_epoch=UNKNOWN, partition_epoch=UNKNOWN)
        self.leading: Leading | None = None
        self.produces = ParkedProduces()
        self.fetches: list[ParkedFetch] = []
        self.nothing_new: FetchedPartition | None = None

    def lead(
        self, state: PartitionState, now: Nanoseconds, *, lag_ns: Nanoseconds, out: list[Effect]
    ) -> None:
        """Become leader in the state's epoch, or continue to lead with another ISR."""
        before, first = self.state, self.leading is None
        self.state = state
        if self.leading is None:
            self.leading = Leading(state, self.log, me=self._me, lag_ns=lag_ns, now=now)
        else:
            self.leading.take(state, now)
        if first or state.leader_epoch > before.leader_epoch:
            # KIP-101: the leader writes its epoch line before it appends a record in its epoch.
            self.log.begin_epoch(state.leader_epoch, out=out)
            out.append(Say(text=self._leader_line(before)))

    def follow(self, state: PartitionState, out: list[Effect]) -> None:
        """Stop leading. The fetcher begins to follow the new leader later."""
        before, led = self.state, self.leading is not None
        self.state = state
        self.leading = None
        if led or state.leader_epoch > before.leader_epoch:
            out.append(Say(text=self._follower_line(before)))

    def take_settings(self, state: PartitionState) -> None:
        """Apply the topic's new settings; epochs and ISR stay unchanged."""
        self.state = state
        if self.leading is not None:
            self.leading.state = state

    def lower_high_watermark_to_end(self) -> None:
        """Lower the high watermark to the log's end: only a truncation lowers a high watermark."""
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def led_in(self, current_leader_epoch: int) -> Leading:
        """Return this replica's leadership if a request names the right leader epoch (KIP-320).

        Args:
            current_leader_epoch: The epoch that the request names; -1: not checked.

        Raises:
            RefusedError: This replica does not lead, or it knows a newer or older epoch.
        """
        if current_leader_epoch not in (UNKNOWN, self.state.leader_epoch):
            self.known_in(current_leader_epoch)
        if self.leading is None:
            raise RefusedError(ErrorCode.not_leader_or_follower)
        return self.leading

    def known_in(self, current_leader_epoch: int) -> None:
        """Check that a request names the leader epoch that this replica knows.

        Args:
            current_leader_epoch: The epoch that the request names; -1: not checked.

        Raises:
            RefusedError: The epoch is older or newer than the known one.
        """
        if current_leader_epoch not in (UNKNOWN, self.state.leader_epoch):
            older = current_leader_epoch < self.state.leader_epoch
            raise RefusedError(
                ErrorCode.fenced_leader_epoch if older else ErrorCode.unknown_leader_epoch
            )

    def _leader_line(self, before: PartitionState) -> str:
        state = self.state
        return (
            f"[Broker id={self._me}] Leader {state.folder}"
            f" with topic id Some({kafka_id(state.topic_id)})"
            f" starts at leader epoch {state.leader_epoch} from offset {self.log.end_offset}"
            f" with partition epoch {state.partition_epoch}, high watermark {self.high_watermark},"
            f" ISR {_listed(state.isr)}, adding replicas {_listed(state.adding_replicas)} and"
            f" removing replicas {_listed(state.removing_replicas)}. {_previous(before)}"
        )

    def _follower_line(self, before: PartitionState) -> str:
        state = self.state
        return (
            f"[Broker id={self._me}] Follower {state.folder}"
            f" starts at leader epoch {state.leader_epoch} from offset {self.log.end_offset}"
            f" with partition epoch {state.partition_epoch} and high watermark"
            f" {self.high_watermark}. Current leader is {state.leader}. {_previous(before)}"
        )


def _listed(brokers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, brokers))}]"


def _previous(before: PartitionState) -> str:
    leader = "None" if before.leader == UNKNOWN else f"Some({before.leader})"
    return f"Previous leader {leader} and previous leader epoch was {before.leader_epoch}."
