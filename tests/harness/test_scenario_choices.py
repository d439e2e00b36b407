"""From a scenario's name and choices to a plan, for every scenario that there is."""

import json
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from cluster.protocol import Ability, UserError
from harness import plans
from harness.cli import exit_code
from harness.scenarios.actions import Cut
from harness.scenarios.choices import (
    all_choices,
    cuts,
    doubts,
    resolved,
    scenario_named,
    scenario_of,
    story_values,
)
from harness.scenarios.every import Part, Played, as_markdown, parts
from harness.scenarios.protocol import Choice, Scenario
from harness.scenarios.registry import SCENARIOS
from harness.scenarios.telling import story_of, tell
from results.record.plan import Plan, PlanError, dump_plan, plan_from

EVERY = list(parts())
FIRST = scenario_named("leader-epoch-1")


def plan_of(part: Part) -> Plan:
    return plan_from(story_values(part.scenario, part.choices, system=part.system))


@pytest.mark.parametrize("part", EVERY, ids=lambda part: part.name)
def test_every_scenario_can_be_told_with_each_choice_on_each_system(part: Part) -> None:
    plan = plan_of(part)
    assert scenario_of(plan) is part.scenario
    assert plan.scenario is not None
    assert plan.scenario.choices == part.choices
    assert plan.topic_partitions == [(plan.scenario.topic, 0)]
    assert plan.workload == "script"
    assert doubts(plan) == []
    nodes = {f"n{number}" for number in range(1, plan.nodes + 1)}
    assert set(part.scenario.assignment(plan)) <= nodes
    assert len(part.scenario.assignment(plan)) == plan.replication
    assert all(step.tells.endswith(".") for step in part.scenario.steps(plan))
    # What is stored is what is played again.
    assert plan_from(tomllib.loads(dump_plan(plan))) == plan


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_plan_that_only_names_a_scenario_is_that_scenario_s(
    scenario: Scenario, tmp_path: Path
) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(f'seed = 3\n[scenario]\nname = "{scenario.name}"\n', encoding="utf-8")
    plan = plans.assemble_plan(file, {}, broker={}, client={})
    assert plan == plan_from({**story_values(scenario, {}), "seed": 3})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nodes = 5", "the plan's nodes cannot be 5: the scenario leader-epoch-1 needs 3"),
        ('nemesis = ["kill"]', "the plan's nemesis cannot be kill: .* needs empty"),
        ('workload = "log"', "the plan's workload cannot be log"),
        ("partitions = 2", "the plan's partitions cannot be 2"),
        ('acks = "1"', "the plan's acks cannot be 1"),
        ('system = "kafka:3.9.1:combined"', "it needs the mode zookeeper"),
        ("broker = 7", "the plan's broker cannot be 7"),
        ('[[faults]]\nat_s = 1\nkind = "kill"', "the plan's faults cannot be "),
    ],
)
def test_a_plan_that_contradicts_its_story_is_refused(line: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    story = 'scenario = {name = "leader-epoch-1"}'
    file.write_text(f"{story}\n{line}\n", encoding="utf-8")
    with pytest.raises(PlanError, match=said):
        plans.assemble_plan(file, {}, broker={}, client={})


def test_a_story_without_a_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('[scenario]\nrule = "leader-epoch"\n', encoding="utf-8")
    with pytest.raises(PlanError, match=r"the plan's scenario\.name is missing"):
        plans.assemble_plan(file, {}, broker={}, client={})


def test_what_a_plan_sets_of_a_table_is_added_to_the_story_s(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(
        'scenario = {name = "leader-epoch-1"}\nhosts = "process"\n'
        '[broker]\n"log.segment.bytes" = "1000"\n[budgets]\nisr_s = 5\n',
        encoding="utf-8",
    )
    plan = plans.assemble_plan(file, {}, broker={}, client={})
    told = plan_from(story_values(FIRST, {}))
    assert plan.broker == {**told.broker, "log.segment.bytes": "1000"}
    assert (plan.hosts, plan.budgets.isr_s, plan.minimums) == ("process", 5, told.minimums)


def test_the_old_message_format_has_no_idempotent_producers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    old, new = (
        plan_from(story_values(FIRST, {"rule": rule}))
        for rule in ("high-watermark", "leader-epoch")
    )
    assert (old.acks, old.idempotent) == ("all", False)
    assert (new.acks, new.idempotent) == ("all", True)
    exit_code(["scenario", "run", "leader-epoch-1", "--dry-run"])
    assert "producers retry and are not idempotent" in capsys.readouterr().out
    with pytest.raises(PlanError, match=r"the message format 0\.10\.2 has no producer ids"):
        plan_from({**story_values(FIRST, {}), "idempotence": True})


def test_choices_have_defaults_and_some_only_go_with_others() -> None:
    scenario = Scenario(
        name="two-forms",
        title="",
        about="",
        systems=("kafka:4.3.1",),
        choices={
            "form": Choice(values=("article", "clean")),
            "way": Choice(values=("restart", "move"), only_with={"form": "clean"}),
        },
        plan=lambda _choices, system: {"system": system},
        assignment=lambda _plan: (),
        steps=lambda _plan: (),
        expected=FIRST.expected,
    )
    assert resolved(scenario, {}) == {"form": "article"}
    assert resolved(scenario, {"form": "clean"}) == {"form": "clean", "way": "restart"}
    with pytest.raises(PlanError, match="two-forms supports --way only with --form clean"):
        resolved(scenario, {"way": "move"})
    assert list(all_choices(scenario)) == [
        {"form": "article"},
        {"form": "clean", "way": "restart"},
        {"form": "clean", "way": "move"},
    ]


def test_names_say_the_first_choice_and_what_is_not_the_default() -> None:
    assert story_values(FIRST, {})["name"] == "leader-epoch-1-high-watermark"
    clean = {"rule": "leader-epoch", "form": "clean", "way": "move"}
    assert story_values(FIRST, clean)["name"] == "leader-epoch-1-leader-epoch-clean-move"


def test_a_story_tells_how_to_play_it_and_its_counterpart() -> None:
    story = story_of(plan_from(story_values(FIRST, {"rule": "high-watermark"})))
    assert story.command == "logquake scenario run leader-epoch-1 --rule high-watermark"
    assert story.other_commands == {
        "leader-epoch": "logquake scenario run leader-epoch-1 --rule leader-epoch",
        "leader-epoch-v0": "logquake scenario run leader-epoch-1 --rule leader-epoch-v0",
    }
    assert story.roles == {"n1": "A", "n2": "B"}
    assert story.spectators == ("n3",)
    assert story.as_expected is None
    elsewhere = story_of(plan_from(story_values(FIRST, {}, system="kafka:1.1.1")), found=("x",))
    assert elsewhere.command.endswith("--system kafka:1.1.1")
    assert elsewhere.as_expected is False
    assert elsewhere.differs == ("x",)


def test_a_bare_version_gets_the_mode_that_its_story_needs() -> None:
    plan = plan_from(story_values(FIRST, {}, system="kafka:3.9.1"))
    assert plan.system == "kafka:3.9.1:zookeeper"


def test_hosts_that_cannot_cut_are_refused_for_stories_that_do() -> None:
    cutting = next(plan_of(part) for part in EVERY if cuts(plan_of(part)))
    assert any(
        isinstance(move, Cut) for step in scenario_of(cutting).steps(cutting) for move in step.moves
    )
    with pytest.raises(UserError, match="cuts the network"):
        plans.refuse_impossible(cutting, abilities=frozenset())
    plans.refuse_impossible(cutting, abilities=frozenset(Ability))


def test_the_table_has_a_row_for_each_part_in_markdown() -> None:
    part = EVERY[0]
    played = [
        Played(part=part, verdict="invalid", differs=(), took_s=61.4),
        Played(part=part, verdict="", differs=("no | java",), took_s=0.2),
    ]
    lines = as_markdown(played).splitlines()
    assert lines[0] == "| scenario | choices | system | verdict | as expected | seconds |"
    assert lines[2].endswith("| invalid | yes | 61 |")
    assert lines[3].endswith("| none | NO: no / java | 0 |")


def test_only_some_parts_are_played_if_so_asked() -> None:
    rules = {part.choices["rule"] for part in parts("leader-epoch-1")}
    assert rules == {"high-watermark", "leader-epoch", "leader-epoch-v0"}
    by_v0 = {part.system for part in parts("leader-epoch-*") if "v0" in part.name}
    assert by_v0 == {"reference:controllers"}
    assert {part.choices["rule"] for part in parts("leader-epoch-1*high*")} == {"high-watermark"}
    assert {part.system for part in parts("leader-epoch-1", system="kafka:1.1.1")} == {
        "kafka:1.1.1"
    }
    assert {part.system for part in parts("leader-epoch-1", system="kafka:3.9.1")} == {
        "kafka:3.9.1:zookeeper"
    }
    assert not list(parts("nothing"))


def test_a_story_is_told_step_by_step_before_it_is_played(tmp_path: Path) -> None:
    plan = plan_from(story_values(FIRST, {}))
    with (tmp_path / "out").open("w", encoding="utf-8") as out:
        tell(plan, Console(file=out, width=200))
    told = (tmp_path / "out").read_text(encoding="utf-8")
    for number, step in enumerate(FIRST.steps(plan), 1):
        assert f"{number}. {step.tells}" in told
    expected = " ".join(told.partition("expected: ")[2].split())
    assert expected.startswith("invalid with committed-truncation, high-watermark-regression,")
    assert "lost-write, message2 is lost" in expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["leader-epoc-1"], "did you mean leader-epoch-1"),
        (["nonsense"], "there is no scenario 'nonsense' (see: logquake scenario list)"),
        (["leader-epoch-1", "--late", "x"], "leader-epoch-1 has no choice --late"),
        (["leader-epoch-1", "--rule", "x"], "cannot be 'x': use high-watermark or leader-epoch or"),
        (
            ["leader-epoch-1", "--rule", "leader-epoch-v0", "--system", "kafka:2.8.2"],
            "it does not support this system",
        ),
        (
            ["leader-epoch-1", "--rule", "leader-epoch-v0", "--form", "clean"],
            "no system supports it",
        ),
        (
            ["leader-epoch-1", "--form", "clean", "--system", "reference"],
            "it does not support this system",
        ),
        (["late-leader-and-isr", "--system", "reference"], "it does not support this system"),
        (["leader-epoch-1", "--system", "kafka:4.3.1"], "it needs the mode zookeeper"),
        (["leader-epoch-1", "--system", "kafka:4.3.1:zookeeper"], "does not support ZooKeeper"),
        (["leader-epoch-1", "--set", "x"], "--set needs KEY=VALUE"),
        (
            ["leader-epoch-1", "--system", "reference", "--set", "truncation=leader-epoch"],
            "the rule of leader-epoch-1-high-watermark is high-watermark; choose another rule",
        ),
        (["leader-epoch-1", "--all"], "--all does not accept a scenario"),
        (["--all", "--only", "nothing"], "no scenario matches"),
        ([], "name a scenario"),
        (["leader-epoch-1", "--only", "x"], "--only and --markdown need --all"),
        (["leader-epoch-1", "--markdown", "x"], "--only and --markdown need --all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_played_is_one_sentence_and_254(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["scenario", "run", *words]) == 254
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_a_system_that_nobody_tried_is_told_and_tried(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["n-minus-one", "--system", "kafka:2.7.2", "--hosts", "process", "--dry-run"]
    assert exit_code(["scenario", "run", *words]) == 0
    assert "known to work on kafka:4.3.1:controllers, kafka:2.8.2" in capsys.readouterr().out


def test_ctrl_c_between_two_of_all_tells_what_was_played(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    verdicts = [UserError("no Java was found"), KeyboardInterrupt()]

    def run(*_: object, **__: object) -> None:
        raise verdicts.pop(0)

    monkeypatch.setattr("harness.session.Session.run", run)
    words = ["--all", "--only", "n-minus-one", "--store", str(tmp_path), "--json"]
    assert exit_code(["scenario", "run", *words]) == 2
    shown = capsys.readouterr()
    (row,) = json.loads(shown.out)
    assert row["as expected"] == "NO: no Java was found"


def test_the_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["scenario", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(each.name in shown for each in SCENARIOS)


def test_all_of_them_are_listed_before_they_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["scenario", "run", "--all", "--only", "quorum-*", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [part.name for part in parts("quorum-*")]
