"""The error and the report for unreadable files.

A pure reader raises `DamagedFileError`, or returns the readable content with a list of damage.
`cluster.files.replica` reads whole folders. That module records both kinds of damage as `Problem`,
and continues.
"""

from dataclasses import dataclass


class DamagedFileError(Exception):
    """A file, or a section of it, is not in Kafka's format; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A part of a node's files that could not be read. The other files were read.

    Attributes:
        node: The node that owns the file.
        path: The file, relative to the node's folder.
        what: The defect, and the content that was left out.
    """

    node: str
    path: str
    what: str

    def __str__(self) -> str:
        """Return the problem as one line."""
        return f"{self.node}: {self.path}: {self.what}"
