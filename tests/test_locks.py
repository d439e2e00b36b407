"""What `./setup` installs is locked: every version, every hash, and no package index."""

import re
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
    """Return what a lock pins, without the hashes."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    entries = re.findall(r"^\S.*?(?= \\$)", text, flags=re.MULTILINE)
    return [Requirement(each) for each in entries]


def asked(extra: str = "") -> list[Requirement]:
    """Return what pyproject.toml asks for."""
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
    assert done.stderr == "setup: tests is not known; type: ./setup [test] [--no-system]\n"
