"""The fault `stop-remade`, which makes a topic again meanwhile, and how it is proven elsewhere."""

from random import Random

from nemesis.protocol import Aim, Patience
from nemesis.stop import Stop
from nemesis.stop_remade import stop_remade
from tests.nemesis.conftest import World
from tests.nemesis.proofs import remade_proof
from tests.nemesis.simulated_room import has_an_old_log
from tests.nemesis.test_remade import TopicsCluster

PROOF_OF = [("stop-remade", remade_proof(in_order=True))]
SHOWS_OF = [("stop-remade", has_an_old_log)]


def test_its_targets_are_stopped(world: World) -> None:
    world.cluster = cluster = TopicsCluster(["n1", "n2", "n3"])
    aim = Aim(fault_id=1, targets=("n2",), rng=Random(0), stop=world.stop)
    fault = stop_remade(aim, world.site())
    assert isinstance(fault._outage, Stop)
    assert fault.targets == ("n2",)
    fault.inject()
    assert cluster.calls[1] == "stop n2"
    effect = fault.confirm(Patience(limit_s=0.1))
    assert effect is not None
    assert effect.graceful == ("n2",)
    fault.heal()
