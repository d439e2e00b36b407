"""From the plan that was asked for to the one that is stored: only what the hosts can do."""

import tomllib

import pytest

from cluster.protocol import OF_SYSTEMS, Ability, UserError
from harness.plans import COMMENTED_PLAN, DISK_MB, as_played, refuse_impossible
from nemesis.kill import Kill
from nemesis.kind import Kind
from nemesis.registry import KINDS, kinds_of
from nemesis.schedule import deal_schedule
from results.record.plan import NEMESIS_KINDS, Plan, PlanError, dump_plan, plan_from
from results.record.plan_parts import PlannedFault

EVERYTHING = frozenset(Ability)


def _filling() -> Kind:
    return Kind(family="disk", make=Kill, settle_s=1, needs=frozenset({Ability.DISK}))


def _stored(plan: Plan, *, abilities: frozenset[Ability]) -> Plan:
    """Return the plan as another run would read it."""
    return plan_from(tomllib.loads(dump_plan(as_played(plan, "process", abilities=abilities))))


@pytest.mark.parametrize("abilities", [OF_SYSTEMS, OF_SYSTEMS | {Ability.CUT}, EVERYTHING])
def test_all_is_stored_as_the_families_that_work_and_deals_the_same_again(
    abilities: frozenset[Ability],
) -> None:
    plan = plan_from({"seed": 5, "nemesis": "all", "time_limit_s": 600})
    stored = _stored(plan, abilities=abilities)
    assert stored.nemesis == tuple(
        family
        for family in NEMESIS_KINDS
        if any(KINDS[kind].suits(plan) for kind in kinds_of(family, abilities))
    )
    refuse_impossible(stored, abilities=abilities)
    dealt = deal_schedule(plan, abilities=abilities)
    # The stage deals once more, and need not find out what the hosts can do.
    assert deal_schedule(stored, abilities=EVERYTHING).faults == dealt.faults
    assert not deal_schedule(stored, abilities=abilities).dropped


def test_a_single_node_is_stored_without_what_needs_two() -> None:
    plan = plan_from({"nodes": 1, "replication": 1, "min_insync": 1, "nemesis": "all"})
    stored = _stored(plan, abilities=EVERYTHING)
    assert "kill" in stored.nemesis
    assert "partition" not in stored.nemesis
    assert all(kind.least_nodes == 1 for kind in KINDS.values() if kind.family in stored.nemesis)


def test_what_was_asked_for_by_name_is_refused_with_the_reason() -> None:
    plan = plan_from({"nemesis": "kill,partition"})
    why = "the program nft is missing"
    with pytest.raises(UserError, match=f"nemesis 'partition' needs .* cut the network: {why};"):
        refuse_impossible(plan, abilities=OF_SYSTEMS, why_not={Ability.CUT: why})


def test_a_family_that_the_cluster_is_too_small_for_is_refused_if_it_was_named() -> None:
    alone = {"nodes": 1, "replication": 1, "min_insync": 1}
    sentence = "nemesis 'leadership': none of its faults is possible with nodes 1 and replication 1"
    with pytest.raises(UserError, match=sentence):
        refuse_impossible(plan_from({**alone, "nemesis": "kill,leadership"}), abilities=EVERYTHING)
    with pytest.raises(UserError, match="nemesis 'splits': none of its faults"):
        refuse_impossible(plan_from({**alone, "nemesis": "splits"}), abilities=EVERYTHING)
    # Neither a default nor what `all` leaves out was named, and faults by hand are their own.
    by_hand = {"nemesis": "splits", "faults": [{"kind": "kill"}]}
    for fine in ({}, {"nemesis": "all"}, {"nemesis": "kill"}, {"nemesis": ""}, by_hand):
        refuse_impossible(plan_from({**alone, **fine}), abilities=EVERYTHING)


def test_an_image_is_refused_where_nothing_is_made_from_it() -> None:
    image = {"image": "apache/kafka:4.3.1", "nemesis": ""}
    refuse_impossible(plan_from({**image, "hosts": "docker"}), abilities=EVERYTHING)
    for hosts in ("auto", "namespace", "process", "ssh:hosts.toml"):
        sentence = (
            f"'apache/kafka:4.3.1' is for containers, but hosts is {hosts}; add --hosts docker"
        )
        with pytest.raises(UserError, match=sentence):
            refuse_impossible(plan_from({**image, "hosts": hosts}), abilities=EVERYTHING)


def test_nodes_have_disks_of_their_own_only_where_a_fault_fills_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _stored(Plan(), abilities=EVERYTHING).disk_mb is None
    monkeypatch.setitem(KINDS, "disk-full", _filling())
    plan = plan_from({"nemesis": "disk"})
    assert _stored(plan, abilities=EVERYTHING).disk_mb == DISK_MB
    assert _stored(plan.model_copy(update={"disk_mb": 99}), abilities=EVERYTHING).disk_mb == 99
    assert _stored(plan, abilities=frozenset()).disk_mb is None


def test_the_commented_plan_names_every_family() -> None:
    assert not [each for each in NEMESIS_KINDS if each not in COMMENTED_PLAN]


def test_the_faults_of_the_commented_plan_can_be_played() -> None:
    _, mark, rest = COMMENTED_PLAN.partition("# [[faults]]")
    block, _, _ = rest.partition("\n\n")
    (fault,) = tomllib.loads(f"{mark}{block}".replace("\n# ", "\n").removeprefix("# "))["faults"]
    assert set(fault) == set(PlannedFault.model_fields)
    (dealt,) = deal_schedule(plan_from({"faults": [fault]}), abilities=EVERYTHING).faults
    assert dealt.when == "leader epoch of log-0-0 >= 3"


def test_disks_of_their_own_are_refused_where_nodes_cannot_have_them() -> None:
    plan = plan_from({"disk_mb": 64, "nemesis": []})
    refuse_impossible(plan, abilities=EVERYTHING)
    with pytest.raises(
        UserError, match=r"disk_mb: these hosts cannot .* own disk \(no mounts\); remove"
    ):
        refuse_impossible(
            plan, abilities=EVERYTHING - {Ability.DISK}, why_not={Ability.DISK: "no mounts"}
        )
    story = plan_from({"workload": "script", "disk_mb": 64, "scenario": {"name": "epoch-1"}})
    with pytest.raises(UserError, match="disk_mb: the scenario epoch-1 copies the nodes' files"):
        refuse_impossible(story, abilities=EVERYTHING)


def test_a_workload_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    plan = plan_from({"workload": "lgo"})  # Its form is right; what there is, this side knows.
    with pytest.raises(
        PlanError, match="workload: 'lgo' does not exist; use one of log, txn, groups"
    ):
        refuse_impossible(plan, abilities=())
    with pytest.raises(PlanError, match="workload"):
        plan_from({"workload": "../log"})
