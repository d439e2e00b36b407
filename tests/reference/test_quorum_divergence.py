"""The article's divergence: six common records, three that nobody copied, two of a new leader."""

from cluster.reference.log.batches import Batch
from cluster.reference.quorum.state import Role
from tests.reference.quorum_world import World

COMMON = 6
ENDS = (3, 6)
"""Where epochs 1 and 2 end in every log."""


def diverged() -> tuple[World, int, int]:
    """Return a quorum whose leader of epoch 2 has three records too many, its leader of epoch 3
    two of its own behind the common six; and both leaders."""
    for seed in range(20):
        world = World(3, seed=seed)
        world.start_all()
        first = world.until_leader()
        fill(world, first, ENDS[0])
        world.crash(first)
        old = world.until_leader()
        world.start(first)
        fill(world, old, ENDS[1])
        world.isolate(old)
        world.append(old, b"extra", b"extra", b"extra")
        new = world.until_leader(among=[each for each in world.voters if each != old])
        world.append(new, b"the new leader's")
        world.run(100)
        epochs = (world.quorum(old).epoch, world.quorum(new).epoch)
        if epochs == (2, 3):
            return world, old, new
    raise AssertionError("each seed had an election that failed")


def fill(world: World, leader: int, end: int) -> None:
    """Append until a log ends somewhere, and let everybody copy it."""
    while world.quorum(leader).log.end_offset < end:
        world.append(leader, b"common")
    world.run(1500)
    assert {world.quorum(each).log.end_offset for each in world.voters} == {end}


def batches(world: World, number: int) -> list[Batch]:
    return list(world.quorum(number).log.batches())


def test_the_logs_are_the_article_s() -> None:
    world, old, new = diverged()
    assert world.quorum(old).log.end_offset == COMMON + 3
    assert world.quorum(new).log.end_offset == COMMON + 2
    assert [each.leader_epoch for each in batches(world, new)][-2:] == [3, 3]
    assert batches(world, old)[-1].leader_epoch == 2
    assert world.quorum(new).log.end_of(2) == (2, COMMON)
    assert world.quorum(new).high_watermark == COMMON + 2


def test_the_old_leader_truncates_to_where_epoch_2_ends() -> None:
    world, old, new = diverged()
    world.heal()
    world.run(6000)
    assert len(world.said(old, f"Truncated to offset {COMMON} from Fetch response")) == 1
    assert [each.data for each in batches(world, old)] == [
        each.data for each in batches(world, new)
    ]
    assert world.quorum(old).role is Role.FOLLOWER
    assert world.quorum(new).role is Role.LEADER, "its return deposed nobody"
    assert world.quorum(new).epoch == 3


def test_what_it_is_told_and_what_it_fetches_next() -> None:
    world, old, _ = diverged()
    world.heal()
    world.run(6000)
    fetches = [
        (request.partitions[0].fetch_offset, request.partitions[0].last_fetched_epoch, answer)
        for number, request, answer in world.fetched
        if number == old and request.partitions[0].current_leader_epoch == 3
    ]
    told = fetches[0][2].partitions[0]
    assert fetches[0][:2] == (COMMON + 3, 2)
    assert (told.diverging_epoch, told.diverging_end_offset) == (2, COMMON)
    assert fetches[1][:2] == (COMMON, 2)


def test_one_that_times_out_first_is_refused_before_it_raises_the_epoch() -> None:
    world, old, new = diverged()
    world.run(9000)
    assert world.quorum(old).role in (Role.PROSPECTIVE, Role.UNATTACHED, Role.RESIGNED)
    assert world.quorum(old).epoch == 2, "cut off, it cannot even begin an epoch (KIP-996)"
    world.heal()
    world.run(6000)
    assert world.quorum(new).epoch == 3
    assert world.said(old, f"Truncated to offset {COMMON} from")


def test_as_a_candidate_in_epoch_4_it_gets_no_vote() -> None:
    """The article's variant: as before pre-votes, it raises the epoch by itself."""
    world, old, _ = diverged()
    member = world.quorum(old)._member
    member.begin(world.now)
    member.become_unattached(3)
    member.become_candidate()
    world.quorum(old)._elections.ask_due()
    assert member.state.epoch == 4
    world.heal()
    world.apply(world.nodes[old], member.out)
    world.run(15_000)
    leader = world.until_leader()
    assert leader != old
    assert world.quorum(leader).epoch > 4, "its epoch was taken note of, so the leader had to go"
    assert world.votes[old, 4] == old
    assert 4 not in world.leaders
    assert world.said(old, f"Truncated to offset {COMMON} from")
    assert [each.data for each in batches(world, old)] == [
        each.data for each in batches(world, leader)
    ]
