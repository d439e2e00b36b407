"""All scenarios, one after the other: what there is to play, and the table of what came of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch

from rich.table import Table

from cluster.systems.builds import as_release
from harness.scenarios.choices import all_choices, choice_words, systems_of, telling
from harness.scenarios.protocol import Scenario
from harness.scenarios.registry import SCENARIOS
from results.record.systems import system_named

ALL = "*"
COLUMNS = ("scenario", "choices", "system", "verdict", "as expected", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One scenario with its choices made, on one system.

    Attributes:
        scenario: Which.
        choices: By option.
        system: As `--system` takes it.
    """

    scenario: Scenario
    choices: dict[str, str]
    system: str

    @property
    def name(self) -> str:
        """`leader-epoch-1 --rule leader-epoch on kafka:2.8.2`."""
        words = " ".join((self.scenario.name, *choice_words(telling(self.scenario, self.choices))))
        return f"{words} on {self.system}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a part.

    Attributes:
        part: Which.
        verdict: `valid`, `unknown`, `invalid`; empty: there is none.
        differs: What came otherwise than expected, in sentences.
        took_s: From its start to its verdict.
        interrupted: Whether Ctrl-C ended it.
    """

    part: Part
    verdict: str
    differs: tuple[str, ...]
    took_s: float
    interrupted: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        return (
            self.part.scenario.name,
            " ".join(choice_words(telling(self.part.scenario, self.part.choices))),
            self.part.system,
            self.verdict or "none",
            "yes" if not self.differs else f"NO: {'; '.join(self.differs)}",
            f"{self.took_s:.0f}",
        )


def parts(
    only: str = ALL, *, scenarios: Sequence[Scenario] = SCENARIOS, system: str | None = None
) -> Iterator[Part]:
    """Yield every scenario on every system and with all choices that it names.

    Args:
        only: A pattern (`*`, `?`) that a scenario's name, or a part's name, has to match.
        scenarios: Which there are.
        system: Only on this one; a bare version is meant in any mode, and a Kafka of the user's
            stands for the release that it is told as.
    """
    release = None if system is None else as_release(system)
    for scenario in scenarios:
        for choices in all_choices(scenario):
            for each in systems_of(scenario, choices):
                part = Part(scenario=scenario, choices=choices, system=each)
                named = fnmatch(scenario.name, only) or fnmatch(part.name, only)
                if not named:
                    continue
                if release is None:
                    yield part
                elif each == release or each.startswith(f"{release}:"):
                    yield replace(part, system=_on(system or each, each))


def _on(asked: str, known: str) -> str:
    """Return the system that was asked for in the mode of the known one that it stands for."""
    yours = system_named(asked)
    return replace(yours, mode=system_named(known).mode).text if yours.is_yours else known


def as_table(played: Sequence[Played]) -> Table:
    """Return the table for a terminal."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for each in played:
        table.add_row(*each.cells, style="" if not each.differs else "bold red")
    return table


def as_markdown(played: Sequence[Played]) -> str:
    """Return the table for the documentation."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(each.cells for each in played)]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
