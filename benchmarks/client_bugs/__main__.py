"""Runs librdkafka releases with a known bug, the fixed releases, and Kafka's Java client.

    python -m benchmarks.client_bugs                  # starts, or resumes, the series
    python -m benchmarks.client_bugs --only NAME      # one bug
    python -m benchmarks.client_bugs --unknown        # reruns unclear or failed commands
    python -m benchmarks.client_bugs --list | --table

Each bug has a plan with scheduled faults in `docs/plans/`. The plan is run with five seeds for each
of three clients: the release with the bug, the release with the fix, and the Java client. Each run
is kept in the store. Each judged run is one line in `docs/night/client-bugs.jsonl`. A command that
already has a line there is skipped. `docs/client-bugs.md` has the table of results.

The command exits with 0 if each bug is found in the release that has it, and in no run of another
client.
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
    """Run the missing commands, and write the table."""
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
