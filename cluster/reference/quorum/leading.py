"""What the quorum's leader knows of the other members: their progress and waiting fetches."""

from dataclasses import dataclass, field

from cluster.reference.machine import Asker, Nanoseconds
from cluster.reference.messages.data import FetchPartition
from cluster.reference.quorum.state import Round


@dataclass(slots=True)
class Progress:
    """The progress of a replica, according to its fetches.

    Attributes:
        end_offset: The offset of the replica's last fetch. The replica has stored all records
            before this offset. -1 before the first fetch.
        fetched_at: The time of the replica's last fetch; -1: never.
        caught_up_at: The last time at which the replica had all records; -1: never.
        connection: The connection of the replica's last fetch.
        told: The high watermark that was sent to the replica on this connection.
    """

    end_offset: int = -1
    fetched_at: Nanoseconds = -1
    caught_up_at: Nanoseconds = -1
    connection: int = -1
    told: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFetch:
    """A fetch that found no new records. It waits for records, at most until its deadline."""

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
        epoch_start: The offset of the record that begins the leader's epoch.
        high_watermark: The high watermark; -1 until a majority has a record of this leader's epoch.
        begun: The voters to which the epoch must be announced.
        progress: The progress of each replica, including observers.
        fetched: The voters that have fetched since `has_majority` last returned True.
        parked: Waiting fetches.
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
        """Record that a replica has stored all records before an offset.

        The leader's log ends at `end`.
        """
        mine = self.progress.setdefault(replica, Progress())
        mine.end_offset, mine.fetched_at = offset, now
        if offset >= end:
            mine.caught_up_at = now

    def note_connection(self, replica: int, connection: int) -> Progress:
        """Return a replica's progress.

        On a new connection, the replica has not received the high watermark yet.
        """
        mine = self.progress.setdefault(replica, Progress())
        if mine.connection != connection:
            mine.connection, mine.told = connection, -1
        return mine

    def has_majority(self, replica: int) -> bool:
        """Record a voter's fetch; return whether a majority of voters has fetched again.

        If so, the count of voters that have fetched begins again.
        """
        if replica in self.voters and replica not in self.fetched:
            self.fetched.append(replica)
        if len(self.fetched) + (self.node in self.voters) > len(self.voters) // 2:
            self.fetched.clear()
            return True
        return False

    def advance(self, end: int) -> bool:
        """Raise the high watermark to the offset that a majority has; return whether it rose.

        The new high watermark must be after the record that begins this leader's epoch. So records
        of earlier epochs are committed only together with that record (Raft, figure 8; KIP-595).
        """
        ends = [end if voter == self.node else self._end_of(voter) for voter in self.voters]
        stored = sorted(ends, reverse=True)[len(ends) // 2]
        if stored <= self.epoch_start or stored <= self.high_watermark:
            return False
        self.high_watermark = stored
        return True

    def successors(self) -> list[int]:
        """Return the other voters, sorted by log, longest first (KIP-595: EndQuorumEpoch)."""
        others = [voter for voter in self.voters if voter != self.node]
        return sorted(others, key=lambda voter: -self._end_of(voter))

    def unpark(self, connection: int) -> None:
        """Drop the waiting fetches of a closed connection."""
        self.parked = [each for each in self.parked if each.asker.connection != connection]

    def _end_of(self, replica: int) -> int:
        known = self.progress.get(replica)
        return -1 if known is None else known.end_offset
