"""Lanes side by side: room for a majority, faults on who is hit, lulls, and lanes that are late."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cluster.protocol import ClusterView
from nemesis.aftermath import Strikes
from nemesis.scheduled import ScheduledFault
from results.record.clock import NS_PER_S, pause_until, stopwatch_s
from results.record.plan import plan_from
from tests.nemesis.both_worlds import fault
from tests.nemesis.conftest import FakeCluster, World


def striking(fault_id: int, kind: str, target: str, *, at_s: float, lane: int) -> ScheduledFault:
    made = fault(fault_id, kind, target, at_s=at_s, hold_s=2, lane=lane)
    return replace(made, strikes=Strikes.STRUCK)


def of_five(world: World) -> World:
    world.cluster = FakeCluster([f"n{number}" for number in range(1, 6)])
    return world


def rows_of(world: World) -> dict[int, dict[str, Any]]:
    return {row["fault_id"]: row for row in world.last_rows()}


def down_at_once(world: World) -> int:
    """Return how many nodes had a fault on them at one time, at most."""
    rows = [row for row in world.last_rows() if row["confirmed_ns"]]
    moments = [row["confirmed_ns"] for row in rows]
    return max(
        len({
            node
            for row in rows
            if row["confirmed_ns"] <= moment < row["healed_ns"]
            for node in row["targets"]
        })
        for moment in moments
    )  # fmt: skip


def test_of_two_lanes_that_find_room_at_once_one_has_it(world: World) -> None:
    nemesis = world.nemesis(fault(1, "kill", "n1"), fault(2, "kill", "n2", lane=1))
    first, second = nemesis._lives
    assert nemesis._room.find(first, alone=False)
    assert not nemesis._room.find(second, alone=False)  # The first one seeks its target still.
    with nemesis._room.kept(first):
        assert not nemesis._room.find(second, alone=False)
    assert nemesis._room.find(second, alone=False)


def test_of_five_nodes_two_may_be_hit_though_neither_is_known_yet(world: World) -> None:
    faults = [fault(number, "kill", "one", lane=number) for number in (1, 2, 3)]
    nemesis = of_five(world).nemesis(*faults)
    assert [nemesis._room.find(each, alone=False) for each in nemesis._lives] == [True, True, False]


def test_who_strikes_the_struck_waits_for_one_whose_target_is_sought(world: World) -> None:
    second = striking(2, "isolate", "n2", at_s=0, lane=1)
    nemesis = world.nemesis(fault(1, "kill", "n1"), second)
    first, striker = nemesis._lives
    assert not nemesis._room.find(striker, alone=False)
    assert nemesis._room.find(striker, alone=True)  # Nobody came, and nobody is down.
    assert not nemesis._room.find(first, alone=False)
    with nemesis._room.kept(striker):
        pass
    assert nemesis._room.find(first, alone=False)
    assert not nemesis._room.find(striker, alone=True)


def test_in_lanes_that_are_due_at_once_one_node_is_down_at_a_time(world: World) -> None:
    faults = [
        fault(number, "kill", f"n{1 + number % 3}", hold_s=1, lane=number % 2)
        for number in range(1, 9)
    ]
    began = world.played(*faults)
    assert len(began) == len(faults)
    assert not [why for _, why in began.values() if why], began
    assert down_at_once(world) == 1


def test_who_would_do_the_same_again_waits_and_takes_its_own_target_when_nobody_is_down(
    world: World,
) -> None:
    first = fault(1, "pause", "n1", hold_s=20)
    world.played(first, striking(2, "pause", "n2", at_s=1, lane=1))
    rows = rows_of(world)
    assert rows[2]["requested_ns"] >= rows[1]["healed_ns"]
    assert (rows[2]["targets"], json.loads(rows[2]["spec"])["target"]) == (["n2"], "n2")
    assert down_at_once(world) == 1


def test_who_cannot_strike_the_struck_takes_nobody_else_while_they_are_down(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemesis.life.RESOLVE_LIMIT_S", 0.3)
    second = striking(2, "pause", "n2", at_s=1, lane=1)
    nemesis = world.nemesis(fault(1, "pause", "n1"), second)
    for each in nemesis._lives:
        each.begin(world.stop)
    assert nemesis._lives[0].confirmed
    row = rows_of(world)[2]
    assert json.loads(row["spec"])["without_effect"] == "fault 1 already holds the broker of n1"
    assert row["targets"] == []
    nemesis.heal_all()


@pytest.mark.parametrize("kind", ["isolate", "halves"])
def test_nobody_is_struck_beside_what_parts_all_nodes(world: World, kind: str) -> None:
    world.played(fault(1, kind, "n1", hold_s=8), striking(2, "pause", "n3", at_s=1, lane=1))
    rows = rows_of(world)
    assert (rows[2]["requested_ns"] >= rows[1]["healed_ns"]) == (kind == "halves")
    assert rows[2]["targets"] == (["n3"] if kind == "halves" else ["n1"])


def test_nobody_is_struck_while_brokers_are_restarted_one_by_one(world: World) -> None:
    """The roll has all nodes, and one of them is away: another one would be one too many."""
    whole, one_by_one = world.cluster.stop_node, []

    def slowly(node: str, timeout_s: float) -> bool:
        one_by_one.append(node)
        ended = whole(node, timeout_s)
        pause_until(stopwatch_s() + 2)
        return ended

    world.cluster.stop_node = slowly  # type: ignore[method-assign] # as a broker ends, in seconds
    world.played(
        fault(1, "rolling-restart", "all", hold_s=1), striking(2, "isolate", "n2", at_s=1, lane=1)
    )
    rows = rows_of(world)
    assert sorted(one_by_one) == rows[1]["targets"] == ["n1", "n2", "n3"]
    assert rows[2]["requested_ns"] >= rows[1]["healed_ns"] >= 7 * NS_PER_S
    assert rows[2]["targets"] == ["n2"]


def test_nobody_is_struck_before_something_was_done_to_them(world: World) -> None:
    at_once = world.cluster.kill_node

    def late(node: str) -> None:
        pause_until(stopwatch_s() + 5)
        at_once(node)

    world.cluster.kill_node = late  # type: ignore[method-assign] # it takes long to begin
    world.played(fault(1, "kill", "n1", hold_s=5), striking(2, "isolate", "n2", at_s=1, lane=1))
    rows = rows_of(world)
    assert rows[1]["confirmed_ns"] <= rows[2]["requested_ns"] < rows[1]["healed_ns"]
    assert rows[2]["targets"] == ["n1"]


class WithControllers(FakeCluster):
    """Brokers, and a controller that is a process like theirs."""

    controllers = ("n101",)

    def start(self) -> None:
        super().start()
        self.start_node("n101")

    def is_back(self, node: str) -> bool:
        return self.states.get(self.processes[node]) == "S"


@pytest.mark.parametrize("hit", ["n101", "n1"])
def test_who_strikes_brokers_alone_waits_while_a_controller_is_hit(world: World, hit: str) -> None:
    world.cluster = WithControllers(["n1", "n2", "n3"])
    nemesis = world.nemesis(
        fault(1, "kill", hit),
        striking(2, "isolate", "n2", at_s=1, lane=1),
        plan=plan_from({"system": "kafka:4.3.1:controllers"}),
    )
    killed, striker = nemesis._lives
    killed.begin(world.stop)
    assert killed.hit == (hit,)
    assert nemesis._room.find(striker, alone=True) == (hit == "n1")
    assert nemesis.heal_all().healed
    assert nemesis._room.find(striker, alone=True)


@pytest.fixture
def lulls(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Of ten seconds the last four are a lull."""
    monkeypatch.setattr("nemesis.levels.LULL_EVERY_S", 10.0)
    return {"lull_s": 4.0, "spares_majority": False}


def in_a_lull(at_ns: int) -> bool:
    return at_ns / NS_PER_S % 10 >= 6


def test_a_fault_that_is_due_in_a_lull_waits_for_its_end(
    world: World, lulls: dict[str, Any]
) -> None:
    due = [fault(number, "pause", "n1", at_s=at_s, lane=number)
           for number, at_s in ((1, 1), (2, 7), (3, 9))]  # fmt: skip
    began = world.played(*due, **lulls)
    assert not [why for _, why in began.values() if why], began
    assert [at_s // 10 for at_s, _ in began.values() if at_s is not None] == [0, 1, 1]


def test_whose_turn_comes_in_a_lull_waits_for_its_end(world: World, lulls: dict[str, Any]) -> None:
    """What takes records is whole again in the lull from 16 to 20 s: what was behind it waits."""
    began = world.played(
        fault(1, "power-loss", "n1", at_s=0, hold_s=10),
        fault(2, "pause", "n2", at_s=1, lane=1),
        **lulls,
    )
    at_s, why = began[2]
    assert why is None
    assert at_s == pytest.approx(20, abs=0.3)


def test_what_takes_records_does_not_begin_in_a_lull(world: World, lulls: dict[str, Any]) -> None:
    began = world.played(
        fault(1, "pause", "n1", at_s=0, hold_s=1),
        fault(2, "power-loss", "n2", at_s=1.5, hold_s=1),  # All has been whole since 7.5 s.
        **lulls,
    )
    at_s, why = began[2]
    assert why is None
    assert at_s == pytest.approx(10, abs=0.3)


@pytest.mark.parametrize("found_s", [3, 7])
def test_a_target_that_is_found_in_a_lull_is_hit_when_it_is_over(
    world: World, lulls: dict[str, Any], found_s: float
) -> None:
    whole = world.cluster.view

    def without_leader() -> ClusterView | None:
        view = whole()
        if world.cluster.leaders or view is None:
            return view
        states = {place: replace(each, leader=None) for place, each in view.partitions.items()}
        return replace(view, partitions=states)

    def elect() -> None:
        pause_until(found_s)
        world.cluster.leaders[("log-0", 1)] = "n2"

    world.cluster.view = without_leader  # type: ignore[method-assign] # nobody leads at first
    began = world.played(
        fault(1, "pause", "leader(log-0,1)", at_s=0.5, hold_s=1), meanwhile=elect, **lulls
    )
    assert began[1][1] is None
    (row,) = world.last_rows()
    assert not in_a_lull(row["confirmed_ns"])
    assert row["confirmed_ns"] / NS_PER_S == pytest.approx(found_s if found_s < 6 else 10, abs=0.5)


def order_of(began: dict[int, tuple[float | None, str | None]]) -> list[int]:
    return sorted(began, key=lambda number: began[number][0] or 0)


LONG = fault(1, "kill", "n1", hold_s=20)


@pytest.mark.parametrize(
    ("faults", "order"),
    [
        # The kill had its turn already: the pause, which had none, is first, be it due or not.
        ((LONG, fault(2, "kill", "n2", at_s=5), fault(3, "pause", "n3", at_s=10)), [1, 3, 2]),
        ((LONG, fault(2, "kill", "n2", at_s=5), fault(3, "pause", "n3", at_s=50)), [1, 3, 2]),
        # A lane that is not late plays as it was dealt.
        ((replace(LONG, hold_s=1), fault(2, "kill", "n2", at_s=5), fault(3, "pause", "n3", at_s=9)),
         [1, 2, 3]),
        # What has no room any more is not preferred.
        ((LONG, fault(2, "kill", "n2", at_s=5), fault(3, "pause", "n3", at_s=10, hold_s=45)),
         [1, 2, 3]),
        # Families without a turn keep their order.
        ((LONG, fault(2, "pause", "n2", at_s=5), fault(3, "isolate", "n3", at_s=9)), [1, 2, 3]),
    ],
    ids=["due", "not due", "in time", "no room", "in order"],
)  # fmt: skip
def test_a_lane_that_is_late_goes_on_with_a_family_that_had_no_turn(
    world: World, faults: Sequence[ScheduledFault], order: list[int]
) -> None:
    assert order_of(world.played(*faults)) == order


def test_a_turn_in_another_lane_counts(world: World) -> None:
    began = world.played(
        fault(1, "kill", "n1", hold_s=20),
        fault(2, "kill", "n2", at_s=5),
        fault(3, "pause", "n3", at_s=10),
        fault(4, "pause", "n2", at_s=1, lane=1),
        spares_majority=False,
    )
    assert [number for number in order_of(began) if number != 4] == [1, 2, 3]


def test_a_family_that_was_tried_in_vain_comes_after_one_that_was_not(world: World) -> None:
    world.network.deaf_to_cut = True  # No cut has an effect.
    began = world.played(
        fault(1, "isolate", "n1"),
        fault(2, "kill", "n1", at_s=6, hold_s=20),
        fault(3, "isolate", "n2", at_s=8),
        fault(4, "kill", "n2", at_s=9),
        fault(5, "pause", "n3", at_s=12),
    )
    assert order_of(began) == [1, 2, 5, 3, 4]


def test_a_family_that_finds_no_target_leaves_the_others_their_turns(world: World) -> None:
    """Every ISR is full: the first family seeks the last one of an ISR for ten seconds, in vain."""
    kinds = (("kill", "last-isr"), ("isolate", "n1"), ("pause", "n2"))
    began = world.played(
        *(fault(number, *kinds[(number - 1) % 3], at_s=number) for number in range(1, 10))
    )
    assert [number for number, (_, why) in began.items() if why] == [1, 4, 7]
    assert order_of(began) == [*range(1, 10)]


def test_a_family_whose_target_was_not_found_had_its_turn(world: World) -> None:
    began = world.played(
        fault(1, "kill", "last-isr"),
        fault(2, "kill", "last-isr", at_s=2),
        fault(3, "pause", "n2", at_s=4),
    )
    assert order_of(began) == [1, 3, 2]


def test_what_a_late_lane_leaves_out_is_recorded(world: World) -> None:
    began = world.played(
        fault(1, "kill", "n1", hold_s=40),
        fault(2, "kill", "n2", at_s=5, hold_s=8),
        fault(3, "pause", "n3", at_s=10, hold_s=5),
    )
    assert order_of(began) == [1, 3, 2]
    assert began[3][1] is None
    assert began[2][1] == "when the fault's turn came, the rest of the main phase was too short"


@pytest.mark.parametrize("more", [(), (fault(3, "kill", "n1", at_s=55),)], ids=["out", "idle"])
def test_what_was_not_over_is_ended_though_its_lane_has_nothing_to_do(
    world: World, more: Sequence[ScheduledFault]
) -> None:
    """The broker of the first fault registers after 40 s: the other lane waits no longer."""
    world.cluster.asleep.add("n1")

    def register() -> None:
        pause_until(stopwatch_s() + 40)
        world.cluster.asleep.clear()

    waits = fault(2, "pause", "n2", at_s=2, lane=1)
    began = world.played(fault(1, "kill", "n1", hold_s=1), waits, *more, meanwhile=register)
    at_s, why = began[2]
    assert why is None
    assert at_s == pytest.approx(41.5, abs=1.5)
    assert rows_of(world)[1]["healed_ns"] / NS_PER_S == pytest.approx(41, abs=1)
