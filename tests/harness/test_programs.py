"""`from logquake import run, judge`: a plan in, a verdict out, and documented errors."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

import logquake
from harness import manual
from logquake import PlanError, StoreError, UserError, Validity, judge, run
from logquake_pytest import PACKAGES

ROOT = Path(__file__).parent.parent.parent
SIMULATED = {"system": "reference", "hosts": "simulated"}


def examples() -> list[str]:
    """Return the examples of the page, whole programs first."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def python(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False,
        timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_the_example_of_the_page_plays_and_judges(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(examples()[0], encoding="utf-8")
    done = python("example.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *_, page, strictly = done.stdout.splitlines()
    assert first.startswith("valid Valid")
    assert Path(tmp_path, page.removeprefix("the page: ")).is_file()
    assert strictly == "strictly: valid"
    assert done.stderr == ""


@pytest.mark.night
def test_the_fixture_of_the_page_plays_into_the_store_that_was_named(tmp_path: Path) -> None:
    (test,) = (each for each in examples() if each.startswith("def test_"))
    plan = '{"system": "kafka:/home/me/kafka", "time_limit_s": 30}'
    assert plan in test
    mine = str({**SIMULATED, "rate": 50, "time_limit_s": 12, "nemesis": ["partition"]})
    (tmp_path / "test_mine.py").write_text(test.replace(plan, mine), encoding="utf-8")
    words = ("-m", "pytest", "-p", "no:cacheprovider", "--logquake-store", "mine")
    done = python(*words, "--junit-xml", "r.xml", folder=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "mine" / "latest" / "verdict.json").is_file()
    assert 'name="logquake_run" value="log/' in (tmp_path / "r.xml").read_text(encoding="utf-8")


@pytest.mark.everything
def test_a_sample_is_judged_and_stays_as_it_is() -> None:
    verdict = judge("sample:valid", engine="local")
    assert verdict.valid is Validity.VALID


@pytest.mark.parametrize(
    ("plan", "error", "said"),
    [
        ({"sistem": "reference"}, PlanError, "did you mean 'system'"),
        ({**SIMULATED, "compression": "gzip"}, UserError, "simulated clients do not compress"),
        ({"broker": {"log.dirs": "/"}}, PlanError, "the plan's broker.log.dirs cannot be set"),
        ("none.toml", PlanError, "the plan none.toml cannot be read"),
        ({"scenario": {"name": "nonsense"}}, PlanError, "there is no scenario 'nonsense'"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence_and_leaves_nothing(
    plan: "dict[str, object] | str", error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=re.escape(said)) as refused:
        run(plan, store=tmp_path / "runs")
    assert isinstance(refused.value, logquake.REFUSED)
    assert not (tmp_path / "runs").exists()


def test_changes_win_over_a_file_and_say_again_what_reaches_beyond_the_run(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('system = "reference"\nhosts = "ssh:/nowhere/hosts.toml"\n', encoding="utf-8")
    plan.chmod(0o666)
    with pytest.raises(PlanError, match="to confirm it, add: --hosts"):
        run(plan, store=tmp_path / "runs")
    with pytest.raises(UserError, match="cannot run on ssh hosts"):
        run(plan, store=tmp_path / "runs", changes={"hosts": "ssh:/nowhere/hosts.toml"})


@pytest.mark.parametrize(
    ("folder", "by", "error", "said"),
    [
        ("nowhere", None, StoreError, "nowhere is not the folder of a run"),
        ("sample:nothing", None, StoreError, "there is no sample"),
        ("sample:valid", "kind", UserError, "the judge 'kind' does not exist; use one of contract"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_a_sentence(
    folder: str, by: str | None, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        judge(folder, judge=by)


def test_a_run_is_played_in_the_main_thread_alone(tmp_path: Path) -> None:
    raised: list[BaseException] = []

    def play() -> None:
        try:
            run(SIMULATED, store=tmp_path)
        except RuntimeError as refused:
            raised.append(refused)

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


def test_handlers_of_the_program_are_as_before(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    output = io.StringIO()
    with pytest.raises(UserError):
        run({**SIMULATED, "compression": "gzip"}, store=tmp_path, output=output)
    assert signal.getsignal(signal.SIGINT) is before


def test_all_packages_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {each.rstrip("*") for each in included} == set(PACKAGES) == set(manual.PACKAGES)
