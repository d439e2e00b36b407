"""The fault `kill-all`, on a cluster in memory, and how it is proven elsewhere."""

from random import Random

import pytest

from cluster.protocol import Ability, ClusterError
from nemesis import runner
from nemesis.brokers import broker_runs
from nemesis.kill import Kill
from nemesis.kill_all import kill_all
from nemesis.life import Life
from nemesis.protocol import Aim, Patience
from nemesis.registry import KINDS
from nemesis.schedule import deal_schedule
from nemesis.scheduled import ScheduledFault
from nemesis.targets import SERVERS
from results.record.clock import wait_until
from results.record.plan import Plan, PlanError
from results.record.plan_parts import PlannedFault
from results.record.runtime import start
from tests.nemesis.conftest import FakeCluster, World
from tests.nemesis.proofs import Proof
from tests.nemesis.simulated_room import now

NODES = ("n1", "n2", "n3")
SOON = Patience(limit_s=0.1)
ALL = ScheduledFault(fault_id=1, at_s=0, kind="kill-all", target=SERVERS, hold_s=0)
PROOF_OF = [
    (
        "kill-all",
        Proof(
            witness="servers",
            shows=lambda before, looks: all(before.values()) and not any(looks[-1].values()),
            gone=lambda before, after: all(
                len(after[node]) == 1 and after[node].keys() != before[node].keys()
                for node in before
            ),
        ),
    )
]
SHOWS_OF = [("kill-all", now("gone", targets=3))]


def _outage(world: World) -> Kill:
    return kill_all(Aim(fault_id=1, targets=NODES, rng=Random(0)), world.site())


def test_nobody_runs_until_all_are_started(world: World) -> None:
    fault = _outage(world)
    before = dict(world.cluster.processes)
    fault.inject()
    assert world.cluster.view() is None
    effect = fault.confirm(SOON)
    assert effect is not None
    assert [(each.node, each.pid) for each in effect.processes] == [
        (node, before[node].pid) for node in NODES
    ]
    fault.heal()
    assert world.cluster.calls == [f"{what} {node}" for what in ("kill", "start") for node in NODES]


def test_one_that_survives_is_no_outage(world: World) -> None:
    fault = _outage(world)
    survivor = world.cluster.processes["n3"]
    fault.inject()
    world.cluster.states[survivor] = "S"
    assert fault.confirm(SOON) is None


def test_one_that_does_not_start_keeps_no_other_from_it_and_is_started_again(world: World) -> None:
    fault = _outage(world)
    fault.inject()
    world.refuse("start n1", "the machine is on fire")
    with pytest.raises(ClusterError, match="on fire"):
        fault.heal()
    assert [broker_runs(world.site(), node) for node in NODES] == [False, True, True]
    assert fault.confirm_healed(SOON) is None
    fault.heal()
    assert [broker_runs(world.site(), node) for node in NODES] == [True, True, True]


def test_it_waits_until_nobody_is_away_and_nobody_is_taken_beside_it(world: World) -> None:
    one = ScheduledFault(fault_id=2, at_s=0, kind="kill", target="n1", hold_s=0)
    nemesis = world.nemesis(ALL, one)
    outage, kill = nemesis._lives

    def ended(life: Life) -> bool:
        return life.heal() and life.confirm_healed(Patience(limit_s=10))

    def room_for(life: Life) -> bool:
        with nemesis._room.kept(life):
            return nemesis._room.find(life, alone=False)

    assert room_for(outage)
    kill.begin(world.stop)
    assert not room_for(outage)
    assert ended(kill)
    outage.begin(world.stop)
    assert outage.confirmed
    assert not room_for(kill)
    assert ended(outage)
    assert room_for(kill)


def test_it_keeps_no_other_fault_from_what_that_has_room_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("BACK_LIMIT_S", "WHOLE_LIMIT_S", "LATE_LIMIT_S", "RETRY_S"):
        monkeypatch.setattr(runner, limit, 0.2)
    world.cluster = FakeCluster(["n1", "n2", "n3", "n4", "n5"])
    world.cluster.asleep.add("n1")  # It is never back.
    one, outage, other = (
        ScheduledFault(fault_id=number, at_s=0, kind=kind, target=target, hold_s=0.01)
        for number, (kind, target) in enumerate(
            (("kill", "n1"), ("kill-all", SERVERS), ("kill", "n2")), start=1
        )
    )
    nemesis = world.nemesis(one, outage, other)
    task = start(lambda: nemesis.run(world.stop), "nemesis", awaited=True)
    wait_until(
        lambda: [row["fault_id"] for row in world.last_rows() if row["healed_ns"]] == [3],
        timeout_s=60,
        what="the last fault to be over",
    )
    rows = {row["fault_id"]: row for row in world.last_rows()}
    assert "only while no other fault disables a node" in rows[2]["spec"]
    assert [each.fault_id for each in nemesis.in_force()] == [1]
    world.stop.set()
    task.join()
    task.result()


def test_it_means_all_servers_controllers_of_their_own_among_them() -> None:
    def refusal(target: str, system: str = "kafka:4.3.1") -> str:
        faults = (PlannedFault(at_s=1, kind="kill-all", target=target),)
        try:
            deal_schedule(Plan(system=system, faults=faults), abilities=frozenset(Ability))
        except PlanError as refused:
            return str(refused)
        return ""

    assert "hits all servers at once (n1, n2, n3); use servers" in refusal("n1")
    apart = "kafka:4.3.1:controllers"
    assert "hits all servers at once (n1, n2, n3, n101, n102, n103); use servers" in refusal(
        "all", apart
    )
    assert refusal(SERVERS, apart) == refusal(SERVERS) == refusal("all") == ""


def test_it_is_dealt_to_all_servers() -> None:
    faults = deal_schedule(
        Plan(nemesis=("outage",), time_limit_s=300), abilities=frozenset(Ability)
    ).faults
    assert {fault.target for fault in faults} == {SERVERS}
    assert {fault.kind for fault in faults} == {
        name for name, kind in KINDS.items() if kind.family == "outage"
    }
