"""The page that compares several systems under one plan: a row per seed, a column per system.

The page is one HTML file without scripts or outside resources. It shows the verdicts of the runs,
and has links to the runs' pages.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from results.engine import template_engine
from results.record.atomic import StoreError, write_atomically
from results.record.paths import RunPaths
from results.record.terms import AnomalyClass
from results.record.verdict import Verdict
from results.repeats import RANGE, Rate
from results.signature import deciding_anomalies
from results.verdict_json import read_verdict
from results.wording.headline import Headline, counting, headline, ranked_anomalies
from results.wording.naming import names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run of one system with one seed.

    Attributes:
        paths: The run; None if there is none.
        differs: Sentences about the differences from the wanted result; empty if there are none.
        counts: Whether the rates include this run. They leave out a run that was stopped with
            Ctrl-C.
    """

    paths: RunPaths | None
    differs: tuple[str, ...] = ()
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A system and its runs, in the order of the seeds; the last seeds may have no run."""

    system: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The contents of the comparison page.

    Attributes:
        what: The stored run, or the scenario, that was executed.
        wanted: The wanted result, in a few words.
        seeds: The seeds, one row each.
        columns: The systems, one column each.
        notes: Further remarks, in sentences.
    """

    what: str
    wanted: str
    seeds: tuple[int, ...]
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """A run with the values that the page shows."""

    run: Run
    verdict: Verdict | None
    head: Headline
    href: str

    def names(self, sentence: str) -> str:
        """Return a sentence in which short names replace the ids of ops and messages."""
        return names_of(self.run.paths)(sentence) if self.run.paths else sentence

    @property
    def anomalies(self) -> list[tuple[str, int]]:
        """The system's anomalies that are not allowed, with counts; the most serious first."""
        if self.verdict is None:
            return []
        return [
            (name, counting(each))
            for name, each in ranked_anomalies(self.verdict)
            if counting(each) and each.anomaly_class is not AnomalyClass.HARNESS
        ]


def write_side_by_side(comparison: Comparison, page: Path) -> Path:
    """Write the page that compares several systems.

    Args:
        comparison: The contents of the page.
        page: The file; links to the runs' pages are relative to its folder.

    Returns:
        The file.

    Raises:
        StoreError: The page cannot be written.
    """
    base = page.absolute().parent
    columns = [[_cell(run, base) for run in column.runs] for column in comparison.columns]
    context = {
        "told": comparison,
        "rates": _rates(columns),
        "rows": [
            (seed, [cells[at] if at < len(cells) else None for cells in columns])
            for at, seed in enumerate(comparison.seeds)
        ],
        "range": RANGE,
    }
    write_atomically(page, template_engine().get_template("side_by_side.html").render(context))
    return page


def _cell(run: Run, base: Path) -> _Cell:
    verdict = None
    if run.paths is not None:
        try:
            verdict = read_verdict(run.paths.verdict)
        except StoreError:
            verdict = None
    return _Cell(run=run, verdict=verdict, head=headline(verdict), href=_href(run.paths, base))


def _href(paths: RunPaths | None, base: Path) -> str:
    if paths is None or not paths.report.is_file():
        return ""
    return quote(f"./{os.path.relpath(paths.report.absolute(), base)}")


def _rates(columns: Sequence[Sequence[_Cell]]) -> list[tuple[str, list[Rate]]]:
    """Return, for each system, the rate of the wanted result and of each anomaly."""
    counted = [[cell for cell in cells if cell.run.counts] for cells in columns]
    same = [Rate(times=sum(not each.run.differs for each in c), of=len(c)) for c in counted]
    broken = [
        [deciding_anomalies(e.verdict).keys() if e.verdict else set() for e in c] for c in counted
    ]
    names = dict.fromkeys(name for cells in broken for each in cells for name in each)
    return [
        ("had the same result", same),
        *(
            (name, [Rate(times=sum(name in each for each in c), of=len(c)) for c in broken])
            for name in names
        ),
    ]
