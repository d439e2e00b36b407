"""Deliberate bugs that can be switched on. Each bug breaks one line and must cause one anomaly."""

from enum import StrEnum


class Bug(StrEnum):
    """The names of bugs, as `--bug` accepts them.

    In the code, the `if` that checks for a bug is beside the line that the bug breaks.
    """

    TRUNCATE_TO_HIGH_WATERMARK = "truncate-to-high-watermark"
    ACK_BEFORE_COMMIT = "ack-before-commit"
    VOTE_NOT_PERSISTED = "vote-not-persisted"
    COMMIT_NOT_KEPT = "commit-not-kept"
    ONE_ASSIGNMENT_FOR_ALL = "one-assignment-for-all"

    @property
    def anomaly(self) -> str:
        """The anomaly that the checkers must report when the bug is switched on."""
        return _ANOMALIES[self]

    @property
    def line(self) -> str:
        """The module with the broken line, as a path below `cluster/reference/`."""
        return _LINES[self]


_ANOMALIES = {
    Bug.TRUNCATE_TO_HIGH_WATERMARK: "lost-write",
    Bug.ACK_BEFORE_COMMIT: "lost-write",
    Bug.VOTE_NOT_PERSISTED: "double-vote",
    Bug.COMMIT_NOT_KEPT: "commit-lost",
    Bug.ONE_ASSIGNMENT_FOR_ALL: "group-stuck",
}
_LINES = {
    Bug.TRUNCATE_TO_HIGH_WATERMARK: "partition/follower.py",
    Bug.ACK_BEFORE_COMMIT: "partition/requests.py",
    Bug.VOTE_NOT_PERSISTED: "quorum/elections.py",
    Bug.COMMIT_NOT_KEPT: "broker/coordinator.py",
    Bug.ONE_ASSIGNMENT_FOR_ALL: "broker/group.py",
}
