"""The fault `pause-all`, on a cluster in memory, and how it is proven elsewhere."""

from random import Random

import pytest

from cluster.protocol import ClusterError
from nemesis.pause import Pause
from nemesis.pause_all import pause_all
from nemesis.protocol import Aim, Patience
from nemesis.undo import Resume
from tests.nemesis.conftest import World
from tests.nemesis.proofs import Proof, Seen
from tests.nemesis.simulated_room import now

NODES = ("n1", "n2", "n3")
SOON = Patience(limit_s=0.1)


def _in_states(before: Seen, after: Seen, *, standing: bool) -> bool:
    """Tell whether the servers are those of before, and all of them stand or none does."""
    same = all(after[node].keys() == before[node].keys() for node in before)
    states = [state in "Tt" for servers in after.values() for state in servers.values()]
    return same and states == [standing] * len(before)


PROOF_OF = [
    (
        "pause-all",
        Proof(
            witness="servers",
            shows=lambda before, looks: _in_states(before, looks[-1], standing=True),
            gone=lambda before, after: _in_states(before, after, standing=False),
        ),
    )
]
SHOWS_OF = [("pause-all", now("stands", targets=3))]


def _standstill(world: World) -> Pause:
    return pause_all(Aim(fault_id=1, targets=NODES, rng=Random(0)), world.site())


def test_all_stand_still_and_go_on_as_they_were(world: World) -> None:
    fault = _standstill(world)
    before = dict(world.cluster.processes)
    assert fault.undo() == tuple(
        Resume(node=node, pid=at.pid, start_ticks=at.start_ticks) for node, at in before.items()
    )
    fault.inject()
    assert world.cluster.view() is None
    assert fault.confirm(SOON) is not None
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=5)) is not None
    assert world.cluster.processes == before


def test_one_that_goes_on_is_no_standstill(world: World) -> None:
    fault = _standstill(world)
    fault.inject()
    world.cluster.resume_node("n2")
    assert fault.confirm(SOON) is None


def test_one_that_cannot_go_on_keeps_no_other_one(world: World) -> None:
    fault = _standstill(world)
    fault.inject()
    world.refuse("resume n1", "it hangs")
    with pytest.raises(ClusterError, match="it hangs"):
        fault.heal()
    stands = [
        node for node, at in world.cluster.processes.items() if world.cluster.state_of(at) == "T"
    ]
    assert stands == ["n1"]


def test_one_that_still_stands_is_not_healed(world: World) -> None:
    fault = _standstill(world)
    fault.inject()
    fault.heal()
    world.cluster.pause_node("n2")
    assert fault.confirm_healed(SOON) is None
