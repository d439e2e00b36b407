"""Style, types and layers, checked by tools, so that reviewers need not check them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "format", "--check", "."),
        ("ruff", "check", "."),
        pytest.param(("mypy",), marks=pytest.mark.everything),  # Takes a minute without a cache.
        ("lint-imports",),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_tool_has_nothing_to_say(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
