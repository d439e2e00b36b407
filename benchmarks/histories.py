"""Measures how long `logquake check --history` takes for a history that another program recorded.

The benchmark makes a seeded, correct history of transactions, with twenty keys and sixteen
processes. `tests/histories/README.md` describes its form. The history is written as JSON lines and
as EDN. Each of these ways is measured with both files:

* `local`: `logquake check --history FILE`, as a process of its own;
* `spark`: the same with `--engine spark`, with the time that Spark needs to start;
* `warm`: in a Spark session that has judged another history before.

For comparison: Jepsen's checker takes 48 to 53 s and 7 to 8 GB for 200,000 operations.

    python -m benchmarks.histories [--ops 20000 200000] [--only local ...]

Wall-clock seconds are meaningful on an idle machine only. Each line shows the load at its start.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.measured import measured
from checkers.histories.judging import Mode, judge_with
from checkers.histories.reading import read_histories
from checkers.spark.engine import spark_engine
from results.record.clock import stopwatch_s

_KEYS, _PROCESSES = 20, 16
_PART_NS = 100_000
_POLLED = 3
_INFO_EACH = 500
_LAST_READER = 10_000_000
_CHECK = (sys.executable, "-c", "from harness.cli import main; main()", "check", "--history")
_WAYS = ("local", "spark", "warm")
_SMALL = 2_000

Entry = dict[str, Any]


def entries(ops: int, seed: int = 1) -> Iterator[Entry]:
    """Yield the invocations and completions of a correct log."""
    random = Random(seed)
    logs: list[list[int]] = [[] for _ in range(_KEYS)]
    at = [[0] * _KEYS for _ in range(_PROCESSES)]
    names = list(range(_PROCESSES))
    index = 0

    def entry(process: int, kind: str, f: str, value: object) -> Entry:
        nonlocal index
        index += 1
        return {"index": index - 1, "time": index * _PART_NS, "process": process, "type": kind,
                "f": f, "value": value}  # fmt: skip

    for number in range(ops):
        thread = number % _PROCESSES
        keys = random.sample(range(_KEYS), 2)
        sent = [[key, (len(logs[key]) + 1)] for key in keys]
        asked: list[Any] = [["poll"], *(["send", key, value] for key, value in sent)]
        got = {}
        for key in keys:
            first = at[thread][key]
            at[thread][key] = min(len(logs[key]), first + _POLLED)
            got[str(key)] = [[each, each + 1] for each in range(first, at[thread][key])]
        for key, value in sent:
            logs[key].append(value)
        told = [["poll", {key: each for key, each in got.items() if each}],
                *(["send", key, [value - 1, value]] for key, value in sent)]  # fmt: skip
        unknown = number % _INFO_EACH == _INFO_EACH - 1
        yield entry(names[thread], "invoke", "txn", asked)
        yield entry(names[thread], "info" if unknown else "ok", "txn", told)
        if unknown:
            names[thread] += _PROCESSES
            at[thread] = [len(log) for log in logs]
    whole = {str(key): [[each, each + 1] for each in range(len(log))]
             for key, log in enumerate(logs)}  # fmt: skip
    yield entry(_LAST_READER, "invoke", "poll", [["poll"]])
    yield entry(_LAST_READER, "ok", "poll", [["poll", whole]])


def edn(value: object) -> str:
    """Return a value in Clojure's EDN. A string becomes a keyword, or a number if it has digits."""
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case str():
            return value if value.isdigit() else f":{value}"
        case list():
            return f"[{' '.join(map(edn, value))}]"
        case dict():
            return "{" + ", ".join(f"{edn(key)} {edn(each)}" for key, each in value.items()) + "}"
        case _:
            return str(value)


_FORMS: tuple[tuple[str, Callable[[Entry], str]], ...] = (("jsonl", json.dumps), ("edn", edn))


def _write(path: Path, ops: int, text: Callable[[Entry], str]) -> Path:
    with path.open("w") as file:
        file.writelines(f"{text(each)}\n" for each in entries(ops))
    return path


def _warm(path: Path) -> None:
    """Print how long a history takes in a session that has judged another history."""
    with tempfile.TemporaryDirectory() as folder, spark_engine(None) as engine:
        small = _write(Path(folder) / "small.jsonl", _SMALL, json.dumps)
        for each in (small, path):
            begun_s = stopwatch_s()
            (verdict,) = judge_with(engine, read_histories(each, engine.spread), Mode())
            took_s = stopwatch_s() - begun_s
    print(f"{took_s:.2f} s: {verdict.valid}")


def main() -> None:
    """Write histories of each size, and measure the ways to judge them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", nargs="+", type=int, default=[20_000, 200_000])
    parser.add_argument("--only", nargs="+", choices=_WAYS, default=_WAYS)
    parser.add_argument("--warm", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.warm:
        _warm(asked.warm)
        return
    with tempfile.TemporaryDirectory(prefix="logquake-histories-") as folder:
        for ops in asked.ops:
            for suffix, text in _FORMS:
                path = _write(Path(folder) / f"{ops}.{suffix}", ops, text)
                size = path.stat().st_size / 1e6
                for way in asked.only:
                    command = {
                        "local": [*_CHECK, str(path)],
                        "spark": [*_CHECK, str(path), "--engine", "spark"],
                        "warm": [sys.executable, "-m", "benchmarks.histories", "--warm", str(path)],
                    }[way]
                    cost = measured(command)
                    last = (cost.said.strip().splitlines() or [""])[-1]
                    print(
                        f"{ops} ops, {suffix} of {size:.0f} MB, {way}: {cost.wall_s:.1f} s,"
                        f" {cost.cpu_s:.1f} s of processors, {cost.peak_mib} MiB,"
                        f" load {cost.load:.1f}: {last}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
