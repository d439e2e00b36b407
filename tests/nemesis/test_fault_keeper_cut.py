"""The fault `keeper-cut`, on hosts in memory, and how it is proven elsewhere."""

from collections import Counter
from random import Random

from nemesis.keeper_cut import keeper_cut
from nemesis.protocol import Aim, Patience, Site
from nemesis.undo import Join
from tests.nemesis.conftest import FakeNetwork
from tests.nemesis.proofs import Proof
from tests.nemesis.test_fault_keeper_kill import WithZooKeeper

SOON = Patience(limit_s=0.1)
PROOF_OF = [
    (
        "keeper-cut",
        Proof(
            witness="zookeeper",
            shows=lambda before, looks: (
                looks[-1]["servers"].keys() == before["servers"].keys()
                and sum(not each for each in looks[-1]["answered"].values()) in {1, 3}
            ),
            gone=lambda before, after: (
                all(after["answered"].values())
                and after["servers"].keys() == before["servers"].keys()
            ),
        ),
    )
]


def test_all_brokers_the_controller_or_any_one_are_cut_off_and_nobody_else() -> None:
    cut_off = Counter[frozenset[str]]()
    for seed in range(60):
        hosts, cluster = FakeNetwork(), WithZooKeeper(["n1", "n2", "n3"])
        site = Site.of(cluster, hosts, cluster.state_of)
        fault = keeper_cut(Aim(fault_id=1, targets=("zk",), rng=Random(seed)), site)
        assert fault.undo() == (Join(cut_id="fault-1", links=fault.links),)
        fault.inject()
        assert fault.confirm(SOON) is not None
        assert hosts.probe([("n1", "n2"), ("n2", "n3")]) == {("n1", "n2"): True, ("n2", "n3"): True}
        assert set(fault.links) == {(b, a) for a, b in fault.links}
        cut_off[frozenset({node for link in fault.links for node in link} - {"zk"})] += 1
        fault.heal()
        assert fault.confirm_healed(SOON) is not None
        assert hosts.cuts == {}
    (everyone, _), (controller, _), *others = cut_off.most_common()
    assert (everyone, controller) == (frozenset({"n1", "n2", "n3"}), frozenset({"n1"}))
    assert {node for node, _ in others} == {frozenset({"n2"}), frozenset({"n3"})}


def test_a_cut_that_does_not_hold_is_no_effect() -> None:
    hosts, cluster = FakeNetwork(), WithZooKeeper(["n1", "n2", "n3"])
    hosts.deaf_to_cut = True
    site = Site.of(cluster, hosts, cluster.state_of)
    fault = keeper_cut(Aim(fault_id=1, targets=("zk",), rng=Random(0)), site)
    fault.inject()
    assert fault.confirm(SOON) is None
