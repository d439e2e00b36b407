"""The fault `kill`, on a cluster in memory."""

from random import Random

import pytest

from cluster.protocol import ClusterError
from nemesis.brokers import broker_runs
from nemesis.kill import Kill
from nemesis.protocol import Aim, Patience
from nemesis.undo import Restart
from tests.nemesis.conftest import World

SOON = Patience(limit_s=0.1)


def _kill(world: World, *targets: str) -> Kill:
    return Kill(Aim(fault_id=1, targets=targets, rng=Random(0)), world.site())


def test_a_broker_that_does_not_start_keeps_no_other_from_it(world: World) -> None:
    fault = _kill(world, "n1", "n2")
    fault.inject()
    world.refuse("start n1", "the machine is on fire")
    with pytest.raises(ClusterError, match="on fire"):
        fault.heal()
    assert [broker_runs(world.site(), node) for node in ("n1", "n2")] == [False, True]
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_the_processes_are_gone_and_others_come_back(world: World) -> None:
    fault = _kill(world, "n1", "n2")
    before = dict(world.cluster.processes)
    assert fault.undo() == (Restart(node="n1"), Restart(node="n2"))

    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert [(each.node, each.pid) for each in effect.processes] == [
        ("n1", before["n1"].pid),
        ("n2", before["n2"].pid),
    ]
    assert {(each.state_before, each.state_after) for each in effect.processes} == {("S", None)}

    fault.heal()
    back = fault.confirm_healed(SOON)
    assert back is not None
    assert back.pid_before == {"n1": before["n1"].pid, "n2": before["n2"].pid}
    assert [each.pid for each in back.processes] == [
        world.cluster.processes[node].pid for node in ("n1", "n2")
    ]
    assert back.was_gone == ("n1", "n2")
    assert world.cluster.processes["n3"] == before["n3"]


def test_a_broker_that_survives_is_no_effect(world: World) -> None:
    fault = _kill(world, "n2")
    survivor = world.cluster.processes["n2"]
    fault.inject()
    world.cluster.states[survivor] = "S"
    assert fault.confirm(SOON) is None


def test_a_zombie_is_gone(world: World) -> None:
    fault = _kill(world, "n2")
    fault.inject()
    world.cluster.states[world.cluster.processes["n2"]] = "Z"
    assert fault.confirm(SOON) is not None


def test_a_broker_that_does_not_run_cannot_be_killed(world: World) -> None:
    world.cluster.kill_node("n2")
    with pytest.raises(ClusterError, match="no broker runs on n2"):
        _kill(world, "n2")


def test_a_broker_that_runs_and_is_not_registered_is_not_back(world: World) -> None:
    fault = _kill(world, "n1")
    fault.inject()
    fault.heal()
    world.cluster.asleep.add("n1")
    assert fault.confirm_healed(SOON) is None
    world.cluster.asleep.clear()
    assert fault.confirm_healed(SOON) is not None


def test_a_registration_that_nobody_missed_may_be_the_old_one(world: World) -> None:
    fault = _kill(world, "n1")
    fault.inject()
    world.cluster.start_node("n1")  # Back before anybody could see it gone.
    fault.heal()
    assert fault.confirm_healed(SOON) is None


def test_heal_is_idempotent(world: World) -> None:
    fault = _kill(world, "n1")
    fault.inject()
    fault.heal()
    fault.heal()
    assert world.cluster.calls == ["kill n1", "start n1"]
