"""The series of runs of broken Kafka builds: steps, result lines, and the table of results."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.broken_kafka.patches import MODES, PLANS, Patch
from benchmarks.false_alarms import JUDGING, hashed
from benchmarks.guarded import run
from benchmarks.night import LOGQUAKE, ROOT, code
from benchmarks.night_results import append, load_lines
from harness.judgement import choose_engine, judge_stored
from harness.suites.bench import concluded
from results.index.reading import read_run
from results.record.clock import stopwatch_s, utc_now_text
from results.record.paths import RunPaths
from results.record.terms import Validity
from results.store import Store
from results.verdict_json import read_verdict
from results.wording.headline import decisive

RESULTS = ROOT / "docs" / "night" / "broken-kafka.jsonl"
UNPATCHED = "unpatched"
CONTROLS: Sequence[str] = (
    "log", "txn", "groups", "hasty", "leadership", "quorum", "controllers", "log", "txn",
    "groups",
)  # fmt: skip
"""The plans with which unpatched Kafka 4.3.1 is run, for the seeds 1 to 10 in this order."""
NONE = "none"
LIMIT_S = 1200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A run of the series: one patch, or unpatched Kafka, with one seed.

    Attributes:
        name: The name of the patch, or `UNPATCHED`.
        seed: The seed of the plan.
        plan: A name in `PLANS`.
        digest: The hash of the patch.
        patch: The patch. None for unpatched Kafka.
    """

    name: str
    seed: int
    plan: str
    digest: str = ""
    patch: Patch | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of `logquake run`, without the system."""
        return (*PLANS[self.plan], "--seed", str(self.seed))


class Line(BaseModel):
    """The result of a step.

    Attributes:
        name, seed, plan, digest: The fields of the step.
        command: The command for a user. `CLASSES` means the folder of the patch's classes.
        run: The run's folder, relative to the store; an empty string if there is no run.
        begun_at: The wall-clock time at which the step began, `20261124T104500Z`.
        took_s: The wall-clock seconds that the step took.
        load: The machine's one-minute load average before and after the step.
        commit: The commit of the code that executed the run. A `+` follows if there were local
            changes.
        judge: The commit of the code that judged the run.
        judging: A hash of the code that judged the run.
        verdict: `valid`, `unknown`, `invalid` or `none`.
        anomalies: The names of the anomalies, the decisive one first.
        sentence: The first sentence of the verdict.
        cause: The verdict's explanation of the first example.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    seed: int
    plan: str
    digest: str
    command: str
    run: str
    begun_at: str
    took_s: float
    load: tuple[float, float]
    commit: str
    judge: str
    judging: str
    verdict: str = NONE
    anomalies: tuple[str, ...] = ()
    sentence: str = ""
    cause: str = ""

    @property
    def found(self) -> bool:
        """Return whether the verdict on the run is `invalid`."""
        return self.verdict == Validity.INVALID


def steps_of(patches: Sequence[Patch], seeds: Sequence[int]) -> Iterator[Step]:
    """Yield the runs of all patches, seed by seed, and then the runs of unpatched Kafka."""
    for seed in seeds:
        for each in patches:
            yield Step(name=each.name, seed=seed, plan=each.plan, digest=each.digest, patch=each)
    for seed, plan in enumerate(CONTROLS, 1):
        yield Step(name=UNPATCHED, seed=seed, plan=plan)


def last_lines(results: Path = RESULTS) -> dict[tuple[str, int, str], Line]:
    """Return the last result line of each step, by name, seed and digest."""
    lines = load_lines(results, TypeAdapter(Line))
    return {(each.name, each.seed, each.digest): each for each in lines}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Executes runs, judges them, and appends a result line for each.

    Attributes:
        store: The folder for runs and compiled classes.
        results: The file of result lines.
    """

    store: Path
    results: Path = RESULTS

    def play(self, step: Step) -> Line:
        """Execute and judge the run of a step.

        Raises:
            DoesNotApplyError: The class does not have the text to replace exactly once.
            DoesNotCompileError: The patched class does not compile.
            UserError: A needed file cannot be downloaded.
        """
        store = Store(self.store / step.name)
        there = {each.root for each in store.runs()}
        began_s, before, at = stopwatch_s(), os.getloadavg()[0], utc_now_text()
        status = self._status(step)
        new = next((each for each in store.runs() if each.root not in there), None)
        line = Line(
            name=step.name, seed=step.seed, plan=step.plan, digest=step.digest,
            command=" ".join(("logquake", "run", *_system(step, "CLASSES"), *step.words)),
            run=str(new.root.relative_to(self.store)) if new else "",
            begun_at=at, took_s=round(stopwatch_s() - began_s, 1),
            load=(round(before, 2), round(os.getloadavg()[0], 2)),
            commit=commit_now(), judge=commit_now(), judging=hashed(JUDGING),
        )  # fmt: skip
        if new is not None and read_verdict(new.verdict) is not None:
            line = line.model_copy(update=judged_as(new))
        else:
            how = "took too long" if status is None else f"ended with {status}"
            line = line.model_copy(update={"sentence": f"no verdict: the command {how}"})
        append(self.results, line)
        return line

    def _status(self, step: Step) -> int | None:
        classes = step.patch.compiled(self.store / "classes") if step.patch else Path()
        folder = self.store / step.name
        folder.mkdir(parents=True, exist_ok=True)
        where = ("--store", str(folder), "--engine", "local")
        argv = [*LOGQUAKE, "run", *_system(step, str(classes)), *step.words, *where]
        return run(argv, folder / f"{step.seed}.log", limit_s=LIMIT_S)

    def judge_again(self, line: Line) -> Line | None:
        """Judge a kept run with the current code, and return the new line.

        Return None if the run is not kept, or if the current code has already judged it.
        """
        paths, judging = RunPaths(self.store / line.run), hashed(JUDGING)
        if not line.run or line.judging == judging or not paths.plan.is_file():
            return None
        judge_stored([paths.root], judge=None, engine=choose_engine("local", None))
        concluded(paths)
        again = line.model_copy(update={
            "judge": commit_now(), "judging": judging, **judged_as(paths),
        })  # fmt: skip
        append(self.results, again)
        return again


def _system(step: Step, classes: str) -> tuple[str, str]:
    own = f"+{classes}" if step.patch else ""
    return "--system", f"kafka:4.3.1{own}{MODES.get(step.plan, '')}"


def commit_now() -> str:
    """Return the commit of the running code, with a `+` behind it if there are local changes."""
    commit, changes = code()
    return commit + "+" * bool(changes)


def judged_as(paths: RunPaths) -> dict[str, object]:
    """Return the verdict of a judged run as fields of a result line."""
    row, verdict = read_run(paths), read_verdict(paths.verdict)
    first = decisive(verdict) if verdict else None
    names = [*([first[0]] if first else []), *(verdict.ranked if verdict else ())]
    return {
        "verdict": str(row.verdict), "anomalies": tuple(dict.fromkeys(names)),
        "sentence": row.sentence, "cause": row.cause or row.witness,
    }  # fmt: skip


def table(
    patches: Sequence[Patch], lines: dict[tuple[str, int, str], Line], seeds: Sequence[int]
) -> str:
    """Return the results of all patches as a table in Markdown."""
    rows = ["| Area | Patch | What is broken | Plan | Found | Anomaly | The verdict says |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    rows += [_row(each, [lines.get((each.name, seed, each.digest)) for seed in seeds])
             for each in patches]  # fmt: skip
    played = [line for (name, _, _), line in lines.items() if name == UNPATCHED]
    wrong = [line for line in played if line.verdict != Validity.VALID]
    of = f"{len(wrong)} of {len(played)}"
    left = len(CONTROLS) - len(played)
    of += f" ({left} not yet played)" if left else ""
    words = "; ".join(f"seed {each.seed}: {each.verdict}" for each in wrong)
    rows.append(f"| | {UNPATCHED} | nothing: Kafka 4.3.1 as it is | all | {of} | {words} | |")
    return "\n".join(rows)


def _row(patch: Patch, lines: Sequence[Line | None]) -> str:
    played = [line for line in lines if line is not None]
    found = [line for line in played if line.found]
    notes = {
        "unknown": sum(line.verdict in {NONE, Validity.UNKNOWN} for line in played),
        "not yet played": len(lines) - len(played),
    }
    told = ", ".join(f"{number} {how}" for how, number in notes.items() if number)
    of = f"{len(found)} of {len(played)}" + (f" ({told})" if told else "")
    names = list(dict.fromkeys(line.anomalies[0] for line in found if line.anomalies))
    anomaly = ", ".join(f"`{name}`" for name in names)
    said = found[0].sentence if found else patch.unfound
    if not said and played:
        said = f"({played[-1].verdict}: {played[-1].sentence})"
    cells = (patch.area, f"`{patch.name}`", patch.breaks, patch.plan, of, anomaly, said)
    return "| " + " | ".join(each.replace("|", "/").replace("\n", " ") for each in cells) + " |"
