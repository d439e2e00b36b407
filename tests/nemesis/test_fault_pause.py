"""The fault `pause`, on a cluster in memory."""

from random import Random

from nemesis.pause import Pause
from nemesis.protocol import Aim, Patience
from nemesis.undo import Resume
from tests.nemesis.conftest import World

SOON = Patience(limit_s=0.1)


def _pause(world: World, *targets: str) -> Pause:
    return Pause(Aim(fault_id=1, targets=targets, rng=Random(0)), world.site())


def test_the_process_stands_still_and_goes_on(world: World) -> None:
    fault = _pause(world, "n1")
    process = world.cluster.processes["n1"]
    assert fault.undo() == (Resume(node="n1", pid=process.pid, start_ticks=process.start_ticks),)

    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    (change,) = effect.processes
    assert (change.pid, change.state_before, change.state_after) == (process.pid, "S", "T")

    fault.heal()
    back = fault.confirm_healed(SOON)
    assert back is not None
    assert (back.processes[0].state_before, back.processes[0].state_after) == ("T", "S")
    assert back.was_gone == ("n1",)
    assert world.cluster.processes["n1"] == process


def test_a_process_that_goes_on_is_no_effect(world: World) -> None:
    fault = _pause(world, "n1")
    fault.inject()
    world.cluster.resume_node("n1")
    assert fault.confirm(SOON) is None


def test_a_process_that_still_stands_is_not_healed(world: World) -> None:
    fault = _pause(world, "n1")
    fault.inject()
    fault.heal()
    world.cluster.pause_node("n1")
    assert fault.confirm_healed(SOON) is None


def test_a_broker_that_died_while_it_stood_is_started_again(world: World) -> None:
    fault = _pause(world, "n1")
    process = world.cluster.processes["n1"]
    fault.inject()
    world.cluster.kill_node("n1")
    fault.heal()
    back = fault.confirm_healed(SOON)
    assert back is not None
    assert back.processes[0].pid != process.pid
    assert back.pid_before == {"n1": process.pid}


def test_only_its_own_word_is_not_believed_at_once(world: World) -> None:
    fault = _pause(world, "n3")  # n3 is the one that the fake cluster asks first.
    fault.inject()
    fault.heal()
    assert fault.confirm_healed(SOON) is None
    back = fault.confirm_healed(Patience(limit_s=10))
    assert back is not None
    assert back.asked == "n3"
