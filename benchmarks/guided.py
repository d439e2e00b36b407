"""Guided hunts against blind ones, with the same budget: what they reach, and how soon they find.

    python -m benchmarks.guided                    # begins, or goes on where it was
    python -m benchmarks.guided --only simulated --only bugs/vote-not-persisted/3
    python -m benchmarks.guided --list | --table
    python -m benchmarks.guided --small            # hunts of a minute, to try it out

A step is one hunt. Each pair has a guided and a blind hunt of the same budget, in turn: odd pairs
begin with the guided one, even pairs with the blind one.

- `simulated`: ten pairs of 4 hours of virtual time on the reference cluster.
- `kafka`: four pairs of 30 minutes on Kafka 4.3.1.
- `bugs`: five pairs for each bug of the reference cluster that can be switched on, up to 2 hours of
  virtual time each: when is it found first? A hunt ends there. One that does not find it counts as
  the whole 2 hours.

A hunt appends a line to `docs/hunt/guided.jsonl` when it is over, with its commit; a hunt that was
killed goes on. The runs stay in the store. `docs/hunt/guided.md` and its plots are written at the
end, or by `--table`. A small series keeps its results in its store.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tomli_w
from pydantic import BaseModel, ConfigDict, TypeAdapter

from benchmarks.guarded import run
from benchmarks.night import HOUR_S, LOGQUAKE, OURS, ROOT, code
from benchmarks.night_results import append, load_lines, write_between
from harness.suites.hunting.failures import failures
from harness.suites.hunting.history import history
from harness.suites.hunting.telling import growth_of, minutes_of
from harness.suites.night import NightState
from harness.suites.nights import nights_of
from harness.suites.suite import seconds_of
from results.plots.canvas import standalone
from results.plots.growth import PAIRS, TRANSITIONS, growth_plot
from results.record.atomic import write_atomically
from results.record.transitions import TRANSITIONS as CATALOGUE

FOLDER = ROOT / "docs" / "hunt"
RESULTS = FOLDER / "guided.jsonl"
NO_CODE = (*OURS, ":!docs/hunt/guided*")
"""Results may be committed in the middle: the code stays the same."""
BUGS = ("truncate-to-high-watermark", "ack-before-commit", "vote-not-persisted")
MINUTE_S = 60
LIMIT_S = 12 * HOUR_S
GUIDED, BLIND = "guided", "blind"


class Line(BaseModel):
    """A hunt that is over.

    Attributes:
        series: simulated, kafka or bugs.
        pair: Which one, from 1 on.
        way: guided or blind.
        bug: That is switched on; empty: none.
        commit: Of the code; with a + if there were changes.
        catalogue: How many transitions it has.
        begun_at: On the wall clock, `20261121T104500Z`.
        took_s: Of it, without the time in which nobody led it.
        load: Of the machine, over a minute, before and after.
        runs: How many were drawn.
        growth: After each run: minutes of main phases, transitions, pairs in succession.
        found: Minutes of main phases until the first failure; None: there was none.
        budget: Minutes that it would have gone on without one; None: the wall clock ended it.
        broken: What that failure broke.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    series: str
    pair: int
    way: str
    bug: str = ""
    commit: str
    catalogue: int
    begun_at: str
    took_s: float
    load: tuple[float, float]
    runs: int
    growth: tuple[tuple[float, int, int], ...]
    found: float | None = None
    budget: float | None = None
    broken: tuple[str, ...] = ()


_LINE = TypeAdapter(Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One hunt to play.

    Attributes:
        series, pair, way, bug: As in its line.
        suite: Its file.
    """

    series: str
    pair: int
    way: str
    suite: dict[str, object]
    bug: str = ""

    @property
    def name(self) -> str:
        """How it is called: `bugs/ack-before-commit/3/blind`."""
        return "/".join(filter(None, (self.series, self.bug, str(self.pair), self.way)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much a series plays.

    Attributes:
        simulated, kafka, bugs: How many pairs.
        main: Virtual time of a simulated hunt.
        bug_main: The same of one that looks for a bug.
        budget: Of a hunt on Kafka, on the wall clock.
        time_limit_s: Of a simulated run's main phase.
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
            "until_failure": bool(bug),
        },
    }  # fmt: skip
    return Step(series=series, pair=pair, way=way, suite=suite, bug=bug)


def _kafka(pair: int, way: str, size: Size) -> dict[str, object]:
    return {
        "name": f"kafka-{pair}-{way}", "budget": size.budget, "parallel": 1,
        "plan": {"swarm": True, "time_limit_s": 100},
        "hunt": {
            "systems": ["kafka:4.3.1"], "most_families": 5, "repeats": 0, "guided": way == GUIDED,
            "workloads": ["log", "txn", "groups", "keyed", "pipeline", "shares"],
        },
    }  # fmt: skip


def play(step: Step, store: Path, results: Path) -> Line | None:
    """Play a hunt to its end, or what is left of it, and append its line.

    Args:
        step: The hunt.
        store: Where its runs are kept.
        results: What is appended to.

    Returns:
        The line; None: the hunt did not end, and its log says why.
    """
    name, before = str(step.suite["name"]), os.getloadavg()[0]
    store.mkdir(parents=True, exist_ok=True)
    file, log = store / f"{name}.toml", store / f"{name}.log"
    if not _has_ended(_parts(store, name)):
        write_atomically(file, tomli_w.dumps(step.suite))
        goes_on = ["--resume"] if _parts(store, name) else []
        run([*LOGQUAKE, "hunt", str(file), "--store", str(store), *goes_on], log, limit_s=LIMIT_S)
    parts = _parts(store, name)
    if not _has_ended(parts):
        print(f"{step.name} did not end; see {log}", file=sys.stderr)
        return None
    line = _line(step, parts, load=(round(before, 2), round(os.getloadavg()[0], 2)))
    append(results, line)
    return line


def _parts(store: Path, name: str) -> list[NightState]:
    """Return the parts of a hunt that were begun: there is one, however often it was killed."""
    states = [each.state() for each in nights_of(store, name)]
    return [each for each in states if each.night]


def _has_ended(parts: Sequence[NightState]) -> bool:
    return bool(parts) and parts[-1].ended


def _line(step: Step, parts: Sequence[NightState], *, load: tuple[float, float]) -> Line:
    runs, (commit, changes), failed = history(parts), code(NO_CODE), failures(parts)
    minutes, hunt = minutes_of(runs), step.suite["hunt"]
    main = hunt.get("main") if isinstance(hunt, dict) else None
    return Line(
        series=step.series, pair=step.pair, way=step.way, bug=step.bug,
        commit=commit + "+" * bool(changes), catalogue=len(CATALOGUE), begun_at=parts[0].night,
        took_s=round(sum(each.active_s for each in parts), 1), load=load, runs=len(runs),
        growth=tuple((round(at, 2), one, two) for at, one, two in growth_of(runs, minutes)),
        found=minutes[failed[0].runs[0].run_id] if failed else None,
        budget=seconds_of(main) / MINUTE_S if main else None,
        broken=failed[0].broken if failed else (),
    )  # fmt: skip


def table(lines: Sequence[Line]) -> str:
    """Return the comparison in Markdown."""
    rows = [
        "| Series | Way | Hunts | Transitions, median (range) | Pairs, median (range) |",
        "|---|---|---:|---|---|",
    ]
    for series in ("simulated", "kafka"):
        for way in (GUIDED, BLIND):
            ends = [each.growth[-1] for each in lines
                    if (each.series, each.way) == (series, way) and each.growth]  # fmt: skip
            counts = [_spread([end[at] for end in ends]) for at in (1, 2)]
            rows.append(f"| {series} | {way} | {len(ends)} | {counts[0]} | {counts[1]} |")
    rows += ["", "| Bug | Way | Found | Minutes of virtual time, median (range) |",
             "|---|---|---|---|"]  # fmt: skip
    for bug in BUGS:
        for way in (GUIDED, BLIND):
            mine = [each for each in lines if (each.bug, each.way) == (bug, way)]
            times = [each.found if each.found is not None else each.budget for each in mine]
            found = sum(each.found is not None for each in mine)
            spread = _spread([each for each in times if each is not None])
            rows.append(f"| {bug} | {way} | {found} of {len(mine)} | {spread} |")
    rows += ["", "A hunt that did not find the bug counts as its whole budget."]
    return "\n".join(rows)


def _spread(numbers: Sequence[float]) -> str:
    if not numbers:
        return "none"
    return f"{median(numbers):.0f} ({min(numbers):.0f} to {max(numbers):.0f})"


def write_page(results: Path) -> None:
    """Write the table of the page beside the results anew, and its plots."""
    lines = load_lines(results, _LINE)
    told = table(lines)
    for series in ("simulated", "kafka"):
        ways = {way: [each.growth for each in lines if (each.series, each.way) == (series, way)]
                for way in (GUIDED, BLIND)}  # fmt: skip
        for what, short in ((PAIRS, "pairs"), (TRANSITIONS, "transitions")):
            if plot := growth_plot(ways, counted=[what]):
                file = results.with_name(f"{results.stem}-{series}-{short}.svg")
                write_atomically(file, standalone(plot))
                told += f"\n\n![{series}: {what} over time, guided and blind]({file.name})"
    write_between(results.with_suffix(".md"), told)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is left, and write the page."""
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
