"""The series of runs for client bugs: each bug with three clients, and the table of results."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.broken_kafka.series import NONE, commit_now, judged_as
from benchmarks.client_bugs.bugs import BUGS, JAVA, Bug
from benchmarks.guarded import run
from benchmarks.night import LOGQUAKE, ROOT
from benchmarks.night_results import append, load_lines
from results.record.clock import stopwatch_s, utc_now_text
from results.record.terms import Validity
from results.store import Store
from results.verdict_json import read_verdict

RESULTS = ROOT / "docs" / "night" / "client-bugs.jsonl"
SEEDS = (1, 2, 3, 4, 5)
LIMIT_S = 600.0


class Line(BaseModel):
    """The result of a command.

    Attributes:
        command: The words behind `logquake`. A newer line with the same command and plan replaces
            an older one.
        plan: A hash of the plan's file.
        run: The run's folder, relative to the store; an empty string if there is no run.
        begun_at: The wall-clock time of the start, `20261124T104500Z`.
        took_s: The wall-clock seconds that the command took.
        load: The machine's one-minute load average before and after the command.
        commit: The commit of the code. A `+` follows if there were local changes.
        verdict: `valid`, `unknown`, `invalid` or `none`.
        anomalies: The names of the anomalies, the decisive one first.
        sentence, cause: The verdict's first sentence, and its explanation of the first example.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    plan: str
    run: str
    begun_at: str
    took_s: float
    load: tuple[float, float]
    commit: str
    verdict: str = NONE
    anomalies: tuple[str, ...] = ()
    sentence: str = ""
    cause: str = ""


Lines = Mapping[str, Line]


def last_lines(results: Path = RESULTS) -> Lines:
    """Return the last line of each command. Lines of an older version of the plan are left out."""
    lines = {each.command: each for each in load_lines(results, TypeAdapter(Line))}
    return {key: each for key, each in lines.items() if each.plan == hashed(key.split()[1])}


@cache
def hashed(plan: str) -> str:
    """Return a hash of a plan's file, by its path in the project.

    The result is an empty string if it is missing.
    """
    path = ROOT / plan
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else ""


def commands(bugs: Sequence[Bug] = BUGS) -> Iterator[tuple[str, ...]]:
    """Yield the command of each run once, seed by seed.

    Two bugs with the same plan share the run of the Java client.
    """
    steps = [bug.command(client, seed) for seed in SEEDS for bug in bugs
             for client in (bug.broken, bug.fixed, JAVA)]  # fmt: skip
    yield from dict.fromkeys(steps)


def play(command: tuple[str, ...], store: Path, results: Path) -> Line:
    """Execute and judge a run, and append its result line."""
    store.mkdir(parents=True, exist_ok=True)
    there = {each.root for each in Store(store).runs()}
    began_s, before, at = stopwatch_s(), os.getloadavg()[0], utc_now_text()
    argv = [*LOGQUAKE, *command, "--store", str(store), "--engine", "local"]
    run(argv, store / f"{at}.log", limit_s=LIMIT_S)
    new = next((each for each in Store(store).runs() if each.root not in there), None)
    line = Line(
        command=" ".join(command), plan=hashed(command[1]),
        run=str(new.root.relative_to(store)) if new else "",
        begun_at=at, took_s=round(stopwatch_s() - began_s, 1),
        load=(round(before, 2), round(os.getloadavg()[0], 2)), commit=commit_now(),
    )  # fmt: skip
    if new is not None and read_verdict(new.verdict) is not None:
        line = line.model_copy(update=judged_as(new))
    append(results, line)
    return line


def played(bug: Bug, client: str, lines: Lines) -> list[Line]:
    """Return the result lines of all runs of a bug's plan with one client."""
    found = [lines.get(" ".join(bug.command(client, seed))) for seed in SEEDS]
    return [each for each in found if each is not None]


def comes_out(bug: Bug, line: Line) -> bool:
    """Return whether a run's verdict is `invalid`, with the sentence that belongs to the bug."""
    return line.verdict == Validity.INVALID and re.search(bug.says, line.sentence) is not None


def table(lines: Lines, bugs: Sequence[Bug] = BUGS) -> str:
    """Return a Markdown table: the number of runs of each client that found each bug."""
    rows = ["| Bug | Anomaly | With it | Fixed | Java | Command | The verdict says |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for bug in bugs:
        pull = f"[#{bug.pull}](https://github.com/confluentinc/librdkafka/pull/{bug.pull})"
        found = [each for each in played(bug, bug.broken, lines) if comes_out(bug, each)]
        said = (found[0].cause or found[0].sentence) if found else ""
        names = dict.fromkeys(each.anomalies[0] for each in found if each.anomalies)
        command = " ".join(("logquake", *bug.command(bug.broken, 0)[:-1], "N"))
        counts = [_count(bug, client, lines) for client in (bug.broken, bug.fixed, JAVA)]
        cells = (
            f"{bug.does} Mended by {pull}.", ", ".join(f"`{name}`" for name in names),
            f"{bug.broken}: {counts[0]}", f"{bug.fixed}: {counts[1]}", counts[2],
            f"`{command}`", said,
        )  # fmt: skip
        rows.append("| " + " | ".join(each.replace("|", "/").replace("\n", " ") for each in cells)
                    + " |")  # fmt: skip
    return "\n".join(rows)


def _count(bug: Bug, client: str, lines: Lines) -> str:
    runs = played(bug, client, lines)
    found = sum(comes_out(bug, each) for each in runs)
    if client == bug.broken:
        return f"{found} of {len(runs)}"
    others = [each.verdict for each in runs if each.verdict != Validity.VALID]
    return f"{found} of {len(runs)}" + (f" ({', '.join(others)})" if others else "")
