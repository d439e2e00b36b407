"""No skip hides a test: a separate pytest session runs example tests with our settings."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.machine import INSIDE, NO_TEST, needs
from tests.side_by_side import APART, LONG, unit_of

ROOT = Path(__file__).parents[1]
SAMPLE = """
import pytest
from tests import machine

machine.NEEDS = {**machine.NEEDS, "moon": lambda: "the moon: it is cloudy; wait for the wind"}

@pytest.fixture
def light():
    machine.require("moon")

@pytest.mark.needs("moon")
def test_marked():
    raise AssertionError

def test_by_its_fixture(light):
    raise AssertionError

def test_that_passes():
    assert True
"""
BY_HAND = """
import pytest

def test_by_hand():
    pytest.skip("left out: this only looks like it")

@pytest.mark.skipif(True, reason="left out: this, too")
def test_by_mark():
    raise AssertionError

@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail():
    raise AssertionError
"""
REASON = "the moon: it is cloudy; wait for the wind"


def session(
    folder: Path, text: str, *words: str, **environment: str
) -> tuple[Mapping[str, int], str]:
    """Return the number of tests with each outcome, and the session's output."""
    (folder / "test_sample.py").write_text(text)
    clean = {key: value for key, value in os.environ.items() if key not in {"CI", INSIDE}}
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-q"]
    # Import Hypothesis first. Otherwise it warns, because conftest's imports create strategies.
    options += ["-p", "hypothesispytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(words or ("test_sample.py",))],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()[-1].partition(" in ")[0].split(", ")
    counts = {name.rstrip("s"): int(count) for count, name in (each.split() for each in said)}
    return counts, done.stdout + done.stderr


def test_what_is_left_out_is_listed_by_reason_with_its_count(tmp_path: Path) -> None:
    counts, said = session(tmp_path, SAMPLE)
    assert counts == {"passed": 1, "skipped": 2}, said
    assert f"left out: 2 tests: {REASON}" in said.splitlines()
    assert NO_TEST not in said


def test_a_session_of_all_tests_says_what_none_of_them_plays(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("def test_one(): pass\n")
    _, whole = session(tmp_path, SAMPLE, "-p", "no:xdist")
    assert NO_TEST in whole.splitlines(), whole


def test_a_skip_of_any_other_kind_fails_whatever_it_says(tmp_path: Path) -> None:
    counts, said = session(tmp_path, BY_HAND)
    assert counts == {"failed": 1, "error": 1, "xfailed": 1}, said
    assert said.count("only tests/machine.py leaves tests out") >= 2


def test_a_module_that_skips_itself_fails(tmp_path: Path) -> None:
    counts, said = session(tmp_path, "import pytest\npytest.importorskip('no_such_module')\n")
    assert counts == {"error": 1}, said
    assert "skipped as a whole" in said


def test_root_on_ci_leaves_nothing_out_and_an_ordinary_user_does(tmp_path: Path) -> None:
    counts, said = session(tmp_path, SAMPLE, CI="true")
    skipped = "error" if os.geteuid() == 0 else "skipped"
    assert counts == {"passed": 1, skipped: 2}, said
    assert ("though `./setup test` installs what it needs" in said) == (os.geteuid() == 0)


def test_ci_tells_of_each_failure_when_it_happens(tmp_path: Path) -> None:
    _, said = session(tmp_path, "def test_one():\n    assert 1 == 2\n", CI="true")
    assert said.index("test_one: call failed after") < said.index("= FAILURES =")
    _, said = session(tmp_path, "def test_one():\n    assert 1 == 2\n")
    assert "call failed after" not in said


def test_inside_of_a_hub_a_mark_was_asked_before_and_a_skip_would_be_seen_by_nobody(
    tmp_path: Path,
) -> None:
    counts, said = session(tmp_path, SAMPLE, **{INSIDE: "1"})
    # The marked test runs, and fails as written. The other test is not left out.
    assert counts == {"failed": 1, "error": 1, "passed": 1}, said
    assert "where nobody would report it" in said


TIERS = """
import pytest

def test_of_the_first():
    pass

@pytest.mark.everything
def test_of_the_second():
    pass
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-n0", "."), 1),
        (("-n0", ".", "--everything"), 2),
        (("-n0", "test_sample.py::test_of_the_second"), 1),
        pytest.param(("-n2", "test_sample.py"), 2, marks=pytest.mark.night),
    ],
)
def test_the_second_tier_is_for_who_asks_for_everything_or_names_a_test(
    words: tuple[str, ...], expected: int, tmp_path: Path
) -> None:
    # A session that a worker's test starts does not belong to a worker.
    counts, said = session(tmp_path, TIERS, *words, PYTEST_XDIST_WORKER="gw0")
    counts = {name: count for name, count in counts.items() if name != "deselected"}
    assert counts == {"passed": expected}, said


def test_the_files_that_come_first_are_there() -> None:
    assert [each for each in LONG if not (ROOT / each).is_file()] == []
    assert set(LONG) >= APART


def test_files_whose_tests_go_to_several_workers_share_no_fixture() -> None:
    for file in sorted(APART):
        assert "scope=" not in (ROOT / file).read_text(encoding="utf-8"), file
        assert unit_of(f"{file}::test_one[a::b]") == f"{file}::test_one[a::b]"
    assert unit_of("tests/test_machine.py::test_one") == "tests/test_machine.py"


def test_a_need_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    counts, said = session(tmp_path, SAMPLE.replace('needs("moon")', 'needs("sun")'))
    assert counts == {"error": 1, "skipped": 1, "passed": 1}, said
    assert "{'sun'} is none of root, docker" in said
    with pytest.raises(AssertionError, match="sun"):
        needs("sun")
