"""A member of the quorum: its log, its state, and the changes from one state to another.

Each state has one deadline, the timer `quorum-timeout`. Depending on the state, this deadline
limits an election, the silence of the leader, or the time without fetches by a majority. The timer
`quorum-retry` repeats unanswered requests.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from cluster.reference.log.log import Log
from cluster.reference.machine import (
    CancelTimer,
    Effect,
    Nanoseconds,
    Request,
    Say,
    SetTimer,
    WriteFile,
)
from cluster.reference.quorum.leading import Leading, ParkedFetch
from cluster.reference.quorum.records import leader_change
from cluster.reference.quorum.state import (
    STATE_FILE,
    Ballot,
    ElectionState,
    Role,
    Round,
    state_file,
)
from cluster.reference.settings import NANOSECONDS_A_MS, Settings

TIMEOUT, RETRY, PARKED, BEGIN = "quorum-timeout", "quorum-retry", "quorum-parked", "quorum-begin"
_MAX_RETRY_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot of the metadata (KIP-630).

    Attributes:
        end_offset: The snapshot replaces all records before this offset.
        epoch: The epoch of the last of these records.
        data: The content of the file.
    """

    end_offset: int
    epoch: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A member's identity, and the voters.

    Attributes:
        node: The member's id.
        voters: The ids of all voters, sorted (`controller.quorum.voters`).
        cluster_id: The cluster id from `meta.properties`.
        directory: The id of the member's log dir, also from `meta.properties`; None before Kafka
            3.7.
    """

    node: int
    voters: tuple[int, ...]
    cluster_id: str
    directory: UUID | None = None


@dataclass(slots=True)
class Asked:
    """An open request: its receiver, its message, and the epoch in which it was sent."""

    to: int
    epoch: int
    message: object


class Member:
    """The state that all modules of the quorum share.

    `begin` starts the handling of an event. `out` collects the effects of this event.
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
        self.identity = identity
        self.node = identity.node
        self.voters = identity.voters
        self.is_voter = identity.node in identity.voters
        self.settings = settings
        self.log = log
        self.snapshot = snapshot
        self.state = state
        self.role = Role.UNATTACHED
        self.high_watermark = snapshot.end_offset if snapshot else -1
        self.has_fetched = False
        self.ballot: Ballot | None = None
        self.round = Round()
        self.successors: list[int] = []
        self.leading: Leading | None = None
        self.abandoned: list[ParkedFetch] = []
        self.asked: dict[int, Asked] = {}
        self.fetch: int | None = None
        self.failures = 0
        self.lost_elections = 0
        self.retrying = False
        self.closing = False
        self.now: Nanoseconds = 0
        self.out: list[Effect] = []
        self._numbers = numbers

    @property
    def others(self) -> list[int]:
        """The voters other than this member."""
        return [voter for voter in self.voters if voter != self.node]

    @property
    def known_leader(self) -> int:
        """The leader of this epoch that the member reports to others; -1 if unknown or resigned."""
        return -1 if self.role is Role.RESIGNED else self.state.leader

    @property
    def last_epoch(self) -> int:
        """The epoch of the log's last record; 0 if there is none, as in Kafka."""
        return max(self.log.last_epoch, 0)

    @property
    def time_ms(self) -> int:
        """The node's monotonic clock, in milliseconds."""
        return self.now // NANOSECONDS_A_MS

    def begin(self, now: Nanoseconds) -> None:
        """Begin an event: set the time and clear the effects."""
        self.now = now
        self.out = []

    def ask(self, to: int, message: object) -> int:
        """Send a request; return its number."""
        number = next(self._numbers)
        self.asked[number] = Asked(to=to, epoch=self.state.epoch, message=message)
        timeout = self.settings.controller_quorum_request_timeout_ms * NANOSECONDS_A_MS
        self.out.append(Request(number=number, to=to, message=message, timeout_ns=timeout))
        return number

    def say(self, text: str) -> None:
        """Write a log line as Kafka's `RaftManager` does."""
        self.out.append(Say(text=f"[RaftManager id={self.node}] {text}"))

    def retry_later(self) -> None:
        """Retry after a pause. The pause doubles with each failure in a row."""
        if self.retrying:
            return
        self.retrying = True
        least = self.settings.controller_quorum_retry_backoff_ms
        self.failures = min(self.failures + 1, _MAX_RETRY_MS.bit_length())
        wait = min(least << (self.failures - 1), _MAX_RETRY_MS) * NANOSECONDS_A_MS
        self.out.append(SetTimer(timer=RETRY, after_ns=wait, at_most_ns=wait))

    def set_timeout(self, least_ms: int, most_ms: int) -> None:
        """Set the deadline of the present state to a random time between two limits."""
        self.out.append(
            SetTimer(
                timer=TIMEOUT,
                after_ns=least_ms * NANOSECONDS_A_MS,
                at_most_ns=most_ms * NANOSECONDS_A_MS,
            )
        )

    def set_election_timeout(self) -> None:
        """Set a random election timeout, so that voters rarely become candidates together."""
        least = self.settings.controller_quorum_election_timeout_ms
        self.set_timeout(least, 2 * least)

    def set_fetch_timeout(self) -> None:
        """Restart the fetch timeout, because a message has shown that the leader is alive."""
        most = self.settings.controller_quorum_fetch_timeout_ms
        self.set_timeout(most, most)

    def set_check_timeout(self) -> None:
        """Restart the time in which a majority must fetch: 1.5 times the fetch timeout."""
        most = self.settings.controller_quorum_fetch_timeout_ms * 3 // 2
        self.set_timeout(most, most)

    def raise_high_watermark(self, offset: int) -> None:
        """Raise the high watermark, at most to the log's end. It never moves back."""
        self.high_watermark = max(self.high_watermark, min(offset, self.log.end_offset))

    def become_unattached(self, epoch: int) -> None:
        """Enter the state `unattached` in an epoch, without a known leader."""
        self._enter(Role.UNATTACHED, self.state.in_epoch(epoch).led_by(-1))
        if self.is_voter:
            self.set_election_timeout()
        else:
            self.out.append(CancelTimer(timer=TIMEOUT))

    def become_follower(self, leader: int, epoch: int) -> None:
        """Become a follower, which fetches from the leader."""
        assert leader != self.node, "a node cannot follow itself"
        self._enter(Role.FOLLOWER, self.state.in_epoch(epoch).led_by(leader))
        self.lost_elections = 0
        self.set_fetch_timeout()

    def become_prospective(self) -> None:
        """Ask whether this member would win an election, before a new epoch begins (KIP-996)."""
        leader = -1 if self.state.leader == self.node else self.state.leader
        self._enter(Role.PROSPECTIVE, self.state.led_by(leader))
        self.ballot = Ballot(granted=[self.node])
        self.round = Round.of(self.others)
        self.set_election_timeout()

    def become_candidate(self) -> None:
        """Become a candidate in a new epoch. First make the member's own vote durable."""
        epoch = self.state.epoch + 1
        mine = self.state.in_epoch(epoch).voting_for(self.node, self.identity.directory)
        self._enter(Role.CANDIDATE, mine)
        self.ballot = Ballot(granted=[self.node])
        self.round = Round.of(self.others)
        self.set_election_timeout()

    def become_leader(self, granting: list[int]) -> None:
        """Become the leader, and begin the epoch with a LeaderChange record (KIP-595)."""
        self._enter(Role.LEADER, self.state.led_by(self.node))
        self.lost_elections = 0
        start = self.log.end_offset
        self.leading = Leading(
            self.node, self.voters, epoch_start=start, begun=Round.of(self.others)
        )
        record = leader_change(
            self.node,
            voters=self.voters,
            granting=granting,
            base_offset=start,
            epoch=self.state.epoch,
            time_ms=self.time_ms,
        )
        self.log.append_as_leader(record, epoch=self.state.epoch, out=self.out)
        self.log.flush(self.out)
        if self.others:
            self.set_check_timeout()
        else:
            self.out.append(CancelTimer(timer=TIMEOUT))

    def resign(self) -> None:
        """Resign as leader of this epoch. Later, `ask_due` announces the successors (KIP-595)."""
        assert self.leading is not None
        self.successors = self.leading.successors()
        self._enter(Role.RESIGNED, self.state)
        self.round = Round.of(self.others)
        self.set_election_timeout()

    def restore(self) -> None:
        """Restore the state from the files after a start."""
        if self.last_epoch > self.state.epoch:
            # The file was lost. Votes in the log's last epoch and before no longer matter.
            self.say(
                f"Epoch from quorum store file is {self.state.epoch}, which is smaller than last"
                f" written epoch {self.last_epoch} in the log (org.apache.kafka.raft.QuorumState)"
            )
            self.become_unattached(self.last_epoch)
            return
        if self.state.leader == self.node and self.is_voter:
            # This member led before it restarted, but its announcements are unknown now. So it
            # never leads again in that epoch.
            self._enter(Role.RESIGNED, self.state)
            self.round = Round.of(self.others)
            self.set_election_timeout()
        elif self.state.leader in self.voters:
            self.become_follower(self.state.leader, self.state.epoch)
        else:
            self.become_unattached(self.state.epoch)

    def persist(self) -> None:
        """Write epoch, leader and vote to the disk before any later effect."""
        self.out.append(WriteFile(path=STATE_FILE, data=state_file(self.state, self.voters)))

    def say_transition(self, before: str) -> None:
        """Log the change of state as Kafka's `QuorumState` does."""
        self.say(
            f"Completed transition to {self.described()} from {before}"
            " (org.apache.kafka.raft.QuorumState)"
        )

    def _enter(self, role: Role, state: ElectionState) -> None:
        before, changed = self.described(), state != self.state
        self.role, self.state = role, state
        if changed:
            self.persist()
        self.say_transition(before)
        if self.leading is not None:
            self.abandoned += self.leading.parked
            self.leading = None
            self.out += [CancelTimer(timer=PARKED), CancelTimer(timer=BEGIN)]
        self.ballot, self.round, self.fetch = None, Round(), None
        self.has_fetched = False
        if self.retrying:
            self.out.append(CancelTimer(timer=RETRY))
        self.retrying, self.failures = False, 0

    def described(self) -> str:
        """Return the state as Kafka prints it."""
        state = self.state
        leader = "OptionalInt.empty" if state.leader < 0 else f"OptionalInt[{state.leader}]"
        voters = f"voters={list(self.voters)}"
        match self.role:
            case Role.UNATTACHED | Role.PROSPECTIVE:
                name = f"{self.role.capitalize()}State"
                return (
                    f"{name}(epoch={state.epoch}, leaderId={leader}, votedKey={self._vote()},"
                    f" {voters}, highWatermark={self._watermark()})"
                )
            case Role.FOLLOWER:
                timeout = self.settings.controller_quorum_fetch_timeout_ms
                return (
                    f"FollowerState(fetchTimeoutMs={timeout}, epoch={state.epoch},"
                    f" leader={state.leader}, votedKey={self._vote()}, {voters},"
                    f" highWatermark={self._watermark()})"
                )
            case Role.CANDIDATE:
                directory = kafka_uuid(self.identity.directory)
                return (
                    f"CandidateState(localId={self.node}, localDirectoryId={directory},"
                    f" epoch={state.epoch}, {voters}, highWatermark={self._watermark()})"
                )
            case Role.LEADER:
                return f"Leader(localId={self.node}, epoch={state.epoch}, {voters})"
            case Role.RESIGNED:
                return (
                    f"ResignedState(localId={self.node}, epoch={state.epoch}, {voters},"
                    f" preferredSuccessors={self.successors})"
                )

    def _vote(self) -> str:
        if self.state.voted < 0:
            return "Optional.empty"
        directory = self.state.voted_directory
        named = kafka_uuid(directory) if directory else "<undefined>"
        return f"Optional[ReplicaKey(id={self.state.voted}, directoryId={named})]"

    def _watermark(self) -> str:
        known = self.high_watermark
        return "Optional.empty" if known < 0 else f"Optional[LogOffsetMetadata(offset={known})]"


def kafka_uuid(uuid: UUID | None) -> str:
    """Return a UUID as Kafka prints it: 22 characters of base64. For None, all are `A`."""
    return urlsafe_b64encode((uuid or UUID(int=0)).bytes).decode().rstrip("=")
