"""The fault `disk-error`, on disks in memory, and how it is proven on real ones."""

from dataclasses import replace

import pytest

from cluster.protocol import DISK_REQUESTS, ClusterError
from nemesis.disk_error import DiskError
from nemesis.effects import effect_to_json
from nemesis.life import FaultPhase
from nemesis.protocol import Patience
from nemesis.scheduled import ScheduledFault
from nemesis.undo import MendDisk, Restart
from results.record.clock import wait_until
from results.record.runtime import start
from tests.nemesis.broken_disks import FakeFaultyDisks, aimed, broken_proof
from tests.nemesis.conftest import World

SOON = Patience(limit_s=0.1)
PROOF_OF = [("disk-error", broken_proof(half=False))]
READS, FLUSHES, WRITES = 1, 5, 0
"""Seeds by what they draw."""


@pytest.fixture
def hosts() -> FakeFaultyDisks:
    return FakeFaultyDisks()


def error(world: World, hosts: FakeFaultyDisks, seed: int = WRITES, *nodes: str) -> DiskError:
    return DiskError(aimed(seed, *(nodes or ("n1",))), replace(world.site(), hosts=hosts))


def test_seeds_draw_every_sort_of_request(world: World, hosts: FakeFaultyDisks) -> None:
    for seed in range(20):
        error(world, hosts, seed).inject()
        kind, requests = hosts.broken["n1"]
        assert kind == "refused"
        hosts.broken[f"{requests}"] = hosts.broken.pop("n1")
    assert len(hosts.broken) == len(DISK_REQUESTS)


def test_a_broker_that_ends_is_started_on_a_mended_disk(
    world: World, hosts: FakeFaultyDisks
) -> None:
    fault = error(world, hosts)
    assert fault.undo() == (MendDisk(node="n1"), Restart(node="n1"))
    before = world.cluster.processes["n1"]
    fault.inject()
    del world.cluster.states[before]  # As Kafka does with its only log folder.
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.ended == ("n1",)
    told = effect.told
    assert told.endswith(" 7 requests of its broker were refused; the broker ended by itself")
    assert "on the disk of n1 got EIO" in told
    assert '"kind": "broken-disk"' in effect_to_json(effect)
    assert world.cluster.calls == ["kill n1"]  # So that nobody takes it for the run's failure.
    fault.heal()
    assert hosts.broken == {}
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert "4096 bytes on the disk of n1, where 3 files were flushed" in healed.told
    assert world.cluster.processes["n1"] != before


def test_one_that_lives_on_is_started_anew(world: World, hosts: FakeFaultyDisks) -> None:
    fault = error(world, hosts, READS)
    before = world.cluster.processes["n1"]
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.ended == ()
    for _ in range(2):
        fault.heal()
    assert world.cluster.calls == ["kill n1", "start n1"]
    assert world.cluster.processes["n1"] != before


def test_what_breaks_nothing_is_no_effect(world: World, hosts: FakeFaultyDisks) -> None:
    hosts.deaf = True
    fault = error(world, hosts, FLUSHES, "n1", "n2")
    fault.inject()
    assert fault.confirm(SOON) is None
    world.cluster.states.clear()  # Its brokers end, for reasons of their own.
    world.cluster.start_node("n3")
    fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert healed.met == {"n1": 0, "n2": 0}


def test_where_a_disk_was_broken_before_no_other_one_breaks_anything(
    world: World, hosts: FakeFaultyDisks
) -> None:
    hosts.bad = {"n2"}
    fault = error(world, hosts, FLUSHES, "n1", "n2")
    with pytest.raises(ClusterError, match="the disk of n2 rejected a test page"):
        fault.inject()
    assert hosts.broken == {}


def test_what_brokers_met_is_told_by_the_heal_though_nothing_was_confirmed(
    world: World, hosts: FakeFaultyDisks
) -> None:
    """One node shows nothing; another one's broker met the fault, and more of it later."""
    fault = error(world, hosts, WRITES, "n1", "n2")
    fault.inject()
    del hosts.broken["n2"]
    assert fault.confirm(SOON) is None
    world.cluster.states.clear()
    world.cluster.start_node("n3")
    hosts.counts = {"n1": {"refused write": 9}, "n2": {"refused write": 1}}
    for _ in range(2):
        fault.heal()
    healed = fault.confirm_healed(SOON)
    assert healed is not None
    assert (healed.how, healed.met) == ("refused", {"n1": 9, "n2": 1})
    assert healed.told.endswith("requests that were refused until the heal: 9 of n1, 1 of n2")


def test_a_disk_that_stays_broken_is_not_healed(world: World, hosts: FakeFaultyDisks) -> None:
    fault = error(world, hosts)
    fault.inject()
    del world.cluster.states[world.cluster.processes["n1"]]
    hosts.stuck = True
    fault.heal()
    assert fault.confirm_healed(SOON) is None
    hosts.stuck = False
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


def test_a_disk_that_cannot_be_mended_keeps_no_other_one_broken(
    world: World, hosts: FakeFaultyDisks
) -> None:
    fault = error(world, hosts, WRITES, "n1", "n2")
    fault.inject()
    hosts.refusing.add("n1")
    with pytest.raises(ClusterError, match="the disk of n1 does not answer"):
        fault.heal()
    assert hosts.broken.keys() == {"n1"}
    assert world.cluster.calls == ["kill n2", "start n2"]
    hosts.refusing.clear()
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=20)) is not None


def test_the_sweep_says_that_a_disk_is_still_broken(world: World, hosts: FakeFaultyDisks) -> None:
    world.hosts, hosts.stuck = hosts, True
    hosts.processes_file = world.paths.processes
    nemesis = world.nemesis(
        ScheduledFault(fault_id=1, at_s=0, kind="disk-error", target="n1", hold_s=0)
    )
    task = start(lambda: nemesis.run(world.stop), "nemesis", awaited=True)
    wait_until(
        lambda: [each.phase for each in nemesis.in_force()] == [FaultPhase.HEALING],
        timeout_s=60,
        what="the heal",
    )
    world.stop.set()
    task.join()
    task.result()
    report = nemesis.heal_all(limit_s=1.2)
    assert hosts.broken
    assert not report.undone, report


def test_a_broker_that_is_not_back_is_not_healed(world: World, hosts: FakeFaultyDisks) -> None:
    fault = error(world, hosts)
    fault.inject()
    world.cluster.asleep.add("n1")
    fault.heal()
    assert fault.confirm_healed(SOON) is None


def test_hosts_that_break_nothing_and_nodes_that_are_not_there_are_refused(
    world: World, hosts: FakeFaultyDisks
) -> None:
    with pytest.raises(ClusterError, match="these hosts cannot make disk requests fail"):
        DiskError(aimed(WRITES, "n1"), world.site())
    world.cluster.kill_node("n1")
    with pytest.raises(ClusterError, match="no broker runs on n1"):
        error(world, hosts)
