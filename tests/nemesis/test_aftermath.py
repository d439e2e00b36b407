"""Whom faults of higher levels strike: who has just come back, who was elected, who is hit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.protocol import ClusterView, PartitionState
from nemesis.aftermath import AFTERMATH_S, Strikes, struck_by
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from results.record.clock import stopwatch_s
from tests.nemesis.both_worlds import Ground, on
from tests.nemesis.conftest import World

NODES = ("n1", "n2", "n3")
PLACE = ("log-0", 0)


@dataclass(frozen=True, kw_only=True)
class Done:
    """A fault as others see it."""

    hit: tuple[str, ...] = ()
    led: frozenset[tuple[str, int]] = frozenset()
    in_force: bool = False
    over_s: float | None = None
    takes: bool = True
    confirmed: bool = True
    of_one: bool = True


def view(leader: str | None) -> ClusterView:
    state = PartitionState(
        topic="log-0", partition=0, leader=leader, leader_epoch=1, replicas=NODES, isr=NODES
    )
    return ClusterView(
        asked="n1", registered=frozenset(NODES), controller="n1", partitions={PLACE: state}
    )


def struck(
    strikes: Strikes, *faults: Done, leader: str | None = "n2", now_s: float = 10
) -> list[str]:
    return [*struck_by(strikes, faults, view(leader), NODES, now_s=now_s)]


def test_who_has_just_come_back_is_who_was_hit_last() -> None:
    first, last = Done(hit=("n1",), over_s=5), Done(hit=("n3",), over_s=9)
    assert struck(Strikes.RECOVERED, first, last) == ["n3"]
    assert struck(Strikes.RECOVERED, last, first) == ["n3"]
    both = Done(hit=("n2", "n3"), over_s=9)
    assert struck(Strikes.RECOVERED, first, both) == ["n2", "n3"]


def test_who_is_hit_again_has_not_come_back_and_the_one_before_has() -> None:
    first, last = Done(hit=("n1",), over_s=5), Done(hit=("n3",), over_s=9)
    again = Done(hit=("n3",), in_force=True)
    assert struck(Strikes.RECOVERED, first, last, again) == ["n1"]


def test_an_aftermath_is_over_some_time_after_the_fault_whatever_came_since() -> None:
    old = Done(hit=("n1",), over_s=5)
    assert struck(Strikes.RECOVERED, old, now_s=5 + AFTERMATH_S) == ["n1"]
    assert struck(Strikes.RECOVERED, old, now_s=5.1 + AFTERMATH_S) == []


def test_what_had_no_effect_has_no_aftermath() -> None:
    without = Done(hit=("n1",), led=frozenset({PLACE}), over_s=9, confirmed=False)
    before = Done(hit=("n3",), over_s=5)
    assert struck(Strikes.RECOVERED, before, without) == ["n3"]
    assert struck(Strikes.ELECTED, without) == []


def test_who_was_elected_leads_what_the_targets_led() -> None:
    killed = Done(hit=("n1",), led=frozenset({PLACE}), over_s=5)
    assert struck(Strikes.ELECTED, killed, leader="n2") == ["n2"]
    assert struck(Strikes.ELECTED, killed, leader="n1") == []  # It leads again, or still.
    assert struck(Strikes.ELECTED, killed, leader=None) == []
    follower = Done(hit=("n3",), over_s=7)
    assert struck(Strikes.ELECTED, killed, follower, leader="n2") == ["n2"]
    assert [*struck_by(Strikes.ELECTED, [killed], None, NODES, now_s=10)] == []


def test_who_is_struck_has_a_fault_that_takes_nodes() -> None:
    cut, clock = Done(hit=("n2",), in_force=True), Done(hit=("n1",), in_force=True, takes=False)
    over = Done(hit=("n3",), over_s=3)
    assert struck(Strikes.STRUCK, cut, clock, over) == ["n2"]
    assert struck(Strikes.STRUCK, clock, over) == []


def test_who_may_be_whole_is_not_struck() -> None:
    """One broker at a time is away in a roll; a fault without an effect has taken none yet."""
    roll = Done(hit=NODES, in_force=True, of_one=False)
    begun = Done(hit=("n1",), in_force=True, confirmed=False)
    assert struck(Strikes.STRUCK, roll) == struck(Strikes.STRUCK, begun) == []
    assert struck(Strikes.STRUCK, begun, roll, Done(hit=("n2",), in_force=True)) == ["n2"]


@pytest.mark.parametrize("strikes", Strikes)
def test_nobody_is_struck_before_the_first_fault_or_who_cannot_be(strikes: Strikes) -> None:
    assert struck(strikes) == []
    assert struck(strikes, Done()) == []
    beyond = [
        Done(hit=("zk",), in_force=True),
        Done(hit=("zk",), over_s=4),
        Done(hit=("n1",), over_s=4, takes=False, led=frozenset({PLACE})),
    ]
    assert struck(strikes, *beyond) == []


def scheduled(
    fault_id: int, kind: str, *, at_s: float, strikes: Strikes | None = None, lane: int = 0
) -> ScheduledFault:
    return ScheduledFault(
        fault_id=fault_id, kind=kind, target="n3", at_s=at_s, hold_s=2, strikes=strikes, lane=lane
    )


def test_in_a_cluster_the_next_fault_strikes_who_came_back_and_then_who_was_elected(
    tmp_path: Path,
) -> None:
    kill = ScheduledFault(
        fault_id=1, kind="kill", target="leader(log-0,0)", at_s=1, hold_s=5, strikes=None
    )
    found: dict[int, Mapping[str, Any]] = {}

    def work(ground: Ground) -> None:
        after = [
            scheduled(2, "pause", at_s=1.5, strikes=Strikes.ELECTED),
            scheduled(3, "pause", at_s=1.6, strikes=Strikes.RECOVERED),
        ]
        found.update(ground.dealt(kill, *after))

    on("simulated", tmp_path / "run", work, topics=1, partitions=1, time_limit_s=40)
    assert all(row["healed_ns"] for row in found.values()), found
    assert found[2]["targets"] != found[1]["targets"]
    assert found[3]["targets"] == found[2]["targets"]
    told = [found[number]["spec"]["target"] for number in (1, 2, 3)]
    assert told == ["leader(log-0,0)", "elected", "recovered"]
    # Each of them came as soon as the one before was healed.
    for before, after in ((1, 2), (2, 3)):
        assert 0 <= found[after]["requested_ns"] - found[before]["healed_ns"] < 1_500_000_000


def test_a_second_fault_strikes_who_is_hit_while_a_majority_stays_whole(tmp_path: Path) -> None:
    found: dict[int, Mapping[str, Any]] = {}
    cut = ScheduledFault(fault_id=1, kind="isolate", target="n2", at_s=1, hold_s=4)

    def work(ground: Ground) -> None:
        second = scheduled(2, "pause", at_s=0.2, strikes=Strikes.STRUCK, lane=1)
        found.update(ground.dealt(cut, second))

    on("simulated", tmp_path / "run", work, topics=1, partitions=1, time_limit_s=30)
    assert found[1]["targets"] == found[2]["targets"] == ["n2"]
    assert found[1]["requested_ns"] < found[2]["requested_ns"] < found[1]["healed_ns"]
    assert found[2]["spec"]["target"] == "struck"


def test_where_nobody_is_struck_in_time_it_strikes_its_target(tmp_path: Path) -> None:
    found: dict[int, Mapping[str, Any]] = {}

    def work(ground: Ground) -> None:
        found.update(ground.dealt(scheduled(1, "pause", at_s=0.2, strikes=Strikes.STRUCK)))

    on("simulated", tmp_path / "run", work, topics=1, partitions=1, time_limit_s=30)
    assert found[1]["targets"] == ["n3"]
    assert found[1]["spec"]["target"] == "n3"


@pytest.mark.parametrize(
    ("at_s", "is_supply", "recorded"), [(9.0, False, True), (9.0, True, False), (2.0, True, True)]
)
def test_a_supply_misses_only_what_was_due_in_the_first_half(
    world: World, at_s: float, *, is_supply: bool, recorded: bool
) -> None:
    late = scheduled(1, "pause", at_s=at_s)
    nemesis = world.nemesis(late)
    nemesis._schedule = Schedule(faults=(late,), overlapping=False, is_supply=is_supply)
    nemesis._time_limit_s = 10.0
    nemesis._run_in_turn(nemesis._lives, stopwatch_s() - 20.0, world.stop)  # It is over.
    assert bool(world.rows()) == recorded
