"""The fault `kill-twice`, on a cluster in memory, and how it is proven elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from cluster.protocol import ClusterError, ClusterView, ProcessId
from nemesis import kill_twice
from nemesis.kill_twice import MOST_STRIKES, KillTwice
from nemesis.protocol import Aim, Patience
from nemesis.undo import Restart
from tests.nemesis.conftest import FakeCluster, World
from tests.nemesis.proofs import Proof, Seen
from tests.nemesis.simulated_room import Story

SOON = Patience(limit_s=0.1)


def _ended_two_lives(before: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether one node has no server, and had another one than before meanwhile."""
    gone = [node for node, each in looks[-1].items() if not each["brokers"]]
    ran = [{*before[node]["brokers"]} for node in gone]
    since = [{pid for look in looks for pid in look[node]["brokers"]} for node in gone]
    all_ran = all(len(each["brokers"]) == 1 for each in before.values())
    return all_ran and len(gone) == 1 and not since[0] <= ran[0]


PROOF_OF = [
    (
        "kill-twice",
        Proof(
            witness="voters",
            from_start=True,
            shows=_ended_two_lives,
            gone=lambda before, after: (
                [len(each["brokers"]) for each in after.values()] == [1, 1, 1]
                and sum(after[node]["brokers"] != before[node]["brokers"] for node in before) == 1
            ),
        ),
    )
]


def _is_gone_after_another_life(story: Story) -> bool:
    (node,) = story.row.targets
    lives = int(story.before[node].split()[0])
    others = all(
        look[each] == was
        for look in story.looks
        for each, was in story.before.items()
        if each != node
    )
    return others and all(
        look[node].endswith("gone") and int(look[node].split()[0]) > lives for look in story.looks
    )


SHOWS_OF = [("kill-twice", _is_gone_after_another_life)]


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_twice, "LATEST_S", 0.1)


def _fault(world: World) -> KillTwice:
    return KillTwice(Aim(fault_id=1, targets=("n2",), rng=Random(0), stop=world.stop), world.site())


def test_the_second_life_ends_before_it_registers(world: World) -> None:
    fault = _fault(world)
    assert fault.undo() == (Restart(node="n2"),)
    before = world.cluster.processes["n2"]
    world.cluster.asleep.add("n2")
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert world.cluster.calls == ["kill n2", "start n2", "kill n2"]
    assert [each.pid for each in effect.processes] == [before.pid]
    (again,) = effect.again
    assert (again.node, again.pid, again.back) == ("n2", world.cluster.processes["n2"].pid, False)
    assert 0.05 <= again.lived_s < 5
    fault.heal()
    assert fault.confirm_healed(SOON) is None
    world.cluster.asleep.clear()
    assert fault.confirm_healed(SOON) is not None


def test_a_broker_that_is_always_back_before_it_is_struck_is_no_effect(world: World) -> None:
    fault = _fault(world)
    fault.inject()
    assert fault.confirm(SOON) is None
    assert world.cluster.calls == ["kill n2", *["start n2", "kill n2"] * MOST_STRIKES]
    fault.heal()
    assert fault.confirm_healed(SOON) is not None


class Remembered(FakeCluster):
    """Others list `n2` from one of its ends on, and it has never heard of that."""

    listed_from = 0

    def is_back(self, node: str) -> bool:
        return node != "n2"

    def view(self) -> ClusterView | None:
        view = super().view()
        listed = self.calls.count("kill n2") >= self.listed_from
        return view and replace(view, registered=frozenset({"n1", "n3", *["n2"] * listed}))


@pytest.mark.parametrize(("listed_from", "back"), [(2, [True, False]), (1, [False])])
def test_one_that_others_list_anew_when_it_is_struck_had_registered(
    world: World, listed_from: int, back: list[bool]
) -> None:
    world.cluster = cluster = Remembered(["n1", "n2", "n3"])
    cluster.listed_from = listed_from  # 1: they have not missed it yet.
    fault = _fault(world)
    fault.inject()
    effect = fault.confirm(SOON)
    assert effect is not None
    assert [each.back for each in effect.again] == back


def test_one_that_survives_the_second_strike_is_no_effect(world: World) -> None:
    fault = _fault(world)
    world.cluster.asleep.add("n2")
    fault.inject()
    world.cluster.states[world.cluster.processes["n2"]] = "S"
    assert fault.confirm(SOON) is None


def test_one_that_ends_by_itself_before_the_second_strike_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = world.cluster.start_node

    def start_and_end(node: str) -> ProcessId:
        process = start(node)
        del world.cluster.states[process]
        return process

    fault = _fault(world)
    with monkeypatch.context() as patched:
        patched.setattr(world.cluster, "start_node", start_and_end)
        with pytest.raises(ClusterError, match="n2 ended before the second kill"):
            fault.inject()
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=10)) is not None


def test_one_that_does_not_start_is_told(world: World) -> None:
    fault = _fault(world)
    world.refuse("start n2", "the machine is on fire")
    with pytest.raises(ClusterError, match="on fire"):
        fault.inject()
    fault.heal()
    assert fault.confirm_healed(Patience(limit_s=10)) is not None


def test_the_end_of_the_main_phase_keeps_it_from_a_second_strike(world: World) -> None:
    fault = _fault(world)
    world.cluster.asleep.add("n2")
    world.stop.set()
    with pytest.raises(ClusterError, match="before the second kill"):
        fault.inject()
    assert world.cluster.calls == ["kill n2", "start n2"]
