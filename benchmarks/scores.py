"""The recorded mutation scores of kernels (checker modules), read from a table in the docs.

The table in `docs/checkers.md` has each kernel, the numbers of killed and tried mutants, and the
share of mutants that was tried. A night (`benchmarks/night.py`) fails a kernel if its tests kill a
smaller share than the table records.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from results.wilson import wilson_interval

TABLE = Path(__file__).parents[1] / "docs" / "checkers.md"
HEAD, TOTAL = "| Kernel | Killed / tried |", "| **all** |"
_ROW = re.compile(
    r"\| `(?P<name>[\w/]+)`(?P<former> \(as `\w+`\))? \| (?P<killed>\d+) / (?P<tried>\d+)"
    r" \| \d+ \| (?P<share>all|\d+ %) \|"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The recorded score of a kernel.

    Attributes:
        name: The kernel's name: `lost_write`, `jepsen/order`.
        killed, tried: Numbers of mutants.
        rough: Whether only a sample of the mutants was tried, or the module was replaced later.
    """

    name: str
    killed: int
    tried: int
    rough: bool

    def least(self, tried: int) -> float:
        """Return the smallest share of mutants that the kernel's tests must kill.

        This is the recorded share. The lower end of its 95 % interval counts instead in two cases:
        if the score is rough, or if the module now has another number of mutants.
        """
        low, _ = wilson_interval(self.killed, self.tried)
        return low if self.rough or tried != self.tried else self.killed / self.tried


def recorded(text: str) -> Iterator[Score]:
    """Yield the scores in the text of the page.

    Raises:
        ValueError: The page has no table, or a row cannot be parsed.
    """
    _, head, rest = text.partition(HEAD)
    rows, total, _ = rest.partition(TOTAL)
    if not (head and total):
        raise ValueError(f"{TABLE.name}: there is no table from {HEAD!r} to {TOTAL!r}")
    for line in rows.splitlines()[2:]:
        row = _ROW.match(line)
        if row is None:
            raise ValueError(f"{TABLE.name}: the score cannot be read; fix this row: {line}")
        yield Score(
            name=row["name"], killed=int(row["killed"]), tried=int(row["tried"]),
            rough=row["former"] is not None or row["share"] != "all",
        )  # fmt: skip


def load_scores() -> list[Score]:
    """Return the scores in `docs/checkers.md`."""
    return list(recorded(TABLE.read_text(encoding="utf-8")))
