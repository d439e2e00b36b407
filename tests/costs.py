"""The cost of tests: a pytest plugin that writes a line for each test, and a sum by folder or file.

    .venv/bin/pytest --everything -p tests.costs --costs costs.jsonl
    .venv/bin/python -m tests.costs costs.jsonl [--by folder|file|test] [--top 30]

A line has the test, its seconds, and its processor seconds. These are the processor seconds of the
test's worker, and of child processes that ended during the test. The cost of a daemon that several
tests share is in the last of these tests.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from results.record.clock import stopwatch_s

BY: dict[str, Callable[[str], str]] = {
    "folder": lambda test: "/".join(test.split("::")[0].split("/")[:2]),
    "file": lambda test: test.split("::")[0],
    "test": lambda test: test,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the file."""
    parser.addoption("--costs", metavar="FILE", help="append a line for each test to this file")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the cost of one test, including its fixtures."""
    started_s, before = stopwatch_s(), os.times()
    done = yield
    after, took_s = os.times(), stopwatch_s() - started_s
    spent_s = sum(after[:4]) - sum(before[:4])
    if file := item.config.getoption("--costs"):
        line = {"test": item.nodeid, "s": round(took_s, 3), "processor_s": round(spent_s, 3)}
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(line)}\n")
    return done


def table(file: Path, by: str, top: int) -> Iterator[str]:
    """Yield the lines of a table, with the most expensive tests first."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for each in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        for name in (BY[by](each["test"]), "all"):
            for at, value in enumerate((1, each["s"], each["processor_s"])):
                sums[name][at] += value
    yield f"{'tests':>6} {'s':>7} {'processor s':>12}"
    for name, (tests, took_s, spent_s) in sorted(sums.items(), key=lambda row: -row[1][1])[:top]:
        yield f"{tests:6.0f} {took_s:7.0f} {spent_s:12.0f}  {name}"


def main() -> None:
    """Print the table of costs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--by", choices=BY, default="folder")
    parser.add_argument("--top", type=int, default=30)
    asked = parser.parse_args()
    for line in table(asked.file, asked.by, asked.top):
        print(line)  # noqa: T201 - a script's result


if __name__ == "__main__":
    main()
