"""A leader's knowledge of its followers: the ISR, and each follower's progress.

- The high watermark is the smallest log end offset in the maximal ISR. The maximal ISR includes the
  followers that the leader has asked to add (KIP-497). The high watermark also waits for followers
  that have caught up and may join. It moves only forward, and only while the ISR has enough members
  (Kafka 3.7, KIP-966).
- If a follower was behind the log's end for `replica.lag.time.max.ms`, it leaves the ISR. It joins
  again when its log end is at or beyond both the high watermark and the start of the leader's
  epoch. A follower may not join while it is fenced or shutting down (KIP-841), or if it restarted
  after its last fetch (KIP-903).
- The controller decides about each change of the ISR. The leader asks with AlterPartition (KIP-497)
  for one change at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.reference.log.log import Log
from cluster.reference.machine import Nanoseconds
from cluster.reference.messages.control import AlterPartition
from cluster.reference.messages.data import UNKNOWN
from cluster.reference.partition.state import PartitionState

_NEVER = -(1 << 62)


@dataclass(slots=True, kw_only=True)
class Remote:
    """The leader's knowledge of one follower.

    Attributes:
        end_offset: The follower's log end offset: the offset of its last fetch; -1 before the first
            fetch.
        caught_up_ns: The last time at which the follower had all of the leader's records.
        fetched_ns, leader_end: The time of the follower's last fetch, and the leader's log end at
            that time.
        broker_epoch: The broker epoch in the follower's last fetch.
    """

    end_offset: int = UNKNOWN
    caught_up_ns: Nanoseconds = _NEVER
    fetched_ns: Nanoseconds = _NEVER
    leader_end: int = UNKNOWN
    broker_epoch: int = UNKNOWN

    def fetches(self, offset: int, *, now: Nanoseconds, leader_end: int) -> None:
        """Record a fetch.

        The follower has stored all records before this offset (there are no ACK messages).
        """
        if offset >= leader_end:
            self.caught_up_ns = max(self.caught_up_ns, now)
        elif offset >= self.leader_end:
            # It now has all records that the leader had at its previous fetch. So a follower can
            # keep up even if the leader constantly appends.
            self.caught_up_ns = max(self.caught_up_ns, self.fetched_ns)
        self.end_offset = offset
        self.fetched_ns = now
        self.leader_end = max(self.leader_end, leader_end)


class Leading:
    """The leadership of a partition in one leader epoch.

    Attributes:
        state: The partition's state that the controller has committed.
        epoch_start: The log's end when the epoch began.
        remotes: The followers by broker id, in the order of assignment.
        wish: The requested ISR change; None if there is none.
    """

    __slots__ = ("_lag_ns", "_log", "_me", "epoch_start", "remotes", "state", "wish")

    def __init__(
        self, state: PartitionState, log: Log, *, me: int, lag_ns: Nanoseconds, now: Nanoseconds
    ) -> None:
        """Begin to lead a partition.

        The log ends of the followers are not yet known. The members of the ISR get the full time to
        catch up.
        """
        self.state = state
        self.epoch_start = log.end_offset
        self.wish: AlterPartition | None = None
        self.remotes: dict[int, Remote] = {}
        self._log, self._me, self._lag_ns = log, me, lag_ns
        self.take(state, now)

    def take(self, state: PartitionState, now: Nanoseconds) -> None:
        """Apply the controller's decision. It also settles an open ISR request."""
        again = state.leader_epoch > self.state.leader_epoch
        if again:
            self.epoch_start = self._log.end_offset
        self.state = state
        self.wish = None
        known, self.remotes = self.remotes, {}
        for broker in state.replicas:
            if broker == self._me:
                continue
            remote = known.get(broker) or Remote()
            if again:
                # This leader may have missed epochs in between. A follower may have followed
                # another leader meanwhile and truncated its log. Its next fetch shows its position.
                remote = Remote(broker_epoch=remote.broker_epoch)
            self.remotes[broker] = remote
            if broker in state.isr and (again or broker not in known):
                remote.caught_up_ns = now

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and the brokers that the leader asks to add (KIP-497)."""
        if self.wish is None:
            return self.state.isr
        added = (broker for broker, _ in self.wish.new_isr_with_epochs)
        return self.state.isr + tuple(each for each in added if each not in self.state.isr)

    @property
    def enough_in_sync(self) -> bool:
        """Whether the ISR has `min.insync.replicas` members, or all replicas if there are fewer."""
        state, in_sync = self.state, len(self.state.isr)
        return in_sync >= state.settings.min_insync_replicas or in_sync >= len(state.replicas)

    def high_watermark(self, now: Nanoseconds, *, before: int, eligible: Mapping[int, int]) -> int:
        """Return the high watermark, which never moves back.

        Args:
            now: The present time.
            before: The high watermark so far.
            eligible: The brokers that may be in an ISR, with their epochs.
        """
        if not self.enough_in_sync:  # KIP-966: too few replicas commit nothing.
            return before
        mark = end = self._log.end_offset
        # KIP-497: brokers to be added count before the controller has agreed.
        maximal = self.state.isr if self.wish is None else self.maximal_isr
        for broker, remote in self.remotes.items():
            if remote.end_offset >= mark:
                continue
            # A follower about to join would fall behind again if the high watermark passed it.
            if broker in maximal or (
                self._keeps_up(remote, end, now) and _is_eligible(broker, remote, eligible)
            ):
                mark = remote.end_offset
        return mark if mark > before else before

    def wish_to_add(self, broker: int, *, high_watermark: int, eligible: Mapping[int, int]) -> bool:
        """Ask the controller to add a follower to the ISR, if the follower may join.

        Return whether this call made a new request.
        """
        if self.wish is not None or broker in self.state.isr:
            return False
        remote = self.remotes[broker]
        # KAFKA-7128: if its log ends before the epoch's start, it may have records that this leader
        # never had.
        caught_up = remote.end_offset >= max(high_watermark, self.epoch_start)
        # KIP-841: do not ask for a broker that the controller would refuse.
        if not caught_up or not _is_eligible(broker, remote, eligible):
            return False
        self._wish((*self.state.isr, broker), eligible)
        return True

    def wish_to_remove(self, now: Nanoseconds, eligible: Mapping[int, int]) -> tuple[int, ...]:
        """Ask the controller to remove lagging followers from the ISR; return these followers."""
        if self.wish is not None:
            return ()
        end, remotes = self._log.end_offset, self.remotes
        lags = tuple(
            broker
            for broker in self.state.isr
            if broker in remotes and not self._keeps_up(remotes[broker], end, now)
        )
        if lags:
            self._wish(tuple(each for each in self.state.isr if each not in lags), eligible)
        return lags

    def _keeps_up(self, remote: Remote, end: int, now: Nanoseconds) -> bool:
        return remote.end_offset == end or now - remote.caught_up_ns <= self._lag_ns

    def _wish(self, isr: tuple[int, ...], eligible: Mapping[int, int]) -> None:
        mine = eligible.get(self._me, UNKNOWN)
        epochs = {broker: remote.broker_epoch for broker, remote in self.remotes.items()}
        self.wish = AlterPartition(
            topic_id=self.state.topic_id,
            partition_index=self.state.partition,
            leader_epoch=self.state.leader_epoch,
            new_isr_with_epochs=tuple((each, epochs.get(each, mine)) for each in isr),
            partition_epoch=self.state.partition_epoch,
        )


def _is_eligible(broker: int, remote: Remote, eligible: Mapping[int, int]) -> bool:
    """Return whether a broker may join: it is active (KIP-841) and did not restart (KIP-903)."""
    epoch = eligible.get(broker)
    return epoch is not None and remote.broker_epoch in (UNKNOWN, epoch)
