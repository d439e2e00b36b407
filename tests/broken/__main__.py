"""Judges the corpus of changed records and prints what came out.

    python -m tests.broken [NAME...] [--engine local|spark] [--keep FOLDER]

A name chooses the changes whose names have it in them.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from checkers.run import ENGINES, judge_runs
from results.record.verdict import Verdict
from tests.broken import catalogue
from tests.broken.corpus import Change


def wrong(change: Change, verdict: Verdict) -> str:
    """Return what is wrong with a verdict on a change; empty: nothing."""
    if verdict.valid is not change.valid:
        why = "; ".join(verdict.unknown_because) or ", ".join(_weighty(verdict))
        return f"{verdict.valid.value} instead of {change.valid.value}: {why}"
    if change.finds and change.finds not in verdict.anomalies:
        return f"no {change.finds}, but {', '.join(verdict.anomalies)}"
    return ""


def _weighty(verdict: Verdict) -> list[str]:
    return [name for name, each in verdict.anomalies.items() if each.count > each.allowed]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each change that came out wrong, and the table; 1 if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--keep", type=Path, help="write the changed records there")
    arguments = parser.parse_args(argv)
    changes = [
        each
        for each in catalogue()
        if not arguments.names or any(name in each.name for name in arguments.names)
    ]
    with TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        verdicts = judge_runs([each.save(folder) for each in changes], engine=arguments.engine)
    right: Counter[str] = Counter()
    for change, verdict in zip(changes, verdicts, strict=True):
        said = wrong(change, verdict)
        right[change.row] += not said
        if said:
            sys.stdout.write(f"{change.name}: {said}\n")
    for row, count in sorted(Counter(each.row for each in changes).items()):
        sys.stdout.write(f"{row:12} {right[row]:4} of {count:4}\n")
    return int(right.total() < len(changes))


if __name__ == "__main__":
    sys.exit(main())
