"""Makes pairs for people to judge: a sentence on a cause, and the record that must prove it.

    python -m benchmarks.sentences OUT --seed 5     # two of each anomaly
    python -m benchmarks.sentences OUT --seed 5 --each 1 lost-write duplicate

For each anomaly, the program chooses changed records (`tests.broken`) that show it, and judges
them. It writes a folder for each record. `sentence.txt` has the sentence. `record/` has the
record's tables as CSV (times in nanoseconds since the run's start), the milestones, the plan, and
the nodes' files. New wordings come first. A reader opens `sentence.txt`, and writes down the
statement that they conclude from it. Then the reader searches the record for two answers: does the
record show that statement (right), and is a node, a time or a reason missing in the sentence
(sufficient)?
"""

import argparse
import re
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from pyarrow import csv

from checkers.run import judge_runs
from checkers.telling import UNEXPLAINED
from results.export.sheets import safe
from results.record.parquet import as_texts
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.verdict import Example, Verdict
from results.tables import read_table
from tests.broken import catalogue
from tests.broken.corpus import Change

AT_A_TIME = 60
"""The number of records judged together."""
Found = tuple[Change, Example]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pairs, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="a folder that is made")
    parser.add_argument("anomalies", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=2, help="pairs of an anomaly")
    arguments = parser.parse_intermixed_args(argv)
    rng = Random(arguments.seed)
    arguments.out.mkdir(parents=True)
    changes = list(_candidates(rng, arguments.each, arguments.anomalies))
    found = defaultdict[str, list[Found]](list)
    for change, verdict in _judged(changes):
        for name in verdict.anomalies:
            found[name] += [(change, each) for each in _told(verdict, name)]
    number = 0
    for name in sorted(arguments.anomalies or found):
        for change, example in _drawn(found[name], rng, arguments.each):
            number += 1
            _write(arguments.out / f"{number:02}", name, change, example)
            sys.stdout.write(f"{number:02} {name}: {change.name}\n")
    return 0


def _candidates(rng: Random, count: int, wanted: Sequence[str]) -> Iterator[Change]:
    """Choose changed records of each anomaly, twice as many as pairs, with much variety."""
    changes = [each for each in catalogue() if each.finds]
    rng.shuffle(changes)
    for name in sorted({each.finds for each in changes if each.finds in wanted or not wanted}):
        rank = Counter[str]()
        ranked = list[tuple[int, Change]]()
        for each in [each for each in changes if each.finds == name]:
            rank[each.name.partition(".")[0]] += 1
            ranked.append((rank[each.name.partition(".")[0]], each))
        ranked.sort(key=itemgetter(0))
        yield from [each for _, each in ranked[: 2 * count]]


def _judged(changes: Sequence[Change]) -> Iterator[tuple[Change, Verdict]]:
    for at in range(0, len(changes), AT_A_TIME):
        some = changes[at : at + AT_A_TIME]
        with TemporaryDirectory() as scratch:
            folders = [each.save(Path(scratch)) for each in some]
            yield from zip(some, judge_runs(folders, engine="local"), strict=True)


def _told(verdict: Verdict, name: str) -> Iterator[Example]:
    shown = [each for each in verdict.anomalies[name].examples if not each.allowed]
    yield from [each for each in shown if each.cause and each.cause != UNEXPLAINED]


def _drawn(found: Sequence[Found], rng: Random, count: int) -> Iterator[Found]:
    """Choose pairs with different wordings, if possible. Use each changed record only once."""
    by_wording = defaultdict[str, list[Found]](list)
    for each in found:
        by_wording[re.sub(r"[\d.]+", "0", each[1].cause)].append(each)
    wordings = list(by_wording.values())
    rng.shuffle(wordings)
    drawn = set[str]()
    while wordings and len(drawn) < count:
        some = [each for each in wordings.pop(0) if each[0].name not in drawn]
        if some:
            chosen = rng.choice(some)
            drawn.add(chosen[0].name)
            yield chosen


def _write(folder: Path, name: str, change: Change, example: Example) -> None:
    lines = (f"{name}: {example.sentence}", f"Why: {example.cause}")
    record = folder / "record"
    record.mkdir(parents=True)
    (folder / "sentence.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    with TemporaryDirectory() as scratch:
        run = RunPaths(change.save(Path(scratch)))
        for table in [each for each in TABLES if run.table(each).exists()]:
            rows = safe(as_texts(read_table(run, table).drop_columns(["run_id"])))
            csv.write_csv(rows, record / f"{table}.csv")
        for each in (run.milestones, run.plan):
            shutil.copyfile(each, record / each.name)
        shutil.copytree(run.nodes, record / run.nodes.name)


if __name__ == "__main__":
    sys.exit(main())
