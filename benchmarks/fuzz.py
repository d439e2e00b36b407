"""Judges thousands of damaged run records. Each must get a verdict, and no checker may crash.

Run it with `python -m benchmarks.fuzz [--records 10000] [--seed 1] [--only N]` from the repository.
For each kind of damage, the program counts the valid, unknown and invalid records. The exit code is
1 in these cases: an exception was raised, a checker or the coverage crashed, a record took longer
than the limit, or harmless damage made a valid run invalid. Harmless damage only loses or repeats
rows (see `tests/checkers/fuzzed.py`).
"""

import argparse
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from shutil import rmtree

from checkers.run import judge_runs
from results.record.clock import stopwatch_s
from results.record.verdict import UNCOVERED
from tests.checkers.fuzzed import Bases, Fuzzed, fuzz, write_bases

LIMIT_S = 60
"""Seconds of processor time, which do not depend on the load of the machine. A small record takes a
fraction of a second. A record that takes longer than this limit hangs."""
BASES = range(12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of judging one damaged record.

    Attributes:
        seed: The seed of the damage.
        record: The damaged record, and the damage done to it.
        verdict: The word of the verdict, `raised`, or `hung`.
        sentences: The reasons of an unknown verdict, the anomalies of an invalid one, or the error.
        crashes: Sentences on crashes of checkers or of the coverage.
        took_s: The seconds that the judgement took.
    """

    seed: int
    record: Fuzzed
    verdict: str
    sentences: tuple[str, ...]
    crashes: tuple[str, ...]
    took_s: float

    @property
    def wrong(self) -> bool:
        """Return whether the outcome is an error: a crash, a hang, or an unjust `invalid`."""
        unjust = self.verdict == "invalid" and self.record.was != "invalid" and not self.record.lies
        return bool(self.crashes) or self.verdict in {"raised", "hung"} or unjust


def _hangs(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"no verdict within {LIMIT_S} s of processor time")


def judged(seed: int, bases: Bases, folder: Path) -> Outcome:
    """Damage a record, judge it, and delete it."""
    record = fuzz(seed, bases, folder)
    signal.signal(signal.SIGPROF, _hangs)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    begun_s = stopwatch_s()
    sentences: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()
    try:
        (found,) = judge_runs([record.root], engine="local")
    except TimeoutError as hung:
        verdict, sentences = "hung", (str(hung),)
    except Exception:  # noqa: BLE001 - any exception is a result
        verdict, sentences = "raised", (traceback.format_exc(limit=-4),)
    else:
        verdict, sentences = found.valid.value, tuple(map(str, found.unknown_because))
        crashes = tuple(each for each in sentences if "crashed" in each)
        uncovered = found.stats.get(UNCOVERED)
        crashes += tuple(map(str, uncovered)) if isinstance(uncovered, list) else ()
        if verdict == "invalid":
            sentences = tuple(
                f"{name}: {example.sentence}"
                for name, summary in found.anomalies.items()
                for example in summary.examples
                if example.trusted and not example.allowed
            )
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        rmtree(record.root, ignore_errors=True)
    return Outcome(
        seed=seed, record=record, verdict=verdict, sentences=sentences, crashes=crashes,
        took_s=stopwatch_s() - begun_s,
    )  # fmt: skip


def main() -> None:
    """Damage and judge the records, and print the counts and the errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="judge the one record of this seed, and tell all")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    first = options.seed * 1_000_000
    seeds = range(first, first + options.records) if options.only is None else [options.only]
    with tempfile.TemporaryDirectory(prefix="logquake-fuzz-") as scratch:
        bases = write_bases(Path(scratch) / "bases", seeds=BASES)
        with ProcessPoolExecutor(options.jobs) as pool:
            arguments = repeat(bases), repeat(Path(scratch))
            outcomes = list(_told(pool.map(judged, seeds, *arguments, chunksize=20)))
    report(outcomes, everything=options.only is not None)
    sys.exit(any(each.wrong for each in outcomes))


def _told(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Print an error as soon as it is known."""
    for outcome in outcomes:
        if outcome.wrong:
            what = (outcome.crashes or outcome.sentences)[:1]
            print(f"seed {outcome.seed}: {outcome.verdict}: {what}", flush=True)
        yield outcome


def report(outcomes: Sequence[Outcome], *, everything: bool) -> None:
    """Print the counts, and then each outcome that is an error."""
    counts = Counter((each.record.lies, each.record.was, each.verdict) for each in outcomes)
    print(f"{len(outcomes)} records, the slowest in {max(each.took_s for each in outcomes):.1f} s")
    for (lies, was, verdict), count in sorted(counts.items()):
        kind = "something else written" if lies else "lost or repeated"
        print(f"{count:6} {kind}: {was} -> {verdict}")
    by_name = Counter(
        (name.partition(":")[0], each.verdict)
        for each in outcomes
        if each.record.was == "valid" and len(each.record.damages) == 1
        for name in each.record.damages
    )
    for (name, verdict), count in sorted(by_name.items()):
        print(f"{count:6} valid, then only {name}: {verdict}")
    wrong = [each for each in outcomes if each.wrong or everything]
    kinds = Counter(_kind(each) for each in wrong)
    for kind, count in kinds.most_common():
        print(f"WRONG {count:5} {kind}")
        for each in [each for each in wrong if _kind(each) == kind][:3]:
            print(f"   seed {each.seed}, {each.record.base} ({each.record.was}): "
                  f"{'; '.join(each.record.damages)}")  # fmt: skip
            print("      " + "\n      ".join((each.crashes or each.sentences)[:5]))


def _kind(outcome: Outcome) -> str:
    if outcome.crashes:
        return outcome.crashes[0].split(": ", 1)[0] + " " + outcome.crashes[0].rsplit(": ", 2)[-2]
    first = (outcome.sentences or ("",))[0]
    if outcome.verdict == "raised":
        return f"raised {first.strip().splitlines()[-1][:80]}"
    return f"{outcome.verdict} {first.partition(':')[0][:80]}"


if __name__ == "__main__":
    main()
