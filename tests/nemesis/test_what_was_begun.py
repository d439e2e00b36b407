"""The record says from when on a fault may have done something, and where, be it confirmed or not.

What it may have taken hangs on that, whatever became of the fault itself.
"""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cluster.protocol import ClusterView
from nemesis.protocol import Aim
from nemesis.scheduled import ScheduledFault
from nemesis.unclean_election import UncleanElection
from tests.nemesis import test_fault_unclean_election as fault_unclean_election
from tests.nemesis.conftest import World
from tests.nemesis.test_fault_unclean_election import FAULT, PLACE, ElectingCluster

electing = fault_unclean_election.electing
"""The fixture of that file."""


def _kill(number: int, target: str = "n1") -> ScheduledFault:
    return ScheduledFault(fault_id=number, at_s=0, kind="kill", target=target, hold_s=0.01)


def _spec(row: dict[str, Any]) -> dict[str, Any]:
    spec = json.loads(row["spec"])
    assert isinstance(spec, dict)
    return spec


def test_a_fault_is_begun_on_record_before_it_does_anything(world: World) -> None:
    seen: list[bool] = []
    kill_node = world.cluster.kill_node

    def watched(node: str) -> None:
        seen.append(_spec(world.rows()[-1])["begun"])
        kill_node(node)

    world.cluster.kill_node = watched  # type: ignore[method-assign] # looks, and does it
    world.nemesis(_kill(1)).run(world.stop)
    assert seen == [True]
    assert [_spec(row)["begun"] for row in world.rows()][:2] == [False, False]


def test_the_life_that_is_hit_is_on_record_though_nothing_is_confirmed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.cluster, "incarnation", {"n1": 3}.__getitem__, raising=False)
    world.refuse("kill n1", "no answer")
    world.nemesis(_kill(1)).run(world.stop)
    lives = [(_spec(row)["begun"], _spec(row)["incarnations"]) for row in world.rows()]
    assert {begun for begun, _ in lives} == {False, True}
    assert all(hit == ({"n1": 3} if begun else {}) for begun, hit in lives)


def test_one_that_failed_half_way_stays_begun_and_one_that_was_refused_never_was(
    world: World,
) -> None:
    world.refuse("kill n1", "no answer")
    without_batches = replace(_kill(2, "n2"), kind="bit-flip")
    world.nemesis(_kill(1), without_batches).run(world.stop)
    failed, refused = world.last_rows()
    assert _spec(failed)["begun"]
    assert failed["confirmed_ns"] is None
    assert _spec(refused)["without_effect"]
    assert not _spec(refused)["begun"]


@pytest.mark.parametrize("target", ["replicas", "replicas(log-0,0)"])
def test_the_partition_is_on_record_though_the_election_is_never_confirmed(
    world: World, electing: ElectingCluster, target: str
) -> None:
    electing.deaf = True
    nemesis = world.nemesis(replace(FAULT, target=target), overlapping=True)
    nemesis.run(world.stop)
    (row,) = world.last_rows()
    assert row["confirmed_ns"] is None
    assert _spec(row)["place"] == ["log-0", 0]
    assert _spec(row)["begun"]
    assert nemesis.heal_all().healed


def test_replicas_without_a_partition_are_those_of_one_whose_replicas_they_are(
    world: World, electing: ElectingCluster
) -> None:
    """Another partition that one of them leads, on other nodes too, is none that could be meant."""
    other = ("log-1", 3)
    view = electing.view

    def seen() -> ClusterView | None:
        told = view()
        if told is None:
            return None
        elsewhere = replace(
            told.partitions[PLACE], topic=other[0], partition=other[1], leader="n1",
            replicas=("n1", "n3"),
        )  # fmt: skip
        return replace(told, partitions={**told.partitions, other: elsewhere})

    electing.view = seen  # type: ignore[method-assign] # as it is, and one partition more
    site = world.site()
    for number in range(20):
        aim = Aim(fault_id=number, targets=("n1", "n2"), rng=Random(number))
        assert UncleanElection(aim, site).place == PLACE
