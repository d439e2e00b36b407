"""Hunts on released Kafka versions with known bugs: which bugs do random runs find, and how often?

    python -m benchmarks.hunts                     # starts, or resumes, the series
    python -m benchmarks.hunts --only kafka-3.4.0  # --again: another part of this hunt
    python -m benchmarks.hunts --list | --table | --search

A step is one part of a hunt: `logquake hunt docs/hunt/hunt.toml` with a system, a control, a
workload and families of faults. The first failure is rerun five times, and is run five times on the
control. Then the part ends. A killed part resumes.

When a part is over, its journal is copied to `docs/hunt/journals/`. A line is appended to
`docs/hunt/finds.jsonl`, with the commit at the part's start. A find counts only if its runs show
the mechanism that a ticket describes. `MECHANISMS` has a pattern for each ticket. The program
searches for the pattern in the brokers' logs or in the verdict of each failed run. Both files are
the source of `docs/hunt/finds.md`. After you add a pattern, `--search` searches the kept runs
again.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.guarded import run
from benchmarks.night import HOUR_S, LOGQUAKE, OURS, ROOT, code
from benchmarks.night_results import append, load_lines, write_between
from harness.suites.hunting.failures import Failure, failures, is_conclusive
from harness.suites.hunting.history import history
from harness.suites.hunting.telling import minutes_of
from harness.suites.night import Item, NightState
from harness.suites.nights import NightFolder, nights_of, state_of
from results.record.atomic import write_atomically
from results.record.paths import RunPaths
from results.verdict_json import read_verdict

FOLDER = ROOT / "docs" / "hunt"
FILE, PAGE, RESULTS, JOURNALS = (
    FOLDER / name for name in ("hunt.toml", "finds.md", "finds.jsonl", "journals")
)
NO_CODE = (*OURS, ":!docs")
LIMIT_S = 6 * HOUR_S
TICKETS = "https://issues.apache.org/jira/browse/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """The evidence that a failed run has the bug of a ticket.

    Attributes:
        breaks: Anomalies. The run must have at least one of these.
        pattern: A regular expression that a file of the run must contain.
        where: The files of the run to search, as a glob pattern.
        means: What the pattern shows, in words for the page.
    """

    breaks: tuple[str, ...]
    pattern: str
    where: str = "nodes/*/logs/**/*.log*"
    means: str


VERDICT = "verdict.json"
MECHANISMS = {
    "KAFKA-14946": Mechanism(
        breaks=("isr-not-restored", "unavailable"),
        pattern=r"exception while renouncing leadership",
        means="a controller fails while it reverts its state, and its process hangs",
    ),
    "KAFKA-14704": Mechanism(
        breaks=("log-end-regression",),
        pattern=r"Non-monotonic update of high watermark",
        means="a follower takes a high watermark before it truncates its log below it",
    ),
    "KAFKA-14402": Mechanism(
        breaks=("G1a",),
        pattern=r"behind the end of its transaction \(KAFKA-14402\)", where=VERDICT,
        means="the logs hold a record of a transaction behind that transaction's marker",
    ),
    "KAFKA-5600": Mechanism(
        breaks=("commit-lost",),
        pattern=r"answered with the older position of op", where=VERDICT,
        means="a coordinator answers with a position older than one that it acknowledged",
    ),
    "KAFKA-14616": Mechanism(
        breaks=("isr-not-restored",),
        pattern=r"Found stray log dir",
        means="a broker takes the replica of a topic made again for a stray one, and removes it",
    ),
    "KAFKA-13727": Mechanism(
        breaks=("lost-write", "torn-transaction", "G1a"),
        pattern=r"LogCleaningException",
        means="the cleaner fails at an index of aborted transactions that it has damaged",
    ),
    "KAFKA-15468": Mechanism(
        breaks=("slow-election", "unavailable"),
        pattern=r"Error applying topics delta[^\n]*\n[^\n]*IllegalStateException: Transaction",
        means="a coordinator that loads its state while it writes fails at a state of before",
    ),
    "KAFKA-5970": Mechanism(
        breaks=("unavailable", "isr-not-restored"),
        pattern=r"Java-level deadlock:[\s\S]*DelayedProduce\.safeTryComplete",
        where="nodes/*/logs/stdout.log",
        means="threads of a broker wait for each other: one completes a produce, one ends a"
        " transaction",
    ),
    "KAFKA-19862": Mechanism(
        breaks=("group-stuck", "commit-lost"),
        pattern=r"Failed to load metadata from __consumer_offsets[^\n]*IllegalState",
        means="a coordinator cannot load a group whose records are compacted meanwhile",
    ),
    "KAFKA-6879": Mechanism(
        breaks=("unavailable", "isr-not-restored"),
        pattern=r"KafkaController\$Expire.waitUntilProcessed",
        means="the controller's thread and that of its session wait for each other",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One hunt.

    Attributes:
        name: The name of the hunt.
        system: A release with a bug, or several releases with spaces between.
        control: The nearest release without the bug; an empty string if there is none.
        workload, nemesis: The workload, and the families of faults to choose from; an empty string
            for all.
        ticket: The known bug that is the reason for this hunt; an empty string if no bug is known.
        least_s: The hunt needs no further part after this total time, in seconds.
    """

    name: str
    system: str
    control: str = ""
    workload: str = ""
    nemesis: str = ""
    ticket: str = ""
    least_s: float = 0

    @property
    def options(self) -> list[str]:
        """Return the options of `logquake hunt` that the suite file does not set."""
        options = ["--name", self.name]
        options += [word for each in self.system.split() for word in ("--system", each)]
        options += ["--control", self.control] if self.control else []
        options += ["--workload", self.workload] if self.workload else []
        return options + (["--nemesis", self.nemesis] if self.nemesis else [])

    @property
    def command(self) -> str:
        """Return the command as a user types it."""
        return " ".join(["logquake hunt", str(FILE.relative_to(ROOT)), *self.options])


STEPS = (
    Step(
        name="kafka-3.4.0", system="kafka:3.4.0", control="kafka:3.4.1",
        workload="log", nemesis="partition,pause",
        ticket="KAFKA-14946",
    ),
    Step(
        name="kafka-3.5.1", system="kafka:3.5.1", control="kafka:3.6.1",
        workload="txn", nemesis="pause,stall-clients",
        ticket="KAFKA-14402",
    ),
    Step(
        name="kafka-0.11.0.0", system="kafka:0.11.0.0", control="kafka:0.11.0.1",
        workload="groups", nemesis="kill",
        ticket="KAFKA-5600",
    ),
    Step(
        name="kafka-3.6.1", system="kafka:3.6.1", control="kafka:3.7.1",
        workload="log", nemesis="remade",
        ticket="KAFKA-14616",
    ),
    Step(
        name="kafka-2.8.1", system="kafka:2.8.1", control="kafka:3.2.1",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-13727",
    ),
    Step(
        name="kafka-3.2.1", system="kafka:3.2.1", control="kafka:3.4.1:zookeeper",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-14704",
    ),
    Step(
        name="kafka-3.4.1", system="kafka:3.4.1", control="kafka:3.8.0",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-15468",
    ),
    Step(
        name="kafka-0.11.0.1", system="kafka:0.11.0.1", control="kafka:0.11.0.2",
        workload="txn", nemesis="pause,stall-clients",
        ticket="KAFKA-5970",
    ),
    Step(
        name="kafka-4.1.1", system="kafka:4.1.1", control="kafka:4.2.2",
        workload="groups", nemesis="kill",
        ticket="KAFKA-19862",
    ),
    Step(
        name="kafka-1.1.0", system="kafka:1.1.0", control="kafka:1.1.1",
        workload="log", nemesis="keeper,keeper-links,pause",
        ticket="KAFKA-6879",
    ),
    Step(
        name="newest", system="kafka:4.4.0 kafka:4.3.1 kafka:4.2.2 kafka:4.1.2",
        least_s=5 * HOUR_S,
    ),
)  # fmt: skip


class Line(BaseModel):
    """The result of a finished part.

    Attributes:
        name: The name of the hunt.
        journal: The file name of the part's journal in `docs/hunt/journals/`.
        commit: The commit of the code when the part began. A + follows if there were local changes.
        took_s: The seconds that the part took, in wall-clock time.
        load: The machine's one-minute load average before and after the part.
        shown: By ticket, the failed runs that show its mechanism. Each run has its anomalies from
            that mechanism.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    journal: str
    commit: str
    took_s: float
    load: tuple[float, float]
    shown: Mapping[str, Mapping[str, tuple[str, ...]]]


_LINE = TypeAdapter(Line)


def is_due(step: Step) -> bool:
    """Return whether a hunt needs another part.

    This is the case if it has no part yet, or if its parts took less than `least_s` in total.
    """
    took_s = [each.took_s for each in load_lines(RESULTS, _LINE) if each.name == step.name]
    return not took_s or sum(took_s) < step.least_s


def play(step: Step, store: Path) -> Line | None:
    """Start or resume a part of a hunt, run it to its end, and append its result line.

    Returns:
        The line, or None if the part did not end. Its log then has the reason.
    """
    store.mkdir(parents=True, exist_ok=True)
    log, before = store / f"{step.name}.log", os.getloadavg()[0]
    goes_on = bool(parts := _parts(store, step)) and not parts[-1].state().ended
    _note_commit(store, step, anew=not goes_on)
    mode = "--resume" if goes_on else "--new"
    run([*LOGQUAKE, "hunt", str(FILE), *step.options, "--store", str(store), mode], log,
        limit_s=LIMIT_S)  # fmt: skip
    parts = _parts(store, step)
    if not parts or not parts[-1].state().ended:
        print(f"{step.name} did not end; see {log}", file=sys.stderr)
        return None
    state = parts[-1].state()
    JOURNALS.mkdir(parents=True, exist_ok=True)
    copy = JOURNALS / f"{step.name}-{state.night}.jsonl"
    shutil.copyfile(parts[-1].journal, copy)
    line = Line(
        name=step.name, journal=copy.name, commit=_note_commit(store, step),
        took_s=round(state.active_s, 1), load=(round(before, 2), round(os.getloadavg()[0], 2)),
        shown=shown(state, store),
    )  # fmt: skip
    append(RESULTS, line)
    return line


def _note_commit(store: Path, step: Step, *, anew: bool = False) -> str:
    """Return the commit with which a part began. The first call saves it in a file."""
    noted = store / f"{step.name}.commit"
    if anew or not noted.exists():
        commit, changes = code(NO_CODE)
        write_atomically(noted, commit + "+" * bool(changes))
    return noted.read_text(encoding="utf-8")


def _parts(store: Path, step: Step) -> list[NightFolder]:
    return [each for each in nights_of(store, step.name) if each.state().night]


def _failed(state: NightState) -> list[str]:
    """Return the ids of a part's failed runs."""
    return [each.run_id for each in state.items.values() if each.reached and each.reached.broken]


def shown(state: NightState, store: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, by ticket, the failed runs of a part that show the ticket's mechanism.

    The form is that of `Line.shown`.
    """
    failed = _failed(state)
    seen = {
        ticket: {run: broken for run in failed if (broken := shows(each, RunPaths(store / run)))}
        for ticket, each in MECHANISMS.items()
    }
    return {ticket: runs for ticket, runs in seen.items() if runs}


def shows(mechanism: Mechanism, run: RunPaths) -> tuple[str, ...]:
    """Return the anomalies of a run that the mechanism can cause.

    The result is empty if no file of the run contains the mechanism's pattern.
    """
    verdict = read_verdict(run.verdict)
    anomalies = verdict.anomalies if verdict else {}
    broken = {
        name for name, each in anomalies.items() if each.trusted and each.count > each.allowed
    }
    found = tuple(each for each in mechanism.breaks if each in broken)
    wanted = re.compile(mechanism.pattern.encode())
    files = (each for each in run.root.glob(mechanism.where) if each.is_file())
    return found if found and any(wanted.search(each.read_bytes()) for each in files) else ()


def table(lines: Sequence[Line], journals: Path = JOURNALS) -> str:
    """Return two tables in Markdown: the finds, and the hunts without a find."""
    rows = [
        "| Ticket | Release | Repeats | Control | Broke | Command | Date |",
        "|---|---|---|---|---|---|---|",
    ]
    vain = [
        "", "Hunts that did not find the expected ticket:", "",
        "| Ticket | Release | Main phases | Runs | Command |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for step in STEPS:
        mine = [each for each in lines if each.name == step.name]
        states = [state_of(journals / each.journal) for each in mine]
        seen = {
            ticket: {
                run: broken for each in mine for run, broken in each.shown.get(ticket, {}).items()
            }
            for ticket in MECHANISMS
        }
        for failure in failures(states):
            rows += _rows(step, failure, seen)
        if mine and not seen.get(step.ticket):
            runs = history(states)
            minutes = max(minutes_of(runs).values(), default=0.0)
            vain.append(
                f"| {_link(step.ticket) or 'none is known'} | {step.system} | {minutes:.0f} min"
                f" | {len(runs)} | `{step.command}` |"
            )
    means = [
        "", "The mechanism of each ticket, and the files that show it:", "",
        "| Ticket | Mechanism | Files |", "|---|---|---|",
        *(f"| {_link(ticket)} | {each.means} | `{each.where}` |"
          for ticket, each in MECHANISMS.items()),
    ]  # fmt: skip
    return "\n".join([*rows, *vain, *means])


def _link(ticket: str) -> str:
    return f"[{ticket}]({TICKETS}{ticket})" if ticket else ""


def _rows(
    step: Step, failure: Failure, seen: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> Iterator[str]:
    """Yield a table row for each ticket whose mechanism a failure's runs show."""
    ran = {each.run_id for each in (*failure.runs, *failure.repeats)}
    tickets = [each for each, runs in seen.items() if ran.intersection(runs)]
    for ticket in tickets or [""]:
        runs = seen.get(ticket)
        mine = (runs[each] for each in ran.intersection(runs)) if runs else (failure.broken,)
        broken = sorted({name for names in mine for name in names})
        controls = " / ".join(
            f"{each}: {_times(failure, failure.controls_on(each), runs)}"
            for each in failure.control_systems
        )
        cells = (
            _link(ticket) or "none known", failure.system,
            _times(failure, failure.repeats, runs), controls or "none",
            ", ".join(f"`{each}`" for each in broken), f"`{step.command}`",
            _date(failure.runs[0]),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _times(failure: Failure, items: Iterable[Item], runs: Collection[str] | None) -> str:
    """Return the number of runs that show the ticket, as text: `3 of 5 (1 failed without it)`.

    Only runs with a conclusive verdict count.

    Args:
        failure: The failure that the runs repeat.
        items: The runs.
        runs: The ids of the runs that show the ticket. None if there is no ticket.
    """
    judged = [each for each in items if each.reached and is_conclusive(each)]
    had = [each for each in judged if failure.is_had_by(each) or each.run_id in (runs or ())]
    mine = had if runs is None else [each for each in had if each.run_id in runs]
    others = f" ({len(had) - len(mine)} failed without it)" if len(mine) < len(had) else ""
    return f"{len(mine)} of {len(judged)}{others}"


def _date(item: Item) -> str:
    return f"{datetime.fromtimestamp(item.started_at, UTC):%Y-%m-%d}"


def search_again(store: Path) -> None:
    """Search the kept runs of all parts for all mechanisms, and rewrite the result lines."""
    lines = []
    for line in load_lines(RESULTS, _LINE):
        state = state_of(JOURNALS / line.journal)
        failed = _failed(state)
        if gone := [each for each in failed if not (store / each / VERDICT).exists()]:
            print(
                f"{line.name}: {len(gone)} of {len(failed)} failed runs are gone", file=sys.stderr
            )
            lines.append(line)
        else:
            lines.append(line.model_copy(update={"shown": shown(state, store)}))
    write_atomically(RESULTS, "".join(f"{each.model_dump_json()}\n" for each in lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing parts, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hunts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="these hunts")
    add("--again", action="store_true", help="another part of hunts that are over, too")
    add("--store", type=Path, default=ROOT / "runs" / "hunts", help="where runs are kept")
    add("--list", action="store_true", help="print the hunts, and play none")
    add("--table", action="store_true", help="write the page, and play none")
    add("--search", action="store_true", help="search kept runs again, and play none")
    options = parser.parse_args(arguments)
    for step in STEPS:
        if options.only and step.name not in options.only:
            continue
        if options.list:
            print(f"{'open' if is_due(step) else 'done':5} {step.command}")
            continue
        due = not (options.table or options.search) and (options.again or is_due(step))
        while due:
            if (line := play(step, options.store.resolve())) is None:
                return 1
            found = (f"{len(runs)} failed runs show {each}" for each, runs in line.shown.items())
            print(f"{step.name}: {', '.join(found) or 'nothing'}", flush=True)
            due = is_due(step)
    if options.search:
        search_again(options.store.resolve())
    if not options.list:
        write_between(PAGE, table(load_lines(RESULTS, _LINE)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
