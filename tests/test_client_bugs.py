"""The series on client bugs: which commands run, which are finished, and what the table counts."""

from pathlib import Path

import pytest

from benchmarks.client_bugs.__main__ import main
from benchmarks.client_bugs.bugs import BUGS, JAVA, Bug
from benchmarks.client_bugs.series import SEEDS, Line, commands, hashed, last_lines, table
from benchmarks.night import ROOT
from benchmarks.night_results import append
from results.record.plan import load_plan, plan_from

BUG = BUGS[0]


def line(bug: Bug, client: str, seed: int, **given: object) -> Line:
    command = bug.command(client, seed)
    values: dict[str, object] = {
        "command": " ".join(command), "plan": hashed(command[1]), "run": "",
        "begun_at": "20261127T095051Z", "took_s": 80, "load": (1, 2), "commit": "a",
        "verdict": "invalid",
        "anomalies": ("poll-skip",), "sentence": f"Invalid: 1 read {bug.says}.", "cause": "a | b",
    }  # fmt: skip
    return Line.model_validate(values | given)


def test_each_bug_has_an_ordinary_plan() -> None:
    for bug in BUGS:
        plan = plan_from(load_plan(ROOT / "docs" / "plans" / f"{bug.plan}.toml"))
        assert plan.faults is None, "its faults are dealt"
        assert plan.scenario is None
        assert "|" not in bug.does
    assert len({each.name for each in BUGS}) == len(BUGS) >= 4


def test_bugs_of_one_plan_share_javas_runs() -> None:
    played = list(commands())
    assert len(set(played)) == len(played)
    plans = {(bug.plan, bug.of_java) for bug in BUGS}
    assert sum(JAVA in command for command in played) == len(plans) * len(SEEDS)


def test_the_table_counts_what_was_played(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    append(results, line(BUG, BUG.broken, 1))
    append(results, line(BUG, BUG.broken, 2, verdict="valid", anomalies=()))
    append(results, line(BUG, BUG.broken, 3, sentence="Invalid: another."))
    append(results, line(BUG, BUG.fixed, 1, verdict="unknown", anomalies=()))
    append(results, line(BUG, JAVA, 1, verdict="valid", anomalies=()))
    append(results, line(BUG, JAVA, 2, plan="of before"))
    row = table(last_lines(results), [BUG]).splitlines()[2]
    assert f"| `poll-skip` | {BUG.broken}: 1 of 3 | {BUG.fixed}: 0 of 1 (unknown) | 0 of 1 |" in row
    assert row.endswith("| a / b |")


def test_it_fails_until_each_bug_came_out_and_nothing_else_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    words = ["--list", "--results", str(results), "--page", str(tmp_path / "page.md")]
    only = ["--only", BUG.name]
    assert main([*words, *only]) == 1
    assert capsys.readouterr().out.count("not played") == 3 * len(SEEDS)
    append(results, line(BUG, BUG.broken, 2))
    assert main([*words, *only]) == 0
    assert "invalid (poll-skip)" in capsys.readouterr().out
    append(results, line(BUG, BUG.fixed, 2))
    assert main([*words, *only]) == 1, "the mended release has it too"
