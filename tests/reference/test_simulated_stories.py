"""The stories that run on real Kafka, in virtual time: the very files, the very ends."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.cli import exit_code
from harness.scenarios.actions import (
    Answered,
    CreateTopics,
    Cut,
    ElectPreferred,
    ElectUnclean,
    Kill,
    Pause,
    Produce,
    Read,
    Reassign,
    Resume,
    Start,
    Stop,
)
from harness.scenarios.choices import choice_words
from harness.scenarios.conditions import (
    ended,
    isr_is,
    leads,
    log_end,
    nobody_leads,
    unregistered,
)
from harness.scenarios.deeds import ScenarioError
from harness.scenarios.every import Part, parts
from harness.scenarios.protocol import Scenario, Step
from harness.scenarios.registry import SCENARIOS
from harness.scenarios.replication_steps import SCENARIO as REPLICATION
from harness.scenarios.telling import story_of
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.steps import load_steps
from results.record.story import load_story
from results.record.stream import read_stream, table_of
from results.verdict_json import read_verdict
from tests.reference.told_stories import STORIES, plan_of, told


@pytest.mark.parametrize("part", STORIES, ids=lambda part: part.name)
def test_a_story_ends_in_virtual_time_as_it_says(part: Part, tmp_path: Path) -> None:
    words = " ".join(choice_words(part.choices)).split()
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
    if part.scenario.name == "quorum-divergence":
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
        "leader-epoch-1", "leader-epoch-2", "leader-epoch-handson", "replication-steps",
        "n-minus-one", "last-replica-standing", "quorum-failover", "quorum-divergence",
        "forgotten-vote",
    }  # fmt: skip


@pytest.mark.night
def test_the_same_seed_is_the_same_story_byte_by_byte(tmp_path: Path) -> None:
    """In two processes that put sets in different orders, of every story."""
    first, second = (_told_by_a_process(tmp_path, hash_seed) for hash_seed in (1, 2))
    assert first.keys() == {part.name for part in STORIES}
    for name, files in first.items():
        assert files == second[name], name
        wanted = ("snapshots/step-02/n1/data/", "record/live/", "nodes/n1/data/", "steps.jsonl")
        assert all(any(file.startswith(each) for file in files) for each in wanted), name


def _told_by_a_process(folder: Path, hash_seed: int) -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.reference.told_stories", str(folder / str(hash_seed))],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        check=True,
        capture_output=True,
        timeout=300,
    )
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def retold(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a scenario be told in another way."""
    others = [each for each in SCENARIOS if each.name != scenario.name]
    monkeypatch.setattr("harness.scenarios.choices.SCENARIOS", (scenario, *others))


def retold_plan(
    monkeypatch: pytest.MonkeyPatch,
    step: Step,
    *,
    away: Callable[[Plan], tuple[str, ...]] = lambda _plan: (),
) -> Plan:
    """Return the plan of a story of one step."""
    retold(replace(REPLICATION, steps=lambda _plan: (step,), away=away), monkeypatch)
    return plan_of(next(parts(REPLICATION.name, system="reference")))


def test_a_story_that_breaks_off_is_healed_and_read(
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
    plan = retold_plan(monkeypatch, step)
    with pytest.raises(ScenarioError, match="3 s for the log of n1 ends at 9; observed instead: 1"):
        told(plan, tmp_path / "run")
    paths = RunPaths(tmp_path / "run")
    milestones = {each.name: each for each in load_milestones(paths.milestones)}
    assert milestones["healed"].detail == milestones["recovered"].detail == {}
    assert {"final-reads", "noted", "collected"} <= milestones.keys()
    # What was under way came to its own end first.
    assert milestones["main-ended"].at_ns > load_steps(paths.steps)[0].ended_ns
    sends = [row["op_id"] for row in _stream(paths, "op_invocations") if row["f"] == "send"]
    ends = {row["op_id"]: row["outcome"] for row in _stream(paths, "op_completions")}
    assert [ends[op_id] for op_id in sends] == ["info"]
    healed = {row["fault_id"]: row["heal_effect"] for row in _stream(paths, "faults")}
    assert len(healed) == 2
    assert all(healed.values())


def _stream(paths: RunPaths, table: str) -> list[dict[str, Any]]:
    files = [path for path in sorted(paths.live.iterdir()) if table_of(path) == table]
    return [row for path in files for each in read_stream(path) for row in each.to_pylist()]


def test_a_fault_without_effect_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.reference.simulator.process.Process.pause", lambda _process: None)
    plan = retold_plan(monkeypatch, Step("n3 is paused, which it does not notice.", (Pause("n3"),)))
    with pytest.raises(ScenarioError, match="pause of n3 had no effect: "):
        told(plan, tmp_path / "run")


def test_a_cut_of_links_that_are_dead_already_has_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step("n2 is deaf twice.", (Cut("deaf", (("n1", "n2"),)), Cut("too", (("n1", "n2"),))))
    with pytest.raises(ScenarioError, match="cut of n2 had no effect"):
        told(retold_plan(monkeypatch, step), tmp_path / "run")


def test_nobody_is_resumed_who_goes_on_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step("n3 is resumed twice.", (Pause("n3"), Resume("n3"), Resume("n3")))
    with pytest.raises(ScenarioError, match="n3 cannot be resumed: it is up"):
        told(retold_plan(monkeypatch, step), tmp_path / "run")


def test_who_is_away_at_the_end_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step("n3 goes for good.", (Kill("n3"), unregistered("n3"), isr_is("n1", "n2")))
    plan = retold_plan(monkeypatch, step, away=lambda _plan: ("n3",))
    paths = told(plan, tmp_path / "run")
    milestones = {each.name: each for each in load_milestones(paths.milestones)}
    assert milestones["healed"].detail == milestones["recovered"].detail == {}
    assert "failed" not in milestones["noted"].detail
    assert [node.state for node in load_steps(paths.steps)[0].nodes] == ["up", "up", "down", "up"]
    assert milestones["stopped"].detail == dict.fromkeys(("n1", "n2", "n101"), "clean") | {
        "n3": milestones["stopped"].detail["n3"]
    }


def test_orders_and_what_goes_on_beside_a_story_are_told_in_virtual_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step(
        "Whatever a story may do is done.",
        (
            Produce(wait=False),
            Answered(),
            Reassign(("n2", "n1", "n3")),
            ElectPreferred(),
            leads("n2"),
            CreateTopics(names=("other",)),
            CreateTopics(names=("another",), at="n1"),
            Stop("n3", wait=False),
            ended("n3"),
            Start("n3"),
            isr_is("n1", "n2", "n3"),
            Kill("n1"),
            Kill("n3"),
            isr_is("n2"),
            Kill("n2"),
            Start("n1"),
            nobody_leads(),
            ElectUnclean(),
            leads("n1"),
            Read(),
        ),
    )
    paths = told(retold_plan(monkeypatch, step), tmp_path / "run")
    (told_step,) = load_steps(paths.steps)
    assert told_step.did == (
        "began to send a message with acks=all",
        "sent with acks=all: message1; acknowledged at offset 0",
        "changed the assignment to n2, n1, n3",
        "requested the election of the preferred leader",
        "created other",
        "asked n1 for the topics another, and got them",
        "asked n3 to stop",
        "started n3, and it is registered",
        "killed n1",
        "killed n3",
        "killed n2",
        "started n1, and it is registered",
        "requested the election of any live replica",
        "read: message1",
    )


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
