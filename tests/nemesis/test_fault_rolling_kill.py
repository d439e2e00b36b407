"""The fault `rolling-kill`, on a cluster in memory, and how it is proven elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from cluster.protocol import Ability, ClusterError, ClusterView, ProcessId
from nemesis import rolling_kill
from nemesis.effects import effect_to_json
from nemesis.protocol import Aim, Patience
from nemesis.rolling_kill import RollingKill
from nemesis.schedule import deal_schedule
from nemesis.undo import Restart
from results.record.plan import Plan, PlanError
from results.record.plan_parts import PlannedFault
from tests.nemesis.conftest import FakeCluster, World
from tests.nemesis.proofs import Proof, Seen
from tests.nemesis.simulated_room import Story

SOON = Patience(limit_s=0.1)
PAIR = ("n1", "n2")


def _one_ended_after_another(before: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether of two nodes one has another server than before and one has none."""
    was = {node: {*each["brokers"]} for node, each in before.items()}
    now = {node: {*each["brokers"]} for node, each in looks[-1].items()}
    other = [node for node in PAIR if now[node] and now[node].isdisjoint(was[node])]
    gone = [node for node in PAIR if not now[node]]
    return len(other) == len(gone) == 1 and now["n3"] == was["n3"]


PROOF_OF = [
    (
        "rolling-kill",
        Proof(
            witness="voters",
            shows=_one_ended_after_another,
            gone=lambda before, after: (
                [len(each["brokers"]) for each in after.values()] == [1, 1, 1]
                and all(after[node]["brokers"] != before[node]["brokers"] for node in PAIR)
            ),
        ),
    )
]


def _two_were_hit_and_one_is_down(story: Story) -> bool:
    hit = story.row.targets
    life = {node: int(was.split()[0]) for node, was in story.before.items()}
    others = all(look[each] == was for look in story.looks for each, was in story.before.items()
                 if each not in hit)  # fmt: skip
    down = [[node for node in hit if look[node].endswith("gone")] for look in story.looks]
    again = all(
        int(look[node].split()[0]) > life[node]
        for look, gone in zip(story.looks, down, strict=True)
        for node in {*hit} - {*gone}
    )
    return others and again and len(hit) == 2 and all(len(gone) == 1 for gone in down)


SHOWS_OF = [("rolling-kill", _two_were_hit_and_one_is_down)]


class SlowToCatchUp(FakeCluster):
    """Who does not register is in no ISR either."""

    def view(self) -> ClusterView | None:
        view = super().view()
        return view and replace(
            view,
            partitions={
                place: replace(state, isr=tuple(n for n in state.isr if n not in self.asleep))
                for place, state in view.partitions.items()
            },
        )


class NotMissed(FakeCluster):
    """Who does not register is in every ISR all the same: nobody has missed it."""


class Registered(SlowToCatchUp):
    """Who is in no ISR is registered."""

    def view(self) -> ClusterView | None:
        view = super().view()
        return view and replace(view, registered=view.registered | {*PAIR})


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_kill, "LATEST_S", 0.2)
    monkeypatch.setattr(rolling_kill, "DOWN_S", (0.0, 0.1))
    monkeypatch.setattr("nemesis.brokers.BELIEF_LIMIT_S", 0.1)


def _fault(world: World, *targets: str) -> RollingKill:
    aim = Aim(fault_id=1, targets=targets or PAIR, rng=Random(0), stop=world.stop)
    return RollingKill(aim, world.site())


@pytest.mark.parametrize("kind", [NotMissed, SlowToCatchUp, Registered])
def test_the_next_is_struck_before_the_one_before_is_whole(
    kind: type[FakeCluster], world: World
) -> None:
    world.cluster = kind(["n1", "n2", "n3"])
    world.cluster.asleep |= {*PAIR}
    fault = _fault(world)
    assert fault.undo() == tuple(Restart(node=node) for node in PAIR)
    before = dict(world.cluster.processes)
    fault.inject()
    first, last = [call.split()[1] for call in world.cluster.calls if call.startswith("kill")]
    assert world.cluster.calls == [f"kill {first}", f"start {first}", f"kill {last}"]
    effect = fault.confirm(SOON)
    assert effect is not None
    assert [(each.node, each.pid) for each in effect.strikes] == [
        (node, before[node].pid) for node in (first, last)
    ]
    assert [each.recovering for each in effect.strikes] == [False, True]
    assert 0 <= effect.strikes[1].after_s < 5
    assert effect.told.endswith(f" s after the start of {first}, which had not yet recovered")
    assert '"kind": "rolling-kill"' in effect_to_json(effect)
    world.cluster.asleep.clear()
    fault.heal()
    assert world.cluster.calls[3:] == [f"start {last}"]
    assert fault.confirm_healed(Patience(limit_s=10)) is not None


def test_one_that_is_whole_again_before_the_next_is_struck_is_no_effect(world: World) -> None:
    fault = _fault(world)
    fault.inject()
    struck = [call.split()[1] for call in world.cluster.calls if call.startswith("kill")]
    assert struck == [*fault._order, *fault._order, fault._order[0]], "again and again"
    assert fault.confirm(SOON) is None
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=10)) is not None


def test_one_that_survives_is_no_effect(world: World) -> None:
    world.cluster = SlowToCatchUp(["n1", "n2", "n3"])
    world.cluster.asleep |= {*PAIR}
    fault = _fault(world)
    fault.inject()
    last = fault._order[-1]
    world.cluster.states[world.cluster.processes[last]] = "S"
    assert fault.confirm(SOON) is None


def test_a_single_broker_has_no_turn(world: World) -> None:
    with pytest.raises(
        ClusterError, match="needs two brokers or more as targets, but the only target is n2"
    ):
        _fault(world, "n2")


def test_one_that_ends_by_itself_before_its_turn_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = world.cluster.start_node
    fault = _fault(world)

    def start_and_end(node: str) -> ProcessId:
        (other,) = {*PAIR} - {node}
        world.cluster.states.pop(world.cluster.processes[other], None)
        return start(node)

    with monkeypatch.context() as patched:
        patched.setattr(world.cluster, "start_node", start_and_end)
        with pytest.raises(ClusterError, match="no broker runs on"):
            fault.inject()
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=10)) is not None


def test_the_end_of_the_main_phase_keeps_it_from_the_last_strike(world: World) -> None:
    world.cluster.asleep |= {*PAIR}
    fault = _fault(world)
    world.stop.set()
    with pytest.raises(ClusterError, match="ended before the last kill"):
        fault.inject()
    assert [call.split()[0] for call in world.cluster.calls] == ["kill"]


def test_one_that_ends_while_it_is_to_recover_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster = SlowToCatchUp(["n1", "n2", "n3"])
    world.cluster.asleep |= {*PAIR}
    start = world.cluster.start_node
    fault = _fault(world)

    def start_and_end(node: str) -> ProcessId:
        process = start(node)
        world.cluster.states.pop(process, None)
        return process

    monkeypatch.setattr(world.cluster, "start_node", start_and_end)
    with pytest.raises(ClusterError, match=f"of {fault._order[0]} ended before the next kill"):
        fault.inject()


def test_what_another_broker_lacks_is_no_recovery(world: World) -> None:
    world.cluster = SlowToCatchUp(["n1", "n2", "n3"])
    world.cluster.asleep.add("n3")
    fault = _fault(world)
    fault.inject()
    assert not any(each.recovering for each in fault._strikes)
    assert fault.confirm(SOON) is None


def test_of_many_targets_three_take_turns(world: World) -> None:
    names = [f"n{number}" for number in range(1, 8)]
    world.cluster = SlowToCatchUp(names)
    world.cluster.asleep |= {*names}
    fault = _fault(world, *names)
    assert len(fault.targets) == 3
    assert [each.node for each in fault.undo()] == [*fault.targets]
    fault.inject()
    assert fault.confirm(SOON) is not None
    assert {call.split()[1] for call in world.cluster.calls} == {*fault.targets}


@pytest.mark.parametrize("target", ["n1", "one", "leader", "minority"])
def test_by_hand_it_is_about_several(target: str) -> None:
    fault = PlannedFault(kind="rolling-kill", target=target, at_s=1)
    with pytest.raises(PlanError, match=r"use majority or all|accepts only majority or all"):
        deal_schedule(Plan(faults=(fault,)), abilities=frozenset(Ability))
