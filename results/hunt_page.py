"""The table and the page of a hunt: what was played, what broke, what was reached over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from results.engine import template_engine
from results.export.bundle import SUFFIX
from results.plots.growth import growth_plot
from results.record.atomic import write_atomically
from results.wording.inert import inert
from results.wording.plural import many

TABLE, PAGE = "hunt.md", "hunt.html"
_FEW_HOURS = 2
_SIGNS = str.maketrans({"|": "\\|", "<": "&lt;", ">": "&gt;", "&": "&amp;"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A failure of a hunt.

    Attributes:
        system: Which one broke its promises.
        sentence: What it broke.
        broken: The anomalies' names.
        workload, client, faults: Of the first run that had it.
        runs: How many drawn runs had it.
        first: The id of the first one.
        minutes: Of main phases until then.
        recurs: How many repeats had it again: `4 of 5 (38 % to 96 %)`.
        control: The control system; empty: there is none.
        on_control: How many of its runs had it.
        command: What a reader types to play it again.
        bundle: The file that holds the run, or why there is none; empty: the run is elsewhere.
    """

    system: str
    sentence: str
    broken: tuple[str, ...]
    workload: str
    client: str
    faults: str
    runs: int
    first: str
    minutes: float
    recurs: str
    control: str
    on_control: str
    command: str
    bundle: str

    @property
    def has_bundle(self) -> bool:
        """Whether there is such a file."""
        return self.bundle.endswith(SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of a choice: how often it was drawn, and how much its runs gained on average."""

    choice: str
    value: str
    runs: int
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntStory:
    """A hunt, as far as it is.

    Attributes:
        name: Of its file.
        parts: How many there are.
        guided: Whether what was reached decided what was drawn.
        hours: Of main phases of drawn runs.
        outcomes: Drawn runs, by verdict.
        unknown: Why runs have no verdict, with how many.
        finds: The failures, the first one first.
        growth: After each drawn run: minutes of main phases, transitions and successions.
        first: By transition: after how many minutes it was reached first.
        never: Transitions of the catalogue that no run reached.
        values: What was drawn, by choice.
    """

    name: str
    parts: int
    guided: bool
    hours: float
    outcomes: dict[str, int]
    unknown: Sequence[tuple[str, int]]
    finds: Sequence[Find]
    growth: Sequence[tuple[float, int, int]]
    first: Sequence[tuple[str, float]]
    never: Sequence[str]
    values: Sequence[Value]

    @property
    def tone(self) -> str:
        """How it is coloured: green only if most runs are valid, and none is invalid."""
        if self.finds or self.outcomes.get("invalid"):
            return "invalid"
        valid, unknown = (self.outcomes.get(each, 0) for each in ("valid", "unknown"))
        return "valid" if valid > unknown else "unknown"

    @property
    def headline(self) -> str:
        """What came of it, in a sentence."""
        if not any(self.outcomes.values()):
            return "Nothing was played"
        found = many(len(self.finds), "failure") if self.finds else "No failure"
        return f"{found} in {self.time}"

    @property
    def time(self) -> str:
        """The time of main phases, in words."""
        if self.hours < _FEW_HOURS:
            return many(round(60 * self.hours), "minute")
        return f"{self.hours:.1f} hours"


def write_hunt(story: HuntStory, folder: Path) -> None:
    """Write `hunt.md` and `hunt.html`.

    Raises:
        StoreError: The disk refuses.
    """
    write_atomically(folder / TABLE, hunt_markdown(story))
    plot = Markup(growth_plot({story.name: [story.growth]}))  # noqa: S704 - an SVG of our own
    page = template_engine().get_template("hunt.html").render(story=story, plot=plot)
    write_atomically(folder / PAGE, page)


def hunt_markdown(story: HuntStory) -> str:
    """Return the table of a hunt, with a line of figures above."""
    counts = ", ".join(f"{count} {word}" for word, count in story.outcomes.items() if count)
    figures = (
        f"{story.time} of main phases in {many(story.parts, 'part')}: {counts or 'no run'}."
        f" {len(story.first)} transitions were reached, and"
        f" {story.growth[-1][2] if story.growth else 0} pairs of them in succession."
    )
    lines = [
        f"# {_text(story.name)}", "",
        figures, "",
        "| system | broken | repeats | control | first run | bundle | command |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for find in story.finds:
        control = f"{find.control}: {find.on_control}" if find.control else "none"
        cells = (
            find.system, ", ".join(find.broken), find.recurs, control,
            f"{find.first}, after {find.minutes:.0f} min", find.bundle or "none",
            f"`{find.command}`",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(_text, cells))} |")
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return inert(text).translate(_SIGNS)
