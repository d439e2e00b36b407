"""The fault `client-connection-stall`: of clients' connections to the targets some are late."""

from random import Random

from cluster.protocol import CLIENTS
from cluster.reference.simulator.network import CLIENT
from nemesis.client_connection_stall import client_connection_stall
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from tests.nemesis.conftest import World
from tests.nemesis.proofs import half_stall_proof
from tests.nemesis.simulated_room import stalls_only
from tests.nemesis.test_faults_of_quality import ShapedNetwork

PROOF_OF = [("client-connection-stall", half_stall_proof("clients-n2"))]
SHOWS_OF = [("client-connection-stall", stalls_only({(CLIENT, 2), (2, CLIENT)}))]


def test_both_ways_to_clients_stall_in_part_and_no_link_of_brokers(world: World) -> None:
    hosts = ShapedNetwork()
    state_of = world.cluster.state_of
    site = Site(cluster=world.cluster, network=Network(hosts), state_of=state_of, hosts=hosts)
    fault = client_connection_stall(Aim(fault_id=1, targets=("n2",), rng=Random(0)), site)
    assert {*fault.links} == {(CLIENTS, "n2"), ("n2", CLIENTS)}
    fault.inject()
    assert fault.confirm(Patience(limit_s=0.1)) is not None
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=0.1)) is not None
