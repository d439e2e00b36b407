"""The state of a quorum member in an epoch, and the file that makes the member's vote durable.

The states are those of KIP-595 and KIP-996, with Kafka 4's names: `unattached` (with or without a
vote), `follower`, `prospective`, `candidate`, `leader`, `resigned`. An observer is unattached or a
follower.
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
    """The role of a member in its epoch."""

    UNATTACHED = "unattached"
    """The member knows no leader."""
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    """The member asks whether it would be elected (KIP-996)."""
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"
    """The member led in this epoch, but no longer leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """The state that a member must remember after a restart.

    Attributes:
        epoch: The highest epoch that the member has seen.
        leader: The leader in that epoch; -1 if unknown.
        voted: The node for which the member voted in that epoch; -1 if none.
        voted_directory: The id of that node's log dir, if votes name log dirs (KIP-853).
    """

    epoch: int = 0
    leader: int = -1
    voted: int = -1
    voted_directory: UUID | None = None

    def in_epoch(self, epoch: int) -> "ElectionState":
        """Return the state in an epoch. A newer epoch begins without a leader and a vote."""
        return ElectionState(epoch=epoch) if epoch > self.epoch else self

    def voting_for(self, candidate: int, directory: UUID | None = None) -> "ElectionState":
        """Return the state with a vote. A member must not vote twice in an epoch."""
        assert self.voted in (-1, candidate), "a member votes only once in an epoch"
        return replace(self, voted=candidate, voted_directory=directory)

    def led_by(self, leader: int) -> "ElectionState":
        """Return the state with a leader; -1 if unknown."""
        return replace(self, leader=leader)


def state_file(state: ElectionState, voters: Sequence[int]) -> bytes:
    """Return the bytes of `quorum-state`. The voters are the ones in the settings."""
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
    """Read `quorum-state`. If there is no file (None), the member has never voted.

    Raises:
        DamagedFileError: The bytes are not a valid `quorum-state`.
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
    """The voters whose responses a member still needs.

    Attributes:
        unanswered: For each voter that has not answered: the number of the open request, or None if
            no request is open.
    """

    unanswered: dict[int, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, voters: Sequence[int]) -> "Round":
        """Return a new round, in which no voter has been asked yet."""
        return cls(dict.fromkeys(voters))

    def due(self) -> list[int]:
        """Return the voters to ask now."""
        return [voter for voter, number in self.unanswered.items() if number is None]

    def asked(self, voter: int, number: int) -> None:
        """Record that a voter is asked."""
        self.unanswered[voter] = number

    def failed(self, voter: int) -> None:
        """Record that no response will come. So the voter will be asked again."""
        if voter in self.unanswered:
            self.unanswered[voter] = None

    def answered(self, voter: int) -> None:
        """Record that a voter has answered."""
        self.unanswered.pop(voter, None)


@dataclass(slots=True)
class Ballot:
    """The votes of an election or of a pre-vote.

    Attributes:
        granted: The voters that voted for this member. This member itself comes first.
        refused: The voters that refused.
        lost: Whether the election is lost. Then this member waits before it tries again.
    """

    granted: list[int]
    refused: list[int] = field(default_factory=list)
    lost: bool = False

    def record(self, voter: int, *, granted: bool) -> None:
        """Count a voter's response once."""
        if voter not in self.granted and voter not in self.refused:
            (self.granted if granted else self.refused).append(voter)

    def is_won(self, voters: int) -> bool:
        """Return whether a majority of the voters voted for this member."""
        return len(self.granted) > voters // 2

    def is_lost(self, voters: int) -> bool:
        """Return whether so many voters refused that a majority is impossible."""
        return voters - len(self.refused) <= voters // 2
