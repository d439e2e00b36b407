"""Runs all tests that need hours, the nightly tests, in one command that resumes after a kill.

    python -m benchmarks.night                        # starts, or resumes, a night
    python -m benchmarks.night --only fuzz --only mutation/checkers/calm.py
    python -m benchmarks.night --list                 # the steps, and which of them are done
    python -m benchmarks.night --new                  # another night of the same commit
    python -m benchmarks.night --small                # a night of minutes, to try the program
    python -m benchmarks.night --table                # only writes the table in docs/night.md

A night is one execution of all these tests. It belongs to one commit and one state of the work
tree, and is small or full. The night's id is its start time, and each result is kept. All seeds are
computed from that id. Only one night at a time can use a store. A night has parts, and each part
has steps. Each finished step is one line in `docs/night/results.jsonl`. The line is on disk before
the next step begins, so a kill loses at most one step. `false-alarms` and `covering` lose less,
because they resume from their own journals.

Runs and logs stay in the store (`--store`). Ctrl-C ends the current step, and then the night. If
the command is killed, the process session of the current step is killed too. Brokers have sessions
of their own, so `logquake heal` must end them. The command exits with 0 if each selected step has
passed, and with 1 otherwise.
"""

import argparse
import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.covering import suite_of
from benchmarks.guarded import run
from benchmarks.night_results import (
    Begun,
    Done,
    Figures,
    append,
    combined,
    current,
    load,
    write_table,
)
from benchmarks.scores import Score, load_scores
from harness.exit_codes import VALID
from harness.suites.expansion import drawn
from harness.suites.nights import NightFolder, SuiteLock, is_led, nights_of, suite_folder
from harness.suites.reports import exit_code
from harness.suites.suite import load_suite
from harness.suites.summary import counts
from results.record.atomic import StoreError, write_atomically
from results.record.clock import stopwatch_s, utc_now_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "night" / "results.jsonl"
OURS = (":!docs/night", ":!docs/night.md")
"""Paths that do not count as code. Results may be committed during a night."""
NIGHTLY = Path("docs", "nightly")
LOGQUAKE = (sys.executable, "-c", "from harness.cli import main; main()")
HOUR_S = 3600.0
LOCK = "benchmarks.night"
TESTS: Mapping[str, tuple[str, ...]] = {
    kernel: tuple(f"tests/checkers/test_{name}.py" for name in names)
    for kernel, names in {
        "epoch_starts": ("quorum", "announced"),
        "positions": ("poll_order", "order_bounds", "order_agreement", "stretches", "left_out"),
        "dropped": (
            "send_order", "order_bounds", "transaction_reads", "hanging_transaction", "lost_write",
            "loss_bounds", "disk_losses", "unclean_orders",
        ),
    }.items()
}  # fmt: skip
"""Test files of some kernels (checker modules) that the search by name does not find."""
FIGURES: Mapping[str, tuple[str, ...]] = {
    "mutation": (r"^all +(?P<killed>\d+) / +(?P<tried>\d+)",),
    "fuzz": (r"^(?P<records>\d+) records, the slowest in (?P<slowest_s>[\d.]+) s",
             r"^WRONG +(?P<wrong>\d+)"),
    "campaign": (r"^(?P<simulated_minutes>[\d,]+) simulated minutes", r", (?P<faults>\d+) faults$",
                 r"'valid': (?P<valid>\d+)", r"'unknown': (?P<unknown>\d+)",
                 r"'invalid': (?P<invalid>\d+)"),
    "kills": (r"^(?P<kills>\d+) crashes, (?P<left_something>\d+) of them",),
    "false-alarms": (r"^(?P<as_expected>\d+) of (?P<runs>\d+) runs are as expected",),
    "tests": (r"\b(?P<passed>\d+) passed.* in [\d.]+s", r"\b(?P<failed>\d+) failed.* in "),
    "hypothesis": (r"\b(?P<passed>\d+) passed.* in [\d.]+s", r"\b(?P<failed>\d+) failed.* in "),
}  # fmt: skip
"""For each part, patterns for the figures that its steps print. The first pattern must match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of the nightly tests.

    Attributes:
        part, name: The part of the night, and the name of the step.
        words: The command, as a user types it.
        more: Options that the night adds to the command.
        limit_s: The time limit in seconds. A slower step counts as hung.
        score: The recorded score of the kernel, if the step tries mutants of a kernel.
        suite: The suite file, if the step runs a suite.
        drawn_by: The seed for a random selection from the suite file. None for the whole suite.
    """

    part: str
    name: str
    words: Sequence[str]
    more: Sequence[str] = ()
    limit_s: float = 3 * HOUR_S
    score: Score | None = None
    suite: Path | None = None
    drawn_by: int | None = None

    @property
    def command(self) -> str:
        """Return the command as one line, which also names the step in the results."""
        return shlex.join(self.words).replace("'>'", ">").replace("'&&'", "&&")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of a step: whether it passed, its figures, and the reason of a failure."""

    passed: bool
    figures: Figures = field(default_factory=dict)
    reason: str = ""


def steps_of(night: str, store: Path, *, small: bool = False) -> Iterator[Step]:
    """Yield the steps of a night.

    Args:
        night: The night's id. The seeds are computed from it.
        store: The folder of runs.
        small: True for the shortest useful form of each part, to try the program.
    """
    seed = {name: str(drawn(night, name)) for name in ("fuzz", "campaign", "kills", "hypothesis")}
    python = ("python", "-m")
    records, seeds, kills, chunks = (300, 2, 2, 1) if small else (2000, 10, 5, 10)
    for number in range(min(chunks, 5)):
        chosen = ("--seed", str(int(seed["fuzz"]) + number), "--records", str(records))
        yield Step(part="fuzz", name=str(number + 1), words=(*python, "benchmarks.fuzz", *chosen))
    for number in range(chunks):
        first = str(int(seed["campaign"]) + number * seeds)
        played = (*python, "benchmarks.campaign", "--first", first, "--seeds", str(seeds),
                 "--seconds", "120" if small else "1200")  # fmt: skip
        kept = ("--store", str(store))
        yield Step(part="campaign", name=str(number + 1), words=played, more=kept)
    for number in range(chunks):
        chosen = ("--times", str(kills), "--seed", str(int(seed["kills"]) + number))
        killed = (*python, "benchmarks.crashes", *chosen, "--hosts", "namespace,process")
        yield Step(part="kills", name=str(number + 1), words=killed)
    for path in test_files("mark.night"):
        words = (*python, "pytest", "-q", "-m", "night", str(path))
        yield Step(part="tests", name=str(path), words=words)
    for path in test_files("@given"):
        yield property_step(path, seed["hypothesis"])
    for score in load_scores():
        kernel = f"checkers/{score.name}.py"
        named = ("--tests", *TESTS[score.name]) if score.name in TESTS else ()
        tried = (*python, "benchmarks.mutation", kernel, *named)
        survivors = store / ".night" / night / f"mutants-{file_name(kernel)}.json"
        more = ("--json", str(survivors))
        yield Step(part="mutation", name=kernel, words=tried, more=more, score=score)
    yield Step(part="false-alarms", name="series", words=(*python, "benchmarks.false_alarms"),
               more=("--store", str(store / "false-alarms")), limit_s=12 * HOUR_S)  # fmt: skip
    yield _covering(drawn(night, "covering"))


def _covering(seed: int) -> Step:
    matrix = NIGHTLY / "covering.toml"
    draw = ("python", "-m", "benchmarks.covering", str(matrix), "--seed", str(seed))
    play = ("logquake", "suite", "run", "drawn.toml")
    return Step(part="covering", name="suite", suite=matrix, drawn_by=seed, limit_s=4 * HOUR_S,
                words=(*draw, ">", "drawn.toml", "&&", *play))  # fmt: skip


def property_step(path: Path, seed: str) -> Step:
    """Return the step that searches new Hypothesis examples for the properties in a test file."""
    marks = "hypothesis and not (kafka or spark or namespaces or docker or ssh)"
    words = ("python", "-m", "pytest", "-q", "--hypothesis-profile", "search",
             f"--hypothesis-seed={seed}", "-m", marks, str(path))  # fmt: skip
    return Step(part="hypothesis", name=str(path), words=words)


def test_files(word: str) -> list[Path]:
    """Return the test files that contain a word, such as `@given` for property tests."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return [each.relative_to(ROOT) for each in found if word in each.read_text("utf-8")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One execution of the nightly tests, with its store and its results file."""

    begun: Begun
    store: Path
    results: Path = RESULTS

    @property
    def folder(self) -> Path:
        """Return the folder for logs, surviving mutants, and generated suite files."""
        return self.store / ".night" / self.begun.night

    def play(self, step: Step, *, of: int) -> Done:
        """Run a step, and append its result."""
        began_s, before, at = stopwatch_s(), os.getloadavg()[0], utc_now_text()
        ended = self._ended(step)
        done = Done(
            **self.begun.model_dump(exclude={"event", "small"}), part=step.part, step=step.name,
            of=of, begun_at=at, took_s=round(stopwatch_s() - began_s, 1),
            load=(round(before, 2), round(os.getloadavg()[0], 2)),
            passed=ended.passed, reason=ended.reason, figures=ended.figures, command=step.command,
        )  # fmt: skip
        append(self.results, done)
        return done

    def _ended(self, step: Step) -> Ended:
        log = self.folder / f"{step.part}-{file_name(step.name)}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        if step.suite is not None:
            return self._suite_ended(step, step.suite, log)
        _, *words = step.words
        size_before = log.stat().st_size if log.exists() else 0
        status = run([sys.executable, *words, *step.more], log, limit_s=step.limit_s)
        said = log.read_bytes()[size_before:].decode("utf-8", errors="replace")
        return judged(step, said, status=status, log=log.relative_to(self.store))

    def _suite_ended(self, step: Step, path: Path, log: Path) -> Ended:
        """Start or resume a suite. Only read the result of a suite that has ended."""
        path = ROOT / path
        if step.drawn_by is not None:
            text = suite_of(path, seed=step.drawn_by)
            path = self.folder / path.name
            write_atomically(path, text)
        last = self._suites_night(path)
        if last is None or not last.state().ended:
            mode = "--new" if last is None else "--resume"
            words = ["suite", "run", str(path), "--store", str(self.store), mode]
            run([*LOGQUAKE, *words], log, limit_s=step.limit_s)
            last = self._suites_night(path)
        return suite_judged(last, log=log.relative_to(self.store))

    def _suites_night(self, path: Path) -> NightFolder | None:
        """Return the suite's own night that began during this night, or None if there is none."""
        found = nights_of(self.store, load_suite(path).name)
        return found[-1] if found and found[-1].night >= self.begun.night else None


def suite_judged(last: NightFolder | None, *, log: Path) -> Ended:
    """Return the result of a suite. The suite passes only if each entry was run and is valid."""
    if last is None:
        return Ended(passed=False, reason=f"the suite did not begin; see {log}")
    state = last.state()
    figures = {name.replace(" ", "_"): float(number) for name, number in counts(state).items()}
    valid = exit_code(state) == VALID and figures["valid"] == len(state.planned)
    reason = "" if valid else f"not every run is valid; see .suites/{state.suite}/{last.night}"
    return Ended(passed=valid, figures=figures, reason=reason)


def judged(step: Step, said: str, *, status: int | None, log: Path) -> Ended:
    """Return the result of a step, from its output and its exit code (None if it hung)."""
    found = [re.compile(each, re.MULTILINE) for each in FIGURES[step.part]]
    rows = [each.groupdict() for pattern in found for each in pattern.finditer(said)]
    numbers = [{key: float(text.replace(",", "")) for key, text in row.items()} for row in rows]
    figures = combined(numbers)
    if status != 0:
        how = "took too long, and was ended" if status is None else f"exit code {status}"
        return Ended(passed=False, figures=figures, reason=f"{how}; see {log}")
    if found[0].search(said) is None:
        return Ended(passed=False, figures=figures, reason=f"no figures were printed; see {log}")
    reason = _lost_score(step.score, figures) if step.score is not None else ""
    return Ended(passed=not reason, figures=figures, reason=reason)


def _lost_score(score: Score, figures: Figures) -> str:
    """Return why a kernel's score is lower than recorded, or an empty text if it is not lower."""
    killed, tried = int(figures["killed"]), int(figures["tried"])
    least = score.least(tried)
    if tried and killed / tried >= least:
        return ""
    recorded = f"docs/checkers.md records {score.killed} of {score.tried}"
    return f"less than {least:.1%} were killed; {recorded}"


def code(results: Sequence[str] = OURS) -> tuple[str, str]:
    """Return the last commit of the code, and a hash of uncommitted changes (empty if none).

    Args:
        results: Git pathspecs that exclude the result files from the code.
    """
    where = ("--", ".", *results)
    changed = _git("status", "--porcelain", *where)
    hashed = hashlib.sha256((changed + _git("diff", "HEAD", *where)).encode()).hexdigest()
    return _git("log", "-1", "--format=%H", *where).strip(), hashed[:12] if changed else ""


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True,
                          errors="replace").stdout  # fmt: skip


def file_name(step: str) -> str:
    """Return the file name stem for a step's files."""
    return step.replace("/", "-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Start or resume a night of tests."""
    options = _options(arguments)
    if options.table:
        write_table(options.results)
        return 0
    with nullcontext() if options.list else _locked(options.store.resolve()):
        return _play_or_list(options)


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Lock the store against other nights while the block runs.

    Raises:
        StoreError: Another night uses the store, or it cannot be written.
    """
    try:
        lock = SuiteLock(store, LOCK)
    except StoreError as refused:
        if not is_led(store, LOCK):
            raise
        pid = (suite_folder(store, LOCK) / "lock").read_text(encoding="ascii").strip()
        raise StoreError(
            f"a night is being played in {store} (by process {pid or 'unknown'}): wait until it has"
            " ended, or end it with Ctrl-C"
        ) from refused
    try:
        yield
    finally:
        lock.release()


def _play_or_list(options: argparse.Namespace) -> int:
    lines, (commit, changes) = load(options.results), code()
    last = None if options.new else current(lines, commit, changes, small=options.small)
    begun = last or Begun(night=utc_now_text(), commit=commit, changes=changes, small=options.small)
    night = Night(begun=begun, store=options.store.resolve(), results=options.results)
    done = {each.command: each for each in lines if isinstance(each, Done)
            and each.night == begun.night}  # fmt: skip
    steps = list(steps_of(begun.night, night.store, small=options.small))
    asked = [step for step in steps if meant(step, options.only)]
    if not asked:
        print("no step is meant; see: python -m benchmarks.night --list", file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(f"{_how(done.get(step.command)):6} {step_name(step)}" for step in asked))
        return 0
    if last is None:
        append(options.results, begun)
    return _play(night, asked, steps, done)


def _play(night: Night, asked: Sequence[Step], steps: Sequence[Step], done: dict[str, Done]) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    there = sum(each.command in done for each in asked)
    print(f"night {night.begun.night}: {there} of {len(asked)} steps are done", flush=True)
    try:
        for step in asked:
            if step.command not in done:
                of = sum(each.part == step.part for each in steps)
                one = done[step.command] = night.play(step, of=of)
                print(f"{_how(one):6} {step_name(step)}, {one.took_s:.0f} s: {one.figures}"
                      f" {one.reason}", flush=True)  # fmt: skip
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 1
    finally:
        write_table(night.results)
    return int(not all(done[step.command].passed for step in asked))


def meant(step: Step, only: Sequence[str]) -> bool:
    """Return whether a step is selected by part or name. All are selected if none is named."""
    return not only or any(f"{step_name(step)}/".startswith(f"{each}/") for each in only)


def step_name(step: Step) -> str:
    """Return the name of a step with its part: `fuzz/1`."""
    return f"{step.part}/{step.name}"


def _how(done: Done | None) -> str:
    return "open" if done is None else "passed" if done.passed else "FAILED"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.night", description=__doc__, formatter_class=raw
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="PART", help="a part, or PART/STEP")
    add("--store", type=Path, default=ROOT / "runs", help="where runs and logs are kept")
    add("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    add("--small", action="store_true", help="as little as makes sense, to try the night out")
    add("--new", action="store_true", help="begin another night")
    add("--list", action="store_true", help="print the steps, and play none")
    add("--table", action="store_true", help="write the table of last results, and play nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except StoreError as refused:
        sys.exit(str(refused))
