"""The fault `kill-remade`, which makes a topic again meanwhile, and how it is proven elsewhere."""

from random import Random

from nemesis.kill import Kill
from nemesis.kill_remade import kill_remade
from nemesis.protocol import Aim
from tests.nemesis.conftest import World
from tests.nemesis.proofs import remade_proof
from tests.nemesis.simulated_room import has_an_old_log
from tests.nemesis.test_remade import TopicsCluster

PROOF_OF = [("kill-remade", remade_proof(in_order=False))]
SHOWS_OF = [("kill-remade", has_an_old_log)]


def test_its_targets_are_killed(world: World) -> None:
    world.cluster = cluster = TopicsCluster(["n1", "n2", "n3"])
    aim = Aim(fault_id=1, targets=("n2",), rng=Random(0), stop=world.stop)
    fault = kill_remade(aim, world.site())
    assert isinstance(fault._outage, Kill)
    assert fault.targets == ("n2",)
    fault.inject()
    assert cluster.calls[1] == "kill n2"
    fault.heal()
