"""The deal of faults: what must be in it for any seed."""

import re
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.hosts.abilities import abilities_of, able, built_for
from cluster.protocol import OF_SYSTEMS, Ability, UserError
from cluster.sessions import hidden_s
from cluster.systems.registry import system_of
from harness.elsewhere import refuse_elsewhere
from nemesis.families import breaks_disks
from nemesis.kind import START_S
from nemesis.overlaps import LONG, QUICK
from nemesis.registry import KINDS, kinds_of, needs_of
from nemesis.roster import roster_of
from nemesis.schedule import FEW_FAMILIES, Schedule, deal_schedule, played_families, unsupported
from nemesis.scheduled import MIN_HOLD_S, ScheduledFault
from nemesis.targets import parse_target
from results.record.plan import NEMESIS_KINDS, SIMULATED, Plan, PlanError, plan_from
from results.record.plan_parts import PlannedFault

PLANS = st.builds(
    Plan,
    seed=st.integers(0, 2**63),
    time_limit_s=st.floats(1, 600),
    nemesis_interval_s=st.floats(0.5, 60),
    nodes=st.integers(3, 9),
    nemesis=st.lists(
        st.sampled_from(["partition", "kill", "stop", "pause"]), unique=True, max_size=4
    ).map(tuple),
)


def _families(schedule: Schedule) -> list[str]:
    return [KINDS[fault.kind].family for fault in schedule.faults]


def _roles(schedule: Schedule) -> list[str]:
    return [fault.target.partition("(")[0] for fault in schedule.faults]


def test_a_default_run_of_any_of_1000_seeds_has_enough_of_everything() -> None:
    for seed in range(1000):
        schedule = deal_schedule(Plan(seed=seed), abilities=frozenset(Ability))
        assert len(schedule.faults) >= 6, seed
        assert set(_families(schedule)[:3]) == {"partition", "kill", "pause"}, seed
        assert set(_roles(schedule)[:2]) == {"leader", "follower"}, seed
        assert set(_roles(schedule)[:5]) == {"leader", "follower", "controller", "isr", "one"}


def test_seeds_shuffle_kinds_and_roles() -> None:
    schedules = [
        deal_schedule(Plan(seed=seed), abilities=frozenset(Ability)) for seed in range(100)
    ]
    assert {fault.kind for each in schedules for fault in each.faults} == {
        *kinds_of("partition", frozenset(Ability)),
        "kill",
        "pause",
    }
    assert {tuple(_families(each)[:3]) for each in schedules} > {("kill", "pause", "partition")}
    assert len({each.faults for each in schedules}) == len(schedules)


@given(PLANS)
def test_the_same_plan_gives_the_same_schedule(plan: Plan) -> None:
    assert deal_schedule(plan, abilities=frozenset(Ability)) == deal_schedule(
        plan, abilities=frozenset(Ability)
    )


@given(PLANS)
def test_faults_come_one_after_the_other_and_are_over_in_time(plan: Plan) -> None:
    schedule = deal_schedule(plan, abilities=frozenset(Ability))
    assert not schedule.overlapping
    ends = [fault.at_s + fault.hold_s + KINDS[fault.kind].settle_s for fault in schedule.faults]
    assert all(end <= plan.time_limit_s for end in ends)
    starts = [fault.at_s for fault in schedule.faults]
    assert all(start >= end for end, start in zip(ends, starts[1:], strict=False))
    assert all(0 < fault.hold_s < plan.delivery_timeout_s for fault in schedule.faults)
    assert all(fault.hold_s >= MIN_HOLD_S for fault in schedule.faults)
    assert [fault.fault_id for fault in schedule.faults] == list(range(1, len(starts) + 1))


@pytest.mark.parametrize("families", [("power-loss",), ("kill", "power-loss", "wipe"), ("all",)])
def test_what_takes_records_is_dealt_alone_with_a_while_before_and_after(
    families: tuple[str, ...],
) -> None:
    for seed in range(20):
        plan = Plan(seed=seed, nemesis=families, time_limit_s=300)
        faults = deal_schedule(plan, abilities=frozenset(Ability)).faults
        alone = [fault for fault in faults if KINDS[fault.kind].when_whole]
        assert alone
        for one, other in combinations(faults, 2):
            if one in alone or other in alone:
                settled_s = one.at_s + one.hold_s + KINDS[one.kind].settle_s
                assert other.at_s >= settled_s + hidden_s(plan) - 0.01, (seed, one, other)


@pytest.mark.parametrize("time_limit_s", [120, 300])
def test_in_virtual_time_nothing_is_dealt_that_would_wait_for_what_takes_records(
    time_limit_s: int,
) -> None:
    dealt = set()
    for seed in range(20):
        keys = {"seed": seed, "nemesis": "all", "hosts": SIMULATED, "time_limit_s": time_limit_s}
        plan = plan_from(keys)
        faults = deal_schedule(plan, abilities=built_for(SIMULATED)).faults
        alone = [fault for fault in faults if KINDS[fault.kind].when_whole]
        dealt |= {fault.kind for fault in alone}
        for one, other in combinations(faults, 2):
            if one in alone or other in alone:
                settled_s = one.at_s + one.hold_s + KINDS[one.kind].settles_s(SIMULATED)
                assert other.at_s >= settled_s + hidden_s(plan) - 0.01, (seed, one, other)
    assert dealt >= {"power-loss", "wipe", "bit-flip"}


@given(PLANS)
def test_every_family_comes_in_each_round_as_long_as_all_fit(plan: Plan) -> None:
    count = len(plan.nemesis)
    schedule = deal_schedule(plan, abilities=frozenset(Ability))
    last_s = max((fault.at_s for fault in schedule.faults), default=0)
    longest_s = 0.9 * plan.nemesis_interval_s + MIN_HOLD_S + max(k.settle_s for k in KINDS.values())
    whole = [
        KINDS[fault.kind].family
        for fault in schedule.faults
        if fault.at_s + 2 * longest_s < plan.time_limit_s
    ]
    assert last_s <= plan.time_limit_s
    for start in range(0, len(whole) - count + 1, max(1, count)):
        assert set(whole[start : start + count]) == set(plan.nemesis)


@given(PLANS)
def test_dealt_targets_are_single_nodes_that_the_plan_knows(plan: Plan) -> None:
    for fault in deal_schedule(plan, abilities=frozenset(Ability)).faults:
        target = parse_target(fault.target, roster_of(plan))
        assert target.word in {"leader", "follower", "controller", "isr", "one", "coordinator"}


def test_who_coordinates_groups_or_transactions_is_hit_early() -> None:
    for workload in ("txn", "groups"):
        for seed in range(100):
            plan = Plan(workload=workload, seed=seed)
            roles = _roles(deal_schedule(plan, abilities=frozenset(Ability)))
            assert set(roles[:3]) == {"coordinator", "leader", "follower"}, seed
    assert "coordinator" not in _roles(deal_schedule(Plan(), abilities=frozenset(Ability)))


ABILITIES = st.sets(st.sampled_from(sorted(Ability))).map(frozenset)
MANY = st.builds(
    Plan,
    seed=st.integers(0, 2**63),
    time_limit_s=st.floats(1, 600),
    nodes=st.integers(3, 9),
    nemesis=st.one_of(
        st.just(("all",)),
        st.lists(st.sampled_from(NEMESIS_KINDS), unique=True).map(tuple),
    ),
)


def _lasting_s(fault: ScheduledFault) -> tuple[float, float]:
    return fault.at_s, fault.at_s + fault.hold_s + KINDS[fault.kind].settle_s


@given(MANY, ABILITIES)
def test_by_plan_no_two_faults_have_one_aspect_at_one_time(
    plan: Plan, abilities: frozenset[Ability]
) -> None:
    faults = deal_schedule(plan, abilities=abilities).faults
    for one, other in combinations(faults, 2):
        (begins, ends), (begins_too, ends_too) = _lasting_s(one), _lasting_s(other)
        if begins < ends_too and begins_too < ends:
            assert one.lane != other.lane
            assert KINDS[one.kind].aspect is not KINDS[other.kind].aspect
            assert not (KINDS[one.kind].takes and KINDS[other.kind].takes)


@given(MANY, ABILITIES)
def test_whatever_is_asked_for_is_over_in_time_and_counted_from_one(
    plan: Plan, abilities: frozenset[Ability]
) -> None:
    schedule = deal_schedule(plan, abilities=abilities)
    assert schedule == deal_schedule(plan, abilities=abilities)
    assert [fault.fault_id for fault in schedule.faults] == [*range(1, len(schedule.faults) + 1)]
    starts = [fault.at_s for fault in schedule.faults]
    assert starts == sorted(starts)
    assert all(_lasting_s(fault)[1] <= plan.time_limit_s for fault in schedule.faults)
    for fault in schedule.faults:
        parse_target(fault.target, roster_of(plan))


@given(MANY, ABILITIES)
def test_in_each_lane_every_family_comes_before_any_comes_twice(
    plan: Plan, abilities: frozenset[Ability]
) -> None:
    played = played_families(plan, abilities=abilities)
    faults = deal_schedule(plan, abilities=abilities).faults
    end_s = max(kind.settle_s for kind in KINDS.values()) + MIN_HOLD_S + 6
    for lane in {fault.lane for fault in faults} if len(played) > FEW_FAMILIES else ():
        ours = [fault for fault in faults if fault.lane == lane]
        families = {
            family
            for family, kinds in played.items()
            if any(KINDS[kind].takes == (lane == 0) for kind in kinds)
        }
        first = [
            KINDS[fault.kind].family
            for fault in ours[: len(families)]
            if fault.at_s + 2 * end_s < plan.time_limit_s
        ]
        assert len(set(first)) == len(first)


def test_a_run_of_all_faults_for_twelve_minutes_has_every_kind_and_at_least_100() -> None:
    for seed in range(100):
        plan = Plan(seed=seed, nemesis=("all",), time_limit_s=720)
        schedule = deal_schedule(plan, abilities=frozenset(Ability))
        both = len({fault.lane for fault in schedule.faults}) == 2
        assert len(schedule.faults) >= (100 if both else 25), seed
        assert {fault.kind for fault in schedule.faults} == {
            kind
            for kinds in played_families(plan, abilities=frozenset(Ability)).values()
            for kind in kinds
        }, seed


@pytest.mark.parametrize("abilities", [OF_SYSTEMS, OF_SYSTEMS | {Ability.CUT}, frozenset(Ability)])
def test_all_means_whatever_works_here_and_says_what_does_not(
    abilities: frozenset[Ability],
) -> None:
    plan = Plan(nemesis=("all",), time_limit_s=3000)
    schedule = deal_schedule(plan, abilities=abilities)
    dealt = {KINDS[fault.kind].family_for(plan.hosts) for fault in schedule.faults}
    named = [sentence.partition(" are left out: ")[0] for sentence in schedule.dropped]
    words = re.findall(r"[\w-]+", " ".join(named))
    left_out = {each for each in NEMESIS_KINDS if each in words}
    assert dealt == set(played_families(plan, abilities=abilities))
    assert dealt | left_out == set(NEMESIS_KINDS)
    assert not dealt & left_out
    assert {"kill", "stop", "pause"} <= dealt


def test_kinds_that_aim_are_dealt_their_own_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    aimed = replace(KINDS["pause"], aims=("last-isr", "all"))
    monkeypatch.setitem(KINDS, "pause", aimed)
    plan = Plan(seed=4, time_limit_s=600)
    faults = deal_schedule(plan, abilities=frozenset(Ability)).faults
    aims = [fault.target for fault in faults if fault.kind == "pause"]
    assert {target.partition("(")[0] for target in aims} == {"last-isr", "all"}
    others = [fault for fault in faults if fault.kind != "pause"]
    assert set(_roles(Schedule(faults=tuple(others), overlapping=False))[:2]) == {
        "leader",
        "follower",
    }


@pytest.mark.parametrize("hosts", ["namespace", "process", "docker", "ssh:x", "auto"])
def test_kinds_of_one_family_need_the_same_of_real_hosts(hosts: str) -> None:
    # So that the families of a stored plan decide its schedule, whoever plays it.
    can_be = [kind for kind in KINDS.values() if kind.needs <= built_for(hosts)]
    kinds = [kind for kind in can_be if kind.is_dealt(hosts)]
    for kind in kinds:
        assert kind.needs - OF_SYSTEMS == needs_of(kind.family_for(hosts)) - OF_SYSTEMS
    assert {kind.family_for(hosts) for kind in kinds} == set(NEMESIS_KINDS)
    assert can_be == [*KINDS.values()]
    assert KINDS["disputed-election"] not in kinds


def test_simulated_hosts_can_have_every_kind_but_of_the_kernel_and_of_broken_disks() -> None:
    lacking = {kind.family for kind in KINDS.values() if not kind.needs <= built_for(SIMULATED)}
    assert lacking == {"resources", "disk-errors", "lost-flushes"}
    assert able(abilities_of(SIMULATED)) == built_for(SIMULATED)


def test_what_is_dealt_where_it_cannot_be_is_dealt_nowhere() -> None:
    real, virtual = (
        deal_schedule(Plan(nemesis=("disk",), hosts=hosts), abilities=built_for(hosts))
        for hosts in ("namespace", SIMULATED)
    )
    assert {fault.kind for fault in real.faults} == {"disk-full", "read-only"}
    assert {fault.kind for fault in virtual.faults} == {"disk-full", "read-only", "slow-disk"}


def test_slow_disks_of_real_hosts_are_a_family_of_their_own() -> None:
    abilities = built_for("namespace")
    real = deal_schedule(Plan(nemesis=("slow-disks",), hosts="namespace"), abilities=abilities)
    assert {fault.kind for fault in real.faults} == {"slow-disk"}
    named, of_all = Plan(nemesis=("slow-disks",)), Plan(nemesis=("all",), hosts=SIMULATED)
    assert breaks_disks(named)
    assert not breaks_disks(of_all)
    dropped = deal_schedule(of_all, abilities=built_for(SIMULATED)).dropped
    assert not [sentence for sentence in dropped if "slow-disks" in sentence]
    simulated = named.model_copy(update={"hosts": SIMULATED, "system": "reference"})
    with pytest.raises(
        UserError, match="in virtual time the family disk has the same faults; use --nemesis disk"
    ):
        refuse_elsewhere(simulated, system_of(simulated))


def test_a_family_is_not_taken_for_another_that_has_one_of_its_kinds_on_these_hosts() -> None:
    why_not = abilities_of("process")
    (sentence,) = unsupported(
        plan_from({"nemesis": "disk", "hosts": "process"}), abilities=able(why_not), why_not=why_not
    )
    assert "nemesis 'disk' needs hosts that can" in sentence
    assert "limit a node's disk" in sentence


def test_a_kind_of_some_hosts_is_refused_elsewhere_by_name_with_a_reason() -> None:
    plan = plan_from({"faults": [{"kind": "slow-disk", "target": "n1", "at_s": 1}]})
    why_not = abilities_of("docker")
    (sentence,) = unsupported(plan, abilities=able(why_not), why_not=why_not)
    assert "fault 'slow-disk' at 1 s needs hosts that can slow a node's disk down" in sentence
    assert "use --hosts namespace or --hosts process" in sentence


def test_simulated_nodes_need_no_time_to_start() -> None:
    for name, kind in KINDS.items():
        real_s, virtual_s = kind.settles_s("namespace"), kind.settles_s(SIMULATED)
        assert real_s == kind.settle_s
        assert 0 < virtual_s == real_s - START_S * kind.starts, name
    assert KINDS["rolling-restart"].starts > KINDS["kill"].starts > KINDS["pause"].starts == 0


@given(PLANS)
def test_many_families_overlap_in_virtual_time_and_few_do_not(plan: Plan) -> None:
    few = plan.model_copy(update={"hosts": SIMULATED})
    assert deal_schedule(few, abilities=built_for(SIMULATED)).spares_majority
    many = few.model_copy(update={"nemesis": NEMESIS_KINDS, "time_limit_s": 300.0})
    schedule = deal_schedule(many, abilities=built_for(SIMULATED))
    assert not schedule.spares_majority
    assert {fault.lane for fault in schedule.faults} == {LONG, QUICK}
    assert all(f.at_s + f.hold_s < many.time_limit_s for f in schedule.faults)


def test_the_mean_time_between_starts_is_the_interval() -> None:
    plan = Plan(nemesis_interval_s=20, time_limit_s=10_000, delivery_timeout_s=60)
    faults = deal_schedule(plan, abilities=frozenset(Ability)).faults
    gaps = [after.at_s - before.at_s for before, after in pairwise(faults)]
    assert sum(gaps) / len(gaps) == pytest.approx(20, rel=0.1)
    assert all(12 <= fault.hold_s <= 18 for fault in faults)


def test_partitions_are_left_out_with_a_word_where_hosts_cannot_cut() -> None:
    schedule = deal_schedule(Plan(), abilities=OF_SYSTEMS)
    assert set(_families(schedule)) == {"kill", "pause"}
    (sentence,) = schedule.dropped
    assert "faults of partition are left out" in sentence
    assert deal_schedule(Plan(), abilities=frozenset(Ability)).dropped == ()


def test_families_that_are_left_out_for_one_reason_share_a_sentence_that_names_it() -> None:
    plan = Plan(nemesis=("all",), time_limit_s=3000)
    why_not = {Ability.CUT: "there is no nft", Ability.SHAPE: "/dev/net/tun is root's"}
    able = frozenset(Ability) - why_not.keys()
    assert deal_schedule(plan, abilities=able, why_not=why_not).dropped == (
        "faults of partition, splits and clients are left out: there is no nft",
        "faults of network, stall and stall-clients are left out: /dev/net/tun is root's",
        (
            "faults of keeper and keeper-links are left out: this system has no ZooKeeper (only"
            " Kafka up to 3.9 can use it)"
        ),
    )


@given(PLANS)
def test_a_family_without_room_is_told_and_no_other(plan: Plan) -> None:
    schedule = deal_schedule(plan, abilities=frozenset(Ability))
    missing = [each for each in plan.nemesis if each not in set(_families(schedule))]
    assert len(schedule.dropped) == bool(missing)
    for sentence in schedule.dropped:
        assert f"of kind {' or '.join(missing)} fits" in sentence


def test_a_main_phase_without_room_says_what_would_do() -> None:
    plan = Plan(time_limit_s=15, nemesis=("kill", "pause"), seed=2)
    schedule = deal_schedule(plan, abilities=frozenset(Ability))
    assert set(_families(schedule)) == {"pause"}
    (sentence,) = schedule.dropped
    assert "no fault of kind kill fits into a main phase of 15 s" in sentence
    assert "the verdict cannot be better than unknown" in sentence
    assert "--time-limit (in a suite: time_limit_s), or --nemesis pause" in sentence


def test_of_a_default_that_is_short_what_takes_longest_is_left_out() -> None:
    for seed in range(100):
        asked = Plan(time_limit_s=15, seed=seed)
        schedule = deal_schedule(asked, abilities=frozenset(Ability))
        played = played_families(asked, abilities=frozenset(Ability))
        assert {"pause"} <= played.keys() <= {"partition", "pause"}, seed
        assert set(_families(schedule)) == played.keys(), seed
        left_out = [each for each in ("partition", "kill") if each not in played]
        why = "they do not fit into a main phase of 15 s; use a longer --time-limit"
        assert schedule.dropped == (f"faults of {' and '.join(left_out)} are left out: {why}",)
        # What is stored names what is played, and deals the same again.
        stored = asked.model_copy(update={"nemesis": tuple(played)})
        assert deal_schedule(stored, abilities=frozenset(Ability)).faults == schedule.faults


def test_a_default_without_any_room_stays_and_is_told() -> None:
    schedule = deal_schedule(Plan(time_limit_s=3), abilities=frozenset(Ability))
    assert schedule.faults == ()
    (sentence,) = schedule.dropped
    assert "no fault of kind partition or kill or pause fits" in sentence


def test_a_single_node_has_no_partitions_and_no_followers() -> None:
    plan = Plan(nodes=1, replication=1, min_insync=1)
    schedule = deal_schedule(plan, abilities=frozenset(Ability))
    assert set(_families(schedule)) == {"kill", "pause"}
    assert "follower" not in _roles(schedule)
    assert schedule.dropped == ("faults of partition are left out: they need 2 nodes or more",)


def test_what_would_need_more_replicas_is_told_so() -> None:
    plan = Plan(nodes=1, replication=1, min_insync=1, nemesis=("leadership",))
    assert deal_schedule(plan, abilities=frozenset(Ability)).dropped == (
        "faults of leadership are left out: they need more nodes, or more replicas",
    )


def test_without_a_nemesis_there_are_no_faults() -> None:
    assert deal_schedule(Plan(nemesis=()), abilities=frozenset(Ability)).faults == ()
    assert deal_schedule(Plan(nemesis=("partition",)), abilities=frozenset()).faults == ()


def test_only_what_was_asked_for_is_unsupported() -> None:
    assert unsupported(Plan(), abilities=OF_SYSTEMS) == []
    asked = Plan(nemesis=("kill", "partition"))
    assert "nemesis 'partition' needs hosts" in unsupported(asked, abilities=OF_SYSTEMS)[0]
    assert unsupported(asked, abilities=frozenset(Ability)) == []
    assert unsupported(Plan(nemesis=("all", "kill")), abilities=OF_SYSTEMS) == []
    written = Plan(faults=(PlannedFault(at_s=1, kind="halves"), PlannedFault(at_s=9, kind="kill")))
    (sentence,) = unsupported(
        written, abilities=OF_SYSTEMS, why_not={Ability.CUT: "there is no nft"}
    )
    assert (
        "fault 'halves' at 1 s needs hosts that can cut the network: there is no nft;" in sentence
    )


def test_faults_written_by_hand_keep_their_times_and_may_overlap() -> None:
    plan = Plan(
        faults=(
            PlannedFault(at_s=9, kind="kill", target="n2", hold_s=20),
            PlannedFault(at_s=3, kind="isolate", target="last-isr(log-0,1)", hold_s=29),
        )
    )
    schedule = deal_schedule(plan, abilities=frozenset(Ability))
    assert schedule.overlapping
    assert [(f.fault_id, f.at_s, f.kind, f.target, f.hold_s) for f in schedule.faults] == [
        (1, 3, "isolate", "last-isr(log-0,1)", 29),
        (2, 9, "kill", "n2", 20),
    ]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            PlannedFault(at_s=1, kind="explode"),
            "fault 'explode' does not exist; use one of isolate",
        ),
        (PlannedFault(at_s=1, kind="kill", target="n7"), "target 'n7' is neither"),
        (PlannedFault(at_s=58, kind="kill", hold_s=5), "until 63 s, but the main phase ends"),
    ],
)
def test_a_wrong_fault_written_by_hand_is_refused(fault: PlannedFault, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        deal_schedule(Plan(faults=(fault,)), abilities=frozenset(Ability))
