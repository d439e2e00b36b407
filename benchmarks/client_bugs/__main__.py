"""Plays releases of librdkafka that have a known bug, their mended ones, and Kafka's Java client.

    python -m benchmarks.client_bugs                  # begins, or goes on where it was
    python -m benchmarks.client_bugs --only NAME      # one bug
    python -m benchmarks.client_bugs --unknown        # plays again what told nothing
    python -m benchmarks.client_bugs --list | --table

Each bug has a plan with dealt faults in `docs/plans/`, and is played on five seeds: with the
release that has it, with the release that mended it, and with the Java client. A run is kept in the
store, and is a line in `docs/night/client-bugs.jsonl` once it is judged. A command that has a line
there is not played again. `docs/client-bugs.md` has the table.

The command exits with 0 if each bug comes out in its release, and in no other client's run.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.broken_kafka.series import NONE
from benchmarks.client_bugs.bugs import BUGS, JAVA
from benchmarks.client_bugs.series import (
    RESULTS,
    comes_out,
    commands,
    last_lines,
    play,
    played,
    table,
)
from benchmarks.night import ROOT
from benchmarks.night_results import write_between
from results.record.terms import Validity

PAGE = ROOT / "docs" / "client-bugs.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is left, and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client_bugs", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="NAME", help="one of the bugs")
    add("--store", type=Path, default=ROOT / "runs" / "client-bugs", help="where runs are kept")
    add("--results", type=Path, default=RESULTS, help=argparse.SUPPRESS)
    add("--page", type=Path, default=PAGE, help=argparse.SUPPRESS)
    add("--unknown", action="store_true", help="play runs again that came to no verdict")
    add("--list", action="store_true", help="print the runs and their verdicts, and play none")
    add("--table", action="store_true", help="write the table, and play none")
    options = parser.parse_args(arguments)
    bugs = [each for each in BUGS if not options.only or each.name in options.only]
    lines = last_lines(options.results)
    for command in commands(bugs):
        line = lines.get(" ".join(command))
        due = line is None or (options.unknown and line.verdict in {NONE, Validity.UNKNOWN})
        if due and not (options.list or options.table):
            try:
                line = play(command, options.store.resolve(), options.results)
            except KeyboardInterrupt:
                print("interrupted; the same command goes on", file=sys.stderr)
                break
        told = f"{line.verdict} ({', '.join(line.anomalies[:3])})" if line else "not played"
        print(f"{' '.join(command)}: {told}", flush=True)
    lines = last_lines(options.results)
    if options.page.is_file():
        write_between(options.page, table(lines))
    shown = all(any(comes_out(bug, each) for each in played(bug, bug.broken, lines))
                for bug in bugs)  # fmt: skip
    others = [line for bug in bugs for client in (bug.fixed, JAVA)
              for line in played(bug, client, lines)]  # fmt: skip
    return int(not (shown and all(each.verdict == Validity.VALID for each in others)))


if __name__ == "__main__":
    sys.exit(main())
