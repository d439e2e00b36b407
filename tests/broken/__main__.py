"""Judges the corpus of changed records and prints what came out.

    python -m tests.broken [NAME...] [--engine local|spark] [--keep FOLDER]

A name chooses the changes whose names have it in them.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from tempfile import TemporaryDirectory

from checkers.run import ENGINES, judge_runs
from checkers.telling import UNEXPLAINED
from results.record.terms import Validity
from results.record.verdict import Verdict
from tests.broken import catalogue
from tests.broken.corpus import INNOCENT, Change


def wrong(change: Change, verdict: Verdict) -> str:
    """Return what is wrong with a verdict on a change; empty: nothing."""
    if verdict.valid is not change.valid:
        why = "; ".join(verdict.unknown_because) or ", ".join(_weighty(verdict))
        return f"{verdict.valid.value} instead of {change.valid.value}: {why}"
    if change.finds and not _weighs(change, verdict):
        return f"no {change.finds} that weighs, but {', '.join(verdict.anomalies)}"
    if change.finds and not _explained(change, verdict):
        return f"nothing says why {change.finds}"
    if change.says not in " ".join(_told(verdict)):
        return f"nothing says {change.says!r}"
    return ""


def _weighs(change: Change, verdict: Verdict) -> bool:
    """Tell whether the anomaly came out, not allowed; and trusted, where that makes it invalid."""
    found = verdict.anomalies.get(change.finds)
    shown = [each for each in found.examples if not each.allowed] if found else []
    return any(each.trusted for each in shown) or bool(
        shown and change.valid is not Validity.INVALID
    )


def _explained(change: Change, verdict: Verdict) -> bool:
    """Tell whether each example says why, or what is missing to say it."""
    found = verdict.anomalies[change.finds]
    return all(each.cause and each.cause != UNEXPLAINED for each in found.examples)


def _weighty(verdict: Verdict) -> list[str]:
    return [name for name, each in verdict.anomalies.items() if each.count > each.allowed]


def _told(verdict: Verdict) -> list[str]:
    found = [shown.sentence for each in verdict.anomalies.values() for shown in each.examples]
    return [*verdict.unknown_because, *found]


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
    if not changes:
        parser.error(f"no change has a name with {' or '.join(arguments.names)}")
    with TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        verdicts = judge_runs([each.save(folder) for each in changes], engine=arguments.engine)
    said = {each.name: wrong(each, told) for each, told in zip(changes, verdicts, strict=True)}
    sys.stdout.writelines(f"{name}: {how}\n" for name, how in said.items() if how)
    sys.stdout.writelines(table(changes, {name for name, how in said.items() if how}))
    return int(any(said.values()))


def table(changes: Sequence[Change], failed: Set[str]) -> Iterator[str]:
    """Yield the lines that say of each row how many changes came out as they must.

    Args:
        changes: That were judged.
        failed: Names of those that came out wrong.
    """
    yield f"{'row':12} {'changes':>7} {'caught':>7} {'missed':>7} {'false alarms':>13}\n"
    total: Counter[str] = Counter()
    for row, count in sorted(Counter(each.row for each in changes).items()):
        bad = sum(each.row == row and each.name in failed for each in changes)
        innocent = row == INNOCENT
        caught, missed, alarms = (0, 0, bad) if innocent else (count - bad, bad, 0)
        total.update(changes=count, caught=caught, missed=missed, alarms=alarms)
        yield f"{row:12} {count:7} {caught:7} {missed:7} {alarms:13}\n"
    numbers = (total[name] for name in ("changes", "caught", "missed", "alarms"))
    yield "{:12} {:7} {:7} {:7} {:13}\n".format("all", *numbers)


if __name__ == "__main__":
    sys.exit(main())
