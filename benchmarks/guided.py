"""Compares guided hunts with blind hunts of the same budget: coverage, and the time to find bugs.

    python -m benchmarks.guided                    # starts, or resumes, the series
    python -m benchmarks.guided --only simulated --only bugs/vote-not-persisted/3
    python -m benchmarks.guided --list | --table
    python -m benchmarks.guided --small            # hunts of a minute, to try the program

A step is one hunt. Each pair has a guided hunt and a blind hunt of the same budget, one after the
other. Odd pairs begin with the guided hunt, even pairs with the blind hunt.

- `simulated`: ten pairs of 4 hours of virtual time on the reference cluster.
- `kafka`: four pairs of 30 minutes on Kafka 4.3.1.
- `bugs`: five pairs for each of the reference cluster's optional bugs, up to 2 hours of virtual
  time each. The hunt ends with the first run that has the bug's anomaly. A hunt that does not find
  the bug counts as 2 hours.

When a hunt is over, the program appends a line to `docs/hunt/guided.jsonl`, with the commit at its
start. A killed hunt resumes. After a hunt, only its invalid runs stay in the store.
`docs/hunt/guided.md` and its plots are made from complete pairs, at the end or by `--table`. A
small series keeps its results in its store.
"""

import argparse
import hashlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tomli_w
from pydantic import BaseModel, ConfigDict, TypeAdapter
from scipy.stats import binomtest

from benchmarks.guarded import run
from benchmarks.night import HOUR_S, LOGQUAKE, OURS, ROOT, code
from benchmarks.night_results import append, load_lines, write_between
from cluster.reference.bugs import Bug
from harness.suites.hunting.failures import first_that_broke
from harness.suites.hunting.history import history
from harness.suites.hunting.telling import MINUTE_S, growth_of, minutes_of
from harness.suites.night import NightState
from harness.suites.nights import nights_of
from harness.suites.suite import seconds_of
from results.plots.canvas import standalone
from results.plots.growth import PAIRS, TRANSITIONS, growth_plot
from results.record.atomic import write_atomically
from results.record.terms import Validity
from results.record.transitions import TRANSITIONS as CATALOGUE

FOLDER = ROOT / "docs" / "hunt"
RESULTS = FOLDER / "guided.jsonl"
NO_CODE = (*OURS, ":!docs/hunt/guided*")
"""Paths that do not count as code. Results may be committed during the series."""
BUGS = tuple(bug.value for bug in Bug)
LIMIT_S = 12 * HOUR_S
GUIDED, BLIND = "guided", "blind"
SERIES = ("simulated", "kafka")


class Line(BaseModel):
    """The result of a finished hunt.

    Attributes:
        series: simulated, kafka or bugs.
        pair: The number of the pair, from 1.
        way: guided or blind.
        bug: The bug that the reference cluster has; an empty string if it has none.
        commit: The commit of the code when the hunt began. A + follows if there were local changes.
        catalogue: A hash of the names of all transitions.
        begun_at: The wall-clock time of the start, `20261121T104500Z`.
        took_s: The seconds that the hunt took, without the time during which it was stopped.
        load: The machine's one-minute load average before and after the hunt.
        runs: The number of runs that were chosen at random and judged.
        outcomes: The numbers of valid, invalid and unknown runs, among these runs.
        growth: For each run: minutes of main phases so far, transitions so far, and pairs of
            successive transitions so far.
        found: Minutes of main phases until a run had the bug's anomaly. None if no run had it.
        budget: The limit in minutes of main phases. None if the limit is wall-clock time.
        broken: The anomalies of the run that had the bug's anomaly.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    series: str
    pair: int
    way: str
    bug: str = ""
    commit: str
    catalogue: str
    begun_at: str
    took_s: float
    load: tuple[float, float]
    runs: int
    outcomes: dict[str, int]
    growth: tuple[tuple[float, int, int], ...]
    found: float | None = None
    budget: float | None = None
    broken: tuple[str, ...] = ()


_LINE = TypeAdapter(Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One hunt of the series.

    Attributes:
        series, pair, way, bug: As in `Line`.
        suite: The content of its suite file.
    """

    series: str
    pair: int
    way: str
    suite: dict[str, object]
    bug: str = ""

    @property
    def name(self) -> str:
        """Return the name of the hunt: `bugs/ack-before-commit/3/blind`."""
        return "/".join(filter(None, (self.series, self.bug, str(self.pair), self.way)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a series.

    Attributes:
        simulated, kafka, bugs: The number of pairs of each kind.
        main: Virtual time of a simulated hunt.
        bug_main: Virtual time of a hunt for a bug.
        budget: Wall-clock time of a hunt on Kafka.
        time_limit_s: Seconds of the main phase of a simulated run.
    """

    simulated: int = 10
    kafka: int = 4
    bugs: int = 5
    main: str = "4h"
    bug_main: str = "2h"
    budget: str = "30m"
    time_limit_s: int = 300


WHOLE = Size()
SMALL = Size(
    simulated=1, kafka=1, bugs=1, main="1m", bug_main="1m", budget="4m", time_limit_s=20
)  # fmt: skip


def steps_of(size: Size = WHOLE) -> Iterator[Step]:
    """Yield the hunts, in their order."""
    for pair, way in _in_turn(size.simulated):
        yield _simulated("simulated", pair, way, size, main=size.main)
    for pair, way in _in_turn(size.kafka):
        yield Step(series="kafka", pair=pair, way=way, suite=_kafka(pair, way, size))
    for bug in BUGS:
        for pair, way in _in_turn(size.bugs):
            yield _simulated("bugs", pair, way, size, main=size.bug_main, bug=bug)


def _in_turn(pairs: int) -> Iterator[tuple[int, str]]:
    for pair in range(1, pairs + 1):
        yield from ((pair, way) for way in ((GUIDED, BLIND) if pair % 2 else (BLIND, GUIDED)))


def _simulated(series: str, pair: int, way: str, size: Size, *, main: str, bug: str = "") -> Step:
    plan = {"swarm": True, "time_limit_s": size.time_limit_s, "rate": 50}
    suite: dict[str, object] = {
        "name": "-".join(filter(None, (series, bug, str(pair), way))),
        "budget": "24h", "parallel": 1, "engine": "local",
        "plan": {**plan, **({"bug": bug} if bug else {})},
        "hunt": {
            "systems": ["reference"], "hosts": "simulated", "workloads": ["log", "groups"],
            "most_families": 5, "main": main, "repeats": 0, "guided": way == GUIDED,
            "seed": pair, "until_failure": Bug(bug).anomaly if bug else False,
        },
    }  # fmt: skip
    return Step(series=series, pair=pair, way=way, suite=suite, bug=bug)


def _kafka(pair: int, way: str, size: Size) -> dict[str, object]:
    return {
        "name": f"kafka-{pair}-{way}", "budget": size.budget, "parallel": 1,
        "plan": {"swarm": True, "time_limit_s": 100},
        "hunt": {
            "systems": ["kafka:4.3.1"], "most_families": 5, "repeats": 0, "guided": way == GUIDED,
            "seed": pair, "workloads": ["log", "txn", "groups", "keyed", "pipeline", "shares"],
        },
    }  # fmt: skip


def play(step: Step, store: Path, results: Path) -> Line | None:
    """Start or resume a hunt, run it to its end, and append its result line.

    Args:
        step: The hunt.
        store: The folder of its runs.
        results: The file for the result line.

    Returns:
        The line, or None if the hunt did not end. Its log then has the reason.
    """
    name, before = str(step.suite["name"]), os.getloadavg()[0]
    store.mkdir(parents=True, exist_ok=True)
    file, log = store / f"{name}.toml", store / f"{name}.log"
    if not _has_ended(_parts(store, name)):
        write_atomically(file, tomli_w.dumps(step.suite))
        _note_commit(store, name)
        goes_on = ["--resume"] if _parts(store, name) else []
        run([*LOGQUAKE, "hunt", str(file), "--store", str(store), *goes_on], log, limit_s=LIMIT_S)
    parts = _parts(store, name)
    if not _has_ended(parts):
        print(f"{step.name} did not end; see {log}", file=sys.stderr)
        return None
    load = (round(before, 2), round(os.getloadavg()[0], 2))
    line = _line(step, parts, load=load, commit=_note_commit(store, name))
    append(results, line)
    _clear(store, parts)
    return line


def _note_commit(store: Path, name: str) -> str:
    """Return the commit with which a hunt began. The first call saves the commit in a file."""
    noted = store / f"{name}.commit"
    if not noted.exists():
        commit, changes = code(NO_CODE)
        write_atomically(noted, commit + "+" * bool(changes))
    return noted.read_text(encoding="utf-8")


def _clear(store: Path, parts: Sequence[NightState]) -> None:
    """Delete the runs of a hunt, except the invalid ones. The result line has all figures."""
    for item in (item for part in parts for item in part.items.values()):
        if item.run_id and item.outcome is not Validity.INVALID:
            shutil.rmtree(store / item.run_id, ignore_errors=True)


def _parts(store: Path, name: str) -> list[NightState]:
    """Return the started nights of a hunt. A killed hunt resumes its night, so there is one."""
    states = [each.state() for each in nights_of(store, name)]
    return [each for each in states if each.night]


def _has_ended(parts: Sequence[NightState]) -> bool:
    return bool(parts) and parts[-1].ended


def _line(
    step: Step, parts: Sequence[NightState], *, load: tuple[float, float], commit: str
) -> Line:
    runs = history(parts)
    failed = first_that_broke(parts, Bug(step.bug).anomaly) if step.bug else None
    outcomes = Counter(item.outcome for part in parts for item in part.planned)
    names = hashlib.sha256("\n".join(sorted(CATALOGUE)).encode()).hexdigest()[:12]
    minutes, hunt = minutes_of(runs), step.suite["hunt"]
    main = hunt.get("main") if isinstance(hunt, dict) else None
    return Line(
        series=step.series, pair=step.pair, way=step.way, bug=step.bug,
        commit=commit, catalogue=names, begun_at=parts[0].night,
        outcomes={each.value: outcomes[each] for each in Validity},
        took_s=round(sum(each.active_s for each in parts), 1), load=load, runs=len(runs),
        growth=tuple((round(at, 2), one, two) for at, one, two in growth_of(runs, minutes)),
        found=minutes[failed.run_id] if failed else None,
        budget=seconds_of(main) / MINUTE_S if main else None,
        broken=failed.reached.broken if failed and failed.reached else (),
    )  # fmt: skip


Pair = tuple[Line, Line]
"""A guided hunt and the blind hunt of the same pair."""


def pairs_of(lines: Sequence[Line]) -> list[Pair]:
    """Return the pairs in which both hunts are over, in the order of the lines."""
    ways: dict[tuple[str, str, int], dict[str, Line]] = {}
    for each in lines:
        ways.setdefault((each.series, each.bug, each.pair), {})[each.way] = each
    return [(both[GUIDED], both[BLIND]) for both in ways.values() if {GUIDED, BLIND} <= both.keys()]


def table(lines: Sequence[Line]) -> str:
    """Return the comparison of all complete pairs in Markdown."""
    pairs = pairs_of(lines)
    rows = [
        "| Series | Way | Hunts | Transitions, median (range) | Pairs, median (range) | Runs |",
        "|---|---|---:|---|---|---|",
    ]
    for series in SERIES:
        mine = [pair for pair in pairs if pair[0].series == series]
        for at, way in enumerate((GUIDED, BLIND)):
            hunts = [pair[at] for pair in mine]
            counts = [_spread([_reached(each, what) for each in hunts]) for what in (1, 2)]
            outcomes = [f"{sum(each.outcomes.get(word, 0) for each in hunts)} {word}"
                        for word in map(str, Validity)]  # fmt: skip
            rows.append(
                f"| {series} | {way} | {len(hunts)} | {counts[0]} | {counts[1]}"
                f" | {', '.join(outcomes)} |"
            )
    rows += ["", "| Series | Counted | Guided less blind, median | Guided ahead | Sign test, p |",
             "|---|---|---:|---|---|"]  # fmt: skip
    for series in SERIES:
        mine = [pair for pair in pairs if pair[0].series == series]
        for at, what in ((1, "transitions"), (2, "pairs")):
            differences = [_reached(one, at) - _reached(other, at) for one, other in mine]
            rows.append(f"| {series} | {what} | {_compared(differences)} |")
    rows += ["", "| Bug | Way | Found | Minutes of virtual time, median (range) |",
             "|---|---|---|---|"]  # fmt: skip
    for bug in BUGS:
        mine = [pair for pair in pairs if pair[0].bug == bug]
        for at, way in enumerate((GUIDED, BLIND)):
            found = sum(pair[at].found is not None for pair in mine)
            spread = _spread([_minutes(pair[at]) for pair in mine])
            rows.append(f"| {bug} | {way} | {found} of {len(mine)} | {spread} |")
    rows += ["", "| Bug | Minutes sooner, median | Guided ahead | Sign test, p |",
             "|---|---:|---|---|"]  # fmt: skip
    for bug in BUGS:
        sooner = [_minutes(other) - _minutes(one) for one, other in pairs if one.bug == bug]
        rows.append(f"| {bug} | {_compared(sooner)} |")
    rows += ["", "If a hunt did not find the bug, the whole budget of the hunt counts as the time."]
    return "\n".join(rows)


def _reached(line: Line, what: int) -> int:
    return int(line.growth[-1][what]) if line.growth else 0


def _minutes(line: Line) -> float:
    """Return the minutes until a hunt found the bug, or the whole budget if it did not."""
    return line.found if line.found is not None else line.budget or 0.0


def _compared(differences: Sequence[float]) -> str:
    """Return table cells on the differences: median, number above 0, and p-value of the sign test.

    The test leaves out pairs without a difference (W. J. Dixon and A. M. Mood, JASA 1946).
    """
    if not differences:
        return "none | none | none"
    ahead, uneven = sum(each > 0 for each in differences), sum(each != 0 for each in differences)
    p = f"{binomtest(ahead, uneven).pvalue:.2g}" if uneven else "none"
    middle = median(differences)
    sign = "-" if middle < 0 else "+"
    return f"{sign}{_figure(abs(middle))} | {ahead} of {len(differences)} | {p}"


def _spread(numbers: Sequence[float]) -> str:
    if not numbers:
        return "none"
    return f"{_figure(median(numbers))} ({_figure(min(numbers))} to {_figure(max(numbers))})"


def _figure(number: float) -> str:
    """Return a number with one decimal if needed, as the median of an even count may end in .5."""
    return f"{number:.1f}".removesuffix(".0")


def write_page(results: Path) -> None:
    """Rewrite the table and the plots of the page beside the results."""
    lines = [each for pair in pairs_of(load_lines(results, _LINE)) for each in pair]
    told = table(lines)
    for series in SERIES:
        ways = {way: [each.growth for each in lines if (each.series, each.way) == (series, way)]
                for way in (GUIDED, BLIND)}  # fmt: skip
        for what, short in ((PAIRS, "pairs"), (TRANSITIONS, "transitions")):
            if plot := growth_plot(ways, counted=[what]):
                file = results.with_name(f"{results.stem}-{series}-{short}.svg")
                write_atomically(file, standalone(plot))
                told += f"\n\n![{series}: {what} over time, guided and blind]({file.name})"
    write_between(results.with_suffix(".md"), told)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing hunts, and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.guided",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="STEP", help="steps whose names begin so")
    add("--store", type=Path, default=ROOT / "runs" / "guided", help="where runs are kept")
    add("--results", type=Path, default=None, help=argparse.SUPPRESS)
    add("--small", action="store_true", help="hunts of a minute, to try it out")
    add("--list", action="store_true", help="print the steps, and play none")
    add("--table", action="store_true", help="write the page, and play none")
    options = parser.parse_args(arguments)
    size, store = (SMALL, options.store / "small") if options.small else (WHOLE, options.store)
    results = options.results or (store / RESULTS.name if options.small else RESULTS)
    done = {(each.series, each.bug, each.pair, each.way)
            for each in load_lines(results, _LINE)}  # fmt: skip
    for step in steps_of(size):
        if options.only and not any(step.name.startswith(each) for each in options.only):
            continue
        over = (step.series, step.bug, step.pair, step.way) in done
        if options.list:
            print(f"{'done' if over else 'open':5} {step.name}")
        elif not over and not options.table:
            line = play(step, store.resolve(), results)
            if line is None:
                return 1
            print(f"{step.name}: {line.growth[-1][1:] if line.growth else 'nothing'}", flush=True)
    if not options.list:
        write_page(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
