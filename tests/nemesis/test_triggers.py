"""Triggers: parsed strictly, told by a view, waited for by the runner."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.protocol import Ability, ClusterView, PartitionState
from nemesis.roster import roster_of
from nemesis.schedule import deal_schedule
from nemesis.scheduled import ScheduledFault
from nemesis.triggers import look, parse_trigger
from results.record.clock import wait_until
from results.record.plan import Plan, PlanError, load_plan, plan_from
from tests.nemesis.conftest import World

ROSTER = roster_of(Plan(nodes=3, topics=2, partitions=2))
EXAMPLE = Path(__file__).parents[2] / "docs" / "plans" / "triggers.toml"


def view(
    *,
    epoch: int = 0,
    isr: tuple[str, ...] = ("n1", "n2", "n3"),
    leader: str | None = "n1",
    controller: str | None = "n3",
    registered: tuple[str, ...] = ("n1", "n2", "n3"),
) -> ClusterView:
    state = PartitionState(
        topic="log-0",
        partition=0,
        leader=leader,
        leader_epoch=epoch,
        replicas=("n1", "n2", "n3"),
        isr=isr,
    )
    return ClusterView(
        asked="n1",
        registered=frozenset(registered),
        controller=controller,
        controller_epoch=7,
        partitions={("log-0", 0): state},
    )


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("leader epoch of log-0-0 >= 3", view(epoch=2), view(epoch=3)),
        ("leader epoch of log-0-0 > 3", view(epoch=3), view(epoch=4)),
        ("isr of log-0-0 <= 2", view(), view(isr=("n1", "n2"))),
        ("isr of log-0-0 < 2", view(isr=("n1", "n2")), view(isr=("n1",))),
        ("isr of log-0-0 = 3", view(isr=("n1", "n2")), view()),
        ("leader of log-0-0 = n2", view(), view(leader="n2")),
        ("leader of log-0-0 != n1", view(), view(leader="n2")),
        ("leader of log-0-0 = none", view(), view(leader=None)),
        ("controller = n2", view(), view(controller="n2")),
        ("controller = none", view(), view(controller=None)),
        ("controller epoch >= 7", None, view()),
        ("registered <= 2", view(), view(registered=("n1", "n3"))),
        ("  registered   <=   2 ", view(), view(registered=())),
    ],
)
def test_a_trigger_holds_when_the_view_is_so_and_not_before(
    text: str, before: ClusterView | None, after: ClusterView
) -> None:
    trigger = parse_trigger(text, ROSTER)
    assert not look(trigger, before).holds
    assert look(trigger, after).holds


@pytest.mark.parametrize("text", ["controller epoch < 9", "controller epoch <= 9"])
def test_an_unknown_epoch_fulfils_no_trigger(text: str) -> None:
    unknown = replace(view(), controller_epoch=-1)
    assert not look(parse_trigger(text, ROSTER), unknown).holds


@pytest.mark.parametrize(
    ("text", "there", "seen"),
    [
        (
            "leader epoch of log-0-0 >= 3",
            view(epoch=1),
            "leader n1 of log-0-0 in epoch 1, ISR n1, n2, n3",
        ),
        ("leader epoch of log-1-1 >= 3", view(), "no state of log-1-1"),
        ("controller = n2", view(), "controller n3 in epoch 7, registered n1, n2, n3"),
        (
            "leader of log-0-0 = n2",
            view(leader=None, isr=()),
            "leader none of log-0-0 in epoch 0, ISR none",
        ),
        (
            "registered <= 1",
            view(registered=("n3", "n1")),
            "controller n3 in epoch 7, registered n1, n3",
        ),
        ("registered <= 1", None, "no answer from any node"),
    ],
)
def test_what_was_seen_instead_is_told(text: str, there: ClusterView | None, seen: str) -> None:
    assert look(parse_trigger(text, ROSTER), there).seen == seen


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not valid; write a state"),
        ("leader epoch of log-0-0 >= three", "'three' is not a number"),
        ("leader epoch of log-0-0 == 3", "is not valid; write a state"),
        ("leader epoch >= 3", "needs a partition"),
        ("leader epoch of log-0-9 >= 3", "no partition log-0-9; use log-0-0 to log-1-1"),
        ("isr of log-0-0 != 2", "with >=, <=, >, < or =, not with !="),
        ("leader of log-0-0 >= n2", "with = or !=, not with >="),
        ("leader of log-0-0 = n9", r"'n9' is neither a node \(n1, n2, n3\) nor none"),
        ("controller of log-0-0 = n2", "'controller' does not accept a partition"),
        ("registered <= -1", "'-1' is not a number"),
        ("registered <= 2 and more", "is not valid; write a state"),
    ],
)
def test_a_wrong_trigger_is_refused_in_one_sentence(text: str, why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        parse_trigger(text, ROSTER)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=60))
def test_whatever_is_written_is_a_trigger_or_refused(text: str) -> None:
    try:
        trigger = parse_trigger(text, ROSTER)
    except PlanError:
        return
    assert look(trigger, view()).seen


def test_a_plan_with_a_wrong_trigger_is_refused_before_the_run() -> None:
    fault = {"kind": "kill", "when": "controller = n7", "hold_s": 1}
    with pytest.raises(PlanError, match="'n7' is neither a node"):
        deal_schedule(plan_from({"faults": [fault]}), abilities=frozenset(Ability))


def test_the_example_can_be_played() -> None:
    plan = plan_from(load_plan(EXAMPLE))
    schedule = deal_schedule(plan, abilities=frozenset(Ability))
    assert [fault.when for fault in schedule.faults].count(None) == 1
    assert plan.shifts_clocks


def rows_of(world: World) -> list[dict[str, Any]]:
    """The last row of each fault, in their order."""
    return sorted(world.last_rows(), key=lambda row: int(row["fault_id"]))


def _waiting(fault_id: int, when: str | None, target: str) -> ScheduledFault:
    # Each is held until the test is over.
    return ScheduledFault(
        fault_id=fault_id, at_s=0, kind="kill", target=target, hold_s=60, when=when
    )


def _run_until_killed(world: World, node: str, *faults: ScheduledFault) -> None:
    """Run faults until a broker is killed, and heal them."""
    nemesis = world.nemesis(*faults, overlapping=True)
    running = threading.Thread(target=nemesis.run, args=(world.stop,))
    running.start()
    wait_until(lambda: f"kill {node}" in world.cluster.calls, timeout_s=30, what=f"{node} to end")
    world.stop.set()
    running.join()
    assert nemesis.heal_all().healed


def test_a_fault_starts_when_its_state_has_come(world: World) -> None:
    # The first waits for what only the second brings about.
    _run_until_killed(world, "n1", _waiting(1, "registered <= 2", "n1"), _waiting(2, None, "n3"))
    assert world.cluster.calls[:2] == ["kill n3", "kill n1"]
    late, _ = rows_of(world)
    waited = json.loads(late["spec"])["waited"]
    assert (waited["when"], waited["came"]) == ("registered <= 2", True)
    assert waited["waited_s"] > 0
    assert waited["saw"][0].endswith("registered n1, n2, n3")


def test_a_state_that_is_there_at_once_is_not_waited_for(world: World) -> None:
    _run_until_killed(world, "n1", _waiting(1, "registered = 3", "n1"))
    (row,) = rows_of(world)
    assert json.loads(row["spec"])["waited"] == {
        "when": "registered = 3", "came": True, "waited_s": 0.0, "saw": [],
    }  # fmt: skip


def test_a_state_that_does_not_come_leaves_its_fault_out(world: World) -> None:
    never = "leader epoch of log-0-0 >= 4"
    _run_until_killed(world, "n3", _waiting(1, never, "n1"), _waiting(2, None, "n3"))
    assert "kill n1" not in world.cluster.calls
    first, second = rows_of(world)
    assert first["confirmed_ns"] is None
    assert f"the state '{never}' was not reached" in first["effect"]
    waited = json.loads(first["spec"])["waited"]
    assert (waited["when"], waited["came"]) == (never, False)
    assert waited["saw"][0].startswith("leader n1 of log-0-0 in epoch 3, ISR n1, n2")
    assert json.loads(second["spec"])["waited"] is None
