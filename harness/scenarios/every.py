"""Play all scenarios one after the other, and show their results in a table."""

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
    """One scenario on one system, with a value for each of its choices.

    Attributes:
        scenario: The scenario.
        choices: The value of each option.
        system: The system, as `--system` takes it.
    """

    scenario: Scenario
    choices: dict[str, str]
    system: str

    @property
    def name(self) -> str:
        """A name such as `leader-epoch-1 --rule leader-epoch on kafka:2.8.2`."""
        words = " ".join((self.scenario.name, *choice_words(telling(self.scenario, self.choices))))
        return f"{words} on {self.system}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The result of one scenario's run.

    Attributes:
        part: The scenario with its choices and system.
        verdict: `valid`, `unknown` or `invalid`; an empty string if there is none.
        differs: One sentence for each difference from the expected end.
        took_s: The time from the start of the run to its verdict.
        interrupted: Whether Ctrl-C ended the run.
    """

    part: Part
    verdict: str
    differs: tuple[str, ...]
    took_s: float
    interrupted: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """The run's row of the table."""
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
    """Yield every scenario with all its choices, on every system on which it is known to work.

    Args:
        only: A pattern (`*`, `?`). It selects by the name of the scenario or of the part.
        scenarios: The scenarios to choose from.
        system: Only this system. A version without a mode matches any mode. A Kafka build of the
            user matches the release that it is based on.
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
    """Return the system that the user named, in the mode that is known to work."""
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
