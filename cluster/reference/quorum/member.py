"""A member of the quorum: its log, its state, and how it passes from one state to another.

Each state has one deadline, the timer `quorum-timeout`: of an election, of a fetch, of a leader
that no majority fetches from. `quorum-retry` asks again what was not answered.
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
        end_offset: It stands for all records below.
        epoch: Of the last of them.
        data: The file.
    """

    end_offset: int
    epoch: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a member is, and who votes.

    Attributes:
        node: Its id.
        voters: All voters' ids, in order (`controller.quorum.voters`).
        cluster_id: From `meta.properties`.
        directory: Its log folder's id, from there too; None before Kafka 3.7.
    """

    node: int
    voters: tuple[int, ...]
    cluster_id: str
    directory: UUID | None = None


@dataclass(slots=True)
class Asked:
    """A request that is under way: to whom, and in which epoch it was sent."""

    to: int
    epoch: int
    message: object


class Member:
    """What all parts of the quorum share. An event begins by `begin`, and its effects are `out`.

    Args:
        identity: Who this is.
        settings: The node's.
        log: Of `__cluster_metadata-0`, as the files hold it.
        state: As `quorum-state` holds it.
        snapshot: The latest one, if there is any.
        numbers: Of requests; shared by all parts of a node.
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
        """The other voters."""
        return [voter for voter in self.voters if voter != self.node]

    @property
    def known_leader(self) -> int:
        """Who leads in this epoch, as others are told; -1: nobody known, or one that resigned."""
        return -1 if self.role is Role.RESIGNED else self.state.leader

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record in the log; 0 if there is none, as Kafka has it."""
        return max(self.log.last_epoch, 0)

    @property
    def time_ms(self) -> int:
        """The node's monotonic clock, in milliseconds."""
        return self.now // NANOSECONDS_A_MS

    def begin(self, now: Nanoseconds) -> None:
        """Take the time of an event."""
        self.now = now
        self.out = []

    def ask(self, to: int, message: object) -> int:
        """Send a request; returns its number."""
        number = next(self._numbers)
        self.asked[number] = Asked(to=to, epoch=self.state.epoch, message=message)
        timeout = self.settings.controller_quorum_request_timeout_ms * NANOSECONDS_A_MS
        self.out.append(Request(number=number, to=to, message=message, timeout_ns=timeout))
        return number

    def say(self, text: str) -> None:
        """Say a line as Kafka's `RaftManager` does."""
        self.out.append(Say(text=f"[RaftManager id={self.node}] {text}"))

    def retry_later(self) -> None:
        """Ask again after a while, which doubles with each failure in a row."""
        if self.retrying:
            return
        self.retrying = True
        least = self.settings.controller_quorum_retry_backoff_ms
        self.failures = min(self.failures + 1, _MAX_RETRY_MS.bit_length())
        wait = min(least << (self.failures - 1), _MAX_RETRY_MS) * NANOSECONDS_A_MS
        self.out.append(SetTimer(timer=RETRY, after_ns=wait, at_most_ns=wait))

    def set_timeout(self, least_ms: int, most_ms: int) -> None:
        """Set the deadline of the present state."""
        self.out.append(
            SetTimer(
                timer=TIMEOUT,
                after_ns=least_ms * NANOSECONDS_A_MS,
                at_most_ns=most_ms * NANOSECONDS_A_MS,
            )
        )

    def set_election_timeout(self) -> None:
        """Have the driver draw an election time-out: so that voters seldom stand together."""
        least = self.settings.controller_quorum_election_timeout_ms
        self.set_timeout(least, 2 * least)

    def set_fetch_timeout(self) -> None:
        """Give a leader that was heard of its time again."""
        most = self.settings.controller_quorum_fetch_timeout_ms
        self.set_timeout(most, most)

    def set_check_timeout(self) -> None:
        """Give a majority its time to fetch: half as much again as a follower has."""
        most = self.settings.controller_quorum_fetch_timeout_ms * 3 // 2
        self.set_timeout(most, most)

    def raise_high_watermark(self, offset: int) -> None:
        """Note what is committed; it never moves back, and is never more than what is here."""
        self.high_watermark = max(self.high_watermark, min(offset, self.log.end_offset))

    def become_unattached(self, epoch: int) -> None:
        """Know no leader in an epoch."""
        self._enter(Role.UNATTACHED, self.state.in_epoch(epoch).led_by(-1))
        if self.is_voter:
            self.set_election_timeout()
        else:
            self.out.append(CancelTimer(timer=TIMEOUT))

    def become_follower(self, leader: int, epoch: int) -> None:
        """Follow a leader: fetch from it."""
        assert leader != self.node, "nobody follows itself"
        self._enter(Role.FOLLOWER, self.state.in_epoch(epoch).led_by(leader))
        self.lost_elections = 0
        self.set_fetch_timeout()

    def become_prospective(self) -> None:
        """Find out whether an election could be won, before an epoch is begun (KIP-996)."""
        leader = -1 if self.state.leader == self.node else self.state.leader
        self._enter(Role.PROSPECTIVE, self.state.led_by(leader))
        self.ballot = Ballot(granted=[self.node])
        self.round = Round.of(self.others)
        self.set_election_timeout()

    def become_candidate(self) -> None:
        """Stand for election in a new epoch, once the vote for oneself is safe."""
        epoch = self.state.epoch + 1
        mine = self.state.in_epoch(epoch).voting_for(self.node, self.identity.directory)
        self._enter(Role.CANDIDATE, mine)
        self.ballot = Ballot(granted=[self.node])
        self.round = Round.of(self.others)
        self.set_election_timeout()

    def become_leader(self, granting: list[int]) -> None:
        """Lead, and begin the epoch with a record of its own (KIP-595: LeaderChange)."""
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
        """Lead no more in this epoch, and tell the voters who should (KIP-595: EndQuorumEpoch)."""
        assert self.leading is not None
        self.successors = self.leading.successors()
        self._enter(Role.RESIGNED, self.state)
        self.round = Round.of(self.others)
        self.set_election_timeout()

    def restore(self) -> None:
        """Be what the files say, after a start."""
        if self.last_epoch > self.state.epoch:
            # The file is lost: what was voted in the log's last epoch and before does not matter.
            self.say(
                f"Epoch from quorum store file is {self.state.epoch}, which is smaller than last"
                f" written epoch {self.last_epoch} in the log (org.apache.kafka.raft.QuorumState)"
            )
            self.become_unattached(self.last_epoch)
            return
        if self.state.leader == self.node and self.is_voter:
            # What it had not told when it ended is unknown: it never leads again in that epoch.
            self._enter(Role.RESIGNED, self.state)
            self.round = Round.of(self.others)
            self.set_election_timeout()
        elif self.state.leader in self.voters:
            self.become_follower(self.state.leader, self.state.epoch)
        else:
            self.become_unattached(self.state.epoch)

    def persist(self) -> None:
        """Have epoch, leader and vote on the disk before anything that follows is let go."""
        self.out.append(WriteFile(path=STATE_FILE, data=state_file(self.state, self.voters)))

    def say_transition(self, before: str) -> None:
        """Say that the state is another one than before, as Kafka's `QuorumState` does."""
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
    """Return a UUID as Kafka prints it: 22 characters of base64, without a value `A`s."""
    return urlsafe_b64encode((uuid or UUID(int=0)).bytes).decode().rstrip("=")
