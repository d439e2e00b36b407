"""The fault `connection-reset`: connections are gone at both ends, again and again."""

import threading

import pytest

from cluster.hosts.abilities import abilities_of
from cluster.protocol import Ability, ClusterError
from nemesis import resets
from nemesis.connection_reset import connection_reset
from nemesis.effects import effect_to_json
from nemesis.isolate import isolate
from nemesis.registry import KINDS
from results.record.clock import wait_until
from tests.nemesis.conftest import FakeHostsWithoutCuts
from tests.nemesis.fake_connections import (
    IDLE,
    SOON,
    FakeConnections,
    KernelRefuses,
    NobodyComesBack,
    NobodyHit,
    NothingThere,
    OneEndStays,
    RefusesTwice,
    aimed,
    site_of,
)
from tests.nemesis.proofs import resets_proof
from tests.nemesis.simulated_room import replaced

PROOF_OF = [("connection-reset", resets_proof("brokers"))]
SHOWS_OF = [("connection-reset", replaced())]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resets, "EVERY_S", (0.01, 0.02))
    monkeypatch.setattr(resets, "GONE_S", 0.05)


@pytest.mark.parametrize("seed", range(5))
def test_connections_of_the_targets_are_reset_again_and_again(seed: int) -> None:
    hosts = FakeConnections()
    before = {*hosts.there}
    fault = connection_reset(aimed(seed=seed), site_of(hosts))
    assert fault.undo() == (), "nothing stays in force"
    assert fault.links == ()
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.renewed
    assert '"told": "' in effect_to_json(effect)
    wait_until(lambda: len(fault._strikes) > 3, timeout_s=10, what="more strikes")
    fault.heal()
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert len(healed.strikes) > 3
    assert set(healed.opened) == {
        f"{link}:{port}" for link in ("n1 > n2", "n2 > n3") for port in (9092, IDLE)
    }
    gone = before - {*hosts.there}
    assert gone
    assert all("n2" in {each.client, each.server} for each in gone)
    assert not any("clients" in {each.client, each.server} for each in gone)
    struck = [each for strike in healed.strikes for each in strike.gone]
    assert {*map(str, gone)} <= {*struck}
    assert not [each for each in threading.enumerate() if each.name == "fault-1-resets"]
    there = {*hosts.there}
    hosts.connections([("n1", "n2")])
    assert {*hosts.there} >= there, "none is reset after the heal"


@pytest.mark.parametrize("hosts", [NobodyHit, OneEndStays, NobodyComesBack])
def test_what_hits_no_connection_is_no_effect(hosts: type[FakeConnections]) -> None:
    fault = connection_reset(aimed(), site_of(hosts()))
    fault.inject()
    assert fault.confirm(SOON) is None
    fault.heal()


def test_a_kernel_that_refuses_is_told() -> None:
    fault = connection_reset(aimed(), site_of(KernelRefuses()))
    fault.inject()
    with pytest.raises(ClusterError, match="the kernel of n2 resets nothing"):
        fault.confirm(SOON)
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_strikes_go_on_after_one_that_failed() -> None:
    hosts = RefusesTwice()
    fault = connection_reset(aimed(), site_of(hosts))
    fault.inject()
    effect = fault.confirm(SOON)
    assert hosts.refusals == 0
    assert effect is not None
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_where_there_is_none_there_is_nothing_to_reset() -> None:
    with pytest.raises(ClusterError, match="n2: no connection is established"):
        connection_reset(aimed(), site_of(NothingThere())).inject()
    site = site_of(FakeConnections())
    isolate(aimed(), site).inject()
    with pytest.raises(ClusterError, match="n2: no connection is established"):
        connection_reset(aimed(), site).inject()
    site = site_of(FakeConnections())
    site.cluster.nodes = ["n1"]
    with pytest.raises(ClusterError, match="no link of n1 whose connections"):
        connection_reset(aimed("n1"), site)


def test_hosts_that_tell_no_connections_say_so() -> None:
    site = site_of(FakeConnections())
    object.__setattr__(site, "hosts", FakeHostsWithoutCuts())
    with pytest.raises(ClusterError, match="cannot list or break single connections"):
        connection_reset(aimed(), site)
    assert Ability.CONNECTIONS in KINDS["connection-reset"].needs
    assert "use --hosts namespace" in abilities_of("process")[Ability.CONNECTIONS]


def test_one_that_never_began_is_healed_at_once() -> None:
    fault = connection_reset(aimed(), site_of(FakeConnections()))
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_the_end_of_the_main_phase_ends_it() -> None:
    aim, over = aimed(), threading.Event()
    object.__setattr__(aim, "stop", over)
    fault = connection_reset(aim, site_of(FakeConnections()))
    fault.inject()
    over.set()
    fault._background.join(5)
    assert not fault._background.is_busy(), "nobody may be there to heal it"
