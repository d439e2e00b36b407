"""The recorded scores of kernels: how many mutants their tests kill, by the table in the docs.

`docs/checkers.md` names each kernel, what was killed and tried, and which share of its mutants was
tried. The night (`benchmarks/night.py`) fails a kernel whose tests kill a smaller share than the
table says.
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
    """What the table says of a kernel.

    Attributes:
        name: `lost_write`, `jepsen/order`.
        killed, tried: Mutants.
        rough: A sample of the mutants was tried, or those of a module that was replaced since.
    """

    name: str
    killed: int
    tried: int
    rough: bool

    def least(self, tried: int) -> float:
        """Return the least share of so many mutants that the kernel's tests have to kill.

        It is the recorded share. A rough one may be off by chance, and a module that has another
        number of mutants changed since: then the lower end of the share's 95 % interval counts.
        """
        low, _ = wilson_interval(self.killed, self.tried)
        return low if self.rough or tried != self.tried else self.killed / self.tried


def recorded(text: str) -> Iterator[Score]:
    """Yield the scores of the page.

    Raises:
        ValueError: There is no table, or a row cannot be read.
    """
    _, head, rest = text.partition(HEAD)
    rows, total, _ = rest.partition(TOTAL)
    if not (head and total):
        raise ValueError(f"{TABLE.name}: there is no table from {HEAD!r} to {TOTAL!r}")
    for line in rows.splitlines()[2:]:
        row = _ROW.match(line)
        if row is None:
            raise ValueError(f"{TABLE.name}: the score cannot be read; mend this row: {line}")
        yield Score(
            name=row["name"], killed=int(row["killed"]), tried=int(row["tried"]),
            rough=row["former"] is not None or row["share"] != "all",
        )  # fmt: skip


def load_scores() -> list[Score]:
    """Return the scores of `docs/checkers.md`."""
    return list(recorded(TABLE.read_text(encoding="utf-8")))
