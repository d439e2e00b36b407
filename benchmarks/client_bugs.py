"""Plays releases of librdkafka that have a known bug, their mended ones, and Kafka's Java client.

    python -m benchmarks.client_bugs                  # begins, or goes on where it was
    python -m benchmarks.client_bugs --only NAME      # one bug
    python -m benchmarks.client_bugs --list | --table

Each bug has a plan with dealt faults in `docs/plans/`, and is played on five seeds: with the
release that has it, with the release that mended it, and with the Java client. A run is kept in the
store, and is a line in `docs/night/client-bugs.jsonl` once it is judged. A command that has a line
there is not played again. `docs/client-bugs.md` has the table.

The command exits with 0 if each bug comes out in its release, and in no other client's run.
"""

import argparse
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.broken_kafka.series import NONE, commit_now, judged_as
from benchmarks.guarded import run
from benchmarks.night import LOGQUAKE, ROOT
from benchmarks.night_results import append, load_lines, write_between
from results.record.clock import stopwatch_s, utc_now_text
from results.record.terms import Validity
from results.store import Store
from results.verdict_json import read_verdict

RESULTS = ROOT / "docs" / "night" / "client-bugs.jsonl"
PAGE = ROOT / "docs" / "client-bugs.md"
SEEDS = (1, 2, 3, 4, 5)
JAVA = "java"
LIMIT_S = 600.0
_STRATEGY = "partition.assignment.strategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug of librdkafka that its changelog names.

    Attributes:
        name: In a few words.
        does: What it does.
        pull: The request on GitHub that mended it.
        plan: Below `docs/plans`, without `.toml`.
        anomaly: What a run with it is called by.
        broken, fixed: Releases with it, and without it.
        of_librdkafka, of_java: Further words of the command: the same setting, as each names it.
    """

    name: str
    does: str
    pull: int
    plan: str
    anomaly: str
    broken: str
    fixed: str
    of_librdkafka: tuple[str, ...] = ()
    of_java: tuple[str, ...] = ()

    def command(self, client: str, seed: int) -> tuple[str, ...]:
        """Return what a user types, behind `logquake`."""
        java = client == JAVA
        which = ("--client-kind", JAVA) if java else ("--client-version", client)
        more = self.of_java if java else self.of_librdkafka
        return ("run", f"docs/plans/{self.plan}.toml", *which, *more, "--seed", str(seed))


STICKY = ("--client", f"{_STRATEGY}=cooperative-sticky")
JAVAS_STICKY = (
    "--client",
    f"{_STRATEGY}=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
)
BUGS: tuple[Bug, ...] = (
    Bug(
        name="read-while-validated",
        does="A reader is given records again that its client fetched while it asked a new leader"
        " where an epoch ends.",
        pull=4261, plan="readers-behind", anomaly="nonmonotonic-poll",
        broken="2.1.0", fixed="2.1.1",
    ),
    Bug(
        name="assignor-state",
        does="A member that ends before its first assignment by `cooperative-sticky` crashes.",
        pull=4381, plan="members-come-and-go", anomaly="client-ended",
        broken="2.2.0", fixed="2.3.0", of_librdkafka=STICKY, of_java=JAVAS_STICKY,
    ),
    Bug(
        name="topics-without-ids",
        does="A fetch of topics that have no ids yet crashes.",
        pull=4806, plan="half-upgraded", anomaly="client-ended",
        broken="2.5.3", fixed="2.6.0",
    ),
    Bug(
        name="fetch-of-old-brokers",
        does="A consumer asks brokers before Kafka 2.7 in a version that they do not know, and gets"
        " nothing.",
        pull=4871, plan="members-come-and-go", anomaly="group-stuck",
        broken="2.6.0", fixed="2.6.1", of_librdkafka=STICKY, of_java=JAVAS_STICKY,
    ),
)  # fmt: skip
"""In the order of their releases."""


class Line(BaseModel):
    """What came of a command.

    Attributes:
        command: Behind `logquake`; a line of the same command and plan replaces an earlier one.
        plan: A hash of its plan's file.
        run: Its folder, below the store; empty: there is none.
        begun_at: On the wall clock, `20261124T104500Z`.
        took_s: Of wall time.
        load: The machine's load average over a minute, before it and after it.
        commit: Of the code; a `+` behind it: with changes.
        verdict: `valid`, `unknown`, `invalid` or `none`.
        anomalies: Their names, as a reader should see them.
        sentence, cause: What the verdict says first, and how its first example came about.
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
    """Return the last line of each command, of its plan as it is."""
    lines = {each.command: each for each in load_lines(results, TypeAdapter(Line))}
    return {key: each for key, each in lines.items() if each.plan == _hashed(key.split()[1])}


@cache
def _hashed(plan: str) -> str:
    path = ROOT / plan
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else ""


def commands(bugs: Sequence[Bug] = BUGS) -> Iterator[tuple[str, ...]]:
    """Yield the runs, seed after seed, each once: bugs of one plan share the Java client's."""
    steps = [bug.command(client, seed) for seed in SEEDS for bug in bugs
             for client in (bug.broken, bug.fixed, JAVA)]  # fmt: skip
    yield from dict.fromkeys(steps)


def play(command: tuple[str, ...], store: Path, results: Path) -> Line:
    """Play and judge a run, and append its line."""
    store.mkdir(parents=True, exist_ok=True)
    there = {each.root for each in Store(store).runs()}
    began_s, before, at = stopwatch_s(), os.getloadavg()[0], utc_now_text()
    argv = [*LOGQUAKE, *command, "--store", str(store), "--engine", "local"]
    run(argv, store / f"{at}.log", limit_s=LIMIT_S)
    new = next((each for each in Store(store).runs() if each.root not in there), None)
    line = Line(
        command=" ".join(command), plan=_hashed(command[1]),
        run=str(new.root.relative_to(store)) if new else "",
        begun_at=at, took_s=round(stopwatch_s() - began_s, 1),
        load=(round(before, 2), round(os.getloadavg()[0], 2)), commit=commit_now(),
    )  # fmt: skip
    if new is not None and read_verdict(new.verdict) is not None:
        line = line.model_copy(update=judged_as(new))
    append(results, line)
    return line


def _played(bug: Bug, client: str, lines: Lines) -> list[Line]:
    found = [lines.get(" ".join(bug.command(client, seed))) for seed in SEEDS]
    return [each for each in found if each is not None]


def comes_out(bug: Bug, line: Line) -> bool:
    """Tell whether a run is called wrong, by the bug's anomaly."""
    return line.verdict == Validity.INVALID and bug.anomaly in line.anomalies


def table(lines: Lines, bugs: Sequence[Bug] = BUGS) -> str:
    """Return how often each bug came out, by client, as a table in Markdown."""
    rows = ["| Bug | Anomaly | With it | Mended | Java | Command | The verdict says |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for bug in bugs:
        pull = f"[#{bug.pull}](https://github.com/confluentinc/librdkafka/pull/{bug.pull})"
        first = next(
            (each for each in _played(bug, bug.broken, lines) if comes_out(bug, each)), None
        )
        said = first.cause or first.sentence if first else ""
        command = " ".join(("logquake", *bug.command(bug.broken, 0)[:-1], "N"))
        cells = (
            f"{bug.does} Mended by {pull}.", f"`{bug.anomaly}`",
            *(f"{'' if each == JAVA else each + ': '}{_count(bug, each, lines)}"
              for each in (bug.broken, bug.fixed, JAVA)), f"`{command}`", said,
        )  # fmt: skip
        rows.append("| " + " | ".join(each.replace("|", "/").replace("\n", " ") for each in cells)
                    + " |")  # fmt: skip
    return "\n".join(rows)


def _count(bug: Bug, client: str, lines: Lines) -> str:
    played = _played(bug, client, lines)
    found = sum(comes_out(bug, each) for each in played)
    if client == bug.broken:
        return f"{found} of {len(played)}"
    others = [each.verdict for each in played if each.verdict != Validity.VALID]
    return f"{found} of {len(played)}" + (f" ({', '.join(others)})" if others else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is left, and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client_bugs", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="one of the bugs")
    add("--store", type=Path, default=ROOT / "runs" / "client-bugs", help="where runs are kept")
    add("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    add("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    add("--list", action="store_true", help="print the runs and their verdicts, and play none")
    add("--table", action="store_true", help="write the table, and play none")
    options = parser.parse_args(arguments)
    bugs = [each for each in BUGS if not options.only or each.name in options.only]
    lines = last_lines(options.results)
    for command in commands(bugs):
        line = lines.get(" ".join(command))
        if line is None and not (options.list or options.table):
            try:
                line = play(command, options.store.resolve(), options.results)
            except KeyboardInterrupt:
                print("interrupted; the same command goes on", file=sys.stderr)
                break
        told = f"{line.verdict} ({', '.join(line.anomalies[:3])})" if line else "not played"
        print(f"{' '.join(command)}: {told}", flush=True)
    lines = last_lines(options.results)
    if options.page.is_file():
        write_between(options.page, table(lines))
    shown = all(any(comes_out(bug, each) for each in _played(bug, bug.broken, lines))
                for bug in bugs)  # fmt: skip
    others = [line for bug in bugs for client in (bug.fixed, JAVA)
              for line in _played(bug, client, lines)]  # fmt: skip
    return int(not (shown and all(each.verdict == Validity.VALID for each in others)))


if __name__ == "__main__":
    sys.exit(main())
