"""The result table and page of a hunt: the runs, the failures, and the reached transitions.

A hunt executes many runs with plans chosen at random, to find failures.
"""

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
    """The bundle of a failure's first run.

    Attributes:
        file: The bundle file; empty if there is none.
        note: Why there is no bundle, or which files are missing in it. Empty if the bundle is
            complete.
    """

    file: str = ""
    note: str = ""

    @property
    def words(self) -> str:
        """The file and the note as one line of text."""
        return ", ".join(filter(None, (self.file, self.note))) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A failure that a hunt found.

    Attributes:
        system: The system that failed.
        sentence: The broken promise, as a sentence.
        broken: Names of the anomalies.
        date: Date of the first failed run, `2026-11-28`.
        workload, client, faults: Settings of the first failed run.
        runs: Ids of the randomly planned runs with the failure, beginning with the first run.
        minutes: The total length of all main phases, in minutes, until the first failed run.
        recurs: How many reruns had the failure, `4 of 5 (38 % to 96 %)`, and which other promises
            the reruns broke.
        controls: For each control system: its name, the number of its runs with the failure, the
            other promises that the system's runs broke, and the changes in the plans.
        others: Ids of reruns and controls that broke another promise.
        command: The command that executes the run again.
        control_commands: The commands that execute the run on the control systems.
        bundle: The bundle of the first failed run.
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
        """The id of the first failed run."""
        return self.runs[0]

    @property
    def run_words(self) -> str:
        """The number of runs with the failure, and the first ids."""
        return f"{many(len(self.runs), 'run')}: {few(self.runs)}"

    @property
    def other_words(self) -> str:
        """The number and first ids of the reruns and controls that broke another promise, or ""."""
        return f"{many(len(self.others), 'run')}: {few(self.others)}" if self.others else ""


def few(names: Sequence[str]) -> str:
    """Return the first names as text, and the number of further names."""
    more = len(names) - _FEW_RUNS
    return ", ".join(names[:_FEW_RUNS]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value that the hunt chose: for how many runs, and their average gain.

    For runs with changed faults, the hunt chose only to change faults.
    """

    choice: str
    value: str
    runs: int
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntStory:
    """The results of a hunt so far. A hunt is a random search for failures.

    Attributes:
        name: Name of the hunt file.
        parts: Number of the hunt's parts.
        way: How the plans were chosen: `guided`, `blind`, or `blind and guided`.
        hours: The total length, in hours, of the main phases of the randomly planned runs.
        outcomes: Number of randomly planned runs for each verdict.
        unknown: Reasons for missing verdicts, each with its number of runs.
        finds: The failures, the first one first.
        clean: Systems without a failure: name, minutes of main phases, number of runs.
        growth: After each run: the total minutes of main phases, and how many transitions and
            successions were reached.
        first: For each reached transition, the minutes until the first run reached it.
        never: Transitions of the catalogue that no run reached.
        values: The randomly chosen values of each setting.
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
        """The colour of the result. It is green only if most runs are valid and none is invalid."""
        if self.finds or self.outcomes.get("invalid"):
            return "invalid"
        valid, unknown = (self.outcomes.get(each, 0) for each in ("valid", "unknown"))
        return "valid" if valid > unknown else "unknown"

    @property
    def headline(self) -> str:
        """The number of failures and the total duration of the runs, as one sentence."""
        if not any(self.outcomes.values()):
            return "No run was executed"
        found = many(len(self.finds), "failure") if self.finds else "No failure"
        return f"{found} in {self.time}"

    @property
    def time(self) -> str:
        """The total duration of all runs' main phases, as text."""
        if self.hours < _FEW_HOURS:
            return many(round(60 * self.hours), "minute")
        return f"{self.hours:.1f} hours"


def write_hunt(story: HuntStory, folder: Path) -> None:
    """Write `hunt.md` and `hunt.html` into a folder.

    Raises:
        StoreError: A file cannot be written.
    """
    write_atomically(folder / TABLE, hunt_markdown(story))
    plot = Markup(growth_plot({story.name: [story.growth]}))  # noqa: S704 - an SVG of our own
    page = template_engine().get_template("hunt.html").render(story=story, plot=plot)
    write_atomically(folder / PAGE, page)


def hunt_markdown(story: HuntStory) -> str:
    """Return the hunt's results as Markdown: figures, a table, and a section for each failure."""
    counts = ", ".join(f"{count} {word}" for word, count in story.outcomes.items() if count)
    figures = (
        f"{story.time} of main phases in {many(story.parts, 'part')}: {counts or 'no run'}."
        f" {len(story.first)} transitions were reached, and"
        f" {story.growth[-1][2] if story.growth else 0} pairs of successive transitions."
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
        nothing = f"no failure in {many(round(minutes), 'minute')}, {many(runs, 'run')}"
        lines.append(f"| {_text(system)} | {nothing} | | | | | |")
    for find in story.finds:
        lines += _section(find)
    return "\n".join(lines) + "\n"


def _section(find: Find) -> list[str]:
    """Return the Markdown section of one failure, with one line for each fact."""
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
