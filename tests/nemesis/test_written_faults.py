"""Faults written by hand that cannot mean anything are refused, each with one sentence."""

from contextlib import nullcontext

import pytest

from cluster.protocol import Ability
from nemesis.registry import KINDS
from nemesis.schedule import deal_schedule
from nemesis.targets import KEEPER, ON_CONTROLLERS, QUORUM_VOTERS
from results.record.plan import ALL, Plan, PlanError
from results.record.plan_parts import PlannedFault
from results.record.terms import Mode

APART = "kafka:4.3.1:controllers"
EVERYTHING = frozenset(Ability)


def _schedule(plan: Plan, **fault: object) -> None:
    by_hand = PlannedFault.model_validate({"at_s": 10, **fault})
    deal_schedule(plan.model_copy(update={"faults": (by_hand,)}), abilities=EVERYTHING)


@pytest.mark.parametrize(
    ("plan", "fault", "why"),
    [
        (Plan(nodes=2, replication=2), {"kind": "ring"}, "needs 3 nodes or more, but there are 2"),
        (Plan(nodes=1, replication=1, min_insync=1), {"kind": "isolate"}, "needs 2 nodes or more"),
        (
            Plan(replication=1, min_insync=1),
            {"kind": "reassignment"},
            "with nodes 3, replication 1 .* needs replication 2 or more",
        ),
        (
            Plan(),
            {"kind": "unclean-election", "target": "replicas(log-0,0)"},
            "a majority of the nodes that keep the metadata .* use 2 replicas, or separate",
        ),
        (Plan(nodes=2, replication=2), {"kind": "controller-failover", "target": "controller"},
         "another controller and a majority of voters"),
        (Plan(replication=1, min_insync=1), {"kind": "kill", "target": "follower(log-0,0)"},
         "with replication 1 there is no follower; use leader"),
        (Plan(replication=2), {"kind": "unclean-election", "target": "leader(log-0,0)"},
         "this kind accepts only replicas or all"),
        (Plan(), {"kind": "controller-failover", "target": "not-controller"},
         "this kind accepts only controller or quorum-leader"),
        (Plan(nodes=2, replication=2), {"kind": "disputed-election", "target": "quorum-voters"},
         "it needs a KRaft quorum of 3 or more voters"),
        (Plan(), {"kind": "disputed-election", "target": "n1"},
         r"hits all voters at once \(n1, n2, n3\); use quorum-voters"),
        (Plan(system=APART), {"kind": "disputed-election", "target": "all"},
         r"hits all voters at once \(n101, n102, n103\); use quorum-voters"),
        (Plan(), {"kind": "one-way-in", "target": "all"},
         "needs a node that is not a target; use majority"),
        *(
            (Plan(system=APART), {"kind": kind, "target": target}, r"on brokers only \(n1 to n3\)")
            for kind in ("isolate", "delay", "clock-offset", "wipe", "disk-full", "bit-flip")
            for target in ("controller", "quorum-leader", "quorum-voter", "n101")
        ),
        (Plan(), {"kind": "kill", "at_s": 58}, "last until 63 s, but the main phase ends"),
        (Plan(), {"kind": "kill", "when": "isr of log-7-0 <= 2"}, "no partition log-7-0"),
        (Plan(), {"kind": "kill", "target": "leader(log-7,0)"}, "no partition log-7-0"),
    ],
)  # fmt: skip
def test_it_is_refused_with_one_sentence(plan: Plan, fault: dict[str, object], why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        _schedule(plan, **fault)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("beside", "refused"),
    [
        ({"kind": "kill", "at_s": 12}, True),
        ({"kind": "kill", "at_s": 29}, True),  # It may not have fetched what it lost.
        ({"kind": "kill", "at_s": 30}, False),
        ({"kind": "kill", "at_s": 1}, True),
        ({"kind": "kill", "at_s": 50, "when": "isr of log-0-0 <= 2"}, True),
    ],
)
def test_what_a_disk_forgets_is_not_written_beside_another_fault(
    beside: dict[str, object], *, refused: bool
) -> None:
    (alone,) = (each for each in KINDS if KINDS[each].family == "lost-flushes")
    faults = [
        PlannedFault.model_validate(each)
        for each in ({"kind": alone, "at_s": 10, "hold_s": 5}, beside)
    ]
    plan = Plan(faults=tuple(faults))
    with pytest.raises(PlanError, match="KIP-966") if refused else nullcontext():
        deal_schedule(plan, abilities=EVERYTHING)


@pytest.mark.parametrize("system", ["kafka:4.3.1", APART, "kafka:3.9.1:zookeeper"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_may_be_written_with_the_roles_that_it_is_dealt(kind: str, system: str) -> None:
    plan = Plan(system=system, nodes=5, replication=3, workload="groups")
    if not plan.kept_outside and KEEPER in KINDS[kind].aims:
        with pytest.raises(PlanError, match="because a KRaft quorum keeps the metadata"):
            _schedule(plan, kind=kind, target=KEEPER)
        return
    if kind == "disputed-election" and plan.mode is Mode.ZOOKEEPER:
        with pytest.raises(PlanError, match="has no KRaft quorum"):
            _schedule(plan, kind=kind, target=QUORUM_VOTERS)
        return
    if KINDS[kind].family == "remade" and plan.kept_outside:
        with pytest.raises(PlanError, match="ZooKeeper must not keep the metadata"):
            _schedule(plan, kind=kind, target="one")
        return
    for target in KINDS[kind].aims or ("one", "leader(log-0,1)", "n2", "majority"):
        if target != "controller" or system != APART or KINDS[kind].on_controllers:
            _schedule(plan, kind=kind, target=target)


def test_what_runs_on_controllers_may_be_hit_there_by_hand() -> None:
    for kind in ("kill", "stop", "pause", "rolling-restart", "controller-failover"):
        for target in ("controller", "quorum-leader", "n101"):
            _schedule(Plan(system=APART), kind=kind, target=target)
    for kind in ("isolate", "delay", "clock-offset", "wipe"):  # It is a broker here.
        _schedule(Plan(), kind=kind, target="controller")


def _dealt(system: str, seed: int) -> list[tuple[str, str]]:
    plan = Plan(system=system, seed=seed, nodes=5, nemesis=(ALL,), time_limit_s=900)
    assert plan.mode in {Mode.COMBINED, Mode.CONTROLLERS}
    faults = deal_schedule(plan, abilities=EVERYTHING).faults
    return [(fault.kind, fault.target) for fault in faults]


@pytest.mark.parametrize("seed", range(5))
def test_no_fault_is_dealt_a_machine_on_which_it_does_not_work(seed: int) -> None:
    apart, together = _dealt(APART, seed), _dealt("kafka:4.3.1", seed)
    hit = {kind for kind, target in apart if target in ON_CONTROLLERS}
    assert hit
    assert all(KINDS[kind].on_controllers for kind in hit)
    # Where brokers keep the metadata, any kind may hit the one that leads them.
    everywhere = {kind for kind, target in together if target in ON_CONTROLLERS}
    assert not all(KINDS[kind].on_controllers for kind in everywhere)


def test_a_role_that_had_to_wait_is_dealt_to_the_next_kind_that_works_there() -> None:
    plan = Plan(system=APART, nemesis=("partition", "kill"), time_limit_s=600)
    for seed in range(10):
        faults = deal_schedule(plan.model_copy(update={"seed": seed}), abilities=EVERYTHING).faults
        hits = [fault.kind for fault in faults if fault.target == "controller"]
        assert set(hits) == {"kill"}
        # As often as each other role of a deck of five.
        assert len(hits) >= len(faults) // 5 - 1
