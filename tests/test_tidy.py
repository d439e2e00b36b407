"""The limits of the house style, as tests: sizes of functions and modules, words, the file tree."""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("logquake", "harness", "workloads", "nemesis", "checkers", "cluster", "results")
MODULES = sorted(
    [
        *(path for package in (*PACKAGES, "benchmarks") for path in (ROOT / package).rglob("*.py")),
        ROOT / "logquake_pytest.py",
    ]
)
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 70
MEDIAN_FUNCTION_LINES = 14
THREADED = {
    "cluster/kafka/fetch.py",  # It downloads before any run.
    "harness/cli/serving.py",  # A browser opens beside the server of the documentation.
    "harness/ahead.py",  # Spark starts in the command, outside of the run's phases.
    "harness/interrupt.py",  # It handles signals of the real machine.
    "harness/progress.py",  # It shows progress in real time, not for simulated runs.
    "harness/watching.py",  # It judges a run in progress, never a simulated run.
}
"""Modules of simulated runs that still use threads, because their work is on the real machine."""
BANNED_NAMES = ("utils", "util", "helpers", "helper", "common", "misc", "manager")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 30


def test_modules_are_small_enough_and_named_for_what_they_hold() -> None:
    assert list(chain.from_iterable(map(flaws_of_module, MODULES))) == []


def flaws_of_module(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_MODULE_LINES:
        yield f"{name}: {lines} lines"
    if path.stem in BANNED_NAMES:
        yield f"{name}: its name does not tell what it holds"
    for each in functions(path):
        if length(each) > MAX_FUNCTION_LINES:
            yield f"{name}: {each.name} has {length(each)} lines"


def test_a_module_that_is_too_large_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "utils.py"
    path.write_text("def long() -> None:\n" + "    pass\n" * MAX_MODULE_LINES, encoding="utf-8")
    assert [*flaws_of_module(path)] == [
        "utils.py: 501 lines", "utils.py: its name does not tell what it holds",
        "utils.py: long has 501 lines",
    ]  # fmt: skip


def test_the_median_function_is_short() -> None:
    lengths = sorted(length(each) for path in MODULES for each in functions(path))
    assert lengths[len(lengths) // 2] <= MEDIAN_FUNCTION_LINES


def test_every_package_says_what_lives_in_it() -> None:
    for package in PACKAGES:
        text = (ROOT / package / "__init__.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), package


def _imported(path: Path) -> set[str]:
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    plain = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    return plain | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


def test_what_is_to_be_simulated_has_no_threads_of_its_own() -> None:
    """Tasks, locks and events must come from the runtime; otherwise virtual time stands still."""
    simulated = [*ROOT.glob("nemesis/**/*.py"), *ROOT.glob("cluster/kafka/**/*.py")]
    simulated += [
        path
        for path in ROOT.glob("harness/**/*.py")
        if "suites" not in path.relative_to(ROOT).parts
    ]
    threaded = {
        path.relative_to(ROOT).as_posix()
        for path in simulated
        if {"threading", "concurrent.futures", "queue", "asyncio"} & _imported(path)
    }
    assert threaded == THREADED


def test_ignores_carry_a_reason() -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for mark in ("# noqa", "# type: ignore")
        if mark in line and not has_reason(line.split(mark, 1)[1])
    ]
    assert not bare


def has_reason(rest: str) -> bool:
    _codes, dash, reason = rest.partition(" - ")
    if not dash:
        _codes, dash, reason = rest.partition("# ")
    return bool(dash) and len(reason.strip()) > 5


def test_setup_changes_no_device_and_no_kernel_setting() -> None:
    lines = (ROOT / "setup").read_text(encoding="utf-8").replace("/dev/null", "").splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    words = ("/dev/", "/proc/", "/sys/", "chmod", "chown", "mknod", "sysctl", "modprobe", "insmod")
    assert not [word for word in words if word in code]
    assert "apt-get install" in code


KAFKAS_OWN = re.compile(
    r"cluster\.kafka|cluster\.files|Mode\.|zookeeper|kraft|leader-epoch-checkpoint"
    r"|replication-offset-checkpoint|__cluster_metadata|meta\.properties"
)
"""A regex for names that only code about Kafka, or about Kafka's files, may use."""
ANY_SYSTEM = (
    "harness", "workloads", "nemesis", "checkers", "results", "cluster/hosts", "cluster/protocol",
)  # fmt: skip
SOURCES = ("list-offsets", "metadata", "metadata-log", "zookeeper")
"""Values of the record's column `source`: the source of a report about a leader."""
KNOW_KAFKA = {
    "checkers/spark/nodes.py": "the pure readers of Kafka's files, in Spark",
    "cluster/hosts/ssh/paths.py": "paths stand in settings, which Java escapes",
    "harness/simulated/channel.py": "takes the wire's place: the same questions in virtual time",
    "harness/keep.py": "a kept cluster hands its ZooKeeper's address on",
    "results/record/plan.py": "who keeps the metadata is a part of a plan",
    "results/record/systems.py": "the names of systems, and which versions have which modes",
    "results/record/terms.py": "the words of the record, Kafka's modes and files among them",
    "results/record/tuning.py": "the settings of brokers that a plan may hold",
}
"""Other modules that may use Kafka's names, with reasons. Scenarios are about Kafka and
need none."""


def code_of(text: str) -> str:
    """Return a module's code without comments, docstrings and values of the column `source`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                block[:] = [each for each in block if not is_text(each)] or [ast.Pass()]
        if isinstance(node, ast.Constant) and node.value in SOURCES:
            node.value = "source"
    return ast.unparse(tree)


def is_text(statement: ast.stmt) -> bool:
    said = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(said, ast.Constant) and isinstance(said.value, str)


def test_code_is_what_is_looked_at() -> None:
    assert code_of('"""kraft"""\nONE = "zookeeper"  # kraft\n"""zookeeper"""\n') == "ONE = 'source'"
    assert KAFKAS_OWN.search(code_of('def a():\n    """b"""\n    return f"{b} of zookeeper"'))
    assert KAFKAS_OWN.search(code_of("from cluster.kafka.wire import A"))
    assert not KAFKAS_OWN.search(code_of("from cluster.systems.kafka import A"))


def test_few_know_what_is_kafkas_own_and_each_has_a_reason() -> None:
    modules = [path for folder in ANY_SYSTEM for path in (ROOT / folder).rglob("*.py")]
    found = {
        name
        for path in modules
        if not (name := path.relative_to(ROOT).as_posix()).startswith("harness/scenarios/")
        if KAFKAS_OWN.search(code_of(path.read_text(encoding="utf-8")))
    }
    assert found == KNOW_KAFKA.keys()
    assert len(found) < 10
    assert all(len(reason) > 20 for reason in KNOW_KAFKA.values())
