"""Interrupts real runs in every phase, and prints each wrong behaviour that follows.

    python -m benchmarks.interrupts                       # starts, or resumes, the series
    python -m benchmarks.interrupts --only reference/main
    python -m benchmarks.interrupts --only simulated      # in virtual time
    python -m benchmarks.interrupts --only kafka          # a few moments on Kafka, from its cache
    python -m benchmarks.interrupts --again               # repeats finished steps
    python -m benchmarks.interrupts --list | --table

A step is one `logquake run`. SIGINT is sent as Ctrl-C on a terminal that belongs to the run.
SIGTERM is sent to the command alone. A step passes under these conditions:

- Within a second the terminal shows a line that begins with `interrupted`.
- No traceback is printed.
- No process, mount, link, nft table or temporary file of the run is left.
- The exit code is the verdict's code, or 2 without a verdict.
- If the test phase was interrupted, the run has a verdict. The verdict, `logquake show`,
  `logquake runs` and the page begin with "Interrupted at".
- If the judgement was interrupted, the command prints how to judge the run. `logquake check` then
  judges it.

Each step appends a line to `docs/night/interrupts.jsonl`. A step is finished if it has a line of
the current code. The command exits with 0 if every selected step has passed, and with 1 otherwise.
"""

import argparse
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter
from rich.console import Console

from benchmarks.false_alarms import JUDGING, RUNNING, hashed
from benchmarks.night import LOGQUAKE, ROOT, code
from benchmarks.night_results import append, load_lines, write_between
from cluster.hosts.audit import differences, local_traces
from harness.exit_codes import BY_VALIDITY, UNKNOWN
from results.record.clock import (
    WaitTimeoutError,
    pause_until,
    stopwatch_s,
    utc_now_text,
    wait_until,
)
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.show import list_runs, show_run
from results.store import Store, typed
from results.verdict_json import read_verdict
from results.wording.headline import headline

RESULTS = ROOT / "docs" / "night" / "interrupts.jsonl"
ANSWER_LIMIT_S = 1.0
MOMENT_LIMIT_S = 180.0
END_LIMIT_S = 180.0
ANSWERED = re.compile(rb"(?:^|[\n\r]|\^C|\x1b\[[0-9;?]*[A-Za-z]) *(?:logquake: )?interrupted")
BEGINS = "Interrupted at "
SHORT = ("--warmup", "2", "--time-limit", "15", "--nemesis", "pause", "--nemesis-interval", "3",
         "--seed", "7")  # fmt: skip
REFERENCE = ("--system", "reference", "--hosts", "process", "--rate", "100", *SHORT)
SIMULATED = ("--system", "reference", "--hosts", "simulated", *SHORT, "--warmup", "30",
             "--time-limit", "600")  # fmt: skip
KAFKA = ("--system", "kafka:4.3.1", "--rate", "100", *SHORT)
PARTS = {"reference": REFERENCE, "simulated": SIMULATED, "kafka": KAFKA}
SPARK = ("--engine", "spark")
SIGINT, SIGTERM = signal.SIGINT, signal.SIGTERM
CUT, UNJUDGED, UNDRAWN, NOTHING = "cut", "unjudged", "undrawn", "nothing"
"""The expected results: an interrupted verdict, no verdict yet, a verdict without a page,
no run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A run, and the moment at which it is interrupted.

    Attributes:
        part, name: The part of the series, and the name of the step.
        number: The signal.
        after: The event that precedes the signal: `said:TEXT` on the terminal, `milestone:NAME`, or
            `ledger:TEXT`.
        more_s: Seconds between that event and the signal.
        again_s: Seconds from the line `interrupted` to a second signal. None for no second signal.
        due: The expected result: `CUT`, `UNJUDGED`, `UNDRAWN` or `NOTHING`.
        more: Additional options of the run.
    """

    part: str = "reference"
    name: str
    number: signal.Signals
    after: str
    more_s: float = 0.0
    again_s: float | None = None
    due: str = CUT
    more: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the command as a user types it."""
        return shlex.join(("logquake", "run", *PARTS[self.part], *self.more))


MOMENTS = (
    Moment(name="before-the-folder", number=SIGINT, after="said:hosts:", due=NOTHING),
    Moment(name="folder", number=SIGINT, after="said:run pause/"),
    Moment(name="stage-starts", number=SIGTERM, after="milestone:looked", more_s=0.1),
    Moment(name="stage-starts-twice", number=SIGINT, after="milestone:looked", again_s=0.0,
           due=UNJUDGED),
    Moment(name="brokers-start", number=SIGINT, after="said:starting 3 brokers"),
    Moment(name="topics", number=SIGTERM, after="milestone:ready"),
    Moment(name="warm-up", number=SIGINT, after="said:  warm-up without"),
    Moment(name="main", number=SIGTERM, after="milestone:main"),
    Moment(name="fault", number=SIGINT, after='ledger:"undo"'),
    Moment(name="after-a-fault", number=SIGTERM, after='ledger:"struck"'),
    Moment(name="fault-twice", number=SIGINT, after='ledger:"undo"', again_s=0.5),
    Moment(name="healing", number=SIGINT, after="milestone:main-ended"),
    Moment(name="recovery", number=SIGTERM, after="milestone:recovered"),
    Moment(name="recovery-twice", number=SIGTERM, after="milestone:healed", again_s=0.0),
    Moment(name="final-reads", number=SIGINT, after="milestone:final-reads"),
    Moment(name="stopping", number=SIGTERM, after="said:stopping the brokers"),
    Moment(name="collecting", number=SIGINT, after="milestone:stopped"),
    Moment(name="audit", number=SIGTERM, after="milestone:collected", more_s=0.1, due=UNJUDGED),
    Moment(name="judging", number=SIGINT, after="said:judging (local)", due=UNJUDGED),
    Moment(name="spark-starts", number=SIGTERM, after="said:judging (spark)", more_s=1.0,
           due=UNJUDGED, more=SPARK),
    Moment(name="spark-works", number=SIGINT, after="said:judging (spark)", more_s=8.0,
           due=UNJUDGED, more=SPARK),
    Moment(name="spark-works-twice", number=SIGTERM, after="said:judging (spark)", more_s=6.0,
           again_s=0.3, due=UNJUDGED, more=SPARK),
    Moment(name="page", number=SIGTERM, after="said:, judge contract, engine", due=UNDRAWN),
    Moment(part="kafka", name="brokers-start", number=SIGINT, after="said:starting 3 brokers"),
    Moment(part="kafka", name="fault", number=SIGTERM, after='ledger:"undo"'),
    Moment(part="kafka", name="fault-twice", number=SIGINT, after='ledger:"undo"', again_s=0.5),
    Moment(part="kafka", name="stopping", number=SIGINT, after="said:stopping the brokers"),
    Moment(part="kafka", name="spark-works", number=SIGTERM, after="said:judging (spark)",
           more_s=8.0, due=UNJUDGED, more=SPARK),
    Moment(part="simulated", name="warm-up", number=SIGTERM, after="said:warm-up without"),
    Moment(part="simulated", name="main", number=SIGINT, after="said:main phase", more_s=2.0),
    Moment(part="simulated", name="main-twice", number=SIGTERM, after="said:main phase",
           more_s=2.0, again_s=0.0),
    Moment(part="simulated", name="judging", number=SIGINT, after="said:judging (local)",
           due=UNJUDGED),
)  # fmt: skip


class Line(BaseModel):
    """The result of a step.

    Attributes:
        part, step: The part of the series, and the step in it.
        command, signal, after: The run's command, the signal, and the event before the signal.
        begun_at: The wall-clock time of the start, `20261124T104500Z`.
        commit: The commit of the code. A `+` follows if there were local changes.
        code: A hash of the code.
        load: The machine's one-minute load average before the step.
        answered_s: Seconds from the first signal to the line `interrupted`. None without this line.
        ended_s: Seconds from the first signal to the command's end.
        exit_code: The command's exit code. None if the command did not end in time.
        sentence: The verdict's sentence, or the last line of the terminal.
        wrong: Sentences on each wrong behaviour.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: str
    step: str
    command: str
    signal: str
    after: str
    begun_at: str
    commit: str
    code: str
    load: float
    answered_s: float | None = None
    ended_s: float | None = None
    exit_code: int | None = None
    sentence: str = ""
    wrong: tuple[str, ...] = ()


_LINE = TypeAdapter(Line)


@dataclass(slots=True)
class Terminal:
    """The output of a command, collected as it arrives.

    Attributes:
        file: The readable end of the terminal.
        said: All output so far.
    """

    file: int
    said: bytes = b""
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        """Start the thread that reads the output."""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):  # EIO means that the terminal is closed.
            while some := os.read(self.file, 65536):
                self.said += some

    def close(self) -> None:
        """Read to the end of the output."""
        self._thread.join(10)
        os.close(self.file)

    def lines(self) -> list[str]:
        """Return the printed lines without control sequences."""
        text = self.said.decode("utf-8", errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").splitlines()


@dataclass(slots=True, kw_only=True)
class Step:
    """An active step.

    Attributes:
        moment: The run, and the moment of the interrupt.
        folder: The step's own folder, with a store and temporary files.
        wrong: Sentences on each wrong behaviour.
    """

    moment: Moment
    folder: Path
    wrong: list[str] = field(default_factory=list)
    answered_s: float | None = None
    ended_s: float | None = None

    @property
    def store(self) -> Store:
        """Return the store of the run."""
        return Store(self.folder / "store")

    def play(self) -> tuple[int | None, list[str]]:
        """Start and interrupt a run. Return its exit code and its output."""
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True)
        before = local_traces(self.folder / "nothing")
        child, terminal = self._begun()
        try:
            self._interrupt(child, terminal)
            status = child.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"the command did not end within {END_LIMIT_S:g} s")
            status = None
        finally:
            child.kill()
            child.wait()
            terminal.close()
        left = sorted(each.name for each in temporary.iterdir())
        self.wrong += [f"the temporary file {name} is left" for name in left]
        for run in self.store.runs():
            traces = differences(before, local_traces(run.processes))
            self.wrong += [f"{what} {how}" for what, how in traces.items()]
            if run.scratch.exists():
                self.wrong.append("temporary files of the judgement are left")
        return status, terminal.lines()

    def _begun(self) -> tuple["subprocess.Popen[bytes]", Terminal]:
        by_hand = self.moment.number is SIGINT
        ours, its = pty.openpty() if by_hand else os.pipe()
        if by_hand:
            termios.tcsetwinsize(its, (40, 160))
        words = shlex.split(self.moment.command)[1:]
        engine = () if "--engine" in words else ("--engine", "local")
        argv = [*LOGQUAKE, *words, *engine, "--store", str(self.store.root), "--name", "pause"]
        child = subprocess.Popen(
            ["setsid", *(["--ctty"] if by_hand else []), *argv],
            stdin=its if by_hand else subprocess.DEVNULL, stdout=its, stderr=its, cwd=ROOT,
            env=os.environ | {"TMPDIR": str(self.folder / "tmp"), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        os.close(its)
        return child, Terminal(ours)

    def _interrupt(self, child: "subprocess.Popen[bytes]", terminal: Terminal) -> None:
        moment = self.moment
        try:
            wait_until(
                lambda: child.poll() is not None or self._has_come(terminal),
                timeout_s=MOMENT_LIMIT_S, what=moment.after, interval_s=0.005,
            )  # fmt: skip
        except WaitTimeoutError as late:
            self.wrong.append(str(late))
        if child.poll() is not None:
            self.wrong.append(f"the command ended before its moment ({moment.after})")
            return
        pause_until(stopwatch_s() + moment.more_s)
        sent_s = stopwatch_s()
        self._send(child, terminal)
        with suppress(WaitTimeoutError):
            wait_until(
                lambda: ANSWERED.search(terminal.said) is not None,
                timeout_s=10.0, what="an answer", interval_s=0.005,
            )  # fmt: skip
            self.answered_s = round(stopwatch_s() - sent_s, 2)
        if self.answered_s is None or self.answered_s > ANSWER_LIMIT_S:
            self.wrong.append(f"answered after {self.answered_s} s")
        if moment.again_s is not None:
            pause_until(stopwatch_s() + moment.again_s)
            self._send(child, terminal)
        child.wait(END_LIMIT_S)
        self.ended_s = round(stopwatch_s() - sent_s, 1)

    def _send(self, child: "subprocess.Popen[bytes]", terminal: Terminal) -> None:
        if self.moment.number is SIGINT:
            os.write(terminal.file, b"\x03")  # Like a key press: to all processes of the terminal.
        else:
            child.send_signal(self.moment.number)

    def _has_come(self, terminal: Terminal) -> bool:
        kind, _, what = self.moment.after.partition(":")
        if kind == "said":
            return what.encode() in terminal.said
        for run in self.store.runs():
            if kind == "milestone":
                return any(each.name == what for each in load_milestones(run.milestones))
            return run.ledger.exists() and what.encode() in run.ledger.read_bytes()
        return False

    def look(self, status: int | None, said: Sequence[str]) -> str:
        """Check exit code, verdict, lists and page. Return the verdict's sentence."""
        runs, due = self.store.runs(), self.moment.due
        self._expect(not any("Traceback" in each for each in said), "a traceback was printed")
        last = next((each for each in reversed(said) if each.strip()), "")
        if not runs:
            self._expect(due == NOTHING, "there is no run")
            self._expect(status == UNKNOWN, f"exit code {status}")
            return last
        verdict = read_verdict(runs[0].verdict)
        if due in {UNJUDGED, NOTHING} and verdict is None:
            self._look_at_the_unjudged(runs[0], status, said)
            return last
        if verdict is None:
            self.wrong.append("there is no verdict")
            return last
        sentence = headline(verdict).sentence
        if due == UNDRAWN:
            again = f"logquake report {typed(runs[0])}"
            self._expect(status == UNKNOWN, f"exit code {status}")
            self._expect(any(again in each for each in said), f"{again!r} was not said")
            self._expect(not runs[0].report.exists(), "the page was drawn")
            return sentence
        self._expect(status == BY_VALIDITY[verdict.valid], f"exit code {status}, {verdict.valid}")
        texts = (("the verdict", sentence), *self._shown(runs[0]))
        for where, text in texts:
            self._expect(BEGINS in text, f"{where} does not say that it was interrupted")
        self.wrong += [f"said more than once: {each}" for each in doubled(said)]
        return sentence

    def _look_at_the_unjudged(self, run: RunPaths, status: int | None, said: Sequence[str]) -> None:
        self._expect(status == UNKNOWN, f"exit code {status}")
        again = f"logquake check {typed(run)}"
        self._expect(any(again in each for each in said), f"{again!r} was not said")
        words = ["check", str(run.root), "--engine", "local"]
        done = subprocess.run([*LOGQUAKE, *words], cwd=ROOT, capture_output=True, check=False)
        verdict = read_verdict(run.verdict)
        judged = verdict is not None and done.returncode == BY_VALIDITY[verdict.valid]
        self._expect(judged, f"`{again}` ended with {done.returncode}")

    def _shown(self, run: RunPaths) -> Iterator[tuple[str, str]]:
        console = Console(file=StringIO(), width=200, soft_wrap=True)
        assert isinstance(console.file, StringIO)
        show_run(run, console)
        yield "logquake show", console.file.getvalue()
        console.file = StringIO()
        list_runs(self.store, console)
        yield "logquake runs", console.file.getvalue()
        yield "the page", run.report.read_text("utf-8") if run.report.exists() else ""

    def _expect(self, is_so: bool, otherwise: str) -> None:  # noqa: FBT001 - the expected condition
        if not is_so:
            self.wrong.append(otherwise)


def doubled(said: Sequence[str]) -> list[str]:
    """Return verdict sentences that are printed twice: as a line and as a part of another line."""
    begin = next((number for number, each in enumerate(said) if BEGINS in each), len(said))
    lines = [each.strip().casefold().rstrip(".") for each in said[begin:] if " " in each.strip()]
    return [each for each in lines if sum(each in other for other in lines) > 1]


def played(moment: Moment, store: Path, now: tuple[str, str]) -> Line:
    """Run a step, and return its result line.

    Args:
        moment: The run, and the moment of the interrupt.
        store: The folder of runs.
        now: The commit, and a hash of the code.
    """
    at, load = utc_now_text(), round(os.getloadavg()[0], 2)
    step = Step(moment=moment, folder=store / moment.part / f"{moment.name}-{at}")
    status, said = step.play()
    (step.folder / "terminal.txt").write_text("\n".join(said), encoding="utf-8")
    sentence = step.look(status, said)
    twice = ", twice" if moment.again_s is not None else ""
    return Line(
        part=moment.part, step=moment.name, command=moment.command,
        signal=f"{moment.number.name}{twice}", after=moment.after, begun_at=at,
        commit=now[0], code=now[1], load=load, answered_s=step.answered_s, ended_s=step.ended_s,
        exit_code=status, sentence=sentence.strip(), wrong=tuple(step.wrong),
    )  # fmt: skip


def table(lines: Sequence[Line]) -> str:
    """Return the last line of each step as a table."""
    last = {(each.part, each.step): each for each in lines}
    rows = [
        _row(last[moment.part, moment.name])
        for moment in MOMENTS
        if (moment.part, moment.name) in last
    ]
    head = "Part | Moment | Signal | Answered | Ended | Exit code | Sentence | Wrong | Commit"
    return "\n".join([f"| {head} |", f"|{'---|' * (head.count('|') + 1)}", *rows])


def _row(line: Line) -> str:
    commit = line.commit[:7] + "+" * line.commit.endswith("+")
    cells = (
        line.part, line.step, line.signal, f"{line.answered_s} s", f"{line.ended_s} s",
        str(line.exit_code), line.sentence, "; ".join(line.wrong) or "nothing", commit,
    )  # fmt: skip
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing steps, and write the page."""
    options = _options(arguments)
    # A shell makes background jobs ignore Ctrl-C, and their child processes inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    commit, changes = code()
    now = commit + "+" * bool(changes), hashed((*RUNNING, *JUDGING))
    only = options.only or ["reference"]
    asked = [
        moment
        for moment in MOMENTS
        if any(f"{moment.part}/{moment.name}/".startswith(f"{each}/") for each in only)
    ]
    results = options.results
    last = {(each.part, each.step): each for each in load_lines(results, _LINE)}
    for moment in () if options.table else asked:
        line = last.get((moment.part, moment.name))
        if options.list or (line and line.code == now[1] and not (options.again or line.wrong)):
            fresh = line is not None and line.code == now[1]
            how = ("; ".join(line.wrong) or "passed") if line and fresh else "open"
            print(f"{moment.part}/{moment.name}: {how}")
            continue
        line = last[moment.part, moment.name] = played(moment, options.store.resolve(), now)
        append(results, line)
        took = f"answered after {line.answered_s} s, ended after {line.ended_s} s"
        wrong = "; ".join(line.wrong) or "nothing"
        print(f"{moment.part}/{moment.name}: {took}; wrong: {wrong}", flush=True)
    if not options.list:
        write_between(results.with_suffix(".md"), table(load_lines(results, _LINE)))
    done = [last.get((each.part, each.name)) for each in asked]
    fine = sum(each is not None and each.code == now[1] and not each.wrong for each in done)
    print(f"{fine} of {len(asked)} moments are as they should be")
    return int(fine < len(asked))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.interrupts", description=__doc__, formatter_class=raw
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="PART",
        help="a part (reference by default, simulated, kafka), or PART/MOMENT")  # fmt: skip
    add("--store", type=Path, default=ROOT / "runs" / "interrupts", help="where runs are kept")
    add("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    add("--again", action="store_true", help="play steps that have passed, too")
    add("--list", action="store_true", help="print the steps and their results, and play none")
    add("--table", action="store_true", help="write the page, and play none")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")
