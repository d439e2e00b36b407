"""The fault `client-reset`: connections of clients with the targets, and of nobody else."""

import pytest

from cluster.protocol import Ability
from nemesis import resets
from nemesis.client_reset import client_reset
from nemesis.registry import KINDS
from tests.nemesis.fake_connections import SOON, FakeConnections, aimed, site_of
from tests.nemesis.proofs import resets_proof
from tests.nemesis.simulated_room import replaced_around

PROOF_OF = [("client-reset", resets_proof("clients"))]
SHOWS_OF = [("client-reset", replaced_around(2, clients=True))]


def test_clients_lose_their_connections_and_brokers_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resets, "EVERY_S", (0.01, 0.02))
    hosts = FakeConnections()
    before = {*hosts.there}
    fault = client_reset(aimed("n2", "n3"), site_of(hosts))
    fault.inject()
    assert fault.confirm(SOON) is not None
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert healed.opened == ("clients > n2", "clients > n3")
    gone = before - {*hosts.there}
    assert gone
    assert all(each.client == "clients" and each.server in {"n2", "n3"} for each in gone)


def test_it_takes_hosts_that_reset_and_whose_clients_machine_is_known() -> None:
    needs = KINDS["client-reset"].needs
    assert needs == {Ability.RESET, Ability.CONNECTIONS, Ability.CUT_CLIENTS}
