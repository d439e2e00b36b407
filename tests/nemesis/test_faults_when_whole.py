"""What takes a replica's data is dealt only while every other replica has them."""

import pytest

from nemesis.scheduled import ScheduledFault
from tests.nemesis.conftest import World


@pytest.mark.parametrize("kind", ["power-loss", "wipe", "bit-flip"])
def test_it_waits_for_every_isr_to_be_full(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("nemesis.runner.WHOLE_LIMIT_S", 0.1)
    world.cluster.asleep.add("n1")
    world.cluster.kill_node("n1")
    world.cluster.calls.clear()
    fault = ScheduledFault(fault_id=1, at_s=0, kind=kind, target="n2", hold_s=0)
    world.nemesis(fault).run(world.stop)
    (row,) = world.last_rows()
    assert "an ISR was not full: log-0-0, log-0-1, log-0-2" in row["effect"]
    assert world.cluster.calls == []


def test_what_takes_no_data_does_not_wait(world: World) -> None:
    world.cluster.kill_node("n1")
    world.cluster.calls.clear()
    kill = ScheduledFault(fault_id=1, at_s=0, kind="kill", target="n2", hold_s=0)
    world.nemesis(kill).run(world.stop)
    assert world.cluster.calls == ["kill n2", "start n2"]


def test_what_is_written_by_hand_comes_as_written(world: World) -> None:
    world.cluster.kill_node("n1")
    world.cluster.calls.clear()
    world.paths.node("n3").mkdir(parents=True)
    lost = ScheduledFault(fault_id=1, at_s=0, kind="power-loss", target="n3", hold_s=0)
    world.nemesis(lost, overlapping=True).run(world.stop)
    assert world.cluster.calls == ["kill n3", "start n3"]
