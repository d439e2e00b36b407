"""CI runs the command that the README gives."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEWCOMER = "./setup test && .venv/bin/pytest"
EVERYTHING = "./setup test && .venv/bin/pytest --everything"
SETUP = """#!/bin/sh
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "$@" > played\\nexit 3\\n' > .venv/bin/pytest
chmod +x .venv/bin/pytest
"""
"""A setup script. It makes a `.venv` whose pytest records its arguments and exits with 3."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder with CI's script, a setup script, and a `.venv` left from an earlier run."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "setup").write_text(SETUP, encoding="utf-8")
    (tmp_path / "setup").chmod(0o755)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "stale").touch()
    return tmp_path


def run_ci(clone: Path, readme: str) -> "subprocess.CompletedProcess[str]":
    """Run CI's script from another folder, with a README."""
    (clone / "README.md").write_text(readme, encoding="utf-8")
    argv = [clone / ".ci" / "run"]
    return subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False, timeout=60)


def test_it_runs_the_line_that_tests_everything_in_a_fresh_environment(clone: Path) -> None:
    done = run_ci(clone, f"# Name\n\n```sh\n{NEWCOMER}\n{EVERYTHING}\n```\n")
    assert done.returncode == 3, done.stderr  # The tests' own exit code.
    assert done.stdout == f"+ {EVERYTHING}\n"
    assert (clone / "played").read_text(encoding="utf-8") == "--everything\n"
    assert not (clone / ".venv" / "stale").exists()


@pytest.mark.parametrize(
    "readme",
    [
        f"```sh\n{NEWCOMER}\n```\n",
        f"Run `{EVERYTHING}` before a landing.\n",
        f"{EVERYTHING} -x\n",
        "",
    ],
)
def test_without_that_line_it_fails_with_a_sentence_and_removes_nothing(
    clone: Path, readme: str
) -> None:
    done = run_ci(clone, readme)
    assert (done.returncode, done.stdout) == (1, "")
    assert "README.md has no line that begins with './setup test && '" in done.stderr
    assert not (clone / "played").exists()
    assert (clone / ".venv" / "stale").exists()


def test_the_readme_and_the_workflow_of_github_have_both_lines() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", _text("README.md"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line for line in lines if line.startswith("./setup test")] == [NEWCOMER, EVERYTHING]
    played = re.findall(r"^ +- run: (\./.*)$", _text(".github/workflows/tests.yml"), re.MULTILINE)
    assert played == [NEWCOMER, EVERYTHING]


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
