"""What can be wrong with a file, and how it is told.

A pure reader raises `DamagedFileError`, or returns what could be read together with what could not.
Whoever walks over folders (`cluster.files.replica`) collects both as `Problem`, and goes on.
"""

from dataclasses import dataclass


class DamagedFileError(Exception):
    """A file, or a part of it, does not hold what Kafka writes there: one sentence says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something of a node that could not be read; the rest of the node was.

    Attributes:
        node: Whose file it is.
        path: The file, relative to the node's folder.
        what: What is wrong, and what of it was left out.
    """

    node: str
    path: str
    what: str

    def __str__(self) -> str:
        """Return the problem as one line."""
        return f"{self.node}: {self.path}: {self.what}"
