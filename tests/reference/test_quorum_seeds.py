"""Quorums of three and five under losses, cuts, pauses and power failures, from seeds."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.reference.bugs import Bug
from cluster.reference.quorum.state import Role
from cluster.reference.settings import Settings
from tests.reference.quorum_world import BrokenInvariantError, World

SEEDS = 10
SEEDS_FOR_THE_BUG = 20
"""Within so many seeds a vote that is not persisted must be given twice."""

Deed = Callable[[World, int], None]


def crash(world: World, number: int) -> None:
    world.crash(number)


def blink(world: World, number: int) -> None:
    """Lose power for a moment: shorter than any election takes."""
    world.crash(number)
    world.start(number)


def revive(world: World, number: int) -> None:
    if world.nodes[number].part is None:
        world.start(number)


def pause(world: World, number: int) -> None:
    if world.nodes[number].part is not None:
        world.pause(number)


def resume(world: World, number: int) -> None:
    world.resume(number)


def cut(world: World, number: int) -> None:
    world.isolate(number)


def cut_one_way(world: World, number: int) -> None:
    other = world.random.choice([each for each in world.nodes if each != number])
    world.cut.add((number, other))


def heal(world: World, _: int) -> None:
    world.heal()


def write(world: World, number: int) -> None:
    world.append(number, b"a record of %d at %d" % (number, world.now))


DEEDS: tuple[Deed, ...] = (
    crash, blink, revive, revive, pause, resume, resume, cut, cut_one_way, heal, heal, write,
)  # fmt: skip


def make_good(world: World) -> None:
    world.loss = 0.0
    world.heal()
    for number, node in world.nodes.items():
        if node.part is None:
            world.start(number)
        elif node.paused:
            world.resume(number)


def play(world: World, *, steps: int) -> None:
    """Do bad things at random, each followed by some time; who leads writes all the while."""
    random = Random(world.random.random())
    world.start_all()
    for _ in range(steps):
        number = random.choice(list(world.nodes))
        random.choice(DEEDS)(world, number)
        world.loss = random.choice((0.0, 0.0, 0.1, 0.4))
        for each in world.nodes:
            write(world, each)
        world.run(random.choice((5, 50, 300, 1500, 4000)))


def end_well(world: World) -> None:
    """Mend everything: somebody is elected, and everybody comes to have the same."""
    make_good(world)
    leader = world.until_leader()
    world.run(15_000)
    leader = world.until_leader()
    assert world.append(leader, b"the last")
    world.run(3000)
    ends = {world.quorum(each).high_watermark for each in world.nodes}
    assert ends == {world.quorum(leader).log.end_offset}
    logs = {b"".join(each.data for each in world.quorum(n).log.batches()) for n in world.nodes}
    assert len(logs) == 1


@pytest.mark.parametrize("members", [3, 5])
def test_what_must_never_happen_does_not(members: int) -> None:
    elections = 0
    for seed in range(SEEDS):
        world = World(members, seed=seed)
        play(world, steps=40)
        end_well(world)
        elections += len(world.leaders)
    assert elections > SEEDS * 3, "there was hardly anything to go wrong"


def test_an_observer_is_nothing_but_a_reader() -> None:
    for seed in range(8):
        world = World(4, seed=seed, voters=3)
        play(world, steps=25)
        end_well(world)
        assert 4 not in world.leaders.values()
        assert all(voter != 4 for voter, _ in world.votes)


@given(
    seed=st.integers(0, 1 << 32),
    steps=st.lists(
        st.tuples(st.sampled_from(DEEDS), st.integers(1, 3), st.sampled_from((3, 40, 700, 2500))),
        max_size=30,
    ),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_whatever_is_done_to_three(seed: int, steps: list[tuple[Deed, int, int]]) -> None:
    world = World(3, seed=seed)
    world.start_all()
    for deed, number, ms in steps:
        deed(world, number)
        world.run(ms)
    end_well(world)


def quarrel(world: World) -> None:
    """Have many elections over bad links; who has just voted loses its power for a moment."""
    world.start_all()
    for _ in range(12):
        world.loss = 0.0
        leader = world.until_leader()
        world.crash(leader)
        world.loss = 0.4
        for _ in range(200):
            world.run(10)
            for voter in voters_of_others(world):
                blink(world, voter)
        world.start(leader)


def voters_of_others(world: World) -> list[int]:
    """Return who has voted for somebody else, and has no leader yet."""
    return [
        number
        for number, node in world.nodes.items()
        if (quorum := node.quorum) is not None
        and quorum.role is Role.UNATTACHED
        and quorum.state.voted not in (-1, number)
    ]


def gives_a_vote_twice(seed: int, *bugs: Bug) -> bool:
    try:
        quarrel(World(5, seed=seed, settings=Settings(bugs=bugs)))
    except BrokenInvariantError as found:
        return "votes for" in str(found)
    return False


def test_a_vote_that_is_not_persisted_is_given_twice() -> None:
    seeds = range(SEEDS_FOR_THE_BUG)
    found = next((each for each in seeds if gives_a_vote_twice(each, Bug.VOTE_NOT_PERSISTED)), None)
    assert found is not None, f"not found with {SEEDS_FOR_THE_BUG} seeds"
    assert not gives_a_vote_twice(found), "the same without the bug"
