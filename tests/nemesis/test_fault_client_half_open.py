"""The fault `client-half-open`: connections of clients with the targets, and of nobody else."""

from nemesis.client_half_open import client_half_open
from tests.nemesis.fake_connections import SOON, FakeConnections, aimed, site_of
from tests.nemesis.proofs import half_open_proof
from tests.nemesis.simulated_room import silent

PROOF_OF = [("client-half-open", half_open_proof("clients"))]
SHOWS_OF = [("client-half-open", silent(clients=True))]


def test_clients_hear_nothing_more_and_brokers_hear_each_other() -> None:
    hosts = FakeConnections()
    fault = client_half_open(aimed(), site_of(hosts))
    fault.inject()
    assert {each.client for each in hosts.blocks["fault-1"]} == {"clients"}
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.opened == ("clients > n2:9092", "clients > n2:9093")
    fault.heal()
    assert fault.confirm_healed(SOON) is not None
