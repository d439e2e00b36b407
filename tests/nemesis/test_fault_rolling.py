"""The fault `rolling-restart`: one broker after the other, and none before the last one is back."""

import json

import pytest

from cluster.protocol import ProcessId
from nemesis.scheduled import ScheduledFault
from tests.nemesis.conftest import World

ROLL = ScheduledFault(fault_id=1, at_s=0, kind="rolling-restart", target="all", hold_s=0)


def test_every_broker_is_restarted_in_turn(world: World) -> None:
    before = dict(world.cluster.processes)
    world.nemesis(ROLL).run(world.stop)
    (row,) = world.last_rows()
    assert row["healed_ns"] > row["confirmed_ns"]
    restarts = json.loads(row["effect"])["restarts"]
    assert [each["node"] for each in restarts] == ["n1", "n2", "n3"]
    assert [each["pid_before"] for each in restarts] == [at.pid for at in before.values()]
    assert [each["pid"] for each in restarts] == [at.pid for at in world.cluster.processes.values()]
    assert world.cluster.calls == [
        f"{what} {node}" for node in ("n1", "n2", "n3") for what in ("stop", "start")
    ]


def test_nobody_is_stopped_before_the_one_before_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.rolling.WHOLE_LIMIT_S", 0.2)
    monkeypatch.setattr("nemesis.runner.BACK_LIMIT_S", 0.1)
    world.cluster.asleep.add("n2")
    world.played(ROLL)
    (row,) = world.last_rows()
    assert row["confirmed_ns"] is None
    assert "for n2 to be back; restarted before: n1" in row["effect"]
    assert world.cluster.calls == ["stop n1", "start n1", "stop n2", "start n2"]


def test_the_end_of_the_main_phase_ends_it(world: World) -> None:
    world.cluster.asleep.add("n1")
    start = world.cluster.start_node

    def start_last(node: str) -> ProcessId:
        world.stop.set()
        return start(node)

    world.cluster.start_node = start_last  # type: ignore[method-assign] # the phase ends behind it
    nemesis = world.nemesis(ROLL, overlapping=True)
    life = nemesis._lives[0]
    life.begin(world.stop)
    (row,) = world.last_rows()
    assert "was stopped while waiting for n1 to be back" in row["effect"]
    assert world.cluster.calls == ["stop n1", "start n1"]
