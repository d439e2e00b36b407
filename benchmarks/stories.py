"""Compares the stories (explanations) of simulated runs with the truth.

    python -m benchmarks.stories                    # 50 runs; skips runs that have a line
    python -m benchmarks.stories --only acks-1/3 --again
    python -m benchmarks.stories --table            # the figures of the stored lines only

Each run uses the reference cluster in virtual time. So the program knows which node acknowledged,
truncated and led (`benchmarks.ledger`), and which faults occurred (`benchmarks.deeds`). It takes
the stories as the page and the terminal show them. Each wrong statement is printed with its run.
Each run is one line in `docs/night/stories.jsonl`, with its wrong statements. A kill loses the
current run. The command exits with 0 if no statement of any run is wrong, and with 1 otherwise.
"""

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from benchmarks.deeds import Deeds
from benchmarks.ledger import Ledger
from benchmarks.night import ROOT, code
from benchmarks.night_results import append, load_lines, write_between
from benchmarks.playing import play_here
from cluster.reference.simulator.simulation import Simulation
from harness.judgement import choose_engine, judge_stored
from results.page.investigation import investigate
from results.record.paths import RunPaths
from results.record.plan import Plan, load_plan, plan_from
from results.record.verdict import Verdict
from results.tables import RunTables
from results.verdict_json import write_verdict
from tests.checkers.known_truth import Truth, wrong_story

RESULTS = ROOT / "docs" / "night" / "stories.jsonl"
BUGS = ROOT / "benchmarks" / "bugs"
TOLD = ("lost-write", "inconsistent-offsets", "log-divergence", "duplicate")
_SMALL = {
    "system": "reference", "hosts": "simulated", "rate": 60, "concurrency": 8, "topics": 1,
    "partitions": 1, "warmup_s": 2, "time_limit_s": 60,
}  # fmt: skip
_FAULTS = {"faults", "nodes", "topics", "partitions", "rate", "concurrency", "time_limit_s"}


def _bug(name: str) -> dict[str, object]:
    plan = load_plan(BUGS / f"{name}.toml")
    return {"bug": name, **{key: plan[key] for key in _FAULTS & set(plan)}}


SORTS: Mapping[str, tuple[int, Mapping[str, object]]] = {
    "acks-1": (20, {"acks": "1", "nemesis": "kill,partition"}),
    "acks-1-all": (8, {"acks": "1", "nemesis": "all"}),
    "unclean": (8, {"acks": "all", "min_insync": 1, "nemesis": "kill,partition,pause",
                    "broker": {"unclean.leader.election.enable": "true"}}),
    "ack-before-commit": (7, _bug("ack-before-commit")),
    "truncate-to-high-watermark": (7, _bug("truncate-to-high-watermark")),
}  # fmt: skip
"""The kinds of runs: for each name, the number of runs and the plan keys."""


class Line(BaseModel):
    """A run, and the results of its stories.

    Attributes:
        run: The run's kind and seed: `acks-1/3`.
        commit: The commit of the code. A `+` follows if there were local changes.
        counts: Numbers of anomalies, stories, named candidates, and proving lines.
        wrong: The wrong statements.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    commit: str
    counts: dict[str, int]
    wrong: list[str] = Field(default_factory=list)


def plan_of(sort: str, seed: int) -> Plan:
    """Return the plan of a run."""
    return plan_from({**_SMALL, **SORTS[sort][1], "name": sort, "seed": seed})


def played(sort: str, seed: int, store: Path) -> Line:
    """Execute a run, judge it, and compare its stories with the truth."""
    watched: list[tuple[Ledger, Deeds]] = []

    def before(simulation: Simulation) -> None:
        ledger, deeds = Ledger(simulation), Deeds(simulation)
        simulation.between = ledger.over
        watched.append((ledger, deeds))
        stack.enter_context(deeds.watching())

    with ExitStack() as stack:
        run = play_here(plan_of(sort, seed), store, before=before)
    plan, paths, ((ledger, deeds),) = run.plan, run.paths, watched
    verdict = judge_stored([paths.root], judge=None, engine=choose_engine("local", None))[0]
    sends = RunTables(paths).record("sends").to_pylist()
    truths = {
        f"{topic}-{part}": ledger.closed(
            f"{topic}-{part}",
            [row for row in sends if (row["topic"], row["partition"]) == (topic, part)],
        )
        for topic, part in plan.topic_partitions
    }
    acted = deeds.asked(RunTables(paths).record("faults").to_pylist())
    for truth in truths.values():
        truth.acted = acted
    counts: Counter[str] = Counter({"sends": len(sends)})
    for name in TOLD:
        if name in verdict.anomalies:
            counts[name] = verdict.anomalies[name].count
    wrong = list(_wrong(paths, verdict, truths, counts))
    commit, changes = code()
    return Line(
        run=f"{sort}/{seed}", commit=commit + "+" * bool(changes), counts=dict(counts), wrong=wrong
    )


def _wrong(
    paths: RunPaths, verdict: Verdict, truths: Mapping[str, Truth], counts: Counter[str]
) -> Iterator[str]:
    for name in TOLD:
        summary = verdict.anomalies.get(name)
        for example in summary.examples if summary else ():
            place = f"{example.topic}-{example.partition}"
            only = {name: replace(verdict.anomalies[name], examples=(example,))}
            write_verdict(paths, replace(verdict, anomalies=only, ranked=(name,)))
            looked = investigate(paths, RunTables(paths))
            for why in wrong_story(looked, example, truths[place], counts):
                yield f"{name} at {example.offset} of {place}: {why}"
    write_verdict(paths, verdict)


def figures(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the sums over all runs, as rows of a table."""
    total: Counter[str] = Counter()
    for each in lines:
        total.update(each.counts)
    named = sum(number for what, number in total.items() if what.endswith(" named"))
    yield "| what | |"
    yield "|---|---:|"
    yield f"| runs | {len(lines)} |"
    yield from (f"| {what} | {total[what]:,} |" for what in ("sends", *TOLD, "stories"))
    for number in range(4):
        share = total[f"{number} named"] / max(named, 1)
        yield f"| losses whose cause names {number} brokers | {share:.0%} of {named} |"
    yield f"| lines that prove a truncation | {total['lines proving']} |"
    yield f"| statements that are not so | {sum(len(each.wrong) for each in lines)} |"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stories", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="SORT[/SEED]")
    parser.add_argument("--again", action="store_true", help="plays runs that have a line, too")
    parser.add_argument("--table", action="store_true", help="plays nothing")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--store", type=Path, help="where runs with a wrong story are kept")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the runs that have no line. Return 1 if a statement of any run is wrong."""
    options = _options(arguments)
    last = {each.run: each for each in load_lines(options.results, TypeAdapter(Line))}
    store = options.store or Path(mkdtemp(prefix="stories-"))
    for sort, (runs, _) in SORTS.items() if not options.table else ():
        for seed in range(1, runs + 1):
            run = f"{sort}/{seed}"
            asked = not options.only or {sort, run} & {*options.only}
            if not asked or (run in last and not options.again):
                continue
            last[run] = line = played(sort, seed, store)
            append(options.results, line)
            print(f"{run}: {line.counts}", *line.wrong, sep="\n  ", flush=True)
            if not line.wrong:
                shutil.rmtree(store / sort)
    told = "\n".join(figures(list(last.values())))
    print(told)
    if (page := options.results.with_suffix(".md")).exists():
        write_between(page, told)
    return int(any(each.wrong for each in last.values()))


if __name__ == "__main__":
    sys.exit(main())
