"""Runs correct clusters under faults, and prints which runs are not valid: the false-alarm series.

    python -m benchmarks.false_alarms                          # starts, or resumes, the series
    python -m benchmarks.false_alarms --only log --only busy/3
    python -m benchmarks.false_alarms --only log/7 --again     # repeats finished steps
    python -m benchmarks.false_alarms --rejudge                # judges again, and runs nothing
    python -m benchmarks.false_alarms --list | --table

A step is one run. The run is kept in `STORE/PART/`. Each judged run is one line in
`docs/night/false-alarms.jsonl`. A step is finished if it has a line for its command and for the
current running code. The running code is all Python files of `cluster`, `harness`, `nemesis` and
`workloads`. Its hash determines the seeds. After a change of `checkers` or `results`, the command
first judges the kept runs of each part again, and appends a line for each.

If the command is killed, the current run is lost. The next start of that part heals what the killed
run left behind. Each part has a lock. So a second command can run the other parts at the same time.
The command exits with 0 if every selected run has the expected result, and with 1 otherwise. The
expected result is a valid run, or the end that a scenario declares.
"""

import argparse
import hashlib
import os
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.false_alarm_results import (
    CORNERS,
    KEEPERS,
    NONE,
    PARTS,
    RESULTS,
    Line,
    last,
    lines_of,
    write_page,
)
from benchmarks.guarded import beside, run
from benchmarks.night import HOUR_S, LOGQUAKE, ROOT, Step, code, file_name, meant, step_name
from benchmarks.night_results import append
from harness.exit_codes import INVALID, UNKNOWN, VALID
from harness.judgement import choose_engine, judge_stored
from harness.scenarios.every import parts
from harness.suites.bench import concluded
from harness.suites.expansion import drawn
from harness.suites.nights import SuiteLock, is_led
from results.index.reading import read_run
from results.record.atomic import StoreError
from results.record.clock import stopwatch_s, utc_now_text
from results.record.paths import RunPaths
from results.record.story import load_story
from results.record.terms import Validity
from results.store import Store
from results.verdict_json import read_verdict

RUNNING = ("cluster", "harness", "nemesis", "workloads")
JUDGING = ("checkers", "results")
LOCK = "benchmarks.false_alarms"
KAFKA = ("--system", "kafka:4.3.1")
KEPT = ("--system", "kafka:3.9.1:zookeeper")
SHORT = ("--time-limit", "40")
ALL = ("--nemesis", "all", "--time-limit", "100")
SIMULATED = (
    "--system", "reference", "--hosts", "simulated", "--nemesis", "all", "--time-limit", "1200",
    "--rate", "50", "--concurrency", "8", "--topics", "2", "--partitions", "2",
)  # fmt: skip
"""The options that `benchmarks.campaign` uses. This series also keeps the runs."""
RUNS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    *((family, 3, (*KAFKA, "--nemesis", family)) for family in CORNERS),
    *((family, 3, (*KEPT, "--nemesis", family)) for family in KEEPERS),
    ("corners", 20, (*KAFKA, "--nemesis", ",".join(CORNERS), "--time-limit", "300")),
    ("log", 20, (*KAFKA, "--workload", "log", *SHORT)),
    ("txn", 20, (*KAFKA, "--workload", "txn", *SHORT)),
    ("groups", 20, (*KAFKA, "--workload", "groups", *SHORT)),
    ("log-all", 10, (*KAFKA, "--workload", "log", *ALL)),
    ("groups-all", 10, (*KAFKA, "--workload", "groups", *ALL)),
    ("busy", 10, (*KAFKA, "--workload", "log", "--time-limit", "60")),
    ("simulated", 15, SIMULATED),
)
"""The parts of the series: name, number of seeds, options of `logquake run`."""
EXAMPLES = ("leader-epoch-1", "leader-epoch-2")
BUSY_LOOPS = {"busy": 2}
LOOP = (sys.executable, "-c", "while True: pass")
LIMIT_S = HOUR_S / 2
"""The time limit of a step. Some steps take two minutes on an idle machine."""
ANSWERED = (VALID, INVALID, UNKNOWN)


def hashed(folders: Collection[str], root: Path = ROOT) -> str:
    """Return a hash of the Python files in some folders."""
    digest = hashlib.sha256()
    for path in sorted(path for each in folders for path in (root / each).rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root)}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:12]


def steps_of(running: str) -> Iterator[Step]:
    """Yield the steps. The seeds are computed from the hash of the running code."""
    for part, seeds, options in RUNS:
        for name in map(str, range(1, seeds + 1)):
            seed = ("--seed", str(drawn(running, part, name)))
            yield Step(part=part, name=name, words=("logquake", "run", *options, *seed))
    play = ("logquake", "scenario", "run", "--all", "--only")
    for each in parts():
        part = "leader-epochs" if each.scenario.name in EXAMPLES else "scenarios"
        yield Step(part=part, name=each.name, words=(*play, each.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The version of the series' code: its commit, and hashes of the running and judging code."""

    commit: str
    running: str
    judging: str

    def check(self) -> None:
        """Raise an error if the files have changed since this command began.

        Raises:
            StoreError: The code has changed, so new result lines would name the wrong code.
        """
        if (self.running, self.judging) != (hashed(RUNNING), hashed(JUDGING)):
            raise StoreError("the code has changed since this command began: start it again")


def code_of_now() -> Code:
    """Return the code that this process has imported."""
    commit, changes = code()
    return Code(
        commit=commit + "+" * bool(changes), running=hashed(RUNNING), judging=hashed(JUDGING)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The series with its code, its store, and its results file."""

    code: Code
    store: Path
    results: Path = RESULTS

    def play(self, step: Step, *, of: int) -> Line:
        """Execute and judge the run of a step, and append its result line."""
        store = Store(self.store / step.part)
        there = {each.root for each in store.runs()}
        began_s, before, at = stopwatch_s(), os.getloadavg()[0], utc_now_text()
        status = self._status(step)
        new = next((each for each in store.runs() if each.root not in there), None)
        line = Line(
            part=step.part, step=step.name, of=of, begun_at=at, command=step.command,
            took_s=round(stopwatch_s() - began_s, 1),
            load=(round(before, 2), round(os.getloadavg()[0], 2)),
            commit=self.code.commit, running=self.code.running,
            run=str(new.root.relative_to(self.store)) if new else "",
            judged_at=utc_now_text(), judge=self.code.commit, judging=self.code.judging,
        )  # fmt: skip
        if new is not None and status in ANSWERED and read_verdict(new.verdict) is not None:
            line = line.model_copy(update=found(new))
        else:
            how = "took too long" if status is None else f"ended with {status}"
            sentence = f"no verdict: the command {how}; see {self.log(step).name}"
            line = line.model_copy(update={"sentence": sentence})
        append(self.results, line)
        return line

    def _status(self, step: Step) -> int | None:
        log, store = self.log(step), str(self.store / step.part)
        where = ("--store", store, "--engine", "local")
        with ExitStack() as loops:
            for _ in range(BUSY_LOOPS.get(step.part, 0)):
                loops.enter_context(beside(LOOP, log))
            return run([*LOGQUAKE, *step.words[1:], *where], log, limit_s=LIMIT_S)

    def log(self, step: Step) -> Path:
        """Return the path of the file with the output of a step's command."""
        path = self.store / step.part / f"{file_name(step.name)}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def heal(self, part: str) -> None:
        """Run `logquake heal` for the killed runs of a part."""
        log = self.store / part / "heal.log"
        run([*LOGQUAKE, "heal", "--store", str(self.store / part)], log, limit_s=LIMIT_S)

    def judge_again(self, line: Line) -> Line | None:
        """Judge a kept run with the current code, and return the new line.

        Return None if the run is not kept, or if the current code has already judged it.
        """
        paths = RunPaths(self.store / line.run)
        if line.verdict == NONE or line.judging == self.code.judging or not paths.plan.is_file():
            return None
        judge_stored([paths.root], judge=None, engine=choose_engine("local", None))
        concluded(paths)
        again = line.model_copy(update={
            "before": line.verdict, "judged_at": utc_now_text(),
            "judge": self.code.commit, "judging": self.code.judging, **found(paths),
        })  # fmt: skip
        append(self.results, again)
        return again


def found(paths: RunPaths) -> dict[str, object]:
    """Return the verdict of a judged run as fields of a result line."""
    row, story = read_run(paths), load_story(paths.story)
    expected = row.verdict == Validity.VALID if story is None else bool(story.as_expected)
    told = "; ".join(story.differs) if story and not expected else ""
    return {
        "verdict": row.verdict, "expected": expected,
        "sentence": "" if expected else told or row.sentence,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge kept runs again, run the missing steps, and write the page."""
    options = _options(arguments)
    if options.table:
        write_page(options.results)
        return 0
    series = Series(code=code_of_now(), store=options.store.resolve(), results=options.results)
    steps = list(steps_of(series.code.running))
    asked = [step for step in steps if meant(step, options.only)]
    if options.list:
        done = last(lines_of(options.results))
        print("\n".join(f"{_how(done, step, series.code):7} {step_name(step)}" for step in asked))
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        for part, of_part in groupby(asked, key=lambda step: step.part):
            size = sum(step.part == part for step in steps)
            _locked_part(series, list(of_part), size, options)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 1
    finally:
        write_page(series.results)
    return _summary(series, asked, kept_only=options.rejudge)


def _locked_part(
    series: Series, steps: Sequence[Step], size: int, options: argparse.Namespace
) -> None:
    """Run the missing steps of a part, unless another command holds the part's lock."""
    part = steps[0].part
    try:
        lock = SuiteLock(series.store / part, LOCK)
    except StoreError:
        if not is_led(series.store / part, LOCK):
            raise
        print(f"{part} is left out: another command plays it", flush=True)
        return
    try:
        _part(series, steps, size, options)
    finally:
        lock.release()


def _part(series: Series, steps: Sequence[Step], size: int, options: argparse.Namespace) -> None:
    names = {step.name for step in steps}
    for kept in _kept(lines_of(series.results)):
        if kept.part == steps[0].part and kept.step in names:
            series.code.check()
            if again := series.judge_again(kept):
                print(f"{again.before} -> {again.words}", flush=True)
    done = last(lines_of(series.results))
    open_steps = [
        step for step in steps if options.again or _how(done, step, series.code) == "open"
    ]
    if options.rejudge or not open_steps:
        return
    series.heal(steps[0].part)
    for step in open_steps:
        series.code.check()
        line = series.play(step, of=size)
        print(f"{line.words}, {line.took_s:.0f} s", flush=True)
        write_page(series.results)
        if line.verdict == NONE:
            series.heal(step.part)


def _kept(lines: Sequence[Line]) -> list[Line]:
    """Return the last line of each run, even if an older version of the code executed the run."""
    return list({each.run: each for each in lines if each.run}.values())


def _how(done: dict[tuple[str, str], Line], step: Step, now: Code) -> str:
    line = done.get((step.part, step.name))
    return line.verdict if line is not None and _is_of(line, step, now) else "open"


def _is_of(line: Line, step: Step, now: Code) -> bool:
    """Return whether the current code both executed the run and judged it."""
    return (line.command, line.running, line.judging) == (step.command, now.running, now.judging)


def _summary(series: Series, asked: Sequence[Step], *, kept_only: bool) -> int:
    """Print the sums over the steps, and return the exit code."""
    done = last(lines_of(series.results))
    found = [(done.get((step.part, step.name)), step) for step in asked]
    played = [line for line, step in found
              if line and (kept_only or _is_of(line, step, series.code))]  # fmt: skip
    fine = sum(each.expected for each in played)
    print(
        f"{fine} of {len(played)} runs are as expected; {len(asked) - len(played)} are not played"
    )
    return int(fine < (len(played) if kept_only else len(asked)))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.false_alarms", description=__doc__, formatter_class=raw
    )
    add = parser.add_argument
    only = f"a part ({', '.join(PARTS)}), or PART/STEP"
    add("--only", action="append", default=[], metavar="PART", help=only)
    add("--store", type=Path, default=ROOT / "runs" / "false-alarms", help="where runs are kept")
    add("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    add("--again", action="store_true", help="play steps that are done, too")
    add("--rejudge", action="store_true", help="judge kept runs again, and play none")
    add("--list", action="store_true", help="print the steps and their verdicts, and play none")
    add("--table", action="store_true", help="write the page, and play none")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StoreError as refused:
        sys.exit(str(refused))
