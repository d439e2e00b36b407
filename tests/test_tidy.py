"""The limits of the house style, as a test: sizes of functions and modules, words, the tree."""

import ast
from collections.abc import Iterator
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
    "cluster/kafka/fetch.py",  # Downloads, before any run.
    "harness/interrupt.py",  # Signals, which the machine sends.
    "harness/progress.py",  # Draws in the user's time; not for simulated runs.
    "harness/watching.py",  # The judgement of a run that goes on, which a simulated one never does.
}
"""Who of those who are simulated has threads all the same, for work that is of this machine."""
BANNED_NAMES = ("utils", "util", "helpers", "helper", "common", "misc", "manager")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 30


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_small_enough_and_named_for_what_it_holds(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES
    assert path.stem not in BANNED_NAMES
    too_long = [each.name for each in functions(path) if length(each) > MAX_FUNCTION_LINES]
    assert not too_long


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
    """Its tasks, locks and events are the runtime's, or virtual time stands still."""
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
