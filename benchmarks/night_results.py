"""The results of nightly tests (`benchmarks/night.py`): a line for each step, and a table.

Lines are only appended to `docs/night/results.jsonl`. If a crash cut off the last line, its step is
not done, and the line is left out.
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from results.record.atomic import append_synced, write_atomically

BEGIN, END = "<!-- last results: begin -->", "<!-- last results: end -->"
PARTS = (
    "fuzz", "campaign", "kills", "tests", "hypothesis", "mutation", "false-alarms", "covering",
)  # fmt: skip
"""The parts of a night, in the order in which they run."""
SHORTENED = ("fuzz", "campaign", "kills")
"""The parts that are shorter in a small night. The other parts have the same steps."""
Figures = dict[str, float]


class _Line(BaseModel):
    """The fields of every line.

    Attributes:
        night: The night's id, which is its start time. So ids sort by time.
        commit: The last commit of the code, without commits of results only.
        changes: A hash of the uncommitted changes; an empty string if the work tree was clean.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    night: str
    commit: str
    changes: str = ""


class Begun(_Line):
    """The line for the start of a night.

    Attributes:
        small: Whether each part has its shortest useful form, to try the program.
    """

    event: Literal["begun"] = "begun"
    small: bool = False


class Done(_Line):
    """The line for a finished step.

    Attributes:
        part, step: The part of the night, and the step in it.
        of: The number of steps in this part of the night.
        begun_at: The wall-clock time of the start, `20261121T104500Z`.
        load: The machine's one-minute load average before and after the step. Times measured on a
            busy machine are less reliable.
        reason: Why the step did not pass.
        command: The command that repeats the step.
    """

    event: Literal["done"] = "done"
    part: str
    step: str
    of: int
    begun_at: str
    took_s: float
    load: tuple[float, float]
    passed: bool
    reason: str = ""
    figures: Figures
    command: str


Line = Begun | Done
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="event")])
_Kind = TypeVar("_Kind")


def append(path: Path, line: BaseModel) -> None:
    """Append a line, and wait until it is on disk.

    Raises:
        StoreError: The file cannot be written.
    """
    append_synced(path, line.model_dump_json().encode() + b"\n")


def load(path: Path) -> list[Line]:
    """Return the lines of all nights that can be parsed."""
    return load_lines(path, _LINE)


def load_lines(path: Path, kind: "TypeAdapter[_Kind]") -> list[_Kind]:
    """Return the lines of a file. Lines that cannot be parsed are left out, with a message.

    The message goes to standard error.
    """
    lines: list[_Kind] = []
    for number, text in enumerate(path.read_bytes().split(b"\n") if path.exists() else [], 1):
        try:
            lines += [kind.validate_json(text)] if text else []
        except ValidationError:
            print(f"{path.name}: line {number} is cut off, and left out", file=sys.stderr)
    return lines


def current(
    lines: Sequence[Line], commit: str, changes: str, *, small: bool = False
) -> Begun | None:
    """Return the last night of this size (small or full) if it has this commit and these changes.

    The command resumes that night.
    """
    begun = (each for each in reversed(lines) if isinstance(each, Begun))
    last = next((each for each in begun if each.small == small), None)
    return last if last and (last.commit, last.changes) == (commit, changes) else None


def combined(rows: Sequence[Mapping[str, float]]) -> Figures:
    """Return the sum of each figure, by name. For seconds (`_s`) return the maximum instead."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, number in row.items():
            found[name].append(number)
    return {name: max(some) if name.endswith("_s") else sum(some) for name, some in found.items()}


def table(lines: Sequence[Line]) -> str:
    """Return each part's results from its last night, as a table in Markdown."""
    small = {each.night for each in lines if isinstance(each, Begun) and each.small}
    done: dict[str, list[Done]] = {part: [] for part in PARTS}
    for each in lines:
        if isinstance(each, Done):
            done.setdefault(each.part, []).append(each)
    rows = ["| Part | Command | Steps passed | Figures | Commit | Date | Took |",
            "|---|---|---|---|---|---|---:|"]  # fmt: skip
    shortened = {part: small if part in SHORTENED else set[str]() for part in done}
    return "\n".join([*rows, *(_row(part, done[part], shortened[part]) for part in done)])


def _row(part: str, done: Sequence[Done], small: Collection[str]) -> str:
    """Return a part's table row, from its last full night. Without one, use its last small night.

    If the part has several steps, the row has the command that runs all of them.
    """
    whole = f"python -m benchmarks.night --only {part}"
    if not done:
        return f"| {part} | `{whole}` | not yet played | | | | |"
    kept = [each for each in done if each.night not in small] or done
    last = [each for each in kept if each.night == kept[-1].night]
    first, is_small = last[0], last[0].night in small
    command = first.command if len(last) == 1 else f"{whole} --small" if is_small else whole
    total = combined([each.figures for each in last])
    figures = ", ".join(_words(name, number) for name, number in total.items())
    commit = first.commit[:7] + (" with changes" if first.changes else "")
    date = f"{first.begun_at[:4]}-{first.begun_at[4:6]}-{first.begun_at[6:8]}"
    took = f"{sum(each.took_s for each in last):,.0f} s"
    steps = _steps(last, small=is_small)
    cells = (part, f"`{command}`", steps, figures or "none", commit, date, took)
    return "| " + " | ".join(cells) + " |"


def _steps(done: Sequence[Done], *, small: bool) -> str:
    """Return the number of a part's steps that passed, as text: `1 of 42 (41 not yet played)`."""
    of = done[-1].of
    passed = sum(each.passed for each in done)
    counts = {"failed": len(done) - passed, "not yet played": of - len(done)}
    notes = ["small"] * small + [f"{n} {how}" for how, n in counts.items() if n > 0]
    return f"{passed} of {of}" + (f" ({', '.join(notes)})" if notes else "")


def _words(name: str, number: float) -> str:
    """Return a figure in words: `300 records`, `slowest 0.8 s`."""
    if name.endswith("_s"):
        return f"{name.removesuffix('_s')} {number:,g} s"
    return f"{number:,.12g} {name.replace('_', ' ')}"


def write_table(results: Path) -> None:
    """Write the table between the markers of the page beside the results' folder.

    Raises:
        StoreError: The file cannot be written.
    """
    write_between(results.parent.with_suffix(".md"), table(load(results)))


def write_between(page: Path, lines: str) -> None:
    """Write lines between the two markers of a page.

    Raises:
        StoreError: The file cannot be written.
    """
    text = page.read_text("utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    write_atomically(page, f"{head}{BEGIN}\n{lines}\n{END}{tail}")
