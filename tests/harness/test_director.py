"""The director on hand-made sights: order, limits, and what it says when a state never comes."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cluster.hosts.disk import LocalDisk
from cluster.protocol import Disk
from harness.scenarios.actions import Action, Kill, Start
from harness.scenarios.conditions import isr_is, leads, logged
from harness.scenarios.deeds import Deed, ScenarioError
from harness.scenarios.director import Director, Scene
from harness.scenarios.protocol import (
    Condition,
    FilesSight,
    PartitionSight,
    QuorumSight,
    ReplicaSight,
    Sight,
    Step,
)
from harness.scenarios.snapshot import copy_replicas
from harness.scenarios.tails import Tails
from results.record.clock import RunClock
from results.record.paths import RunPaths


class ScriptedSight:
    """Sees one state of the partition after another; the last one stays."""

    def __init__(self, *states: PartitionSight | None) -> None:
        self.states = list(states)

    def partition(self) -> PartitionSight | None:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def replica(self, node: str) -> ReplicaSight | None:
        raise AssertionError(node)

    def files(self, node: str) -> FilesSight | None:
        raise AssertionError(node)

    def belief(self, node: str) -> tuple[str | None, int | None] | None:
        raise AssertionError(node)

    def quorum(self, node: str) -> QuorumSight | None:
        raise AssertionError(node)

    def quorum_file(self, node: str) -> QuorumSight | None:
        raise AssertionError(node)

    def lines(self, node: str, pattern: str) -> Sequence[str]:
        return [f"{node} said {pattern}"]

    def running(self, node: str) -> bool:
        raise AssertionError(node)


def state(leader: str | None, epoch: int, *isr: str) -> PartitionSight:
    return PartitionSight(
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
        controller="n3",
        registered=frozenset({"n1", "n2", "n3"}),
    )


class Stage:
    """What a director plays on in these tests: it writes down all that it is told."""

    def __init__(self, sight: Sight) -> None:
        self.events: list[str] = []
        self.said: list[str] = []
        self.scenes: list[Scene] = []
        self.stop = threading.Event()
        self.sight = sight

    def director(self) -> Director:
        return Director(
            sight=self.sight,
            do=self.do,
            begin=lambda: self.events.append("begin"),
            look=self.look,
            clock=RunClock.starting_now(),
            say=self.said.append,
            stop=self.stop,
        )

    def do(self, action: Action) -> Deed:
        if action == Kill("nobody"):
            raise ScenarioError("nobody is down already")
        self.events.append(str(action))
        return Deed(did=f"did {action}")

    def look(self, scene: Scene) -> None:
        self.events.append("look")
        self.scenes.append(scene)


def soon(condition: Condition, within_s: float = 0.3) -> Condition:
    return Condition(what=condition.what, look=condition.look, within_s=within_s)


def test_moves_come_in_order_and_every_step_ends_with_a_look() -> None:
    stage = Stage(ScriptedSight(state("n1", 0, "n1", "n2"), state("n2", 1, "n2")))
    steps = (
        Step("A dies.", (Kill("n1"), leads("n2", epoch=1), Start("n1"))),
        Step("Nothing happens.", why="To see it."),
    )
    stage.director().play(steps)
    assert stage.events == [
        "begin", "Kill(node='n1')", "Start(node='n1', until_back=True)", "look", "begin", "look",
    ]  # fmt: skip
    first, second = stage.scenes
    assert [each.what for each in first.waited] == ["n2 leads in epoch 1"]
    assert first.waited[0].saw == "leader n2, epoch 1"
    assert first.waited[0].came
    assert len(first.did) == 2
    assert (second.number, second.step.why, second.failed) == (2, "To see it.", "")
    assert stage.said == [
        "step 1 of 2: A dies.",
        "  waiting for: n2 leads in epoch 1",
        "step 2 of 2: Nothing happens.",
    ]


def test_what_is_there_already_is_not_announced_as_waited_for() -> None:
    stage = Stage(ScriptedSight(state("n1", 0, "n1")))
    stage.director().play((Step("All is well.", (leads("n1"), isr_is("n1"))),))
    assert stage.said == ["step 1 of 1: All is well."]
    assert all(each.came for each in stage.scenes[0].waited)


def test_a_state_that_never_comes_ends_the_story_with_the_step_and_what_was_seen() -> None:
    stage = Stage(ScriptedSight(state("n1", 0), None, state(None, 1)))
    steps = (
        Step("All is well.", (leads("n1"),)),
        Step("A dies.", (Kill("n1"), soon(leads("n2")), Start("n1"))),
        Step("Never told."),
    )
    with pytest.raises(ScenarioError) as failed:
        stage.director().play(steps)
    assert str(failed.value) == (
        'step 2 of 3, "A dies.": waited 0.3 s for n2 leads; observed instead: leader none, epoch 1'
    )
    assert "Start(node='n1', until_back=True)" not in stage.events
    assert len(stage.scenes) == 2
    assert stage.scenes[1].failed.startswith("waited 0.3 s for n2 leads")
    assert not stage.scenes[1].waited[0].came


def test_an_action_that_fails_ends_the_story_after_a_last_look() -> None:
    stage = Stage(ScriptedSight(None))
    with pytest.raises(ScenarioError, match=r'step 1 of 2, "B dies\.": nobody is down already'):
        stage.director().play((Step("B dies.", (Kill("nobody"),)), Step("Never told.")))
    assert stage.events == ["begin", "look"]


def test_ctrl_c_ends_the_story_at_the_next_move() -> None:
    stage = Stage(ScriptedSight(state("n1", 0, "n1")))
    stage.stop.set()
    with pytest.raises(ScenarioError, match="ended by Ctrl-C"):
        stage.director().play((Step("A dies.", (Kill("n1"),)),))
    with pytest.raises(ScenarioError, match="ended by Ctrl-C while waiting for n2 leads"):
        stage.director().play((Step("B leads.", (leads("n2"),)),))


def test_a_condition_on_lines_shows_the_last_one() -> None:
    seen = logged("n2", "cut", what="n2 cuts").look(ScriptedSight(None))
    assert seen.holds
    assert seen.saw == "n2 said cut"


def disks_of(paths: RunPaths) -> Callable[[str], Disk]:
    return lambda node: LocalDisk(paths.node(node))


def test_tails_are_what_came_since_the_mark_and_only_whole_lines(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    logs = paths.node("n1") / "logs"
    logs.mkdir(parents=True)
    (logs / "server.log").write_text("old truncation\n", encoding="utf-8")
    tails = Tails(disks_of(paths), ["n1", "n2"])
    tails.mark()
    assert not list(tails.fresh("n1", "truncat"))
    with (logs / "server.log").open("a", encoding="utf-8") as log:
        log.write("new truncation\nother\nhalf a trunc")
    (logs / "state-change.log").write_text("a new file's truncation\n", encoding="utf-8")
    (logs / "stdout.log").write_text("the same truncation again\n", encoding="utf-8")
    assert [(each.file, each.text) for each in tails.fresh("n1", "trunc")] == [
        ("server.log", "new truncation"),
        ("state-change.log", "a new file's truncation"),
    ]
    assert not list(tails.fresh("n2", "."))
    (logs / "server.log").write_text("anew\n", encoding="utf-8")
    assert [each.text for each in tails.fresh("n1", "anew")] == ["anew"]


def test_a_snapshot_has_the_story_s_partition_and_no_other(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    data = paths.node("n1") / "data"
    kept = (
        "replication-offset-checkpoint",
        "meta.properties",
        "t-0/00000000000000000000.log",
        "t-0/leader-epoch-checkpoint",
    )
    for name in (*kept, "t-0/00000000000000000000.index", "other-0/00000000000000000000.log"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(name, encoding="utf-8")
    snapshot = paths.snapshots / "step-01"
    copy_replicas(disks_of(paths), snapshot, nodes=["n1", "n2"], places=[("t", 0)])
    copied = snapshot / "n1" / "data"
    found = {str(each.relative_to(copied)) for each in copied.rglob("*") if each.is_file()}
    assert found == set(kept)
    assert (copied / kept[2]).read_text(encoding="utf-8") == kept[2]
    assert not (snapshot / "n2").exists()
