"""Guided hunts against blind ones, with the same budget: what they reach, and how soon they find.

    python -m benchmarks.guided                    # begins, or goes on where it was
    python -m benchmarks.guided --only simulated --only bugs/vote-not-persisted/3
    python -m benchmarks.guided --list | --table

A step is one hunt. Each pair has a guided and a blind hunt of the same budget, in turn: odd pairs
begin with the guided one, even pairs with the blind one.

- `simulated`: ten pairs of 4 hours of virtual time on the reference cluster.
- `kafka`: four pairs of 30 minutes on Kafka 4.3.1.
- `bugs`: five pairs for each bug of the reference cluster that can be switched on, up to 2 hours of
  virtual time each: when is it found first?

A hunt appends a line to `docs/hunt/guided.jsonl` when it is over, with its commit; a hunt that was
killed goes on. The runs stay in `STORE`. `--table` writes `docs/hunt/guided.md` and its plots.
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
from benchmarks.night import HOUR_S, LOGQUAKE, ROOT, code
from benchmarks.night_results import BEGIN, END, append, load_lines
from harness.suites.hunting.failures import failures
from harness.suites.hunting.history import history
from harness.suites.hunting.telling import growth_of, minutes_of
from harness.suites.nights import nights_of
from results.plots.growth import Growth, growth_plot
from results.record.atomic import write_atomically
from results.record.clock import stopwatch_s, utc_now_text
from results.record.transitions import TRANSITIONS

FOLDER = ROOT / "docs" / "hunt"
RESULTS, PAGE = FOLDER / "guided.jsonl", FOLDER / "guided.md"
BUGS = ("truncate-to-high-watermark", "ack-before-commit", "vote-not-persisted")
SIMULATED_PAIRS, KAFKA_PAIRS, BUG_PAIRS = 10, 4, 5
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
        begun_at: On the wall clock.
        took_s: Of it.
        load: Of the machine, over a minute, before and after.
        runs: How many were drawn.
        growth: After each run: minutes of main phases, transitions, pairs in succession.
        found: Minutes of main phases until the first failure; None: there was none.
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


def steps_of() -> Iterator[Step]:
    """Yield the hunts, in their order."""
    for pair, way in _in_turn(SIMULATED_PAIRS):
        yield _simulated("simulated", pair, way, main="4h")
    for pair, way in _in_turn(KAFKA_PAIRS):
        yield Step(series="kafka", pair=pair, way=way, suite=_kafka(pair, way))
    for bug in BUGS:
        for pair, way in _in_turn(BUG_PAIRS):
            yield _simulated("bugs", pair, way, main="2h", bug=bug)


def _in_turn(pairs: int) -> Iterator[tuple[int, str]]:
    for pair in range(1, pairs + 1):
        yield from ((pair, way) for way in ((GUIDED, BLIND) if pair % 2 else (BLIND, GUIDED)))


def _simulated(series: str, pair: int, way: str, *, main: str, bug: str = "") -> Step:
    plan = {"swarm": True, "time_limit_s": 300, "rate": 50, **({"bug": bug} if bug else {})}
    suite: dict[str, object] = {
        "name": "-".join(filter(None, (series, bug, str(pair), way))),
        "budget": "24h", "parallel": 1, "engine": "local", "plan": plan,
        "hunt": {
            "systems": ["reference"], "hosts": "simulated", "workloads": ["log", "groups"],
            "most_families": 5, "main": main, "repeats": 0, "guided": way == GUIDED,
        },
    }  # fmt: skip
    return Step(series=series, pair=pair, way=way, suite=suite, bug=bug)


def _kafka(pair: int, way: str) -> dict[str, object]:
    return {
        "name": f"kafka-{pair}-{way}", "budget": "30m", "parallel": 1,
        "plan": {"swarm": True, "time_limit_s": 100},
        "hunt": {
            "systems": ["kafka:4.3.1"], "most_families": 5, "repeats": 0, "guided": way == GUIDED,
            "workloads": ["log", "txn", "groups", "keyed", "pipeline", "shares"],
        },
    }  # fmt: skip


def play(step: Step, store: Path, results: Path) -> Line | None:
    """Play a hunt to its end, and append its line; None: it was not over in time."""
    name = str(step.suite["name"])
    store.mkdir(parents=True, exist_ok=True)
    file, log = store / f"{name}.toml", store / f"{name}.log"
    write_atomically(file, tomli_w.dumps(step.suite))
    began_s, before, at = stopwatch_s(), os.getloadavg()[0], utc_now_text()
    run([*LOGQUAKE, "hunt", str(file), "--store", str(store)], log, limit_s=LIMIT_S)
    parts = [each.state() for each in nights_of(store, name)]
    if not parts or not parts[-1].ended:
        print(f"{step.name} did not end; see {log}", file=sys.stderr)
        return None
    runs, commit = history(parts), code()
    minutes, failed = minutes_of(runs), failures(parts)
    line = Line(
        series=step.series, pair=step.pair, way=step.way, bug=step.bug,
        commit=commit[0] + "+" * bool(commit[1]), catalogue=len(TRANSITIONS), begun_at=at,
        took_s=round(stopwatch_s() - began_s, 1),
        load=(round(before, 2), round(os.getloadavg()[0], 2)), runs=len(runs),
        growth=tuple((round(at, 2), one, two) for at, one, two in growth_of(runs, minutes)),
        found=minutes[failed[0].runs[0].run_id] if failed else None,
        broken=failed[0].broken if failed else (),
    )  # fmt: skip
    append(results, line)
    return line


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
            found = [each.found for each in mine if each.found is not None]
            rows.append(f"| {bug} | {way} | {len(found)} of {len(mine)} | {_spread(found)} |")
    return "\n".join(rows)


def _spread(numbers: Sequence[float]) -> str:
    if not numbers:
        return "none"
    return f"{median(numbers):.0f} ({min(numbers):.0f} to {max(numbers):.0f})"


def medians(lines: Sequence[Line], series: str, way: str) -> Growth:
    """Return the median growth of hunts: at each moment at which one of them ended a run."""
    mine = [each.growth for each in lines if (each.series, each.way) == (series, way)]
    moments = sorted({at for growth in mine for at, _, _ in growth})
    found = []
    for at in moments:
        ones, twos = zip(*(_upto(growth, at) for growth in mine), strict=True)
        found.append((at, round(median(ones)), round(median(twos))))
    return found


def _upto(growth: Growth, moment: float) -> tuple[int, int]:
    reached = [(one, two) for at, one, two in growth if at <= moment]
    return reached[-1] if reached else (0, 0)


def write_page(results: Path) -> None:
    """Write the table of `guided.md` again, and the plots beside it."""
    lines = load_lines(results, _LINE)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    write_atomically(PAGE, f"{before}{BEGIN}\n{table(lines)}\n{END}{after}")
    for series in ("simulated", "kafka"):
        plot = growth_plot({way: medians(lines, series, way) for way in (GUIDED, BLIND)})
        if plot:
            write_atomically(FOLDER / f"guided-{series}.svg", plot)


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
    add("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    add("--list", action="store_true", help="print the steps, and play none")
    add("--table", action="store_true", help="write the page, and play none")
    options = parser.parse_args(arguments)
    done = {(each.series, each.bug, each.pair, each.way)
            for each in load_lines(options.results, _LINE)}  # fmt: skip
    for step in steps_of():
        if options.only and not any(step.name.startswith(each) for each in options.only):
            continue
        over = (step.series, step.bug, step.pair, step.way) in done
        if options.list:
            print(f"{'done' if over else 'open':5} {step.name}")
        elif not over and not options.table:
            line = play(step, options.store.resolve(), options.results)
            if line is None:
                return 1
            print(f"{step.name}: {line.growth[-1][1:] if line.growth else 'nothing'}", flush=True)
    if not options.list:
        write_page(options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
