"""The false-alarm series: it resumes, judges kept runs again, and keeps explanations by people."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from benchmarks import false_alarms
from benchmarks.false_alarm_results import (
    NONE,
    PARTS,
    RESULTS,
    Line,
    explanations,
    last,
    lines_of,
    page_lines,
    write_page,
)
from benchmarks.false_alarms import (
    BUSY_LOOPS,
    JUDGING,
    LOCK,
    RUNNING,
    Code,
    Series,
    hashed,
    main,
    steps_of,
)
from benchmarks.guarded import beside
from benchmarks.night import Step
from benchmarks.night_results import BEGIN, END, append
from harness.suites.nights import SuiteLock
from results.record.atomic import StoreError
from results.record.clock import wait_until
from results.samples import find_sample

AT = "20261124T010000Z"
LOST = "Invalid: 2 acknowledged messages were lost."
SECONDS = ("--hosts", "simulated", "--system", "reference", "--seed", "3", "--nemesis", "",
           "--time-limit", "5", "--warmup", "2", "--rate", "80", "--topics", "1",
           "--partitions", "1", "--concurrency", "4")  # fmt: skip


def line(**given: object) -> Line:
    values: dict[str, object] = {
        "part": "log", "step": "1", "of": 20, "run": "log/run/1", "command": "logquake run",
        "begun_at": AT, "took_s": 80, "load": (1, 2.5), "commit": "a" * 40, "running": "r1",
        "judged_at": AT, "judge": "a" * 40, "judging": "j1", "verdict": "valid", "expected": True,
    }  # fmt: skip
    return Line.model_validate(values | given)


def invalid(**given: object) -> Line:
    values: dict[str, object] = {"verdict": "invalid", "expected": False, "sentence": LOST}
    return line(**(values | given))


def series(tmp_path: Path, *, judging: str) -> Series:
    code = Code(commit="b" * 40, running="r1", judging=judging)
    return Series(code=code, store=tmp_path / "runs", results=tmp_path / "false-alarms.jsonl")


def test_the_hash_sees_each_change_of_code_and_nothing_else(tmp_path: Path) -> None:
    for name in ("harness/a.py", "harness/deep/b.py", "checkers/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n", encoding="ascii")
    before = hashed(["harness"], tmp_path)
    (tmp_path / "checkers" / "c.py").write_text("x = 2\n", encoding="ascii")
    (tmp_path / "harness" / "README.md").write_text("text\n", encoding="ascii")
    assert hashed(["harness"], tmp_path) == before
    (tmp_path / "harness" / "deep" / "b.py").write_text("x = 2\n", encoding="ascii")
    assert hashed(["harness"], tmp_path) != before
    (tmp_path / "harness" / "deep" / "b.py").rename(tmp_path / "harness" / "b.py")
    assert hashed(["harness"], tmp_path) != before


def test_what_the_issue_asks_for_is_there() -> None:
    steps = list(steps_of("r1"))
    counts = {part: sum(each.part == part for each in steps) for part in PARTS}
    assert tuple(dict.fromkeys(each.part for each in steps)) == tuple(PARTS)
    assert [counts[part] for part in ("log", "txn", "groups")] == [20, 20, 20]
    assert [counts[part] for part in ("log-all", "groups-all", "busy")] == [10, 10, 10]
    assert counts["simulated"] * 20 == 300
    assert set(BUSY_LOOPS) <= set(counts)
    assert len({each.command for each in steps}) == len(steps)
    assert [each.words for each in steps] == [each.words for each in steps_of("r1")]
    assert steps[0].words != next(steps_of("r2")).words


def test_the_last_run_of_a_step_counts_with_its_last_verdict() -> None:
    later = "20261125T010000Z"
    newer = line(run="log/run/2", begun_at=later)
    again = invalid(judging="j2", before="valid")
    assert last([line(), again]) == {("log", "1"): again}
    assert last([line(), newer, again]) == {("log", "1"): newer}


def test_the_page_counts_and_keeps_explanations(tmp_path: Path) -> None:
    results = tmp_path / "false-alarms.jsonl"
    page = results.with_suffix(".md")
    page.write_text(f"# Title\n\n{BEGIN}\n{END}\n\nThe end.\n", encoding="utf-8")
    kept = [
        line(), invalid(step="2", run="log/run/2"),
        line(step="3", run="", verdict=NONE, expected=False, sentence="no verdict | it hung"),
        line(part="scenarios", of=1, run="s/run/1", verdict="invalid", commit="a" * 40 + "+"),
    ]  # fmt: skip
    for each in kept:
        append(results, each)
    write_page(results)
    text = page.read_text(encoding="utf-8")
    assert (
        "| 1 of 20 (17 not yet played) | 1 to 2.5 | aaaaaaa | aaaaaaa | 2026-11-24 | 240 s |"
        in text
    )
    assert "| 1 of 1 | 1 to 2.5 | aaaaaaa+ |" in text
    assert "| busy |" in text
    row = f"| log/run/2 | log/2 | invalid (aaaaaaa) | {LOST} | |"
    assert row in text.splitlines()
    assert f"| log/3 {AT} | log/3 | none (aaaaaaa) | no verdict / it hung | |" in text
    why = "a false alarm: `a | b`, mended in bbbbbbb"
    page.write_text(text.replace(row, f"{row[:-1]}{why} |"), encoding="utf-8")
    assert explanations(page.read_text(encoding="utf-8"))["log/run/2"] == why
    mended = line(step="2", run="log/run/2", judge="b" * 40, judging="j2", before="invalid")
    append(results, mended)
    write_page(results)
    write_page(results)
    text = page.read_text(encoding="utf-8")
    both = "invalid (aaaaaaa), then valid (bbbbbbb)"
    assert f"| log/run/2 | log/2 | {both} | {LOST} | {why} |" in text.splitlines()
    assert "| 2 of 20 (17 not yet played) |" in text
    assert text.startswith("# Title\n")
    assert text.endswith("The end.\n")


def test_the_page_says_what_the_results_say() -> None:
    text = RESULTS.with_suffix(".md").read_text(encoding="utf-8")
    there = text.partition(BEGIN)[2].partition(END)[0].strip()
    assert there == page_lines(lines_of(RESULTS), explanations(text))


def played(
    tmp_path: Path, steps: Sequence[Step], monkeypatch: pytest.MonkeyPatch, *options: str
) -> int:
    monkeypatch.setattr(false_alarms, "steps_of", lambda _: iter(steps))
    where = ["--store", str(tmp_path / "runs"), "--results", str(tmp_path / "false-alarms.jsonl")]
    return main([*where, *options])


@pytest.mark.night
def test_a_run_is_kept_skipped_and_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "false-alarms.jsonl"
    good = Step(part="log", name="1", words=("logquake", "run", *SECONDS))
    bad = Step(part="log", name="2", words=("logquake", "run", "--no-such-option"))
    assert played(tmp_path, [good], monkeypatch) == 0
    (first,) = lines_of(results)
    assert (first.verdict, first.expected, first.before) == ("valid", True, "")
    assert (tmp_path / "runs" / first.run / "report.html").is_file()
    assert played(tmp_path, [good, bad], monkeypatch) == 1
    _, second = lines_of(results)
    assert (second.verdict, second.run) == (NONE, "")
    assert second.sentence == "no verdict: the command ended with 254; see 2.log"
    assert played(tmp_path, [good, bad], monkeypatch) == 1
    assert len(lines_of(results)) == 2
    monkeypatch.setattr(false_alarms, "hashed", lambda folders: folders[0])
    assert played(tmp_path, [good, bad], monkeypatch, "--rejudge") == 1
    *_, again = lines_of(results)
    assert (again.run, again.before, again.verdict) == (first.run, "valid", "valid")
    assert (again.running, again.judging) == (first.running, JUDGING[0])
    assert len(lines_of(results)) == 3
    assert played(tmp_path, [good, bad], monkeypatch, "--rejudge") == 1
    assert len(lines_of(results)) == 3
    assert played(tmp_path, [good], monkeypatch, "--list") == 0
    assert "open    log/1" in capsys.readouterr().out


def test_a_story_that_ends_as_it_is_told_is_expected_when_it_is_judged_again(
    tmp_path: Path,
) -> None:
    there = series(tmp_path, judging="j2")
    run = there.store / "leader-epochs" / "run" / "1"
    shutil.copytree(find_sample("sample:leader-epoch-1-high-watermark"), run)
    kept = line(part="leader-epochs", run="leader-epochs/run/1", verdict="unknown", expected=False)
    again = there.judge_again(kept)
    assert again is not None
    assert (again.before, again.verdict, again.expected) == ("unknown", "invalid", True)
    assert lines_of(there.results) == [again]
    assert there.judge_again(again) is None
    assert there.judge_again(line(run="log/run/gone")) is None


def test_a_part_that_another_command_plays_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = SuiteLock(tmp_path / "runs" / "log", LOCK)
    step = Step(part="log", name="1", words=("logquake", "run", *SECONDS))
    assert played(tmp_path, [step], monkeypatch) == 1
    lock.release()
    assert "log is left out: another command plays it" in capsys.readouterr().out
    assert not lines_of(tmp_path / "false-alarms.jsonl")


def test_code_that_changes_under_a_series_ends_it() -> None:
    now = Code(commit="a" * 40, running=hashed(RUNNING), judging=hashed(JUDGING))
    now.check()
    with pytest.raises(StoreError, match="the code has changed"):
        Code(commit="a" * 40, running=now.running, judging="other").check()


def test_what_runs_beside_a_block_ends_with_it(tmp_path: Path) -> None:
    marked = str(tmp_path / "marked")

    def there() -> bool:
        return any(
            marked in (each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])
        )

    with beside(["sh", "-c", "while :; do sleep 1; done", marked], tmp_path / "log"):
        wait_until(there, timeout_s=60, what="the loop")
    assert not there()
