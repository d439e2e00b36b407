"""What the leader of the quorum knows of the others: how far they are, and who waits for more."""

from dataclasses import dataclass, field

from cluster.reference.machine import Asker, Nanoseconds
from cluster.reference.messages.data import FetchPartition
from cluster.reference.quorum.state import Round


@dataclass(slots=True)
class Progress:
    """How far a replica has come, as its fetches tell.

    Attributes:
        end_offset: Where it fetched last: all below is stored there. -1: it has not fetched.
        fetched_at: When it fetched last, -1: never.
        caught_up_at: When it had all that there was, -1: never.
        connection: On which it fetched last.
        told: The high watermark that it was told on this connection.
    """

    end_offset: int = -1
    fetched_at: Nanoseconds = -1
    caught_up_at: Nanoseconds = -1
    connection: int = -1
    told: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFetch:
    """A fetch that found nothing new, and waits until its deadline."""

    asker: Asker
    replica: int
    partition: FetchPartition
    deadline: Nanoseconds


@dataclass(slots=True)
class Leading:
    """A leader's knowledge in its epoch.

    Attributes:
        node: The leader.
        voters: All voters.
        epoch_start: The offset of the record that begins its epoch.
        high_watermark: -1 until a record of its own epoch is on a majority.
        begun: Who is to be told of the epoch.
        progress: By replica, observers too.
        fetched: Voters that fetched since a majority of them last had.
        parked: Fetches that wait.
    """

    node: int
    voters: tuple[int, ...]
    epoch_start: int
    begun: Round
    high_watermark: int = -1
    progress: dict[int, Progress] = field(default_factory=dict)
    fetched: list[int] = field(default_factory=list)
    parked: list[ParkedFetch] = field(default_factory=list)

    def note_fetch(self, replica: int, offset: int, *, end: int, now: Nanoseconds) -> None:
        """Note that a replica has all below an offset of a log that ends at `end`."""
        mine = self.progress.setdefault(replica, Progress())
        mine.end_offset, mine.fetched_at = offset, now
        if offset >= end:
            mine.caught_up_at = now

    def note_connection(self, replica: int, connection: int) -> Progress:
        """Return a replica's progress; on a new connection nobody was told anything."""
        mine = self.progress.setdefault(replica, Progress())
        if mine.connection != connection:
            mine.connection, mine.told = connection, -1
        return mine

    def has_majority(self, replica: int) -> bool:
        """Note that a voter fetched; True if a majority has, now, since it last had."""
        if replica in self.voters and replica not in self.fetched:
            self.fetched.append(replica)
        if len(self.fetched) + (self.node in self.voters) > len(self.voters) // 2:
            self.fetched.clear()
            return True
        return False

    def advance(self, end: int) -> bool:
        """Raise the high watermark to what a majority of voters stores; True if it rose.

        It must be behind the record that begins this leader's epoch: records of former epochs
        are committed with it, never by themselves (Raft, figure 8; KIP-595).
        """
        ends = [end if voter == self.node else self._end_of(voter) for voter in self.voters]
        stored = sorted(ends, reverse=True)[len(ends) // 2]
        if stored <= self.epoch_start or stored <= self.high_watermark:
            return False
        self.high_watermark = stored
        return True

    def successors(self) -> list[int]:
        """Return the other voters, the longest log first (KIP-595: EndQuorumEpoch)."""
        others = [voter for voter in self.voters if voter != self.node]
        return sorted(others, key=lambda voter: -self._end_of(voter))

    def unpark(self, connection: int) -> None:
        """Forget what waits on a connection that is gone."""
        self.parked = [each for each in self.parked if each.asker.connection != connection]

    def _end_of(self, replica: int) -> int:
        known = self.progress.get(replica)
        return -1 if known is None else known.end_offset
