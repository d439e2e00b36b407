"""The command for nightly tests: it resumes, keeps each result, and its page has the results."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from hypothesis import settings

from benchmarks import mutation
from benchmarks import night as nights
from benchmarks.covering import covering, pairs
from benchmarks.guarded import run
from benchmarks.night import LOCK, RESULTS, ROOT, TESTS, Step, judged, steps_of
from benchmarks.night_results import (
    BEGIN,
    END,
    PARTS,
    SHORTENED,
    Begun,
    Done,
    Line,
    append,
    current,
    load,
    table,
)
from benchmarks.scores import TABLE, Score, load_scores, recorded
from checkers import registry
from harness.suites.expansion import entries_of
from harness.suites.nights import SuiteLock
from harness.suites.suite import load_suite
from results.record.atomic import StoreError
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
    """Return a step of a night that runs a piece of Python code."""
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


def test_a_small_night_and_a_full_one_go_on_beside_each_other() -> None:
    small = Begun(night="20261122T010000Z", commit="a" * 40, small=True)
    assert current([BEGUN, small], "a" * 40, "") == BEGUN
    assert current([BEGUN, small], "a" * 40, "", small=True) == small
    assert current([BEGUN], "a" * 40, "", small=True) is None


def played(
    tmp_path: Path, steps: Sequence[Step], monkeypatch: pytest.MonkeyPatch, *options: str
) -> int:
    monkeypatch.setattr(nights, "steps_of", lambda *_, **__: iter(steps))
    monkeypatch.setattr(nights, "code", lambda: ("a" * 40, ""))
    there = ["--store", str(tmp_path / "runs"), "--results", str(tmp_path / "night/results.jsonl")]
    return nights.main([*there, *options])


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
    assert "1 of 2 (1 failed)" in (tmp_path / "night.md").read_text(encoding="utf-8")


def test_a_try_that_was_interrupted_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "runs" / ".night" / NIGHT / "campaign-1.log"
    log.parent.mkdir(parents=True)
    log.write_text("9 simulated minutes, 2 times real time\n9 simu", encoding="utf-8")
    append(tmp_path / "night" / "results.jsonl", BEGUN)
    assert played(tmp_path, [small_step(FINE)], monkeypatch) == 0
    _, done = load(tmp_path / "night" / "results.jsonl")
    assert isinstance(done, Done)
    assert done.figures == {"simulated_minutes": 9}
    assert log.read_text(encoding="utf-8").count("simulated") == 2


def test_beside_a_night_that_is_played_none_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = SuiteLock(tmp_path / "runs", LOCK)
    with pytest.raises(StoreError, match=r"^a night is being played .*\(by process \d+\)"):
        played(tmp_path, [small_step(FINE)], monkeypatch, "--new")
    assert played(tmp_path, [small_step(FINE)], monkeypatch, "--list") == 0
    assert not (tmp_path / "night").exists()
    lock.release()
    assert played(tmp_path, [small_step(FINE)], monkeypatch, "--only", "no-such-part") == 1
    assert not (tmp_path / "night").exists()
    assert played(tmp_path, [small_step(FINE)], monkeypatch, "--small") == 0
    begun, _ = load(tmp_path / "night" / "results.jsonl")
    assert isinstance(begun, Begun)
    assert begun.small


@pytest.mark.parametrize(
    ("part", "said", "status", "reason"),
    [
        ("fuzz", "20 records, the slowest in 0.5 s\nWRONG     2 raised\n", 1, "exit code 1"),
        ("fuzz", "", 0, "no figures were printed"),
        ("fuzz", "20 records, the slowest in 0.5 s\n", None, "took too long"),
        ("mutation", "all    92 / 100   92.0 %\n", 0, "less than 93.0% were killed"),
        ("mutation", "all     0 /   0    0.0 %\n", 0, "less than 86.3% were killed"),
    ],
)
def test_what_does_not_count_as_passed(
    part: str, said: str, status: int | None, reason: str
) -> None:
    score = Score(name="calm", killed=93, tried=100, rough=False) if part == "mutation" else None
    step = Step(part=part, name="1", words=(), score=score)
    ended = judged(step, said, status=status, log=Path("log"))
    assert not ended.passed
    assert ended.reason.startswith(reason)


def test_the_table_has_the_last_night_of_each_part() -> None:
    newer = "20261122T010000Z"
    lines = [
        result(night="20261120T010000Z", step="9"), result(),
        result(step="2", of=3, passed=False, figures={"records": 5, "slowest_s": 0.1}),
        result(part="kills", night=newer, begun_at=newer, changes="ab", figures={}, command="c"),
        result(part="mutation", of=47, command="m"),
    ]  # fmt: skip
    assert table(lines).splitlines()[2:] == [
        (
            "| fuzz | `python -m benchmarks.night --only fuzz` |"
            " 1 of 3 (1 failed, 1 not yet played) |"
            " 25 records, slowest 0.5 s | aaaaaaa | 2026-11-21 | 4 s |"
        ),
        unplayed("campaign"),
        "| kills | `c` | 1 of 1 | none | aaaaaaa with changes | 2026-11-22 | 2 s |",
        unplayed("tests"),
        unplayed("hypothesis"),
        (
            "| mutation | `m` | 1 of 47 (46 not yet played) | 20 records, slowest 0.5 s | aaaaaaa |"
            " 2026-11-21 | 2 s |"
        ),
        unplayed("false-alarms"), unplayed("covering"),
    ]  # fmt: skip


def unplayed(part: str) -> str:
    return f"| {part} | `python -m benchmarks.night --only {part}` | not yet played | | | | |"


def test_a_small_night_shows_as_such_and_hides_no_full_one() -> None:
    night = "20261122T010000Z"
    lines: list[Line] = [
        Begun(night=night, commit="a" * 40, small=True), result(night=night),
        result(night=night, part="kills"), result(night=night, part="kills", step="2", of=3),
        result(night=night, part="mutation"),
    ]  # fmt: skip
    fuzz, _, kills, _, _, mutants, *_ = table(lines).splitlines()[2:]
    assert "| 1 of 1 (small) |" in fuzz
    assert "--only kills --small` | 2 of 3 (small, 1 not yet played) |" in kills
    assert "| 1 of 1 |" in mutants
    fuzz, _, kills, *_ = table([BEGUN, result(of=5), *lines]).splitlines()[2:]
    assert "| 1 of 5 (4 not yet played) |" in fuzz
    assert "(small, " in kills


def test_the_page_says_what_the_results_say(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "night.md").read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table(load(RESULTS))
    assert not capsys.readouterr().err


def test_each_step_is_there_once_and_has_its_files(tmp_path: Path) -> None:
    steps = list(steps_of(NIGHT, tmp_path))
    assert len({each.command for each in steps}) == len(steps)
    assert tuple(dict.fromkeys(each.part for each in steps)) == PARTS
    small = [each.command for each in steps_of(NIGHT, tmp_path, small=True)]
    assert {each.part for each in steps if each.command not in small} == set(SHORTENED)
    assert [each.words for each in steps] == [each.words for each in steps_of(NIGHT, tmp_path)]
    other = steps_of("20261122T010000Z", tmp_path)
    assert steps[0].words != next(other).words


def test_each_kernel_with_a_score_is_there_and_has_tests_of_its_own() -> None:
    for name in (score.name for score in load_scores()):
        kernel = ROOT / "checkers" / f"{name}.py"
        assert kernel.is_file()
        named = [ROOT / each for each in TESTS.get(name, ())]
        own = named or [Path(each) for each in mutation.test_files([kernel])]
        assert own, name
        assert all(each.is_file() for each in own)


def test_each_module_with_a_checker_has_a_score() -> None:
    found = {each.__name__ for each in vars(registry).values() if isinstance(each, ModuleType)}
    modules = {each for each in found if each.startswith("checkers.")}
    names = {each.name for each in load_scores()}
    assert len(modules) > 30
    assert {each.removeprefix("checkers.").replace(".", "/") for each in modules} <= names


def test_a_kernel_has_to_keep_its_score() -> None:
    text = TABLE.read_text(encoding="utf-8")
    least = {each.name: each.least(each.tried) for each in recorded(text)}
    assert least["lost_write"] == 142 / 143
    grown = Score(name="calm", killed=15, tried=15, rough=False)
    assert (grown.least(15), round(grown.least(50), 2)) == (1.0, 0.8)
    assert 0.84 < least["log_divergence"] < 0.86, "124 of 137, of a sample"
    assert 0.81 < least["disk_losses"] < 0.82, "46 of 50, of a former module"
    with pytest.raises(ValueError, match=r"fix this row: .*lost_write"):
        list(recorded(text.replace("| 142 / 143 |", "| 142 of 143 |")))
    with pytest.raises(ValueError, match="there is no table"):
        list(recorded(""))


def test_a_step_looks_for_new_examples_and_its_end_is_understood() -> None:
    step = nights.property_step(Path("tests/results/test_wilson.py"), "1")
    assert not settings.get_profile(
        step.words[step.words.index("--hypothesis-profile") + 1]
    ).derandomize
    said = "..F [100%]\n1 failed, 2 passed, 3 deselected in 0.50s\n"
    assert judged(step, said, status=1, log=Path("log")).figures == {"passed": 2, "failed": 1}
    ended = judged(step, "2 passed in 61.20s (0:01:01)\n", status=0, log=Path("log"))
    assert (ended.passed, ended.figures) == (True, {"passed": 2})


STEP = """
import subprocess, sys
own = [subprocess.Popen(["sleep", "600"], **{how: value}).pid
       for how, value in (("close_fds", True), ("process_group", 0), ("start_new_session", True))]
print(*own, flush=True)
subprocess.run(["sleep", "600"])
"""


def test_the_session_of_a_step_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "import sys; from pathlib import Path; from benchmarks.guarded import run;"
        "run([sys.executable, '-c', sys.argv[1]], Path(sys.argv[2]), limit_s=600)"
    )
    command = subprocess.Popen([sys.executable, "-c", code, STEP, str(log)], cwd=ROOT)

    def printed() -> list[str]:
        text = log.read_text("ascii") if log.exists() else ""
        return text.split() if text.endswith("\n") else []

    pids = wait_until(printed, timeout_s=60, what="the step")
    same, group, session = (psutil.Process(int(pid)) for pid in pids)
    step = same.parent()
    assert step is not None
    try:
        command.send_signal(signal.SIGKILL)
        command.wait()
        gone, _ = psutil.wait_procs([same, group, step], timeout=60)
        assert set(gone) == {same, group, step}
        assert session.is_running(), "it has a session of its own"
    finally:
        for each in (same, group, session):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def test_a_command_that_takes_too_long_ends_with_its_session(tmp_path: Path) -> None:
    program = "(while :; do sleep 1; done) & wait"
    marked = str(tmp_path / "marked")
    assert run(["sh", "-c", program, marked], tmp_path / "log", limit_s=1.0) is None
    wait_until(
        lambda: not any(
            marked in (each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])
        ),
        timeout_s=60, what="the end of both shells",
    )  # fmt: skip


def test_a_covering_array_has_each_legal_pair_and_hangs_on_its_seed_alone() -> None:
    legal = [
        each
        for each in list(entries_of(load_suite(ROOT / "docs" / "nightly" / "covering.toml")))[::3]
        if each.labels["hosts"] == "namespace" or "partition" not in each.labels["nemesis"]
    ]
    chosen = covering(legal, seed=7)
    wanted = frozenset[object]().union(*map(pairs, legal))
    assert frozenset[object]().union(*map(pairs, chosen)) == wanted
    assert set(map(id, chosen)) <= set(map(id, legal))
    assert len(chosen) < len(legal) / 3
    assert chosen == covering(legal, seed=7) != covering(legal, seed=8)
