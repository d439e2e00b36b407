"""The fault `client-reset`: connections of clients with the targets, and of nobody else."""

import pytest

from cluster.hosts.abilities import abilities_of, able
from cluster.protocol import Ability
from nemesis import resets
from nemesis.client_reset import client_reset
from nemesis.registry import KINDS
from tests.nemesis.fake_connections import SOON, FakeConnections, aimed, site_of
from tests.nemesis.proofs import resets_proof
from tests.nemesis.simulated_room import replaced

PROOF_OF = [("client-reset", resets_proof("clients"))]
SHOWS_OF = [("client-reset", replaced(clients=True))]


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
    assert {each.rpartition(":")[0] for each in healed.opened} == {"clients > n2", "clients > n3"}
    gone = before - {*hosts.there}
    assert gone
    assert all(each.client == "clients" and each.server in {"n2", "n3"} for each in gone)


def test_it_is_offered_where_the_machine_of_clients_is_known() -> None:
    needs = KINDS["client-reset"].needs
    assert needs == {Ability.CONNECTIONS, Ability.CUT_CLIENTS}
    assert needs <= able(abilities_of("simulated"))
    assert not needs <= able(abilities_of("ssh:"))
