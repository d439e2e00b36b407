"""The fault `keeper-pause`, on a cluster in memory, and how it is proven elsewhere."""

from random import Random

from nemesis.keeper_pause import keeper_pause
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Resume
from tests.nemesis.conftest import FakeHostsWithoutCuts
from tests.nemesis.proofs import Proof
from tests.nemesis.test_fault_keeper_kill import WithZooKeeper

SOON = Patience(limit_s=0.1)
PROOF_OF = [
    (
        "keeper-pause",
        Proof(
            witness="zookeeper",
            shows=lambda before, looks: (
                looks[-1]["servers"] == dict.fromkeys(before["servers"], "T")
                and not any(looks[-1]["answered"].values())
            ),
            gone=lambda before, after: (
                all(after["answered"].values())
                and after["servers"].keys() == before["servers"].keys()
            ),
        ),
    )
]


def test_it_stands_still_and_goes_on() -> None:
    cluster = WithZooKeeper(["n1", "n2", "n3"])
    site = Site.of(cluster, FakeHostsWithoutCuts(), cluster.state_of)
    fault = keeper_pause(Aim(fault_id=1, targets=("zk",), rng=Random(0)), site)
    process = cluster.processes["zk"]
    assert fault.undo() == (Resume(node="zk", pid=process.pid, start_ticks=process.start_ticks),)
    fault.inject()
    assert fault.confirm(SOON) is not None
    assert cluster.states[process] == "T"
    fault.heal()
    assert fault.confirm_healed(SOON) is None, "all are registered, by sessions from before"
    assert fault.confirm_healed(Patience(limit_s=10)) is not None
    assert cluster.processes["zk"] == process
    fault.inject()
    cluster.resume_node("zk")
    assert fault.confirm(SOON) is None
