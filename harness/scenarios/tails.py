"""Find the lines that nodes have logged since a step began."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from cluster.protocol import Disk

_STDOUT = "stdout.log"
"""In some Kafka versions, this file repeats all log lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshLine:
    """A line of a log.

    Attributes:
        file: The log file's name, in the node's `logs` folder.
        text: The line without the newline.
    """

    file: str
    text: str


@dataclass(slots=True)
class Tails:
    """For the logs of each node: the position up to which they were read.

    Attributes:
        disk_of: The function that returns the files of a node.
        nodes: The nodes.
    """

    disk_of: Callable[[str], Disk]
    nodes: Sequence[str]
    _sizes: dict[tuple[str, PurePosixPath], int] = field(default_factory=dict)

    def mark(self) -> None:
        """Begin a step. The lines that are already in the logs belong to earlier steps."""
        self._sizes = {}
        for node in self.nodes:
            disk = self.disk_of(node)
            for file in _logs(disk):
                with suppress(FileNotFoundError):  # The log was just rolled to another name.
                    self._sizes[node, file] = disk.size(file)

    def fresh(self, node: str, pattern: str) -> Iterator[FreshLine]:
        """Yield the complete lines of this step that match a regex, file by file."""
        wanted, disk = re.compile(pattern), self.disk_of(node)
        for file in _logs(disk):
            for text in _text(disk, file, self._sizes.get((node, file), 0)).split("\n")[:-1]:
                if wanted.search(text):
                    yield FreshLine(file=file.name, text=text)


def _logs(disk: Disk) -> list[PurePosixPath]:
    files = disk.files("logs/*.log*")
    own = [file for file in files if file.name != _STDOUT]
    return own or files


def _text(disk: Disk, file: PurePosixPath, start: int) -> str:
    try:
        # A shorter file is a new file under the old name, so read it from its start.
        at = start if start <= disk.size(file) else 0
        return disk.read(file, at=at).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
