"""What a controller's own log tells of the quorum: its states, its votes, what it truncated.

Lines of the `RaftManager` in `server.log`: `Completed transition to CandidateState(... epoch=3)
from ...`, and its answers to who asked for its vote. The wordings are those of real controllers of
4.3.1 and 3.5.2, and where others differ, of the sources since 3.3. Their times are the controller's
wall clock; their order is that of the file.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.files.checkpoints import uuid_text
from cluster.files.damage import DamagedFileError

_LINE = re.compile(
    r"^\[(?P<wall_clock>[^\]]+)\] [A-Z]+ \[RaftManager (?:id|nodeId)=(?P<node>\d+)\]"
    r" Completed transition to (?P<state>[A-Z][a-z]+)(?:State)?\((?P<fields>.*?)\) (?:from |\()"
)
_EPOCH = re.compile(r"(?<![a-zA-Z])epoch=(?P<epoch>\d+)")
_LEADER = re.compile(r"(?<![a-zA-Z])(?:leader|leaderId)=(?:OptionalInt\[)?(?P<leader>\d+)")
_VOTED = re.compile(
    r"voted(?:Id=|Key=(?:Optional\[)?ReplicaKey\(id=)(?P<voted>\d+)"
    r"(?:, directoryId=(?:Optional\[)?(?P<directory>[\w-]{22}))?"
)
_OWN_DIRECTORY = re.compile(r"localDirectoryId=(?P<directory>[\w-]{22})")
_TRUNCATED = re.compile(
    r"Truncated to offset (?P<offset>\d+) from Fetch response from leader (?P<leader>\d+)"
)
_VOTE = re.compile(
    r"^\[(?P<wall_clock>[^\]]+)\] [A-Z]+ \[RaftManager (?:id|nodeId)=\d+\]"
    r" Vote request VoteRequestData\((?P<fields>.*)\) with epoch (?P<epoch>\d+) is granted"
)
_ASKED_BY = re.compile(r"(?:replicaId|candidateId)=(?P<voted>\d+)")
_ASKED_BY_DIRECTORY = re.compile(r"(?:replica|candidate)DirectoryId=(?P<directory>[\w-]{22})")
_NO_DIRECTORY = "A" * 22
_ROLES = frozenset(
    {"unattached", "voted", "prospective", "candidate", "leader", "follower", "resigned"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTransition:
    """A member of the quorum began to be something.

    Attributes:
        wall_clock: When, by the controller's clock, as it stands in the line.
        role: unattached, voted, prospective, candidate, leader, follower or resigned.
        epoch: The quorum's.
        leader: Whom it takes for the leader, None if it knows none.
        voted_for: Whom it voted for in this epoch, None if for nobody.
        voted_directory: The log folder voted for, as a UUID's 36 characters (KIP-853).
    """

    wall_clock: str
    role: str
    epoch: int
    leader: int | None
    voted_for: int | None
    voted_directory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedVote:
    """A member of the quorum answered that it votes for who asked.

    Attributes:
        wall_clock: When, by the controller's clock, as it stands in the line.
        epoch: In which the vote counts.
        voted_for: Who asked.
        voted_directory: The asker's log folder, as a UUID's 36 characters (KIP-853).
    """

    wall_clock: str
    epoch: int
    voted_for: int
    voted_directory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTruncation:
    """A follower's metadata log was cut where its leader says that the logs part.

    Attributes:
        offset: The new end of the log.
        leader: Who said so.
    """

    offset: int
    leader: int


def quorum_transitions(lines: Iterable[str]) -> Iterator[LoggedTransition]:
    """Find the transitions of the quorum's states in the lines of a controller's log, in order."""
    for line in lines:
        told = _LINE.match(line) if "ompleted transition to" in line else None
        if told is not None:
            transition = _transition(told)
            if transition is not None:
                yield transition


def quorum_votes(lines: Iterable[str]) -> Iterator[LoggedVote]:
    """Find the votes that a controller granted, in order; a pre-vote (KIP-996) is none."""
    for line in lines:
        told = _VOTE.match(line) if "Vote request" in line else None
        asked = told and _ASKED_BY.search(told["fields"])
        if told and asked and "preVote=true" not in told["fields"]:
            directory = _ASKED_BY_DIRECTORY.search(told["fields"])
            named = directory and directory["directory"]
            yield LoggedVote(
                wall_clock=told["wall_clock"],
                epoch=int(told["epoch"]),
                voted_for=int(asked["voted"]),
                voted_directory=None if named == _NO_DIRECTORY else _uuid(named),
            )


def quorum_truncation(text: str) -> QuorumTruncation | None:
    """Return the truncation that a line tells of, None if it tells of none."""
    told = _TRUNCATED.search(text)
    return told and QuorumTruncation(offset=int(told["offset"]), leader=int(told["leader"]))


def _transition(told: re.Match[str]) -> LoggedTransition | None:
    role, fields, node = told["state"].lower().removesuffix("state"), told["fields"], told["node"]
    epoch, leader, voted = (pattern.search(fields) for pattern in (_EPOCH, _LEADER, _VOTED))
    if epoch is None or role not in _ROLES:
        return None
    voted_for = int(voted["voted"]) if voted else None
    directory = voted["directory"] if voted else None
    if role == "candidate":
        own = _OWN_DIRECTORY.search(fields)
        voted_for, directory = int(node), own and own["directory"]
    return LoggedTransition(
        wall_clock=told["wall_clock"],
        role="voted" if role == "unattached" and voted_for is not None else role,
        epoch=int(epoch["epoch"]),
        leader=int(node) if role == "leader" else (int(leader["leader"]) if leader else None),
        voted_for=voted_for,
        voted_directory=_uuid(directory),
    )


def _uuid(directory: str | None) -> str | None:
    try:
        return directory and uuid_text(directory)
    except DamagedFileError:
        return None
