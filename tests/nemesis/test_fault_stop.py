"""The fault `stop`, on a cluster in memory."""

from random import Random

import pytest

from nemesis.protocol import Aim, Patience
from nemesis.stop import Stop
from nemesis.undo import Restart
from tests.nemesis.conftest import World

SOON = Patience(limit_s=0.1)


def test_brokers_end_by_themselves_and_come_back(world: World) -> None:
    fault = Stop(Aim(fault_id=1, targets=("n3",), rng=Random(0)), world.site())
    assert fault.undo() == (Restart(node="n3"),)
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.graceful == ("n3",)
    assert effect.processes[0].state_after is None
    fault.heal()
    back = fault.confirm_healed(SOON)
    assert back is not None
    assert back.processes[0].pid != effect.processes[0].pid
    assert world.cluster.calls == ["stop n3", "start n3"]


def test_a_broker_that_had_to_be_killed_was_not_graceful(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stubborn(node: str, timeout_s: float) -> bool:
        assert timeout_s > 0
        world.cluster.kill_node(node)
        return False

    monkeypatch.setattr(world.cluster, "stop_node", stubborn)
    fault = Stop(Aim(fault_id=1, targets=("n3",), rng=Random(0)), world.site())
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.graceful == ()
