"""The packages that `./setup` installs are locked by version and hash, without an index."""

import os
import pty
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def locked(name: str) -> list[Requirement]:
    """Return the packages that a lock file pins, without the hashes."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^\S.*?(?= \\$)", text, flags=re.MULTILINE)
    return [Requirement(each) for each in entries]


def asked(extra: str = "") -> list[Requirement]:
    """Return the packages that pyproject.toml requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if extra == "build":
        found = project["build-system"]["requires"]
    else:
        table = project["project"]
        found = table["optional-dependencies"][extra] if extra else table["dependencies"]
    return [Requirement(each) for each in found]


@pytest.mark.parametrize(
    ("extra", "lock"),
    [("", "plain"), ("", "test"), ("test", "test"), ("java", "java"), ("build", "build")],
)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_lock_has_all_that_the_project_asks_for(extra: str, lock: str, python: str) -> None:
    about = {"python_full_version": f"{python}.0", "python_version": python}
    pins = {
        canonicalize_name(each.name): str(next(iter(each.specifier))).removeprefix("==")
        for each in locked(lock)
        if each.marker is None or each.marker.evaluate(about)
    }
    lacking = [
        str(each)
        for each in asked(extra)
        if not each.specifier.contains(pins.get(canonicalize_name(each.name), "0"))
    ]
    assert not lacking, "type: requirements/lock"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_version_is_pinned_and_has_its_hashes(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
    assert entries
    form = re.compile(r"[a-z0-9._-]+==[^\s;]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+")
    assert [each for each in entries if not form.fullmatch(each)] == []


def test_both_locks_pin_the_same_versions() -> None:
    test = {str(each) for each in locked("test")}
    assert {str(each) for each in locked("plain")} <= test


def test_setup_refuses_a_word_that_it_does_not_know() -> None:
    done = subprocess.run(
        [ROOT / "setup", "tests"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 254
    assert done.stderr == (
        "setup: tests is not known; type: ./setup [test] [--system | --no-system]\n"
    )


TOOLS = ("sh", "dirname", "find", "grep", "rm", "sed", "touch", "true")
FAKES = {
    "sudo": 'shift; exec "$@"',
    "apt-get": 'echo "$*" >>"$LOG"',
    "env": 'shift; exec "$@"',  # Leaves DEBIAN_FRONTEND out.
    "python3": "exit 0",
}


def apt_calls(folder: Path, *words: str, user: int, answer: str | None, ci: str = "") -> str:
    """Return the arguments of apt-get in `./setup test`, on a fake machine without a browser.

    Args:
        folder: An empty folder.
        words: The words of the command line after `test`.
        user: The user who types the command. For all users but root, sudo asks for no password.
        answer: The answer to the setup's question; None: there is no terminal.
        ci: The value of the variable CI.
    """
    programs, python = folder / "bin", folder / ".venv" / "bin" / "python"
    programs.mkdir()
    python.parent.mkdir(parents=True)
    shutil.copy(ROOT / "setup", folder)
    for name in TOOLS:
        (programs / name).symlink_to(shutil.which(name) or name)
    for path, text in (
        *((programs / name, text) for name, text in FAKES.items()),
        (programs / "id", f"echo {user}"),
        (python, "exit 0"),
    ):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    log = folder / "log"
    log.touch()
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode() * 20)
        subprocess.run(
            ["/bin/sh", folder / "setup", "test", *words],
            stdin=subprocess.DEVNULL if answer is None else theirs,
            stderr=subprocess.DEVNULL, env={"PATH": str(programs), "LOG": str(log), "CI": ci},
            timeout=60, check=True,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    return log.read_text()


@pytest.mark.parametrize("user", [0, 1000])
@pytest.mark.parametrize("answer", ["", "n", "y"])
def test_40_setup_asks_before_it_calls_apt_as_root(user: int, answer: str, tmp_path: Path) -> None:
    assert ("chromium" in apt_calls(tmp_path, user=user, answer=answer)) == (answer == "y")


@pytest.mark.parametrize(
    ("words", "user", "ci", "calls"),
    [
        ((), 1000, "", False), (("--system",), 1000, "", True), ((), 1000, "true", True),
        ((), 0, "", True), (("--no-system",), 0, "true", False),
    ],
)  # fmt: skip
def test_40_without_a_terminal_sudo_installs_only_what_was_agreed_to(
    words: tuple[str, ...], user: int, ci: str, *, calls: bool, tmp_path: Path
) -> None:
    assert bool(apt_calls(tmp_path, *words, user=user, answer=None, ci=ci)) == calls
