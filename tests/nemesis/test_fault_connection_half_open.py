"""The fault `connection-half-open`: nothing gets through, neither end is told, new ones pass."""

from dataclasses import replace

import pytest

from cluster.protocol import ClusterError
from nemesis import half_open
from nemesis.connection_half_open import connection_half_open
from nemesis.connections import between_servers
from nemesis.effects import effect_to_json
from nemesis.isolate import isolate
from nemesis.sweep import sweep
from nemesis.undo import Unblock
from tests.nemesis.conftest import FakeCluster
from tests.nemesis.fake_connections import (
    IDLE,
    SOON,
    AnotherInItsPlace,
    FakeConnections,
    NeverUnblocked,
    NobodyComesBack,
    NobodyHit,
    NothingThere,
    OneEndStays,
    OnlyAnotherPort,
    aimed,
    site_of,
)
from tests.nemesis.proofs import half_open_proof
from tests.nemesis.simulated_room import silent

PROOF_OF = [("connection-half-open", half_open_proof("brokers"))]
SHOWS_OF = [("connection-half-open", silent())]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_open, "ANOTHER_S", 0.05)


@pytest.mark.parametrize("seed", range(8))
def test_a_connection_lets_nothing_through_and_both_ends_hold_it(seed: int) -> None:
    hosts = FakeConnections()
    fault = connection_half_open(aimed(seed=seed), site_of(hosts))
    assert fault.undo() == (Unblock(block_id="fault-1"),)
    assert fault.links == ()
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.dead
    for each in effect.dead:
        assert each.dropped > 0
        assert each.unacknowledged[0] > 0
        assert each.again[0] > 0
        assert f":{IDLE}" not in each.connection
        assert "n2:" in each.connection
    assert {each.connection for each in effect.dead} <= {*effect.drawn}
    assert effect.opened
    assert '"told": "' in effect_to_json(effect)
    fault.heal()
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert healed.dropped > 0
    assert healed.held == len(effect.drawn)
    assert hosts.blocks == {}


def test_how_many_are_drawn_is_drawn() -> None:
    sizes = set()
    for seed in range(20):
        hosts = FakeConnections()
        connection_half_open(aimed(seed=seed), site_of(hosts)).inject()
        sizes.add(len(hosts.blocks["fault-1"]))
    assert sizes == {1, 2}, "up to half of four"


@pytest.mark.parametrize(
    "hosts", [NobodyHit, OneEndStays, AnotherInItsPlace, NobodyComesBack, OnlyAnotherPort]
)
def test_what_is_no_such_connection_is_no_effect(hosts: type[FakeConnections]) -> None:
    fault = connection_half_open(aimed(), site_of(hosts()))
    fault.inject()
    assert fault.confirm(SOON) is None
    fault.heal()


def test_a_block_that_stays_is_not_healed() -> None:
    fault = connection_half_open(aimed(), site_of(NeverUnblocked()))
    fault.inject()
    assert fault.confirm(SOON) is not None
    fault.heal()
    assert fault.confirm_healed(SOON) is None


def test_the_heal_of_everything_removes_a_block() -> None:
    hosts = FakeConnections()
    site = site_of(hosts)
    connection_half_open(aimed(), site).inject()
    report = sweep([], site)
    assert "block fault-1 was removed" in report.done
    assert report.healed
    assert hosts.blocks == {}


def test_a_block_that_stays_is_no_heal_of_everything() -> None:
    site = site_of(NeverUnblocked())
    connection_half_open(aimed(), site).inject()
    report = sweep([], site)
    assert report.failed == ("block fault-1 is still in force after its removal",)
    assert report.done == ()


def test_what_another_fault_has_blocked_is_not_drawn() -> None:
    hosts = FakeConnections()
    others = [each for each in hosts.there if "n1" in {each.client, each.server}]
    hosts.block("fault-2", others)
    fault = connection_half_open(aimed(), site_of(hosts))
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert {*hosts.blocks["fault-1"]}.isdisjoint(others)
    hosts.block("fault-3", [*hosts.there])
    with pytest.raises(ClusterError, match="n2: no connection is established"):
        connection_half_open(aimed(), site_of(hosts)).inject()


def test_a_new_connection_is_opened_only_to_who_runs() -> None:
    hosts = FakeConnections()
    hosts.open("n2", "zk", 2181)
    plain = site_of(hosts)
    site = replace(plain, controllers=("zk",))
    keeper = plain.cluster.start_node("zk")
    connections = between_servers(aimed(), site)
    connections.now()
    assert connections.opened()["n2", "zk", 2181]
    assert isinstance(plain.cluster, FakeCluster)
    del plain.cluster.states[keeper]
    assert ("n2", "zk", 2181) not in connections.opened()
    assert connections.opened()


def test_it_takes_connections_over_links_that_are_open() -> None:
    with pytest.raises(ClusterError, match="n2: no connection is established"):
        connection_half_open(aimed(), site_of(NothingThere())).inject()
    hosts = FakeConnections()
    site = site_of(hosts)
    isolate(aimed("n1"), site).inject()
    connection_half_open(aimed(), site).inject()
    pairs = {frozenset({each.client, each.server}) for each in hosts.blocks["fault-1"]}
    assert pairs == {frozenset({"n2", "n3"})}


def test_one_that_never_began_is_healed_at_once() -> None:
    fault = connection_half_open(aimed(), site_of(FakeConnections()))
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert healed.opened == ()
