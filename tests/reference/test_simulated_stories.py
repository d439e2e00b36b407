"""The stories that run on real Kafka, in virtual time: the very files, the very ends."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cluster.protocol import UserError
from cluster.reference.simulator.simulation import Simulation
from harness.cli import exit_code
from harness.scenarios.actions import Cut, Pause, Produce, Resume
from harness.scenarios.choices import story_values
from harness.scenarios.conditions import log_end
from harness.scenarios.deeds import ScenarioError
from harness.scenarios.every import Part, parts
from harness.scenarios.protocol import Scenario, Step
from harness.scenarios.registry import SCENARIOS
from harness.scenarios.replication_steps import SCENARIO as REPLICATION
from harness.scenarios.telling import story_of
from harness.simulated.session import as_simulated, play, refuse_unsimulated
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.steps import load_steps
from results.record.story import load_story
from results.verdict_json import read_verdict

STORIES = [part for part in parts(system="reference") if part.scenario.simulated]


def plan_of(part: Part) -> Plan:
    values = story_values(part.scenario, part.choices, system=part.system)
    return plan_from({**values, "hosts": "simulated"})


@pytest.mark.parametrize("part", STORIES, ids=lambda part: part.name)
def test_a_story_ends_in_virtual_time_as_it_says(part: Part, tmp_path: Path) -> None:
    words = [f"--{key}={value}" for key, value in part.choices.items()]
    asked = ["scenario", "run", part.scenario.name, *words, "--system", "reference"]
    code = exit_code(
        [*asked, "--hosts", "simulated", "--engine", "local", "--store", str(tmp_path)]
    )
    paths = RunPaths((tmp_path / "latest").resolve())
    story = load_story(paths.story)
    assert story is not None
    assert (story.as_expected, story.differs) == (True, ())
    expected = part.scenario.expected(plan_of(part))
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    assert frozenset(verdict.anomalies) == expected.anomalies
    assert code == {"valid": 0, "invalid": 1}[expected.valid.value]
    steps = load_steps(paths.steps)
    assert len(steps) == len(part.scenario.steps(plan_of(part)))
    assert not any(step.failed for step in steps)
    faults = pq.read_table(paths.table("faults")).to_pylist()
    assert all(row["effect"] and row["heal_effect"] for row in faults)
    if part.scenario.of_quorum:
        (healing,) = (step for step in steps if "healed the cut apart" in step.did)
        _check_that_the_old_leader_speaks_for_itself(paths, until_ns=healing.begun_ns)


def _check_that_the_old_leader_speaks_for_itself(paths: RunPaths, *, until_ns: int) -> None:
    """See that who is cut off is not said to follow a leader of whom it cannot have heard."""
    rows = pq.read_table(paths.table("quorum_states")).to_pylist()
    told = [
        (row["role"], row["epoch"], row["leader"])
        for row in rows
        if row["node"] == "n101" and row["observed_ns"] and row["observed_ns"] < until_ns
    ]
    assert set(told) == {("leader", 1, 101), (None, 1, -1)}
    assert ("n101", "follower", 2, 102) in {
        (row["node"], row["role"], row["epoch"], row["leader"]) for row in rows
    }


def test_there_are_stories_by_each_rule() -> None:
    assert {part.choices.get("rule") for part in STORIES} == {
        "high-watermark", "leader-epoch", "leader-epoch-v0", None,
    }  # fmt: skip
    assert {part.scenario.name for part in STORIES} == {
        "leader-epoch-1", "leader-epoch-2", "replication-steps", "quorum-divergence",
    }  # fmt: skip


def test_the_same_seed_is_the_same_story_byte_by_byte(tmp_path: Path) -> None:
    part = next(parts("leader-epoch-1 --rule high*", system="reference"))
    first, second = (dict(_played(plan_of(part), tmp_path / name)) for name in ("a", "b"))
    assert first == second
    assert any(name.startswith("snapshots/step-03/n2/") for name in first)
    assert any(name.startswith("record/live/") for name in first)


def test_a_story_that_needs_what_was_held_back_at_once_is_refused() -> None:
    (forgotten,) = parts("forgotten-vote", system="reference")
    with pytest.raises(UserError, match="what a cut held back comes late there"):
        refuse_unsimulated(plan_of(forgotten))


def test_a_step_that_cannot_be_simulated_is_refused_with_its_name() -> None:
    move = next(parts("leader-epoch-1 * --form clean --way move*"))
    plan = plan_of(move).model_copy(
        update={"system": "reference:controllers", "hosts": "simulated"}
    )
    with pytest.raises(UserError, match="cannot be simulated: step 1 has a Reassign"):
        refuse_unsimulated(plan)


def retold(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a scenario be told in another way."""
    others = [each for each in SCENARIOS if each.name != scenario.name]
    monkeypatch.setattr("harness.scenarios.choices.SCENARIOS", (scenario, *others))


def test_a_story_that_breaks_off_is_healed_read_and_not_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = replace(log_end("n1", 9), within_s=3)
    step = Step(
        "It breaks off while a message is under way, and n2 and n3 are in no good state.",
        (
            Cut("deaf", (("n2", "n1"),)),
            Pause("n3"),
            Produce(wait=False, within_s=8, only_to="n1"),
            never,
        ),
    )
    retold(replace(REPLICATION, steps=lambda _plan: (step,)), monkeypatch)
    asked = ["scenario", "run", REPLICATION.name, "--system", "reference", "--hosts", "simulated"]
    assert exit_code([*asked, "--engine", "local", "--store", str(tmp_path)]) == 2
    paths = RunPaths((tmp_path / "latest").resolve())
    milestones = {each.name: each for each in load_milestones(paths.milestones)}
    assert (
        "3 s for the log of n1 ends at 9; seen instead: 1"
        in milestones["failed"].detail["sentence"]
    )
    assert milestones["healed"].detail == milestones["recovered"].detail == {}
    # What was under way came to its own end first.
    assert milestones["main-ended"].at_ns > load_steps(paths.steps)[0].ended_ns
    (sent,) = pq.read_table(paths.table("sends")).to_pylist()
    assert sent["outcome"] == "info"
    assert all(row["heal_effect"] for row in pq.read_table(paths.table("faults")).to_pylist())


def test_a_fault_without_effect_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.reference.simulator.process.Process.pause", lambda _process: None)
    step = Step("n3 is paused, which it does not notice.", (Pause("n3"),))
    retold(replace(REPLICATION, steps=lambda _plan: (step,)), monkeypatch)
    asked = ["scenario", "run", REPLICATION.name, "--system", "reference", "--hosts", "simulated"]
    assert exit_code([*asked, "--engine", "local", "--store", str(tmp_path)]) == 2
    (row,) = pq.read_table(RunPaths(tmp_path / "latest").table("faults")).to_pylist()
    assert (row["confirmed_ns"], json.loads(row["effect"])) == (
        None,
        {"without_effect": "no effect could be measured in time"},
    )


def test_a_cut_of_links_that_are_dead_already_has_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step("n2 is deaf twice.", (Cut("deaf", (("n1", "n2"),)), Cut("too", (("n1", "n2"),))))
    retold(replace(REPLICATION, steps=lambda _plan: (step,)), monkeypatch)
    plan = plan_of(next(parts(REPLICATION.name, system="reference")))
    with pytest.raises(ScenarioError, match="cut of n2 had no effect"):
        dict(_played(plan, tmp_path / "run"))


def test_nobody_is_resumed_who_goes_on_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step("n3 is resumed twice.", (Pause("n3"), Resume("n3"), Resume("n3")))
    retold(replace(REPLICATION, steps=lambda _plan: (step,)), monkeypatch)
    plan = plan_of(next(parts(REPLICATION.name, system="reference")))
    with pytest.raises(ScenarioError, match="n3 cannot be resumed: it is up"):
        dict(_played(plan, tmp_path / "run"))


def test_a_story_that_leaves_somebody_down_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    retold(replace(REPLICATION, away=lambda _plan: ("n3",)), monkeypatch)
    part = next(parts(REPLICATION.name, system="reference"))
    with pytest.raises(UserError, match="it leaves n3 down; take other hosts"):
        refuse_unsimulated(plan_of(part))


def test_a_simulated_story_s_counterpart_is_simulated_too() -> None:
    plan = plan_of(next(parts("leader-epoch-1 --rule high*", system="reference")))
    told = story_of(plan)
    for command in (told.command, *told.other_commands.values()):
        assert command.endswith(" --hosts simulated")
    elsewhere = story_of(plan.model_copy(update={"hosts": "process"}))
    assert told.command == f"{elsewhere.command} --hosts simulated"


def test_real_brokers_are_not_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["scenario", "run", "leader-epoch-1", "--hosts", "simulated"]) == 254
    assert "only the reference cluster can be simulated" in capsys.readouterr().err


def _played(plan: Plan, root: Path) -> Iterator[tuple[str, str]]:
    """Play a story; yield the hash of every file that came of it."""
    root.mkdir()
    paths = RunPaths(root)
    simulated, schedule = as_simulated(plan)
    said: list[str] = []
    play(simulated, schedule, paths, simulation=Simulation(plan.seed), say=said.append)
    for file in sorted(each for each in root.rglob("*") if each.is_file()):
        yield str(file.relative_to(root)), hashlib.sha256(file.read_bytes()).hexdigest()
