"""This module finds the quorum's states, votes and truncations in a controller's log files.

The `RaftManager` logs these lines in `server.log`. A state change looks like `Completed transition
to CandidateState(... epoch=3) from ...`; the other lines are responses to vote requests. The
patterns match real controllers of 3.5.2 and 4.3.1. For other versions since 3.3, the patterns
follow Kafka's source.

Times are from the controller's wall clock. The order of events is the order of lines in the file.
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
    """A logged state change of a quorum member.

    Attributes:
        wall_clock: The time of the line, by the controller's clock, as text.
        role: unattached, voted, prospective, candidate, leader, follower or resigned.
        epoch: The quorum's epoch.
        leader: The node id of the leader that the member knows, or None.
        voted_for: The node id that the member voted for in this epoch, or None if the member did
            not vote.
        voted_directory: The candidate's log folder id, as a UUID of 36 characters (KIP-853).
    """

    wall_clock: str
    role: str
    epoch: int
    leader: int | None
    voted_for: int | None
    voted_directory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedVote:
    """A vote that a quorum member granted to a candidate, from a log line.

    Attributes:
        wall_clock: The time of the line, by the controller's clock, as text.
        epoch: The epoch of the vote.
        voted_for: The candidate's node id.
        voted_directory: The candidate's log folder id, as a UUID of 36 characters (KIP-853).
    """

    wall_clock: str
    epoch: int
    voted_for: int
    voted_directory: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTruncation:
    """A follower truncated its metadata log at the offset where the leader's log begins to differ.

    Attributes:
        offset: The new end of the log.
        leader: The node id of the leader that reported the difference.
    """

    offset: int
    leader: int


def quorum_transitions(lines: Iterable[str]) -> Iterator[LoggedTransition]:
    """Yield the state changes in a controller's log lines, in order."""
    for line in lines:
        told = _LINE.match(line) if "ompleted transition to" in line else None
        if told is not None:
            transition = _transition(told)
            if transition is not None:
                yield transition


def quorum_votes(lines: Iterable[str]) -> Iterator[LoggedVote]:
    """Yield the votes that a controller granted, in order, without pre-votes (KIP-996)."""
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
    """If a line reports a truncation of the quorum's log, return this truncation; else None."""
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
