"""Runs a suite of short runs, kills it in the middle, resumes it, and checks the result.

    python -m benchmarks.nights                          # 30 runs, namespaces and Docker mixed
    python -m benchmarks.nights --seeds 1 --families kill,stop    # four of them
    python -m benchmarks.nights --kills 0

The program needs root, a Docker daemon and Java. It prints these results:

- runs that are lost, judged twice or left incomplete (the exit code is 1 if there are any);
- whether the JUnit file is valid by the schema of Jenkins' xunit plugin;
- the share of the night that was outside the runs' main phases;
- the time that each section of a run takes.
"""

import argparse
import json
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean

import psutil
import xmlschema

from harness.suites.journal import Judged, load_journal
from harness.suites.night import NightState, Phase
from harness.suites.nights import NightFolder, nights_of
from harness.suites.summary import beyond_main
from results.nights import read_night
from results.record.clock import NS_PER_S, pause_until, stopwatch_s, wait_until
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.store import Store, is_alive
from results.verdict_json import read_verdict
from tests.images.java_image import java_image

NAME = "nights"
GOAL = 0.35
LIMIT_S = 3600.0
ANY_MOMENT_S = 20.0
COMMAND = "from harness.cli import main; main()"
SUITE = """
name = "{name}"
budget = "1h"
engine = "auto"
[plan]
warmup_s = 3
time_limit_s = {main_s}
rate = 100
topics = 1
partitions = 2
concurrency = 6
workers = 1
nemesis_interval_s = 5
[hosts.docker]
image = "{image}"
[axes]
hosts = ["namespace", "docker"]
nemeses = {families}
seeds = {seeds}
[repeat]
same_seed = 0
fresh_seeds = 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    seeds: int
    families: list[str]
    main_s: float
    kills: int
    seed: int
    store: Path


def main() -> None:
    """Run the suite, and exit with 1 if a result is wrong."""
    asked = _asked()
    suite = asked.store / "suite.toml"
    text = SUITE.format(
        name=NAME,
        image=java_image(),
        main_s=asked.main_s,
        seeds=asked.seeds,
        families=json.dumps(asked.families),
    )
    suite.write_text(text, encoding="utf-8")
    rng = Random(asked.seed)
    planned = 2 * len(asked.families) * asked.seeds
    moments = sorted(rng.randint(planned // 6, planned * 5 // 6) for _ in range(asked.kills))
    for judged in moments:
        _killed(suite, asked.store, judged=judged, later_s=rng.uniform(0, ANY_MOMENT_S))
    status = _begun(suite, asked.store).wait(LIMIT_S)
    (folder,) = nights_of(asked.store, NAME)
    print(f"the night ended with {status}")
    wrong = [*_wrong(folder, asked.store, planned), *_invalid(folder)]
    for sentence in wrong:
        print(f"WRONG: {sentence}")
    _print_figures(folder.state(), asked.store)
    sys.exit(1 if wrong else 0)


def _begun(suite: Path, store: Path) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-c", COMMAND, "suite", "run", str(suite), "--store", str(store)]
    return subprocess.Popen(argv)


def _killed(suite: Path, store: Path, *, judged: int, later_s: float) -> None:
    """Run the suite until `judged` runs are judged, wait `later_s` seconds, and kill it."""
    leader = _begun(suite, store)

    def reached() -> bool:
        assert leader.poll() is None, "the night ended before it could be killed"
        nights = nights_of(store, NAME)
        return bool(nights) and len(nights[0].state().having(Phase.JUDGED)) >= judged

    wait_until(reached, timeout_s=LIMIT_S, what=f"{judged} verdicts", interval_s=0.2)
    pause_until(stopwatch_s() + later_s)
    children = psutil.Process(leader.pid).children(recursive=True)
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    (folder,) = nights_of(store, NAME)
    under_way = [each.run_id for each in folder.state().having(Phase.UNDER_WAY)]
    print(f"killed {later_s:.1f} s after verdict {judged}, with {len(under_way)} runs under way")
    _, alive = psutil.wait_procs(children, timeout=60)
    print(f"{len(children)} processes below it, {len(alive)} alive after a minute")


def _wrong(folder: NightFolder, store: Path, planned: int) -> Iterator[str]:
    """Yield a sentence for each run or process that was lost, judged twice, or left incomplete."""
    state = folder.state()
    if not state.ended or len(state.items) != planned:
        yield f"the night has {len(state.items)} items of {planned}, ended: {state.ended}"
    judged = Counter(each.item for each in load_journal(folder.journal) if isinstance(each, Judged))
    yield from (f"item {n} has {judged[n]} verdicts" for n in state.items if judged[n] != 1)
    counting = {each.run_id for each in state.items.values()}
    cut = {run_id for each in state.items.values() for run_id in each.cut_short}
    there = {paths.run_id for paths in Store(store).runs()}
    yield from (f"{run_id} is in no journal" for run_id in there - counting - cut)
    yield from (f"{run_id} is lost" for run_id in (counting | cut) - there)
    for paths in Store(store).runs():
        yield from _half(paths, cut=paths.run_id in cut)
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if any(f"{store}/" in word for word in words):
            yield f"process {process.pid} of a run is left: {process.name()}"


def _half(paths: RunPaths, *, cut: bool) -> Iterator[str]:
    reached = load_milestones(paths.milestones)
    if is_alive(paths) or read_night(paths.night) is None:
        yield f"{paths.run_id} is alive, or does not know its night"
    if cut:
        if not reached or reached[-1].detail.get("kind") != "cut-short":
            yield f"{paths.run_id} was cut short, and no milestone shows it"
        if read_verdict(paths.verdict) is not None:
            yield f"{paths.run_id} was cut short, and has a verdict"
    elif not any(each.name == "audited" for each in reached):
        yield f"{paths.run_id} was not audited"
    elif read_verdict(paths.verdict) is None or not paths.report.exists():
        yield f"{paths.run_id} has no verdict, or no page"


def _invalid(folder: NightFolder) -> Iterator[str]:
    """Yield the errors of the JUnit file according to the schema of Jenkins' xunit plugin.

    The sources of pytest contain the schema.
    """
    with tempfile.TemporaryDirectory() as there:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--no-binary=pytest", "--dest", there, "pytest==8.3.5"]
        subprocess.run(pip, check=True)
        (archive,) = Path(there).glob("pytest-*.tar.gz")
        with tarfile.open(archive) as files:
            member = next(name for name in files.getnames() if name.endswith("/junit-10.xsd"))
            files.extract(member, there, filter="data")
        schema = xmlschema.XMLSchema(Path(there, member))
    errors = [str(each.reason) for each in schema.iter_errors(folder.junit.read_text("utf-8"))]
    print(f"junit.xml: {'valid' if not errors else 'not valid'} by junit-10.xsd")
    yield from errors


def _print_figures(state: NightState, store: Path) -> None:
    outcomes = Counter(each.outcome.value for each in state.items.values() if each.outcome)
    print(f"verdicts: {dict(outcomes)}")
    for item in state.items.values():
        if item.judged and item.outcome != "valid":
            print(f"  {item.entry}: {item.judged.reason}")
    main_s = sum(each.main_s for each in state.items.values())
    share = beyond_main(state)
    print(f"{state.active_s:.0f} s led, {main_s:.0f} s of main phases,"
          f" {main_s / state.active_s:.2f} at once on average")  # fmt: skip
    if share is not None:
        print(f"time beyond main phases: {share:.1%} (goal: below {GOAL:.0%})")
    for hosts in ("namespace", "docker"):
        items = [each for each in state.items.values() if f"/{hosts}/" in each.entry]
        print(f"{hosts}: " + ", ".join(_means([_parts(each.run_id, store) for each in items])))
    waited = [each.judged_at - each.played_at for each in state.items.values() if each.played_at]
    print(f"from the end of a run to its verdict: {fmean(waited):.1f} s, at most {max(waited):.1f}")


def _parts(run_id: str, store: Path) -> dict[str, float]:
    """Return, for each milestone, the seconds that the section before it took."""
    reached = load_milestones(RunPaths(store / run_id).milestones)
    return {
        later.name: (later.at_ns - before.at_ns) / NS_PER_S for before, later in pairwise(reached)
    }


def _means(runs: Sequence[dict[str, float]]) -> list[str]:
    names = dict.fromkeys(name for run in runs for name in run)
    return [f"{name} {fmean(run[name] for run in runs if name in run):.1f} s" for name in names]


def _asked() -> _Asked:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seeds", type=int, default=5, help="of each entry")
    parser.add_argument("--families", default="kill,pause,stop", help="of faults")
    parser.add_argument("--main-s", type=float, default=20)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--store", type=Path, help="a new folder")
    found = parser.parse_args()
    store = found.store or Path(tempfile.mkdtemp(prefix="logquake-nights-"))
    store.mkdir(parents=True, exist_ok=True)
    print(f"in {store}")
    return _Asked(
        seeds=found.seeds,
        families=found.families.split(","),
        main_s=found.main_s,
        kills=found.kills,
        seed=found.seed,
        store=store,
    )


if __name__ == "__main__":
    main()
