"""Counts the mutants of a checker module that its tests kill. A surviving mutant is untested code.

Run it with `python -m benchmarks.mutation checkers/lost_write.py [...] [--tests FILE...]` from the
repository. By default the tests are all test files of `tests/checkers` that name the module,
without tests of the whole pipeline. One pytest session collects the tests. The session runs them
once to learn which lines each test reaches. Then each mutant (see `benchmarks/mutants.py`) runs in
a fork of that session. The fork puts the mutant's code into the existing functions. The fork runs
the tests that reach the changed line, the fast ones first, until one fails. This takes a twentieth
of a second, instead of the seconds of a separate pytest run. Hypothesis uses few examples, always
the same, and does not shrink them.

The program prints the surviving mutants, and then killed / all and the share for each module. With
`--json FILE` it also writes both to FILE.
"""

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import re
import resource
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pyarrow as pa
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

from benchmarks.mutants import Mutant, mutants

ROOT = Path(__file__).parents[1]
SLOW = ("pipeline", "fuzzed", "spark", "stored_runs")
"""Test files with these words in their names judge whole runs, which is too slow for mutants."""
EXAMPLES = 12
BUDGET_S = 4.0
"""CPU seconds of tests for each mutant. Fast tests come first, so few tests are left out."""
LIMIT_S = 120
"""Seconds until a mutant counts as an endless loop, and therefore as killed."""
MEMORY = 6 * 2**30
Tracer = Callable[[FrameType, str, object], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The result of a mutant: killed or survived."""

    path: str
    mutant: Mutant
    killed: bool


@dataclass(slots=True, kw_only=True)
class Reach:
    """The lines that one test executes.

    Attributes:
        item: The test.
        took_s: CPU seconds of the test.
        lines: For each module, by its path, the executed lines.
    """

    item: pytest.Item
    took_s: float = 0.0
    lines: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


class Mutation:
    """A pytest plugin that runs the tests on each mutant, instead of once.

    Args:
        paths: The files of the modules.
        keep: Returns whether to try a mutant.
        jobs: The number of mutants tried at the same time.
    """

    def __init__(self, paths: Sequence[Path], keep: Callable[[Mutant], bool], *, jobs: int) -> None:
        self._files = {str(path): path for path in paths}
        self._keep = keep
        self._jobs = jobs
        self.fates: list[Fate] = []
        self.failed: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find the lines that each test reaches, and then try all mutants."""
        pa.set_cpu_count(1)
        for item in session.items:
            _draw_little(item)
        reaches = [self._reach(item) for item in session.items]
        reaches.sort(key=lambda each: each.took_s)
        if not self.failed:
            self._run(list(self._chosen()), reaches)
        return True

    def _reach(self, item: pytest.Item) -> Reach:
        found = Reach(item=item)

        def local(frame: FrameType, event: str, _argument: object) -> Tracer:
            if event == "line":
                found.lines[frame.f_code.co_filename].add(frame.f_lineno)
            return local

        def trace(frame: FrameType, _event: str, _argument: object) -> Tracer | None:
            return local if frame.f_code.co_filename in self._files else None

        begun_s = _cpu_s()
        sys.settrace(trace)
        try:
            reports = runtestprotocol(item, log=False, nextitem=None)
        finally:
            sys.settrace(None)
        found.took_s = _cpu_s() - begun_s
        self.failed += [each.longreprtext for each in reports if each.failed]
        return found

    def _chosen(self) -> Iterator[tuple[Path, Mutant]]:
        for path in self._files.values():
            for mutant in mutants(path.read_text(encoding="utf-8")):
                if self._keep(mutant):
                    yield path, mutant

    def _run(self, chosen: Sequence[tuple[Path, Mutant]], reaches: Sequence[Reach]) -> None:
        running: dict[int, tuple[Path, Mutant]] = {}
        for path, mutant in chosen:
            if len(running) >= self._jobs:
                self._end_one(running)
            tests = _tests_of(path, mutant, reaches)
            running[_forked(path, mutant, tests)] = (path, mutant)
        while running:
            self._end_one(running)

    def _end_one(self, running: dict[int, tuple[Path, Mutant]]) -> None:
        pid, status = os.waitpid(-1, 0)
        path, mutant = running.pop(pid)
        name = str(path.relative_to(ROOT))
        self.fates.append(Fate(path=name, mutant=mutant, killed=status != 0))
        if status == 0:
            print(f"{name}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _draw_little(item: pytest.Item) -> None:
    """Limit a Hypothesis test to few examples, always the same ones."""
    test = getattr(item, "obj", None)
    old = getattr(test, "_hypothesis_internal_use_settings", None)
    if test is not None and old is not None:
        test._hypothesis_internal_use_settings = settings(  # noqa: SLF001 - no public way exists
            old, max_examples=min(old.max_examples, EXAMPLES), derandomize=True, database=None,
            phases=(Phase.explicit, Phase.generate), deadline=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip


def _tests_of(path: Path, mutant: Mutant, reaches: Sequence[Reach]) -> list[pytest.Item]:
    """Return the tests that execute a mutant's lines.

    For code that runs at import, return all tests that execute code of the module.
    """
    first, last = _statement(path, mutant)
    at_import = not any(
        node.body[0].lineno <= mutant.line <= (node.end_lineno or 0)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    )
    chosen: list[pytest.Item] = []
    spent_s = 0.0
    for each in reaches:
        lines = each.lines.get(str(path), set())
        if lines and (at_import or any(first <= line <= last for line in lines)):
            spent_s += each.took_s
            if chosen and spent_s > BUDGET_S:
                break
            chosen.append(each.item)
    return chosen


def _statement(path: Path, mutant: Mutant) -> tuple[int, int]:
    """Return the lines of the innermost statement around a mutant. For a block, return its head."""
    best = (mutant.line, mutant.last_line)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno or node.lineno
            if end >= mutant.line:
                best = (node.lineno, max(end, node.lineno))
    return best


def _forked(path: Path, mutant: Mutant, tests: Sequence[pytest.Item]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    with contextlib.suppress(BaseException):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        put_in(module_of(path), mutant.source, path)
        failed = any(
            report.failed
            for item in tests
            for report in runtestprotocol(item, log=False, nextitem=None)
        )
        status = 1 if failed else 0
    os._exit(status)


def module_of(path: Path) -> ModuleType:
    """Import the module of a file in the repository."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return importlib.import_module(name.removesuffix(".__init__"))


def put_in(module: ModuleType, source: str, path: Path) -> None:
    """Replace the behaviour of an imported module with that of other source code.

    Existing functions get the new code. Fields of existing dataclass values are changed in place.
    All other module values are rebound in each module that imported them.
    """
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    real = sys.modules[module.__name__]
    sys.modules[module.__name__] = fresh
    try:
        exec(compile(source, str(path), "exec"), fresh.__dict__)  # noqa: S102 - our own source
    finally:
        sys.modules[module.__name__] = real
    old, new = dict(_functions(module)), dict(_functions(fresh))
    for name, function in old.items():
        if name in new and not _same(function.__code__, new[name].__code__):
            function.__code__ = new[name].__code__
        if name in new:
            function.__defaults__ = new[name].__defaults__
            function.__kwdefaults__ = new[name].__kwdefaults__
    for name, value in vars(fresh).items():
        before = vars(module).get(name)
        if not isinstance(value, FunctionType | type | ModuleType) and not name.startswith("__"):
            _put_value(name, before, value, old)


def _put_value(
    name: str, before: object, value: object, functions: dict[str, FunctionType]
) -> None:
    if (
        is_dataclass(before)
        and not isinstance(before, type)
        and type(before).__name__ == type(value).__name__
    ):
        for each in fields(before):
            new = getattr(value, each.name)
            kept = functions.get(new.__qualname__) if isinstance(new, FunctionType) else None
            object.__setattr__(before, each.name, new if kept is None else kept)
        return
    with contextlib.suppress(Exception):
        if bool(before == value):
            return
    for module in list(sys.modules.values()):
        if getattr(module, name, None) is before and before is not None:
            setattr(module, name, value)


def _same(one: CodeType, two: CodeType) -> bool:
    return one.co_code == two.co_code and one.co_consts == two.co_consts


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """Yield (name, function) for each function, method and cached property of a module."""
    for value in list(vars(module).values()):
        whole: Iterable[Any] = [value]
        if isinstance(value, type) and value.__module__ == module.__name__:
            whole = vars(value).values()
        for each in whole:
            function = _unwrapped(each)
            if function is not None and function.__module__ == module.__name__:
                yield function.__qualname__, function


def _unwrapped(value: object) -> FunctionType | None:
    for name in ("fget", "func", "__func__", "__wrapped__"):
        inner = getattr(value, name, None)
        if isinstance(inner, FunctionType):
            return inner
    return value if isinstance(value, FunctionType) else None


def test_files(paths: Sequence[Path]) -> list[str]:
    """Return the test files of `tests/checkers` that contain the name of a given module."""
    names = {path.stem for path in paths}
    return [path for path, words in _quick_tests().items() if not names.isdisjoint(words)]


@cache
def _quick_tests() -> dict[str, frozenset[str]]:
    """Return the set of words in each test file that is fast enough for mutants."""
    found = sorted((ROOT / "tests" / "checkers").glob("test_*.py"))
    return {
        str(path): frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        for path in found
        if not any(word in path.name for word in SLOW)
    }


def main() -> None:
    """Try the mutants of the given modules, and print those that survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", help="test files; default: those that import them")
    parser.add_argument("--sample", type=float, default=1.0, help="try this share of the mutants")
    parser.add_argument("--line", type=int, action="append", help="only mutants of this line")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    paths = [(ROOT / path).resolve() for path in options.modules]
    chance = random.Random("mutation")

    def keep(mutant: Mutant) -> bool:
        return chance.random() < options.sample and mutant.line in (options.line or [mutant.line])

    plugin = Mutation(paths, keep, jobs=options.jobs)
    tests = options.tests or test_files(paths)
    arguments = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider",
                 "--timeout=0", "--capture=no", "--no-header",
                 "-m", "not spark and not kafka and not namespaces"]  # fmt: skip
    pytest.main([*arguments, *tests], plugins=[plugin])
    if plugin.failed:
        sys.exit("the tests fail without any mutant:\n" + plugin.failed[0])
    report(plugin.fates, options.json)


def report(fates: Sequence[Fate], path: Path | None) -> None:
    """Print the score of each module, and the total."""
    by_path: defaultdict[str, list[Fate]] = defaultdict(list)
    for fate in fates:
        by_path[fate.path].append(fate)
    print()
    for name, some in sorted(by_path.items()):
        killed = sum(each.killed for each in some)
        print(f"{name:40} {killed:5} / {len(some):5} {100 * killed / len(some):6.1f} %")
    killed = sum(each.killed for each in fates)
    print(f"{'all':40} {killed:5} / {len(fates):5} {100 * killed / max(1, len(fates)):6.1f} %")
    if path is not None:
        rows = [
            {"path": each.path, "line": each.mutant.line, "operator": each.mutant.operator,
             "before": each.mutant.before, "after": each.mutant.after, "killed": each.killed}
            for each in fates
        ]  # fmt: skip
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
