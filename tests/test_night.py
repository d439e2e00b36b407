"""The night's command: it resumes, keeps each result, and its page says what the file says."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from benchmarks import night as nights
from benchmarks.covering import covering, pairs
from benchmarks.mutation import test_files
from benchmarks.night import KERNELS, RESULTS, ROOT, TESTS, Night, Step, judged, steps_of
from benchmarks.night_results import BEGIN, END, Begun, Done, Line, append, current, load, table
from harness.suites.expansion import entries_of
from harness.suites.suite import load_suite
from results.record.clock import wait_until

NIGHT = "20261121T010000Z"
BEGUN = Begun(night=NIGHT, commit="a" * 40)


def result(**given: object) -> Done:
    values: dict[str, object] = {
        "night": NIGHT, "commit": "a" * 40, "part": "fuzz", "step": "1", "of": 1,
        "begun_at": NIGHT, "took_s": 2, "load": (0, 0), "passed": True,
        "figures": {"records": 20, "slowest_s": 0.5}, "command": "python -m benchmarks.fuzz",
    }  # fmt: skip
    return Done.model_validate(values | given)


def small_step(code: str, *, name: str = "1") -> Step:
    """Return a step that prints what a campaign prints, or whatever else."""
    return Step(part="campaign", name=name, words=("python", "-c", code))


FINE = "print('9 simulated minutes, 2 times real time')"


def test_a_torn_line_is_named_and_the_night_goes_on_behind_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "night" / "results.jsonl"
    append(path, BEGUN)
    append(path, result())
    path.write_bytes(path.read_bytes()[:-9])
    assert load(path) == [BEGUN]
    assert "results.jsonl: line 2 is cut off, and left out" in capsys.readouterr().err
    append(path, result(step="2"))
    assert load(path) == [BEGUN, result(step="2")]


def test_a_night_goes_on_with_the_same_code_only() -> None:
    lines: list[Line] = [BEGUN, result()]
    assert current(lines, "a" * 40, "") == BEGUN
    assert current(lines, "b" * 40, "") is None
    assert current(lines, "a" * 40, "0123456789ab") is None
    assert current([], "a" * 40, "") is None


def played(tmp_path: Path, steps: Sequence[Step], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(nights, "steps_of", lambda *_, **__: iter(steps))
    monkeypatch.setattr(nights, "code", lambda: ("a" * 40, ""))
    there = ["--store", str(tmp_path / "runs"), "--results", str(tmp_path / "night/results.jsonl")]
    return nights.main(there)


def test_steps_that_are_done_are_skipped_and_one_that_failed_ends_it_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "night" / "results.jsonl"
    fine = small_step(FINE)
    assert played(tmp_path, [fine], monkeypatch) == 0
    bad = small_step("import sys; sys.exit('no cluster')", name="2")
    assert played(tmp_path, [fine, bad], monkeypatch) == 1
    begun, first, second = load(results)
    assert isinstance(begun, Begun)
    assert isinstance(first, Done)
    assert isinstance(second, Done)
    assert (first.passed, first.figures) == (True, {"simulated_minutes": 9})
    assert (second.passed, second.reason.partition(";")[0]) == (False, "exit code 1")
    assert {each.night for each in (first, second)} == {begun.night}
    log = tmp_path / "runs" / second.reason.partition("see ")[2]
    assert "no cluster" in log.read_text(encoding="utf-8")
    assert played(tmp_path, [fine, bad], monkeypatch) == 1
    assert len(load(results)) == 3
    assert "1 of 2" in (tmp_path / "night.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("part", "said", "status", "reason"),
    [
        ("fuzz", "20 records, the slowest in 0.5 s\nWRONG     2 raised\n", 1, "exit code 1"),
        ("fuzz", "", 0, "no figures were printed"),
        ("fuzz", "20 records, the slowest in 0.5 s\n", None, "took too long"),
        ("mutation", "all     5 /   9   55.6 %\n", 0, "less than 67% were killed"),
        ("mutation", "all     0 /   0    0.0 %\n", 0, "less than 67% were killed"),
    ],
)
def test_what_does_not_count_as_passed(
    part: str, said: str, status: int | None, reason: str
) -> None:
    ended = judged(part, said, status=status, log=Path("log"))
    assert not ended.passed
    assert ended.reason.startswith(reason)


def test_the_table_has_the_last_night_of_each_part() -> None:
    newer = "20261122T010000Z"
    lines = [
        result(night="20261120T010000Z", step="9"), result(),
        result(step="2", of=3, passed=False, figures={"records": 5, "slowest_s": 0.1}),
        result(part="kills", night=newer, begun_at=newer, changes="ab", figures={}, command="c"),
    ]  # fmt: skip
    assert table(lines).splitlines()[2:] == [
        (
            "| fuzz | `python -m benchmarks.night --only fuzz` | 1 of 2 (1 not yet played) |"
            " 25 records, slowest 0.5 s | aaaaaaa | 2026-11-21 | 4 s |"
        ),
        "| kills | `c` | 1 of 1 | none | aaaaaaa with changes | 2026-11-22 | 2 s |",
    ]


def test_the_page_says_what_the_results_say(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "night.md").read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table(load(RESULTS))
    assert not capsys.readouterr().err


def test_each_step_is_there_once_and_has_its_files(tmp_path: Path) -> None:
    steps = list(steps_of(NIGHT, tmp_path))
    assert len({each.command for each in steps}) == len(steps)
    assert all((ROOT / "checkers" / f"{name}.py").is_file() for name in KERNELS)
    assert [each.words for each in steps] == [each.words for each in steps_of(NIGHT, tmp_path)]
    other = steps_of("20261122T010000Z", tmp_path)
    assert steps[0].words != next(other).words


def test_each_kernel_has_tests_of_its_own() -> None:
    for name in KERNELS:
        named = [ROOT / each for each in TESTS.get(name, ())]
        own = named or [Path(each) for each in test_files([ROOT / "checkers" / f"{name}.py"])]
        assert own, name
        assert all(each.is_file() for each in own)


def test_a_real_step_is_played_and_recorded(tmp_path: Path) -> None:
    night = Night(begun=BEGUN, store=tmp_path, results=tmp_path / "results.jsonl")
    path = Path("tests/results/test_wilson.py")
    step = nights.property_step(path, "1")
    done = night.play(step, of=1)
    assert done.passed, done.reason
    assert done.figures["passed"] >= 1
    assert load(night.results) == [done]


def test_processes_of_a_step_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from benchmarks.guarded import run;"
        f"run(['sleep', '600'], Path({str(tmp_path / 'log')!r}), limit_s=600)"
    )
    command = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    ours = psutil.Process(command.pid)
    below = wait_until(
        lambda: [each for each in ours.children(recursive=True) if each.name() == "sleep"],
        timeout_s=30, what="the step",
    )  # fmt: skip
    os.kill(command.pid, signal.SIGKILL)
    command.wait()
    gone, alive = psutil.wait_procs(below, timeout=20)
    assert (len(gone), alive) == (1, [])


def test_a_covering_array_has_each_legal_pair_and_hangs_on_its_seed_alone() -> None:
    legal = [
        each
        for each in entries_of(load_suite(ROOT / "docs" / "nightly" / "covering.toml"))
        if each.labels["hosts"] == "namespace" or "partition" not in each.labels["nemesis"]
    ]
    chosen = covering(legal, seed=7)
    wanted = frozenset[object]().union(*map(pairs, legal))
    assert frozenset[object]().union(*map(pairs, chosen)) == wanted
    assert set(map(id, chosen)) <= set(map(id, legal))
    assert len(chosen) < len(legal) / 5
    assert chosen == covering(legal, seed=7) != covering(legal, seed=8)
