"""Hunts on released Kafkas with known bugs: which bugs do random runs find, and how often?

    python -m benchmarks.hunts                     # begins, or goes on where it was
    python -m benchmarks.hunts --only kafka-3.4.0  # --again: another part of it
    python -m benchmarks.hunts --list | --table

A step is a part of one hunt: `logquake hunt docs/hunt/hunt.toml` with a system, a control, a
workload and families of faults. It ends with its first failure, once that is repeated five times,
and played five times on the control. A part that was killed goes on.

When a part is over, its journal is copied to `docs/hunt/journals/`, and a line is appended to
`docs/hunt/finds.jsonl`, with the commit of its begin. A find counts only if its runs show the
mechanism that the ticket describes: each step has a pattern, which is looked for in the logs of the
brokers and in the verdict of each run that failed. `docs/hunt/finds.md` is written from both.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.guarded import run
from benchmarks.night import HOUR_S, LOGQUAKE, OURS, ROOT, code
from benchmarks.night_results import append, load_lines, write_between
from harness.suites.hunting.failures import Failure, failures
from harness.suites.hunting.history import history
from harness.suites.hunting.telling import minutes_of
from harness.suites.night import Item, NightState
from harness.suites.nights import NightFolder, nights_of, state_of
from results.record.atomic import write_atomically
from results.record.paths import RunPaths

FOLDER = ROOT / "docs" / "hunt"
FILE, PAGE, RESULTS, JOURNALS = (
    FOLDER / name for name in ("hunt.toml", "finds.md", "finds.jsonl", "journals")
)
NO_CODE = (*OURS, ":!docs")
LIMIT_S = 6 * HOUR_S
TICKETS = "https://issues.apache.org/jira/browse/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One hunt.

    Attributes:
        name: Of the hunt.
        system, control: A release with a bug, and the nearest one without it.
        workload, nemesis: What it draws from; empty: all.
        ticket: What is expected.
        shows: A pattern of what the ticket describes.
    """

    name: str
    system: str
    control: str
    workload: str
    nemesis: str
    ticket: str
    shows: str

    @property
    def options(self) -> list[str]:
        """What is chosen beside the file."""
        options = ["--name", self.name, "--system", self.system, "--control", self.control]
        options += ["--workload", self.workload] if self.workload else []
        return options + (["--nemesis", self.nemesis] if self.nemesis else [])

    @property
    def command(self) -> str:
        """What a user types."""
        return " ".join(["logquake hunt", str(FILE.relative_to(ROOT)), *self.options])


STEPS = (
    Step(
        name="kafka-3.4.0", system="kafka:3.4.0", control="kafka:3.4.1",
        workload="log", nemesis="partition,pause",
        ticket="KAFKA-14946", shows=r"HashTier\.mergeFrom",
    ),
    Step(
        name="kafka-3.5.1", system="kafka:3.5.1", control="kafka:3.6.1",
        workload="txn", nemesis="pause,stall-clients",
        ticket="KAFKA-14402", shows=r"behind the end of its transaction \(KAFKA-14402\)",
    ),
    Step(
        name="kafka-0.11.0.0", system="kafka:0.11.0.0", control="kafka:0.11.0.1",
        workload="groups", nemesis="kill",
        ticket="KAFKA-5600", shows=r"answered with the older position of op",
    ),
    Step(
        name="kafka-3.6.1", system="kafka:3.6.1", control="kafka:3.7.1",
        workload="log", nemesis="remade",
        ticket="KAFKA-14616", shows=r"Found stray log dir",
    ),
    Step(
        name="kafka-2.8.1", system="kafka:2.8.1", control="kafka:3.2.1",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-13727", shows=r"LogCleaningException",
    ),
    Step(
        name="kafka-3.2.1", system="kafka:3.2.1", control="kafka:3.4.1:zookeeper",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-14704", shows=r"Non-monotonic update of high watermark",
    ),
    Step(
        name="kafka-3.4.1", system="kafka:3.4.1", control="kafka:3.8.0",
        workload="keyed", nemesis="kill,partition",
        ticket="KAFKA-15468", shows=r"IllegalStateException: TransactionMetadata",
    ),
    Step(
        name="kafka-1.1.0", system="kafka:1.1.0", control="kafka:1.1.1",
        workload="log", nemesis="keeper,keeper-links,pause",
        ticket="KAFKA-6879", shows=r"KafkaController\$Expire.waitUntilProcessed",
    ),
)  # fmt: skip


class Line(BaseModel):
    """A part that is over.

    Attributes:
        name: Of the hunt.
        journal: Of the part, in `docs/hunt/journals/`.
        commit: Of the code when it began; with a + if there were changes.
        took_s: On the wall clock.
        load: Of the machine, over a minute, before and after.
        shown: The failed runs that show what the ticket describes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    journal: str
    commit: str
    took_s: float
    load: tuple[float, float]
    shown: tuple[str, ...]


_LINE = TypeAdapter(Line)


def play(step: Step, store: Path) -> Line | None:
    """Play a part to its end, or what is left of it, and append its line.

    Returns:
        The line; None: the part did not end, and its log says why.
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
        shown=tuple(each for each in _failed(state) if shows(step, store, each)),
    )  # fmt: skip
    append(RESULTS, line)
    return line


def _note_commit(store: Path, step: Step, *, anew: bool = False) -> str:
    """Return the commit with which a part began: it is noted before."""
    noted = store / f"{step.name}.commit"
    if anew or not noted.exists():
        commit, changes = code(NO_CODE)
        write_atomically(noted, commit + "+" * bool(changes))
    return noted.read_text(encoding="utf-8")


def _parts(store: Path, step: Step) -> list[NightFolder]:
    return [each for each in nights_of(store, step.name) if each.state().night]


def _failed(state: NightState) -> Iterator[str]:
    for failure in failures([state]):
        mine = (*failure.runs, *failure.repeats, *failure.controls)
        yield from (item.run_id for item in mine if item.run_id and failure.is_had_by(item))


def shows(step: Step, store: Path, run_id: str) -> bool:
    """Tell whether a run has what the ticket describes: in a broker's log, or in its verdict."""
    paths = RunPaths(store / run_id)
    logs = [*paths.root.glob("nodes/*/logs/**/*.log*"), paths.verdict]
    wanted = re.compile(step.shows.encode())
    return any(wanted.search(each.read_bytes()) for each in logs if each.is_file())


def table(lines: Sequence[Line], journals: Path = JOURNALS) -> str:
    """Return what was found, in Markdown."""
    rows = [
        "| Ticket | Release | Broke | Repeats | Control | Shows its mechanism | Command | Date |",
        "|---|---|---|---|---|---|---|---|",
    ]
    vain = [
        "", "What was tried in vain:", "",
        "| Ticket | Release | Main phases | Runs | Command |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for step in STEPS:
        mine = [each for each in lines if each.name == step.name]
        states = [state_of(journals / each.journal) for each in mine]
        shown = {run_id for each in mine for run_id in each.shown}
        found = failures(states)
        rows += [_row(step, each, shown) for each in found]
        if mine and not any(_is_found(each, shown) for each in found):
            runs = history(states)
            minutes = max(minutes_of(runs).values(), default=0.0)
            vain.append(
                f"| [{step.ticket}]({TICKETS}{step.ticket}) | {step.system} | {minutes:.0f} min"
                f" | {len(runs)} | `{step.command}` |"
            )
    return "\n".join(rows + vain)


def _is_found(failure: Failure, shown: set[str]) -> bool:
    return not shown.isdisjoint(each.run_id for each in failure.runs)


def _row(step: Step, failure: Failure, shown: set[str]) -> str:
    had = [each for each in (*failure.runs, *failure.repeats) if failure.is_had_by(each)]
    known = [each for each in had if each.run_id in shown]
    ticket = f"[{step.ticket}]({TICKETS}{step.ticket})" if known else "another"
    controls = " / ".join(
        f"{each}: {failure.on_control(each).words}" for each in failure.control_systems
    )
    cells = (
        ticket, failure.system, ", ".join(f"`{each}`" for each in failure.broken),
        failure.recurs.words, controls or "none", f"{len(known)} of {len(had)} failed runs",
        f"`{step.command}`", _date(failure.runs[0]),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _date(item: Item) -> str:
    return f"{datetime.fromtimestamp(item.started_at, UTC):%Y-%m-%d}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is left, and write the page."""
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
    options = parser.parse_args(arguments)
    done = {each.name for each in load_lines(RESULTS, _LINE)}
    for step in STEPS:
        if options.only and step.name not in options.only:
            continue
        if options.list:
            print(f"{'done' if step.name in done else 'open':5} {step.command}")
        elif not options.table and (options.again or step.name not in done):
            if (line := play(step, options.store.resolve())) is None:
                return 1
            print(f"{step.name}: {len(line.shown)} runs show {step.ticket}", flush=True)
    if not options.list:
        write_between(PAGE, table(load_lines(RESULTS, _LINE)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
