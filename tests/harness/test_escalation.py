"""`run --escalate`: level after level with one plan, back to the last that held, one table."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.protocol import UserError
from harness.cli import exit_code
from harness.escalation import Step, as_json, escalate, refuse_escalation, table_of, worst_of
from nemesis.levels import LEVELS
from results.record.level import TOP_LEVEL
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.terms import Validity
from results.record.verdict import Verdict

VALID, UNKNOWN, INVALID = Validity.VALID, Validity.UNKNOWN, Validity.INVALID


QUIET = "not-enough-traffic: 3 ok sends in the main phase; at least 10 are needed for a verdict"


def verdict(run_id: str, valid: Validity, *because: str) -> Verdict:
    return Verdict(
        run_id=run_id, judge="contract", valid=valid, engine="local", anomalies={},
        unknown_because=because,
    )  # fmt: skip


def climbed(
    folder: Path, verdicts: Mapping[int, Validity], *because: str, **values: object
) -> tuple[list[Step], list[Plan], list[str]]:
    """Escalate a plan whose runs come out as levels say: steps, plans, and what was said."""
    steps: list[Step] = []
    plans: list[Plan] = []
    said: list[str] = []

    def play(plan: Plan) -> tuple[Verdict, RunPaths]:
        plans.append(plan)
        run_id = f"log/{len(plans)}"
        valid = verdicts.get(plan.level, VALID)
        return verdict(run_id, valid, *(because if valid is UNKNOWN else ())), RunPaths(
            folder / run_id
        )

    escalate(plan_from({"seed": 7, **values}), play, steps=steps, say=said.append)
    return steps, plans, said


def test_levels_are_played_until_one_breaks_and_the_last_that_held_again(tmp_path: Path) -> None:
    steps, plans, said = climbed(tmp_path, {3: INVALID}, swarm=True, rate=50)
    assert [step.level for step in steps] == [0, 1, 2, 3, 2]
    assert [plan.level for plan in plans] == [0, 1, 2, 3, 2]
    assert [plan.seed for plan in plans[:4]] == [7] * 4
    assert plans[4].seed != 7
    for plan in plans:  # But for that, one plan.
        assert plan.model_copy(update={"level": 0, "seed": 7}) == plans[0]
    assert said[1].startswith("level 1: more often")
    assert said[4] == f"level 2 once more, with another seed: {LEVELS[2].says}"
    assert worst_of(steps) is INVALID
    again, more, _ = climbed(tmp_path, {3: INVALID})
    assert ([step.level for step in again], more[4].seed) == ([0, 1, 2, 3, 2], plans[4].seed)


def test_at_the_top_the_top_is_played_again(tmp_path: Path) -> None:
    steps, _, _ = climbed(tmp_path, {}, level=TOP_LEVEL - 1)
    assert [step.level for step in steps] == [TOP_LEVEL - 1, TOP_LEVEL, TOP_LEVEL]
    assert worst_of(steps) is VALID


def test_too_little_traffic_breaks_nothing_and_other_doubts_do(tmp_path: Path) -> None:
    quiet, _, _ = climbed(tmp_path, {1: UNKNOWN, 3: INVALID}, QUIET)
    assert [step.level for step in quiet] == [0, 1, 2, 3, 2]
    assert worst_of([*quiet[:3]]) is UNKNOWN
    told = as_json(quiet)["levels"]
    assert isinstance(told, list)
    assert [each["too_little_traffic"] for each in told] == [False, True, False, False, False]
    assert [*table_of(quiet).columns[1].cells][1] == "unknown, too little traffic"
    for more in ((), (QUIET, "not every fault was healed: n1")):
        steps, _, _ = climbed(tmp_path, {1: UNKNOWN}, *more)
        assert [step.level for step in steps] == [0, 1, 0]


def test_where_nothing_holds_there_is_no_way_back(tmp_path: Path) -> None:
    for bad in (UNKNOWN, INVALID):
        steps, _, _ = climbed(tmp_path, {0: bad})
        assert [step.level for step in steps] == [0]
        assert worst_of(steps) is bad


def test_the_worst_verdict_counts_whenever_it_came(tmp_path: Path) -> None:
    steps, _, _ = climbed(tmp_path, {1: UNKNOWN})
    assert worst_of(steps) is UNKNOWN
    assert worst_of([]) is UNKNOWN
    told = as_json(steps)
    assert told["valid"] == "unknown"
    assert json.loads(json.dumps(told))["levels"][1] == {
        "level": 1, "valid": "unknown", "seed": 7, "run_id": "log/2", "interrupted": False,
        "too_little_traffic": False,
    }  # fmt: skip
    assert table_of(steps).row_count == 3


def test_a_level_that_cannot_be_played_leaves_what_was_played(tmp_path: Path) -> None:
    steps: list[Step] = []

    def play(plan: Plan) -> tuple[Verdict, RunPaths]:
        if plan.level == 1:
            raise UserError("no")
        return verdict("log/1", VALID), RunPaths(tmp_path)

    with pytest.raises(UserError):
        escalate(plan_from({}), play, steps=steps, say=lambda _: None)
    assert [step.level for step in steps] == [0]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"faults": [{"kind": "kill"}]}, "--escalate: level: faults written by hand have no level"),
        ({"scenario": {"name": "leader-epoch-1"}, "workload": "script"}, "in a scenario the steps"),
        ({"system": "attached:mine.toml"}, "an attached cluster"),
        ({"nemesis": ""}, "--escalate needs faults, but the plan has none"),
    ],
)
def test_what_has_no_levels_is_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        refuse_escalation(plan_from(values))
    refuse_escalation(plan_from({}))


@pytest.mark.parametrize("more", [["--dry-run"], ["--keep"]])
def test_what_is_about_one_run_is_refused(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "--system", "reference", "--hosts", "simulated", "--escalate", *more]
    assert exit_code([*command, "--store", str(tmp_path / "runs")]) == 254
    assert "--escalate starts many runs" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_in_virtual_time_a_broken_cluster_is_found_and_the_table_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "run", "--system", "reference", "--hosts", "simulated", "--escalate", "--level", "1",
        "--time-limit", "20", "--warmup", "1", "--rate", "100", "--seed", "2", "--engine", "local",
        "--bug", "ack-before-commit", "--json", "--store", str(tmp_path),
    ]  # fmt: skip
    code = exit_code(command)
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    levels = [each["level"] for each in told["levels"]]
    assert code == {"valid": 0, "invalid": 1, "unknown": 2}[told["valid"]]
    assert levels[0] == 1
    assert told["valid"] != "valid"
    assert "level 1: more often" in shown.err
    for each in told["levels"]:
        assert each["run_id"] in shown.err
        assert (tmp_path / each["run_id"] / "verdict.json").is_file()
