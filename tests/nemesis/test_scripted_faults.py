"""Faults at a script's word: on a cluster in memory, on namespaces, and on a real broker."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.hosts.namespace import enter_prefix
from cluster.protocol import ClusterError, Hosts
from nemesis.ledger import open_entries
from nemesis.scripted import ScriptedFaults
from nemesis.undo import Join, Restart, Resume
from results.record.clock import RunClock, WaitTimeoutError, wait_until
from results.record.paths import RunPaths
from results.record.stream import read_stream
from tests.nemesis.conftest import FakeHostsWithoutCuts, World

Row = dict[str, Any]
MakeFaults = Callable[[Hosts], ScriptedFaults]


@pytest.fixture
def make(world: World) -> Iterator[MakeFaults]:
    made: list[ScriptedFaults] = []

    def faults(hosts: Hosts) -> ScriptedFaults:
        made.append(
            ScriptedFaults(
                cluster=world.cluster,
                hosts=hosts,
                clock=RunClock.starting_now(),
                paths=world.paths,
                seed=0,
                state_of=world.cluster.state_of,
            )
        )
        return made[-1]

    yield faults
    for each in made:
        each.close()


@pytest.fixture
def faults(world: World, make: MakeFaults) -> ScriptedFaults:
    return make(world.hosts)


def effects(row: Row) -> tuple[str, str]:
    return json.loads(row["effect"])["kind"], json.loads(row["heal_effect"] or "{}").get("kind", "")


def test_a_node_that_is_killed_is_down_until_it_is_started(
    world: World, faults: ScriptedFaults
) -> None:
    faults.kill("n2")
    assert faults.state("n2") == "down"
    assert [entry.undo for entry in open_entries(world.paths.ledger)] == [(Restart(node="n2"),)]
    (row,) = world.last_rows()
    assert (row["kind"], row["targets"], row["healed_ns"]) == ("kill", ["n2"], None)
    faults.start("n2")
    assert faults.state("n2") == "up"
    (row,) = world.last_rows()
    assert row["requested_ns"] < row["confirmed_ns"] < row["healed_ns"]
    assert effects(row) == ("kill", "back")
    assert open_entries(world.paths.ledger) == ()


def test_a_paused_node_can_be_killed_and_its_pause_is_over_by_that(
    world: World, faults: ScriptedFaults
) -> None:
    faults.pause("n1")
    assert faults.state("n1") == "paused"
    (entry,) = open_entries(world.paths.ledger)
    assert isinstance(entry.undo[0], Resume)
    faults.kill("n1")
    assert faults.state("n1") == "down"
    pause, kill = world.last_rows()
    assert json.loads(pause["heal_effect"]) == {"kind": "superseded", "by_fault": 2}
    assert pause["healed_ns"] > kill["confirmed_ns"]
    assert [entry.fault_id for entry in open_entries(world.paths.ledger)] == [2]
    faults.start("n1")
    assert "resume n1" not in world.cluster.calls


def test_a_pause_ends_with_resume(world: World, faults: ScriptedFaults) -> None:
    faults.pause("n3")
    faults.resume("n3")
    assert faults.state("n3") == "up"
    wait_until(
        lambda: world.last_rows()[0]["healed_ns"], timeout_s=20, what="the heal to be confirmed"
    )
    assert effects(world.last_rows()[0]) == ("pause", "back")


def test_a_start_may_be_confirmed_aside_and_is_never_lost(
    world: World, faults: ScriptedFaults
) -> None:
    world.cluster.asleep.add("n2")
    faults.kill("n2")
    faults.start("n2", until_back=False)
    assert faults.state("n2") == "up"
    assert world.last_rows()[0]["healed_ns"] is None
    world.cluster.asleep.clear()
    report = faults.heal_all()
    assert report.healed
    assert effects(world.last_rows()[0]) == ("kill", "back")
    assert open_entries(world.paths.ledger) == ()


def test_a_node_that_was_just_started_may_be_killed_again(
    world: World, faults: ScriptedFaults
) -> None:
    world.cluster.asleep.add("n2")
    faults.kill("n2")
    faults.start("n2", until_back=False)
    faults.kill("n2")
    first, second = world.last_rows()
    assert json.loads(first["heal_effect"]) == {"kind": "superseded", "by_fault": 2}
    assert second["confirmed_ns"] is not None
    world.cluster.asleep.clear()
    faults.start("n2")
    assert effects(world.last_rows()[1]) == ("kill", "back")


def test_a_stop_that_is_not_waited_for_is_over_before_the_start(
    world: World, faults: ScriptedFaults
) -> None:
    faults.stop("n1", wait=False)
    faults.start("n1")
    assert world.cluster.calls == ["stop n1", "start n1"]
    assert effects(world.last_rows()[0]) == ("stop", "back")


def test_a_node_that_had_to_be_killed_was_not_stopped(
    world: World, faults: ScriptedFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        world.cluster, "stop_node", lambda node, _limit_s: world.cluster.kill_node(node)
    )
    with pytest.raises(ClusterError, match="n1 did not exit within 60 s and was killed"):
        faults.stop("n1")
    (row,) = world.last_rows()
    assert json.loads(row["effect"])["graceful"] == []
    assert faults.heal_all().healed
    assert faults.state("n1") == "up"


def test_a_start_of_one_that_ended_by_itself_waits_until_it_is_registered(
    world: World, faults: ScriptedFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.scripted.BACK_LIMIT_S", 0.3)
    world.cluster.states.pop(world.cluster.processes["n1"])
    world.cluster.asleep.add("n1")
    with pytest.raises(WaitTimeoutError, match="n1 to be registered"):
        faults.start("n1")


def test_cuts_are_found_by_their_names_and_say_who_is_deaf(
    world: World, faults: ScriptedFaults
) -> None:
    faults.cut("late", [("zk", "n2"), ("n1", "n2")])
    faults.cut("more", [("n3", "n2")])
    assert faults.deaf_to("n2") == ("n1", "n3", "zk")
    assert faults.deaf_to("n1") == ()
    first, _ = open_entries(world.paths.ledger)
    assert first.undo == (Join(cut_id="fault-1", links=(("n1", "n2"), ("zk", "n2"))),)
    with pytest.raises(ClusterError, match="the cut 'late' already exists"):
        faults.cut("late", [("n1", "n3")])
    faults.join("late")
    assert faults.deaf_to("n2") == ("n3",)
    assert effects(world.last_rows()[0]) == ("cut", "join")
    with pytest.raises(ClusterError, match="the cut 'late' does not exist"):
        faults.join("late")


def test_everything_is_healed_at_the_end(world: World, faults: ScriptedFaults) -> None:
    faults.cut("both", [("n1", "n2"), ("n2", "n1")])
    faults.pause("n1")
    faults.kill("n2")
    report = faults.heal_all()
    assert report.healed
    assert [faults.state(node) for node in world.cluster.nodes] == ["up"] * 3
    assert faults.deaf_to("n1") == faults.deaf_to("n2") == ()
    assert all(row["healed_ns"] for row in world.last_rows())
    assert faults.heal_all().done == ()


def test_who_stays_away_is_left_down_and_the_record_says_so(
    world: World, faults: ScriptedFaults
) -> None:
    faults.kill("n3")
    assert faults.heal_all(away=("n3",)).healed
    assert faults.state("n3") == "down"
    (row,) = world.last_rows()
    assert json.loads(row["heal_effect"]) == {"kind": "left", "nodes": ["n3"]}
    assert open_entries(world.paths.ledger) == ()


def test_a_node_that_ended_by_itself_can_be_started(world: World, faults: ScriptedFaults) -> None:
    world.cluster.states.pop(world.cluster.processes["n1"])
    faults.start("n1")
    assert faults.state("n1") == "up"
    assert world.rows() == []


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda it: it.start("n1"), "n1 cannot be started: it is up"),
        (lambda it: it.resume("n1"), "n1 cannot be resumed: it is up"),
        (lambda it: (it.kill("n1"), it.kill("n1")), "n1 is already down"),
        (lambda it: (it.kill("n1"), it.pause("n1")), "n1 cannot be paused: it is down"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    faults: ScriptedFaults, call: Callable[[ScriptedFaults], object], sentence: str
) -> None:
    with pytest.raises(ClusterError, match=sentence):
        call(faults)


def test_what_has_no_effect_ends_the_story(world: World, faults: ScriptedFaults) -> None:
    world.refuse("kill n1", "the machine is gone")
    with pytest.raises(ClusterError, match="kill of n1 had no effect: the machine is gone"):
        faults.kill("n1")
    (row,) = world.last_rows()
    assert row["confirmed_ns"] is None
    assert "the machine is gone" in row["effect"]


def test_hosts_that_cannot_cut_say_so(make: MakeFaults) -> None:
    with pytest.raises(ClusterError, match="cannot cut the network"):
        make(FakeHostsWithoutCuts()).cut("late", [("n1", "n2")])


@pytest.mark.namespaces
def test_on_namespaces_one_way_cuts_reach_any_machine(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    paths.live.mkdir(parents=True)
    module = "tests.nemesis.play_script_in_namespaces"
    done = subprocess.run(
        [*enter_prefix(), sys.executable, "-m", module, str(paths.root)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["states"] == ["paused", "down", "up"]
    assert told["deaf"] == ["n101", "zk"]
    assert told["heard"] == {"n2-zk": True, "zk-n2": False}
    assert told["failed"] == []
    rows = last_rows(paths)
    assert [row["kind"] for row in rows] == ["cut", "pause", "kill"]
    assert all(row["requested_ns"] < row["confirmed_ns"] < row["healed_ns"] for row in rows)
    assert open_entries(paths.ledger) == ()


def last_rows(paths: RunPaths) -> list[Row]:
    batches = read_stream(paths.live / "faults.nemesis.arrows")
    rows = [row for batch in batches for row in batch.to_pylist()]
    return list({row["fault_id"]: row for row in rows}.values())
