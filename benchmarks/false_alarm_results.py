"""The results of the false-alarm series (`benchmarks/false_alarms.py`): result lines, and a page.

`docs/night/false-alarms.jsonl` gets a line for each run, and another line each time the run is
judged again. No line is ever changed. The page beside it counts, for each part of the series, the
runs with the expected result. The page lists all other runs. People explain these runs in the
page's last column. Later updates keep the explanations.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.night_results import BEGIN, END, load_lines, write_between

RESULTS = Path(__file__).parents[1] / "docs" / "night" / "false-alarms.jsonl"
CORNERS = (
    "stall", "stall-clients", "outage", "double", "aftermath", "remade", "connections",
    "client-connections", "resources", "slow-disks", "disk-errors", "lost-flushes",
)  # fmt: skip
"""Families of faults that reach rare cases: late packets, faults on all nodes, an aftermath."""
KEEPERS = ("keeper", "keeper-links")
PARTS: Mapping[str, str] = {
    **{family: f"Kafka 4.3.1, `log`, `--nemesis {family}`, 60 s" for family in CORNERS},
    **{family: f"Kafka 3.9.1, ZooKeeper, `--nemesis {family}`, 60 s" for family in KEEPERS},
    "corners": "Kafka 4.3.1, `log`, these families but those of ZooKeeper together, 300 s",
    "log": "Kafka 4.3.1, `log`, 40 s",
    "txn": "Kafka 4.3.1, `txn`, 40 s",
    "groups": "Kafka 4.3.1, `groups`, 40 s",
    "log-all": "Kafka 4.3.1, `log`, `--nemesis all`, 100 s",
    "groups-all": "Kafka 4.3.1, `groups`, `--nemesis all`, 100 s",
    "busy": "Kafka 4.3.1, `log`, 60 s, beside two busy loops",
    "simulated": "20 simulated minutes of the reference cluster each, `--nemesis all`",
    "leader-epochs": "of `scenario run --all`: both leader-epoch examples",
    "scenarios": "of `scenario run --all`: all others",
}
"""The parts of the series, in the order in which they run."""
NONE = "none"
"""The entry in place of a verdict if the command hung, or ended without a verdict."""


class Line(BaseModel):
    """A run with its latest judgement.

    Attributes:
        part, step: The part of the series, and the step in it.
        of: The number of steps in the part.
        run: The run's folder in the store; an empty string if there is no run.
        command: The command that repeats the run.
        begun_at: The wall-clock time of the start, `20261124T104500Z`.
        load: The machine's one-minute load average before and after the step.
        commit: The commit of the code that executed the run. A `+` follows if there were local
            changes.
        running: A hash of the code that executes runs.
        judged_at: The time at which this line's verdict was reached.
        judge: The commit of the code that judged the run.
        judging: A hash of the code that judges runs.
        before: The verdict of the previous judgement; an empty string for the first judgement.
        verdict: `valid`, `unknown`, `invalid`, `none`.
        expected: Whether the run is valid, or ended as its scenario declares.
        sentence: Why the result is not as expected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: str
    step: str
    of: int
    run: str
    command: str
    begun_at: str
    took_s: float
    load: tuple[float, float]
    commit: str
    running: str
    judged_at: str
    judge: str
    judging: str
    before: str = ""
    verdict: str = NONE
    expected: bool = False
    sentence: str = ""

    @property
    def words(self) -> str:
        """Return a text such as `invalid: log/7 (log/20261124T104500Z-3): Invalid: ...`."""
        how = self.verdict + (", as expected" if self.expected and self.verdict != "valid" else "")
        why = f": {self.sentence}" if self.sentence else ""
        return f"{how}: {self.part}/{self.step} ({self.run or 'no run'}){why}"


_LINE = TypeAdapter(Line)


def lines_of(path: Path) -> list[Line]:
    """Return the lines of the results file that can be parsed."""
    return load_lines(path, _LINE)


def last(lines: Sequence[Line]) -> dict[tuple[str, str], Line]:
    """Return the last judgement of the last run of each step."""
    found: dict[tuple[str, str], Line] = {}
    for each in lines:
        there = found.get((each.part, each.step))
        # A new judgement does not make an older run newer.
        if there is None or each.begun_at >= there.begun_at:
            found[each.part, each.step] = each
    return found


def page_lines(lines: Sequence[Line], explained: Mapping[str, str]) -> str:
    """Return both tables of the page: the parts, and the runs with an unexpected result.

    Args:
        lines: All result lines.
        explained: The explanations that people wrote, for each run. If a step has no run, the key
            is its step and time.
    """
    current = list(last(lines).values())
    rows = [_row(part, [each for each in current if each.part == part]) for part in PARTS]
    others = _others(lines)
    doubts = [_doubt(story, explained.get(key, "")) for key, story in others.items()]
    return "\n".join([
        "| Part | What | As expected | Load | Played by | Judged by | Date | Took |",
        "|---|---|---|---|---|---|---|---:|",
        *rows, "",
        "| Run | Step | Verdicts | First sentence | Explanation |", "|---|---|---|---|---|",
        *(doubts or ["| none yet | | | | |"]),
    ])  # fmt: skip


def _row(part: str, runs: Sequence[Line]) -> str:
    if not runs:
        return f"| {part} | {PARTS[part]} | not yet played | | | | | |"
    fine, of = sum(each.expected for each in runs), runs[-1].of
    open_ones = f" ({of - len(runs)} not yet played)" if of > len(runs) else ""
    loads = [number for each in runs for number in each.load]
    took = f"{sum(each.took_s for each in runs):,.0f} s"
    cells = (part, PARTS[part], f"{fine} of {of}{open_ones}", f"{min(loads):g} to {max(loads):g}",
             _commits([each.commit for each in runs]), _commits([each.judge for each in runs]),
             _date(max(each.begun_at for each in runs)), took)  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _commits(commits: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(each[:7] + "+" * each.endswith("+") for each in commits))


def _date(at: str) -> str:
    return f"{at[:4]}-{at[4:6]}-{at[6:8]}"


def _key(line: Line) -> str:
    return line.run or f"{line.part}/{line.step} {line.begun_at}"


def _others(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return all judgements of each run that had an unexpected result at least once."""
    runs: dict[str, list[Line]] = {}
    for each in lines:
        runs.setdefault(_key(each), []).append(each)
    return {key: found for key, found in runs.items() if not all(one.expected for one in found)}


def _doubt(story: Sequence[Line], explanation: str) -> str:
    """Return the table row of a run: all verdicts, and the sentence of the last unexpected one."""
    said: list[Line] = []
    for each in story:
        if not said or (said[-1].verdict, said[-1].expected) != (each.verdict, each.expected):
            said.append(each)
    verdicts = ", then ".join(f"{each.verdict} ({_commits([each.judge])})" for each in said)
    why = [each.sentence for each in story if not each.expected][-1]
    cells = (_key(story[0]), f"{story[0].part}/{story[0].step}", verdicts, why)
    clean = [" ".join(cell.replace("|", "/").split()) for cell in cells]
    return f"| {' | '.join(clean)} | " + (f"{explanation} |" if explanation else "|")


def explanations(page: str) -> dict[str, str]:
    """Return a mapping from the first column of a page to the explanations in the last column."""
    rows = (line.strip().removeprefix("| ").removesuffix("|").split(" | ", 4)
            for line in page.partition(BEGIN)[2].partition(END)[0].splitlines())  # fmt: skip
    return {row[0]: row[4].strip() for row in rows if len(row) == 5}  # noqa: PLR2004 - columns


def write_page(results: Path) -> None:
    """Write the tables into the page beside the results file.

    Raises:
        StoreError: The file cannot be written.
    """
    page = results.with_suffix(".md")
    there = explanations(page.read_text("utf-8")) if page.exists() else {}
    write_between(page, page_lines(lines_of(results), there))
