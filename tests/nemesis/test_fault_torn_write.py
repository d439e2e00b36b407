"""The fault `torn-write`, on disks in memory, and how it is proven on real ones."""

from dataclasses import replace

import pytest

from nemesis.protocol import Patience
from nemesis.torn_write import TornWrite
from tests.nemesis.broken_disks import FakeFaultyDisks, aimed, broken_proof
from tests.nemesis.conftest import World

SOON = Patience(limit_s=0.1)
TORN, SHORT = 1, 0
"""Seeds by what they draw."""
PROOF_OF = [("torn-write", broken_proof(half=True))]


def test_half_of_a_page_is_stored_and_the_other_half_said_or_not(world: World) -> None:
    hosts, told = FakeFaultyDisks(), dict[str, str]()
    for seed in range(10):
        fault = TornWrite(aimed(seed, "n1"), replace(world.site(), hosts=hosts))
        fault.inject()
        effect = fault.confirm(SOON)
        assert effect is not None
        assert effect.request == "write"
        assert effect.stored == {"n1": (2048, 4096)}
        told[effect.how] = effect.told
        fault.heal()
        assert hosts.broken == {}
    assert told.keys() == {"torn", "short"}
    assert (
        "n1 got EIO, and 2048 of its 4096 bytes are on the disk; 7 requests of its broker were torn"
        in told["torn"]
    )
    assert (
        "n1 got no error, and 2048 of its 4096 bytes are on the disk; 7 requests" in told["short"]
    )


@pytest.mark.parametrize(("seed", "excused"), [(TORN, ["kill n1"]), (SHORT, [])])
def test_who_ends_is_excused_but_not_for_a_short_write(
    world: World, seed: int, excused: list[str]
) -> None:
    fault = TornWrite(aimed(seed, "n1"), replace(world.site(), hosts=FakeFaultyDisks()))
    fault.inject()
    del world.cluster.states[world.cluster.processes["n1"]]
    effect = fault.confirm(SOON)
    assert effect is not None
    assert effect.ended == ("n1",)
    assert world.cluster.calls == excused  # write(2) says itself how much it stored.
    fault.heal()
    assert ("kill n1" in world.cluster.calls) is bool(excused)


@pytest.mark.parametrize("deaf", [True, False])
def test_a_page_that_is_whole_is_no_effect_and_one_that_is_not_is_not_healed(
    world: World, *, deaf: bool
) -> None:
    hosts = FakeFaultyDisks()
    hosts.deaf = deaf
    fault = TornWrite(aimed(1, "n1"), replace(world.site(), hosts=hosts))
    fault.inject()
    del world.cluster.states[world.cluster.processes["n1"]]  # Its broker ends by itself.
    assert (fault.confirm(SOON) is None) is hosts.deaf
    hosts.stuck = True
    fault.heal()
    assert (fault.confirm_healed(SOON) is None) is not hosts.deaf
