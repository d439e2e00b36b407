"""What a member of the quorum is in an epoch, and the file that makes its vote safe.

States are those of KIP-595 and KIP-996, named as in Kafka 4: `unattached` (which may have voted),
`follower`, `prospective`, `candidate`, `leader`, `resigned`. An observer is unattached or follows.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import UUID

from cluster.files.checkpoints import quorum_state
from cluster.files.metadata import METADATA_TOPIC

FOLDER = f"{METADATA_TOPIC}-0"
STATE_FILE = f"{FOLDER}/quorum-state"


class Role(StrEnum):
    """What a member does in its epoch."""

    UNATTACHED = "unattached"
    """It knows no leader."""
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    """It asks whether it would be elected (KIP-996)."""
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"
    """It led in this epoch, and does not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """What a member must not forget.

    Attributes:
        epoch: The highest that it has seen.
        leader: Who leads in it, -1 if that is not known.
        voted: Whom it voted for in it, -1 if for nobody.
        voted_directory: The log folder of that one, if votes name folders (KIP-853).
    """

    epoch: int = 0
    leader: int = -1
    voted: int = -1
    voted_directory: UUID | None = None

    def in_epoch(self, epoch: int) -> "ElectionState":
        """Return the state at the beginning of an epoch: neither leader nor vote."""
        return ElectionState(epoch=epoch) if epoch > self.epoch else self

    def voting_for(self, candidate: int, directory: UUID | None = None) -> "ElectionState":
        """Return the state with a vote, which may be given once an epoch."""
        assert self.voted in (-1, candidate), "a member votes once in an epoch"
        return replace(self, voted=candidate, voted_directory=directory)

    def led_by(self, leader: int) -> "ElectionState":
        """Return the state with a leader, -1: none that is known."""
        return replace(self, leader=leader)


def state_file(state: ElectionState, voters: Sequence[int]) -> bytes:
    """Return the bytes of `quorum-state`, in the form for voters that a file of settings names."""
    fields = {
        "clusterId": "",
        "leaderId": state.leader,
        "leaderEpoch": state.epoch,
        "votedId": state.voted,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": each} for each in voters],
        "data_version": 0,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def election_state(data: bytes | None) -> ElectionState:
    """Read `quorum-state`; None: there is none, nothing was ever voted.

    Raises:
        DamagedFileError: These bytes are none.
    """
    if data is None:
        return ElectionState()
    read = quorum_state(data.decode(errors="replace"))
    return ElectionState(
        epoch=read.epoch,
        leader=-1 if read.leader is None else read.leader,
        voted=-1 if read.voted_for is None else read.voted_for,
        voted_directory=UUID(read.voted_directory) if read.voted_directory else None,
    )


@dataclass(slots=True)
class Round:
    """Whom a member still has to ask something, until each has answered.

    Attributes:
        unanswered: By voter: the number of the request that is under way, None if none is.
    """

    unanswered: dict[int, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, voters: Sequence[int]) -> "Round":
        """Return a round in which nobody was asked yet."""
        return cls(dict.fromkeys(voters))

    def due(self) -> list[int]:
        """Return whom to ask now."""
        return [voter for voter, number in self.unanswered.items() if number is None]

    def asked(self, voter: int, number: int) -> None:
        """Note that somebody is asked."""
        self.unanswered[voter] = number

    def failed(self, voter: int) -> None:
        """Note that no answer will come: it is to be asked again."""
        if voter in self.unanswered:
            self.unanswered[voter] = None

    def answered(self, voter: int) -> None:
        """Note that somebody has answered."""
        self.unanswered.pop(voter, None)


@dataclass(slots=True)
class Ballot:
    """How an election goes, a real one or one before it.

    Attributes:
        granted: Who votes for this member, itself first.
        refused: Who does not.
        lost: Whether it is over, and this member waits before it tries again.
    """

    granted: list[int]
    refused: list[int] = field(default_factory=list)
    lost: bool = False

    def record(self, voter: int, *, granted: bool) -> None:
        """Count a voter's answer, once."""
        if voter not in self.granted and voter not in self.refused:
            (self.granted if granted else self.refused).append(voter)

    def is_won(self, voters: int) -> bool:
        """Whether a majority of so many voters is for it."""
        return len(self.granted) > voters // 2

    def is_lost(self, voters: int) -> bool:
        """Whether so many refused that there can be no majority."""
        return voters - len(self.refused) <= voters // 2
