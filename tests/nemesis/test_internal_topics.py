"""Faults of leadership hit partitions of internal topics: those that keep groups, and ids."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.coordinators import kept_in
from cluster.protocol import Ability, ClusterView, CoordinatorKind
from nemesis.roster import Coordinated, roster_of
from nemesis.schedule import deal_schedule
from nemesis.scheduled import ScheduledFault
from nemesis.targets import NoTargetError
from results.record.plan import Plan
from tests.nemesis.conftest import FakeCluster, World
from tests.nemesis.play_in_virtual_time import play
from tests.nemesis.test_runs_in_virtual_time import rows_of

GROUP, TRANSACTION = CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION
SHARE = CoordinatorKind.SHARE
OFFSETS = [("__consumer_offsets", number) for number in range(50)]
STATES = [("__transaction_state", number) for number in range(3)]


@pytest.mark.parametrize(
    ("kind", "key", "hashed"),
    [
        (GROUP, "groups-0", 506378871),
        (GROUP, "pipeline-0", -1076719675),
        (TRANSACTION, "hello", 99162322),
        (TRANSACTION, "", 0),
    ],
)
def test_a_key_lies_where_java_puts_it(kind: CoordinatorKind, key: str, hashed: int) -> None:
    topic, count = ("__consumer_offsets", 50) if kind is GROUP else ("__transaction_state", 3)
    assert kept_in(kind, key, [*OFFSETS, *STATES]) == (topic, abs(hashed) % count)


def test_the_smallest_number_of_java_has_no_absolute_value_and_is_0() -> None:
    assert kept_in(GROUP, "polygenelubricants", OFFSETS) == ("__consumer_offsets", 0)
    assert kept_in(TRANSACTION, "hello", OFFSETS) is None


def test_a_share_group_has_its_members_and_its_state_in_two_topics() -> None:
    shares = roster_of(Plan(workload="shares", system="kafka:4.3.1")).coordinated
    (group,) = {each.key for each in shares}
    assert {each.kind for each in shares} == {GROUP, SHARE}
    states = [("__share_group_state", number) for number in range(2)]
    assert kept_in(SHARE, group, [*OFFSETS, *states]) in states
    assert kept_in(SHARE, group, OFFSETS) is None
    in_groups = roster_of(Plan(workload="groups")).coordinated
    assert {each.kind for each in in_groups} == {GROUP}


class WithShares(FakeCluster):
    """Brokers that keep the state of share groups, and find no other coordinator."""

    def view(self) -> ClusterView | None:
        view = super().view()
        if view is None:
            return None
        one = replace(view.partitions["log-0", 0], topic="__share_group_state", leader="n3")
        return replace(view, partitions={**view.partitions, ("__share_group_state", 0): one})


def test_the_state_of_a_share_group_is_hit_at_the_leader_of_its_partition(world: World) -> None:
    world.cluster = WithShares(["n1", "n2", "n3"])
    fault = ScheduledFault(fault_id=1, at_s=0, kind="pause", target="coordinator(g)", hold_s=0)
    (life,) = world.nemesis(fault)._lives
    assert life._coordinator(Coordinated(kind=SHARE, key="g")) == "n3"
    with pytest.raises(NoTargetError, match="does not report"):
        life._coordinator(Coordinated(kind=GROUP, key="g"))


def test_leadership_is_dealt_to_coordinators_where_there_are_any() -> None:
    def roles(workload: str) -> dict[str, set[str]]:
        plan = Plan(workload=workload, nemesis=("leadership",), time_limit_s=300, seed=3)
        found: dict[str, set[str]] = {}
        for fault in deal_schedule(plan, abilities=frozenset(Ability)).faults:
            found.setdefault(fault.kind, set()).add(fault.target.partition("(")[0])
        return found

    for kind in ("preferred-election", "reassignment"):
        assert roles("groups")[kind] == roles("txn")[kind] == {"leader", "coordinator"}
        assert roles("log")[kind] == {"leader"}
    assert roles("groups")["controller-failover"] == {"controller"}


def test_the_partition_that_keeps_a_group_gets_another_leader_and_other_replicas(
    tmp_path: Path,
) -> None:
    faults = [
        {"kind": "preferred-election", "target": "coordinator(some-group)", "at_s": 4, "hold_s": 2},
        {"kind": "reassignment", "target": "coordinator(other-group)", "at_s": 12, "hold_s": 2},
    ]
    keys = {"seed": 1, "faults": faults, "time_limit_s": 24, "warmup_s": 2}
    rows = rows_of(play(tmp_path, keys))
    for kind, row in rows.items():
        assert row["confirmed_ns"] is not None, row["spec"]
        assert row["healed_ns"] is not None, row["spec"]
        assert row["spec"]["place"][0] == "__consumer_offsets", kind
        effect = json.loads(row["effect"])
        assert row["targets"] == [effect["before"]["leader"]]
    moved = json.loads(rows["preferred-election"]["effect"])
    assert moved["after"]["leader"] != moved["before"]["leader"]
