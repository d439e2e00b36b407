"""What takes records begins when all was whole for a while, and nothing else until it is again."""

import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.protocol import ClusterView
from cluster.sessions import hidden_s
from nemesis.claims import Aspect
from nemesis.registry import KINDS
from nemesis.scheduled import ScheduledFault
from results.record.clock import NS_PER_S, pause_until
from results.record.plan import Plan
from tests.nemesis.both_worlds import WORLDS, Ground, fault, on
from tests.nemesis.conftest import FakeCluster, World

QUICK = {"broker.session.timeout.ms": "800", "replica.lag.time.max.ms": "600"}
HIDDEN_NS = round(1.4 * NS_PER_S)


@pytest.mark.parametrize("where", WORLDS)
def test_lanes_give_way_to_what_takes_records_and_to_each_other(where: str, tmp_path: Path) -> None:
    faults = (
        fault(1, "topic-churn", "one", lane=1),
        fault(2, "power-loss", "n2", at_s=0.2),
        fault(3, "power-loss", "n3", at_s=0.3, lane=1),
        fault(4, "pause", "n1", at_s=0.4, lane=1),
        fault(5, "pause", "n1", at_s=0.4),
    )

    def work(ground: Ground) -> None:
        rows = ground.dealt(*faults, spares_majority=False)
        assert rows.keys() == {1, 2, 3, 4, 5}
        assert all(row["healed_ns"] for row in rows.values()), rows
        for alone in (rows[2], rows[3]):
            for other in rows.values():
                if other is not alone:
                    assert _apart_ns(alone, other) >= HIDDEN_NS, (alone, other)
        # Both were due at once, and wanted the same process: neither was refused.
        assert _apart_ns(rows[4], rows[5], of="confirmed_ns") > 0

    on(where, tmp_path / "run", work, broker=QUICK, topics=1, time_limit_s=50)


def _apart_ns(one: Mapping[str, Any], other: Mapping[str, Any], *, of: str = "requested_ns") -> int:
    """Return how long the first of two faults was over before a moment of the second."""
    before: int = one[of] - other["healed_ns"]
    after: int = other[of] - one["healed_ns"]
    return max(before, after)


@pytest.fixture
def gentle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `isolate` take no node, as faults of the second lane."""
    monkeypatch.setitem(KINDS, "isolate", replace(KINDS["isolate"], aspect=Aspect.CLUSTER))


@pytest.mark.usefixtures("gentle")
def test_who_waits_is_dealt_as_soon_as_all_has_been_whole_again(world: World) -> None:
    began = world.played(
        fault(1, "isolate", "n3", hold_s=2, lane=1),
        fault(2, "power-loss", "n1", at_s=1, hold_s=4),
        fault(3, "isolate", "n3", at_s=1.5, hold_s=2, lane=1),
        fault(4, "power-loss", "n2", at_s=4, hold_s=4),
    )
    assert all(why is None for _, why in began.values()), began
    times_s = [at_s for at_s, _ in began.values() if at_s is not None]
    # 6.5 s after each that was alone, and before: who came first goes first, of whatever lane.
    apart_s = [round(b - a) for a, b in itertools.pairwise(sorted(times_s))]
    assert list(began) == [1, 2, 3, 4]
    assert apart_s == [9, 11, 9], began


@pytest.mark.usefixtures("gentle")
def test_who_waited_too_long_says_for_what(world: World) -> None:
    alone = fault(1, "power-loss", "n1", hold_s=20)
    beside = fault(2, "isolate", "n3", at_s=1, hold_s=50, lane=1)
    began = world.played(alone, beside)
    assert began[2][1] == (
        "fault 1 (power-loss) had an earlier turn and begins alone, because it destroys a"
        " replica's records; then the rest of the main phase was too short"
    )
    assert began[1][1] is None


@pytest.mark.usefixtures("gentle")
def test_the_end_of_the_main_phase_ends_every_wait(world: World) -> None:
    faults = (
        fault(1, "isolate", "n3", hold_s=50, lane=1),
        fault(2, "power-loss", "n1", at_s=1),
        fault(3, "power-loss", "n2", at_s=2, lane=2),
        fault(4, "kill", "n2", at_s=3, lane=3),
        fault(5, "kill", "n2", at_s=31, lane=3),
    )
    began = world.played(*faults, ends_s=30)
    assert began.pop(1) == (0, None)
    ended = "the main phase ended before earlier faults had ended"
    assert began == dict.fromkeys((2, 3, 4), (30, ended))
    assert world.cluster.calls == []


@pytest.mark.usefixtures("gentle")
def test_what_is_never_over_keeps_what_takes_records_away_and_nobody_else(world: World) -> None:
    world.network.deaf_to_join = True
    began = world.played(
        fault(1, "isolate", "n3"),
        fault(2, "power-loss", "n1", at_s=1),
        fault(3, "kill", "n1", at_s=2),
    )
    why = (
        "the fault destroys a replica's records, so it waits for full ISRs and for the end of"
        " other faults, but fault 1 (isolate) had not ended"
    )
    assert began[2][1] == why
    assert began[3][1] is None


@pytest.mark.usefixtures("gentle")
def test_a_broker_that_does_not_come_back_holds_others_up_for_so_long(world: World) -> None:
    world.cluster.asleep.add("n1")
    whole = world.cluster.view

    def lacking() -> ClusterView | None:
        return _without(whole(), "n1") if "kill n1" in world.cluster.calls else whole()

    world.cluster.view = lacking  # type: ignore[method-assign] # it never joins an ISR again
    began = world.played(
        fault(1, "power-loss", "n1", hold_s=1),
        fault(2, "isolate", "n3", at_s=1, lane=1),
        fault(3, "isolate", "n2", at_s=43, lane=1),
    )
    # 20 s until its heal is given up, and 20 s until the others are left to go on.
    assert began == {1: (0, None), 2: (pytest.approx(41.4, abs=0.5), None), 3: (43, None)}


@pytest.mark.usefixtures("gentle")
def test_a_broker_that_is_back_late_holds_others_up_no_longer_than_that(world: World) -> None:
    world.cluster.asleep.add("n1")

    def register_late() -> None:
        pause_until(25)
        world.cluster.asleep.clear()

    began = world.played(
        fault(1, "power-loss", "n1", hold_s=1),
        fault(2, "isolate", "n3", at_s=1, lane=1),
        meanwhile=register_late,
    )
    assert world.last_rows()[0]["healed_ns"] / NS_PER_S == pytest.approx(25, abs=1.1)
    assert began == {1: (0, None), 2: (pytest.approx(31.7, abs=0.5), None)}


@pytest.mark.parametrize("due_s", [5, 24])  # Long before the first heal is given up, and after.
def test_what_takes_records_waits_a_while_behind_a_fault_that_is_over_late(
    world: World, due_s: float
) -> None:
    world.cluster.asleep.add("n1")

    def register_late() -> None:
        pause_until(36)
        world.cluster.asleep.clear()

    began = world.played(
        fault(1, "kill", "n1", hold_s=1),
        fault(2, "power-loss", "n2", at_s=due_s),  # Two nodes at a time are too many.
        meanwhile=register_late,
    )
    assert world.last_rows()[0]["healed_ns"] / NS_PER_S == pytest.approx(36, abs=1.1)
    assert began == {1: (0, None), 2: (pytest.approx(43, abs=1.1), None)}


TAKES = "the fault destroys a replica's records, so it waits for"
ALONE = fault(2, "power-loss", "n1", at_s=1, hold_s=7)


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        (
            (fault(1, "isolate", "n3", hold_s=40, lane=1), ALONE),
            f"{TAKES} 6.5 s with full ISRs and without another fault; then the rest",
        ),
        (
            (fault(1, "isolate", "n3", hold_s=50, lane=1), ALONE),
            "when the earlier faults had ended, the rest of the main phase was too short",
        ),
        (
            (fault(1, "isolate", "n3", hold_s=50), fault(2, "isolate", "n2", at_s=5, hold_s=15)),
            "when the fault's turn came, the rest of the main phase was too short",
        ),
        (
            (fault(1, "pause", "n1"), fault(2, "power-loss", "n1", at_s=35, hold_s=9)),
            f"{TAKES} full ISRs and for the end of other faults, but an ISR was not full: ",
        ),
    ],
    ids=["settling", "behind others", "late", "an ISR"],
)
@pytest.mark.usefixtures("gentle")
def test_who_comes_too_late_says_what_it_waited_for(
    world: World, faults: Sequence[ScheduledFault], why: str
) -> None:
    whole = world.cluster.view
    if faults[0].kind == "pause":
        world.cluster.view = lambda: _without(whole(), "n1")  # type: ignore[method-assign]
    assert str(world.played(*faults)[2][1]).startswith(why)


@pytest.mark.parametrize("kind", ["isolate", "halves", "ring", "bridge"])
def test_a_majority_stays_whole_beside_a_node_that_does_not_come_back(
    world: World, kind: str
) -> None:
    world.cluster = FakeCluster([f"n{number}" for number in range(1, 6)])
    world.cluster.asleep.add("n1")
    began = world.played(fault(1, "kill", "n1", hold_s=1), fault(2, kind, "n2", at_s=30))
    why = (
        None
        if kind == "isolate"
        else "the fault starts only while no other fault disables a node, and an earlier fault"
    )
    assert str(began[2][1]).startswith(str(why)), began


@pytest.mark.parametrize(
    ("kind", "at_once"), [("isolate", True), ("ring", False), ("bridge", False)]
)
def test_no_node_is_lost_beside_nodes_that_are_divided(
    world: World, kind: str, *, at_once: bool
) -> None:
    world.cluster = FakeCluster([f"n{number}" for number in range(1, 6)])
    divided = fault(1, kind, "n2", hold_s=20)
    began_s, why_not = world.played(divided, fault(2, "kill", "n3", at_s=5, lane=1))[2]
    assert began_s is not None
    assert (why_not, began_s < 10, began_s >= 20) == (None, at_once, not at_once), began_s


def _without(view: ClusterView | None, node: str) -> ClusterView | None:
    """Return a view in which a node is in no ISR."""
    if view is None:
        return None
    return replace(
        view,
        partitions={
            place: replace(state, isr=tuple(each for each in state.isr if each != node))
            for place, state in view.partitions.items()
        },
    )


def test_nothing_begins_behind_the_main_phase(world: World) -> None:
    stop, view = threading.Event(), world.cluster.view

    def ended() -> ClusterView | None:
        stop.set()
        return view()

    world.cluster.view = ended  # type: ignore[method-assign] # the phase ends while it is asked
    world.nemesis(fault(1, "kill", "leader(log-0,1)")).run(stop)
    assert world.cluster.calls == []
    why = json.loads(world.last_rows()[0]["spec"])["without_effect"]
    assert why == "the main phase ended before the fault could begin"


def test_the_while_is_what_the_settings_can_hide() -> None:
    def while_s(system: str = "kafka:4.1.0", **settings: object) -> float:
        return hidden_s(Plan.model_validate({"system": system, **settings}))

    assert while_s() == 6.5  # 4 s to lag, and half of it until the leader looks.
    assert while_s(broker={"replica.lag.time.max.ms": "1000"}) == 3.5  # The session.
    assert while_s(node={"n2": {"broker.session.timeout.ms": "9000"}}) == 9.5
    slow = {"zookeeper.session.timeout.ms": "8000"}
    assert while_s(broker=slow) == 6.5
    assert while_s("kafka:2.8.2:zookeeper", broker=slow) == 8.5
    assert while_s(broker={"replica.lag.time.max.ms": "soon"}) == 6.5
    # Nobody set another system's brokers for us: Kafka's own times, unless its plan says more.
    assert while_s("command:broker.toml") == 45.5
    assert while_s("attached:lab.toml", broker={"replica.lag.time.max.ms": "10000"}) == 15.5
