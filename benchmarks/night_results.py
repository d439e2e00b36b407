"""The results of nights (`benchmarks/night.py`): a line for each step, and a table of the last.

`docs/night/results.jsonl` is only ever appended to. A line that a crash cut off was not done, and
is left out.
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
"""In the order in which a night plays them."""
SHORTENED = ("fuzz", "campaign", "kills")
"""The parts of which a small night plays less; the steps of the others are the same."""
Figures = dict[str, float]


class _Line(BaseModel):
    """What all lines have.

    Attributes:
        night: Its id, the time of its beginning: ids sort by time.
        commit: Of the code, not of results.
        changes: A hash of what was not committed; empty: the work tree was clean.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    night: str
    commit: str
    changes: str = ""


class Begun(_Line):
    """A night began.

    Attributes:
        small: It plays as little as makes sense, to try the night out.
    """

    event: Literal["begun"] = "begun"
    small: bool = False


class Done(_Line):
    """A step is finished.

    Attributes:
        part, step: Which.
        of: How many steps the part has in its night.
        begun_at: On the wall clock, `20261121T104500Z`.
        load: The machine's load average over a minute, before the step and after it: figures of a
            busy machine are worth less.
        reason: Why it did not pass.
        command: What a user types to do the step again.
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
    """Append a line; it is on disk when this returns.

    Raises:
        StoreError: The disk refuses.
    """
    append_synced(path, line.model_dump_json().encode() + b"\n")


def load(path: Path) -> list[Line]:
    """Return the lines of nights, as `load_lines` does."""
    return load_lines(path, _LINE)


def load_lines(path: Path, kind: "TypeAdapter[_Kind]") -> list[_Kind]:
    """Return the lines; one that cannot be read is named on standard error, and left out."""
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
    """Return the last night of this size, small or full, if it is of this code; it goes on."""
    begun = (each for each in reversed(lines) if isinstance(each, Begun))
    last = next((each for each in begun if each.small == small), None)
    return last if last and (last.commit, last.changes) == (commit, changes) else None


def combined(rows: Sequence[Mapping[str, float]]) -> Figures:
    """Return the sum of figures, by name; of seconds (`_s`) the most."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, number in row.items():
            found[name].append(number)
    return {name: max(some) if name.endswith("_s") else sum(some) for name, some in found.items()}


def table(lines: Sequence[Line]) -> str:
    """Return the last night's results of each part, as a table in Markdown."""
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
    """Return a part's row: of its last full night, or of its last small one if there is no other.

    Of several steps, the command is the one that does them all.
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
    """Return how many steps of a part passed, of all that it has: `1 of 42 (41 not yet played)`."""
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
    """Put the table between the markers of the page beside the results' folder.

    Raises:
        StoreError: The disk refuses.
    """
    write_between(results.parent.with_suffix(".md"), table(load(results)))


def write_between(page: Path, lines: str) -> None:
    """Put lines between the markers of a page.

    Raises:
        StoreError: The disk refuses.
    """
    text = page.read_text("utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    write_atomically(page, f"{head}{BEGIN}\n{lines}\n{END}{tail}")
