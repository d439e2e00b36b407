"""Runs the reference cluster with many seeds in virtual time, and prints runs that are not valid.

    python -m benchmarks.campaign                               # 100 seeds of 20 simulated minutes
    python -m benchmarks.campaign --jobs 2                      # the same, in two processes
    python -m benchmarks.campaign --seeds 8 --seconds 60 --bug vote-not-persisted --stop

Each run is a `logquake run --hosts simulated` with all families of faults. The local engine judges
the run. If a run is not valid, its folder is kept, and the command that repeats it is printed. The
summary has the simulated minutes, the confirmed faults of each kind, and the anomalies found. The
exit code is 1 if a run without a bug was not valid, or if no run found the requested bug.
"""

import argparse
import gc
import json
import shutil
import sys
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp

import pyarrow.parquet as pq

from benchmarks.playing import play_here
from cluster.reference.bugs import Bug
from harness.judgement import choose_engine, judge_stored
from results.record.clock import stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.terms import Validity
from results.record.verdict import Verdict

NAME = "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A run that has ended and was judged.

    Attributes:
        plan: The plan of the run.
        root: The run's folder.
        verdict: The verdict of the local engine.
        simulated_s: Seconds of virtual time, from the first start to the last file.
        took_s: Seconds of real time, with the judgement.
        confirmed: The number of faults with a measured effect, for each kind.
        without: The number of faults without a measured effect, for each reason.
    """

    plan: Plan
    root: Path
    verdict: Verdict
    simulated_s: float
    took_s: float
    confirmed: Counter[str]
    without: Counter[str]

    @property
    def trusted(self) -> dict[str, int]:
        """Return the number of trusted anomalies for each name."""
        return {name: each.trusted for name, each in self.verdict.anomalies.items() if each.trusted}

    def line(self) -> str:
        """Return a one-line summary of the run."""
        found = f" {self.trusted}" if self.trusted else ""
        why = (
            f" ({'; '.join(self.verdict.unknown_because)})" if self.verdict.unknown_because else ""
        )
        return (
            f"seed {self.plan.seed}: {self.verdict.valid}{found}{why},"
            f" {self.simulated_s:.0f} s in {self.took_s:.1f} s,"
            f" {sum(self.confirmed.values())} faults"
        )


@dataclass(slots=True, kw_only=True)
class Tally:
    """The sums over all runs of a campaign."""

    simulated_s: float = 0
    took_s: float = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    confirmed: Counter[str] = field(default_factory=Counter)
    without: Counter[str] = field(default_factory=Counter)
    found: list[Played] = field(default_factory=list)

    def add(self, run: Played) -> None:
        """Add a run to the sums."""
        self.simulated_s += run.simulated_s
        self.took_s += run.took_s
        self.verdicts[str(run.verdict.valid)] += 1
        self.confirmed += run.confirmed
        self.without += run.without
        if run.verdict.valid is not Validity.VALID:
            self.found.append(run)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        rate = self.simulated_s / max(self.took_s, 1e-9)
        yield f"{self.simulated_s / 60:,.0f} simulated minutes, {rate:.0f} times real time"
        yield f"verdicts: {dict(self.verdicts)}"
        yield f"faults confirmed: {dict(sorted(self.confirmed.items()))}"
        yield f"faults without effect: {dict(self.without) or 'none'}"
        for first in self.found[:1]:
            yield f"first: seed {first.plan.seed}, kept in {first.root}; again with"
            yield f"    {command_of(first.plan)}"


def command_of(plan: Plan) -> str:
    """Return the command that repeats a run of a campaign."""
    given = {
        "--seed": plan.seed, "--time-limit": f"{plan.time_limit_s:g}",
        "--rate": f"{plan.rate:g}", "--nemesis": ",".join(plan.nemesis),
        "--concurrency": plan.concurrency, "--topics": plan.topics,
        "--partitions": plan.partitions, "--nodes": plan.nodes,
        "--bug": plan.bug or "",
    }  # fmt: skip
    options = " ".join(f"{flag} {value}" for flag, value in given.items() if value != "")
    sets = "".join(f" --set {key}={value}" for key, value in plan.broker.items())
    return f"logquake run --system reference --hosts simulated {options}{sets}"


def played(plan: Plan, store: Path) -> Played:
    """Execute a run in a store, and judge it."""
    began_s = stopwatch_s()
    run = play_here(plan, store)
    verdict = judge_stored([run.paths.root], judge=None, engine=choose_engine("local", None))[0]
    confirmed, without = _faults(run.paths)
    return Played(
        plan=plan,
        root=run.paths.root,
        verdict=verdict,
        simulated_s=run.simulated_s,
        took_s=stopwatch_s() - began_s,
        confirmed=confirmed,
        without=without,
    )


def _played(plan: Plan, store: Path) -> Played:
    """Execute a run in a worker process."""
    gc.disable()  # Cycle collection costs a sixth of the time. Once for each run is enough.
    run = played(plan, store)
    gc.collect()
    return run


def _all_played(plans: Iterator[Plan], store: Path, *, jobs: int) -> Generator[Played]:
    """Yield ended runs in the order of their plans.

    If the caller stops, waiting runs are cancelled.
    """
    if jobs == 1:
        yield from (_played(plan, store) for plan in plans)
        return
    # Do not fork: a child would inherit locks of this process's threads, never released.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as processes:
        under_way: deque[Future[Played]] = deque()
        try:
            for plan in plans:
                under_way.append(processes.submit(_played, plan, store))
                if len(under_way) > jobs:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            processes.shutdown(cancel_futures=True)


def _faults(paths: RunPaths) -> tuple[Counter[str], Counter[str]]:
    rows = pq.read_table(paths.table("faults")).to_pylist()
    confirmed = Counter(row["kind"] for row in rows if row["confirmed_ns"] is not None)
    reasons = [json.loads(row["spec"])["without_effect"] for row in rows]
    return confirmed, Counter(each for each in reasons if each)


def _plans(options: argparse.Namespace) -> Iterator[Plan]:
    for seed in range(options.first, options.first + options.seeds):
        values = {
            "system": "reference", "hosts": "simulated", "nemesis": options.nemesis,
            "name": NAME, "seed": seed, "time_limit_s": options.seconds,
            "rate": options.rate, "partitions": options.partitions, "topics": options.topics,
            "nodes": options.nodes, "concurrency": options.concurrency,
            "broker": dict(each.split("=", 1) for each in options.set),
            **({"bug": options.bug} if options.bug else {}),
        }  # fmt: skip
        yield plan_from(values)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.campaign", description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1, help="processes that play side by side")
    parser.add_argument("--seconds", type=float, default=1200, help="of each run's main phase")
    parser.add_argument("--rate", type=float, default=50, help="operations a second")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--topics", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=2, help="of each topic")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--nemesis", default="all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--bug", choices=list(Bug))
    parser.add_argument("--stop", action="store_true", help="at the first run that is invalid")
    parser.add_argument("--store", type=Path, help="where runs that are not valid are kept")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds. Return 1 after an invalid run without a bug, or if no run found the bug."""
    options = _options(arguments)
    store = options.store or Path(mkdtemp(prefix="campaign-"))
    tally = Tally()
    runs = _all_played(_plans(options), store, jobs=options.jobs)
    for run in runs:
        tally.add(run)
        print(run.line(), flush=True)
        if run.verdict.valid is Validity.VALID:
            shutil.rmtree(run.root)
        elif options.stop and run.verdict.valid is Validity.INVALID:
            break
    runs.close()
    print("\n".join(tally.lines()), flush=True)
    invalid = any(each.verdict.valid is Validity.INVALID for each in tally.found)
    wrong = not invalid if options.bug else bool(tally.found)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
