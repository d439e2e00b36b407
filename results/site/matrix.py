"""A nightly run as a matrix: a row for each workload with faults, a column for each version.

A cell has the colour of the worst verdict among its runs.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from results.index import RunRow
from results.signature import USUAL_KINDS

LETTERS = {
    "invalid": "I", "unknown": "U", "unjudged": "-", "told": "T", "allowed": "A", "valid": "V",
}  # fmt: skip
"""The letters in cells, for readers who cannot see the colours. The worst tone comes first."""
TONE_WORDS = {"unjudged": "not judged", "told": "as told"}
"""Texts for tones whose name is not displayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The runs of one workload with the same faults on one version.

    Attributes:
        tone: The worst tone of the runs. A run that died is worse than a valid run.
        letter: Letter of the tone.
        times, of: `times` is the number of finished runs with this tone, and `of` is the number of
            all finished runs. Reruns of failed runs are not counted.
        repeats: Number of reruns of failed runs.
        running: Number of runs that are still running.
        runs: All runs, newest first.
    """

    tone: str
    letter: str
    times: int
    of: int
    repeats: int
    running: int
    runs: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the matrix: a workload or scenario, the faults, and a cell for each column."""

    workload: str
    faults: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The matrix of a nightly run's runs and their results."""

    columns: tuple[str, ...]
    lines: tuple[Line, ...]


def matrix_of(rows: Iterable[RunRow]) -> Matrix:
    """Return the matrix of the given runs."""
    told = list(rows)
    several_hosts = len({row.hosts for row in told}) > 1
    cells: defaultdict[tuple[str, str], defaultdict[str, list[RunRow]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in told:
        cells[workload_of(row), faults_of(row)][_column(row, several_hosts=several_hosts)].append(
            row
        )
    columns = tuple(sorted({name for line in cells.values() for name in line}, key=_version))
    lines = [
        Line(
            workload=workload,
            faults=faults,
            cells=tuple(cell_of(line[name]) if name in line else None for name in columns),
        )
        for (workload, faults), line in sorted(cells.items())
    ]
    return Matrix(columns=columns, lines=tuple(lines))


def cell_of(rows: Iterable[RunRow]) -> Cell:
    """Return the matrix cell of one or more runs."""
    told = tuple(rows)
    over = [row for row in told if row.state != "running"] or told
    planned = [row for row in over if not row.repeats]
    tone = next(each for each in LETTERS if any(row.tone == each for row in over))
    return Cell(
        tone=tone,
        letter=LETTERS[tone],
        times=sum(row.tone == tone for row in planned),
        of=len(planned),
        repeats=sum(bool(row.repeats) for row in told),
        running=sum(row.state == "running" for row in told),
        runs=told,
    )


def workload_of(row: RunRow) -> str:
    """Return the run's scenario, or else its workload."""
    return row.scenario or row.workload or "unknown"


def faults_of(row: RunRow) -> str:
    """Return the requested faults as text."""
    if row.scenario:
        return "the steps of the story"
    asked = row.nemesis.split("+")
    return "all kinds" if set(asked) >= USUAL_KINDS else ", ".join(asked) or "none"


def _column(row: RunRow, *, several_hosts: bool) -> str:
    system = row.system.removeprefix("kafka:").replace(":", ", ") or "unknown"
    return f"{system} · {row.hosts}" if several_hosts and row.hosts else system


def _version(column: str) -> tuple[list[int], str]:
    numbers = column.partition(" ")[0].rstrip(",").split(".")
    return [int(each) if each.isdigit() else 0 for each in numbers], column
