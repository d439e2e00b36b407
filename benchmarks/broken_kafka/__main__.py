"""Runs Kafka builds that are broken in one place, and prints which of the bugs Logquake finds.

    python -m benchmarks.broken_kafka                          # starts, or resumes, the series
    python -m benchmarks.broken_kafka --only ack-at-append --only unpatched/3
    python -m benchmarks.broken_kafka --only ack-at-append/2 --again
    python -m benchmarks.broken_kafka --unknown                # reruns unclear or failed steps
    python -m benchmarks.broken_kafka --judge                  # judges kept runs again
    python -m benchmarks.broken_kafka --list | --table

Each patch of `benchmarks/broken_kafka/edits/` is compiled against Kafka 4.3.1. The patch is run
with three seeds, with the plan of its area (`benchmarks.broken_kafka.patches.PLANS`). Unpatched
Kafka is run with ten seeds. Each run is kept in the store. Each judged run is one line in
`docs/night/broken-kafka.jsonl`. A run that already has a line for the current text of its patch is
skipped. If the command is killed, the current run is lost. Type `logquake heal --store STORE/PATCH`
to clean up after such a kill. `docs/broken-kafka.md` has the table of results.

The command exits with 0 on two conditions. Each selected patch is found with at least one seed, or
its file explains why it is not found. All selected runs of unpatched Kafka are valid.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.broken_kafka.compiling import DoesNotCompileError
from benchmarks.broken_kafka.patches import DoesNotApplyError, load_patches
from benchmarks.broken_kafka.series import (
    NONE,
    RESULTS,
    UNPATCHED,
    Line,
    Series,
    Step,
    last_lines,
    steps_of,
    table,
)
from benchmarks.night import ROOT
from benchmarks.night_results import write_between
from cluster.protocol import UserError
from results.record.terms import Validity

PAGE = ROOT / "docs" / "broken-kafka.md"
SEEDS = (1, 2, 3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the missing steps, judge kept runs, and write the table."""
    options = _options(arguments)
    patches = load_patches()
    seeds = options.seeds or SEEDS
    steps = [step for step in steps_of(patches, seeds) if _is_meant(step, options.only)]
    series = Series(store=options.store.resolve(), results=options.results)
    try:
        for step in [] if options.table or options.list else steps:
            _do(series, step, options)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
    lines = last_lines(options.results)
    done = {(step.name, step.seed): lines.get((step.name, step.seed, step.digest))
            for step in steps}  # fmt: skip
    for (name, seed), line in done.items():
        print(f"{name}/{seed}: {_words(line)}")
    if options.page.is_file():
        write_between(options.page, table(patches, lines, SEEDS))
    return int(not _is_fine(steps, lines))


def _do(series: Series, step: Step, options: argparse.Namespace) -> None:
    line = last_lines(series.results).get((step.name, step.seed, step.digest))
    if options.judge:
        again = series.judge_again(line) if line else None
    elif line is None or options.again or (options.unknown and _tells_nothing(line)):
        again = series.play(step)
    else:
        return
    if again is not None:
        print(f"{step.name}/{step.seed}: {_words(again)}, {again.took_s:.0f} s", flush=True)


def _tells_nothing(line: Line) -> bool:
    return line.verdict in {NONE, Validity.UNKNOWN}


def _words(line: Line | None) -> str:
    if line is None:
        return "not played"
    return f"{line.verdict} ({', '.join(line.anomalies[:3])}) {line.sentence}"


def _is_meant(step: Step, only: Sequence[str]) -> bool:
    return not only or step.name in only or f"{step.name}/{step.seed}" in only


def _is_fine(steps: Sequence[Step], lines: dict[tuple[str, int, str], Line]) -> bool:
    found, of = set[str](), set[str]()
    for step in steps:
        line = lines.get((step.name, step.seed, step.digest))
        if step.name == UNPATCHED:
            if line is None or line.verdict != Validity.VALID:
                return False
            continue
        of.add(step.name)
        if (line and line.found) or (step.patch and step.patch.unfound):
            found.add(step.name)
    return found == of


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.broken_kafka", description=__doc__, formatter_class=raw
    )
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="PATCH[/SEED]", help="or unpatched[/SEED]")
    add("--seeds", type=lambda text: tuple(map(int, text.split(","))), help="1,2,3 by default")
    add("--store", type=Path, default=ROOT / "runs" / "broken-kafka", help="where runs are kept")
    add("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    add("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    add("--again", action="store_true", help="play runs that have a line, too")
    add("--unknown", action="store_true", help="play runs again that came to no verdict")
    add("--judge", action="store_true", help="judge kept runs again, and play none")
    add("--list", action="store_true", help="print the runs and their verdicts, and play none")
    add("--table", action="store_true", help="write the table, and play none")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (DoesNotApplyError, DoesNotCompileError, UserError) as refused:
        sys.exit(str(refused))
