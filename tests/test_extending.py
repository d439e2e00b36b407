"""The example of the page that explains how to add a checker works as the page says."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from checkers import columns, group, protocol
from checkers import findings as checker_findings
from results.record import verdict
from tests.checkers.partition_rows import whole_run

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "extending" / "checker.md"
PACKAGES = ("cluster", "harness", "logquake", "nemesis", "results", "workloads")


def test_the_checker_of_the_page_is_added_and_judges_a_sample(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    module, tests = re.findall(r"```python\n(\"\"\"slow-send.*?)```", page, re.DOTALL)
    (lines,) = re.findall(r"```text\n(slow_send,\nslow_send\.CHECKER,)\n```", page)
    imported, listed = lines.splitlines()
    for copied in ("checkers", "tests/checkers"):
        shutil.copytree(ROOT / copied, tmp_path / copied)
    for each in (*map(ROOT.joinpath, PACKAGES), *ROOT.glob("tests/*"), *ROOT.glob("*.*")):
        place = tmp_path / each.relative_to(ROOT)
        if not place.exists():
            place.symlink_to(each)
    (tmp_path / "checkers" / "slow_send.py").write_text(module, encoding="utf-8")
    (tmp_path / "tests" / "checkers" / "test_slow_send.py").write_text(tests, encoding="utf-8")
    registry = tmp_path / "checkers" / "registry.py"
    text = registry.read_text(encoding="utf-8")
    text = text.replace("from checkers import (\n", f"from checkers import (\n    {imported}\n", 1)
    head, found, tail = text.partition("\nCHECKERS: tuple[Checker, ...] = (\n")
    assert found
    registry.write_text(f"{head}{found}    {listed}\n{tail}", encoding="utf-8")

    assert "passed" in _python(tmp_path, "-m", "pytest", "-q", "tests/checkers/test_slow_send.py")
    (told,) = re.findall(r'The example reports "(.*?)"', page)
    assert told in _logquake(tmp_path, "check", "--engine", "local", "sample:valid")
    assert "acknowledged sends that took more than 1 s" in _logquake(tmp_path, "help", "slow-send")

    before = _judged(tmp_path)
    _add_a_number(tmp_path / "checkers" / "figures.py", page)
    after = _judged(tmp_path)
    number = after["stats"].pop("slowest_fault_s")
    assert after == before, "neither the verdict nor its headline changes"
    assert re.findall(r'this command prints `"slowest_fault_s": (.*?)`', page) == [str(number)]


def _judged(folder: Path) -> dict[str, Any]:
    told = _logquake(folder, "check", "--engine", "local", "--json", "sample:valid")
    (judged,) = json.loads(told)
    assert isinstance(judged, dict)
    return judged


def _add_a_number(figures: Path, page: str) -> None:
    """Add the number of the page to the figures of each verdict."""
    (function,) = re.findall(r"```python\n(def _slowest_fault.*?)```", page, re.DOTALL)
    (line,) = re.findall(r"```text\n(\*\*_slowest_fault.*?)\n```", page)
    head, found, tail = figures.read_text(encoding="utf-8").partition("    return {\n")
    assert found
    text = f"{head}{found}        {line}\n{tail}\n\n{function}"
    figures.write_text(text, encoding="utf-8")


def test_the_example_for_a_whole_run_counts_the_empty_polls_of_each_process(
    tmp_path: Path,
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(def _check.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"Counter": Counter, "NAME": "empty-poll"}
    for module in (columns, checker_findings, group, protocol, verdict):
        names |= vars(module)
    (tmp_path / "empty_poll.py").write_text(code, encoding="utf-8")
    check = runpy.run_path(str(tmp_path / "empty_poll.py"), names)["_check"]
    polls = [(1, 0, "ok"), (1, 3, "ok"), (2, 0, "ok"), (2, 0, "ok"), (3, 0, "fail")]
    ops = [
        {"op_id": at, "process": process, "f": "poll", "outcome": outcome, "messages": messages}
        for at, (process, messages, outcome) in enumerate(polls)
    ]
    told = check(whole_run(ops=ops))
    assert [each.sentence for each in told.anomalies] == [
        "process 1 polled 1 times without a message",
        "process 2 polled 2 times without a message",
    ]  # fmt: skip
    assert told.rows == len(polls) - 1
    (why,) = check(whole_run(ops=[])).unshown
    assert why.startswith("no poll succeeded")


def _logquake(folder: Path, *arguments: str) -> str:
    return _python(folder, "-c", "from harness.cli import main; main()", *arguments)


def _python(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert not done.returncode, done.stdout + done.stderr
    return " ".join(done.stdout.split())
