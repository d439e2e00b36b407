"""What the brokers' logs got since a moment: the lines that belong to a step of a story."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from results.record.paths import RunPaths

_STDOUT = "stdout.log"
"""Has all lines of some versions a second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshLine:
    """A line of a log.

    Attributes:
        file: Its name, in the node's `logs`.
        text: Without its end.
    """

    file: str
    text: str


@dataclass(slots=True)
class Tails:
    """The ends of the nodes' logs.

    Attributes:
        paths: The run.
        nodes: Whose logs.
    """

    paths: RunPaths
    nodes: Sequence[str]
    _sizes: dict[Path, int] = field(default_factory=dict)

    def mark(self) -> None:
        """Take this moment for the beginning: what there is by now is old."""
        self._sizes = {}
        for file in (file for node in self.nodes for file in self._of(node)):
            with suppress(FileNotFoundError):  # It was rolled at this moment, to another name.
                self._sizes[file] = file.stat().st_size

    def fresh(self, node: str, pattern: str) -> Iterator[FreshLine]:
        """Yield the whole lines since the mark that match a regex, file by file."""
        wanted = re.compile(pattern)
        for file in self._of(node):
            for text in self._text(file).split("\n")[:-1]:
                if wanted.search(text):
                    yield FreshLine(file=file.name, text=text)

    def _of(self, node: str) -> list[Path]:
        files = sorted(self.paths.node(node).glob("logs/*.log*"))
        own = [file for file in files if file.name != _STDOUT]
        return own or files

    def _text(self, file: Path) -> str:
        start = self._sizes.get(file, 0)
        try:
            with file.open("rb") as log:
                # A file that was begun anew under the name of an old one is new from its start.
                log.seek(start if start <= file.stat().st_size else 0)
                return log.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
