"""The table and the page of a hunt: what was played, what broke, what was reached over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from results.engine import template_engine
from results.plots.growth import growth_plot
from results.record.atomic import write_atomically
from results.wording.inert import inert
from results.wording.plural import many

TABLE, PAGE = "hunt.md", "hunt.html"
_FEW_HOURS = 2
_FEW_RUNS = 5
_SIGNS = str.maketrans({"|": "\\|", "<": "&lt;", ">": "&gt;", "&": "&amp;"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Where the first run of a failure lies.

    Attributes:
        file: The file that holds it; empty: there is none.
        note: Why there is none, or what is not in it; empty: nothing.
    """

    file: str = ""
    note: str = ""

    @property
    def words(self) -> str:
        """Both, in one line."""
        return ", ".join(filter(None, (self.file, self.note))) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A failure of a hunt.

    Attributes:
        system: Which one broke its promises.
        sentence: What it broke.
        broken: The anomalies' names.
        date: When the first run began, `2026-11-28`.
        workload, client, faults: Of the first run that had it.
        runs: The ids of the drawn runs that had it, the first one first.
        minutes: Of main phases until then.
        recurs: How many repeats had it again: `4 of 5 (38 % to 96 %)`; what else they broke.
        controls: Of each control system: its name, how many of its runs had it, what else they
            broke, and what of their plans is otherwise.
        others: The ids of repeats and controls that broke another promise.
        command: What a reader types to play it again.
        control_commands: The same on the control systems.
        bundle: Where its first run is.
    """

    system: str
    sentence: str
    broken: tuple[str, ...]
    date: str
    workload: str
    client: str
    faults: str
    runs: tuple[str, ...]
    minutes: float
    recurs: str
    controls: tuple[str, ...]
    others: tuple[str, ...]
    command: str
    control_commands: tuple[str, ...]
    bundle: Bundle

    @property
    def first(self) -> str:
        """The id of the first run."""
        return self.runs[0]

    @property
    def run_words(self) -> str:
        """How many runs had it, with the first ids."""
        return f"{many(len(self.runs), 'run')}: {few(self.runs)}"

    @property
    def other_words(self) -> str:
        """How many repeats broke another promise, with the first ids; empty: none."""
        return f"{many(len(self.others), 'run')}: {few(self.others)}" if self.others else ""


def few(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _FEW_RUNS
    return ", ".join(names[:_FEW_RUNS]) + (f" and {more} more" if more > 0 else "")


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
        way: How its parts were drawn: `guided`, `blind`, `blind and guided`.
        hours: Of main phases of drawn runs.
        outcomes: Drawn runs, by verdict.
        unknown: Why runs have no verdict, with how many.
        finds: The failures, the first one first.
        clean: Systems without a failure: name, minutes of main phases, drawn runs.
        growth: After each drawn run: minutes of main phases, transitions and successions.
        first: By transition: after how many minutes it was reached first.
        never: Transitions of the catalogue that no run reached.
        values: What was drawn, by choice.
    """

    name: str
    parts: int
    way: str
    hours: float
    outcomes: dict[str, int]
    unknown: Sequence[tuple[str, int]]
    finds: Sequence[Find]
    clean: Sequence[tuple[str, float, int]]
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
        cells = (
            find.system, ", ".join(find.broken), find.recurs, " / ".join(find.controls) or "none",
            f"{find.first}, after {find.minutes:.0f} min", find.bundle.words, f"`{find.command}`",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(_text, cells))} |")
    for system, minutes, runs in story.clean:
        nothing = f"nothing in {many(round(minutes), 'minute')}, {many(runs, 'run')}"
        lines.append(f"| {_text(system)} | {nothing} | | | | | |")
    for find in story.finds:
        lines += _section(find)
    return "\n".join(lines) + "\n"


def _section(find: Find) -> list[str]:
    """Return all that is known of a failure, a line each."""
    told = {
        "date": find.date,
        "run": f"{find.workload}, {find.client}, {find.faults}",
        "seen in": find.run_words,
        "repeats": find.recurs,
        "control": " / ".join(find.controls) or "none",
        "broke another promise": find.other_words,
        "bundle": find.bundle.words,
        "again": f"`{find.command}`",
        "on the control": ", ".join(f"`{each}`" for each in find.control_commands),
    }
    title = _text(f"{find.system}: {', '.join(find.broken)}")
    lines = [f"- {what}: {_text(words)}" for what, words in told.items() if words]
    return ["", f"## {title}", "", _text(find.sentence), "", *lines]


def _text(text: str) -> str:
    return inert(text).translate(_SIGNS)
