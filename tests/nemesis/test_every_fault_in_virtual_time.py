"""Every kind of fault in virtual time, by the nemesis that ships, as the machines themselves show.

A kind without a proof fails. What cannot be in virtual time would be refused by name. A test module
of a fault brings its proof along as `SHOWS_OF = [("kind", cuts_only((1, 2)))]`.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cluster.hosts.abilities import abilities_of, able
from cluster.protocol import Ability
from cluster.reference.simulator.network import CLIENT
from nemesis.registry import KINDS
from results.record.plan import SIMULATED
from tests.held import collected
from tests.nemesis.simulated_room import Shows, SimulatedRoom, Story, cuts_only, now, plan_of_room

PLAYABLE = {
    name: kind
    for name, kind in KINDS.items()
    if kind.suits(plan_of_room()) and Ability.RESOURCES not in kind.needs
}
"""All but what takes a ZooKeeper, which the reference cluster does without, or a kernel."""
CLAIMED = tuple(name for name in PLAYABLE if KINDS[name].needs <= able(abilities_of(SIMULATED)))
OFF_BY_S = 0.001


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Story]:
    room = SimulatedRoom(tmp_path_factory.mktemp("simulated"))
    room.play(CLAIMED)
    assert room.trouble == []
    return room.stories


def _both_ways(*links: tuple[int, int]) -> Shows:
    return cuts_only(*links, *((b, a) for a, b in links))


def _one_pair(story: Story) -> bool:
    pairs = [{frozenset(link) for link in look} for look in story.looks]
    return all(len(each) == 1 and len(look) == 2 for each, look in zip(pairs, story.looks))  # noqa: B905


def _flaps(story: Story) -> bool:
    around = {(1, 2), (2, 1), (2, 3), (3, 2)}
    phases = [cut for cut, _ in itertools.groupby(map(bool, story.looks))]
    return len(phases) > 2 and all(look in (set(), around) for look in story.looks)


def _client_cut(story: Story) -> bool:
    (target,) = story.row.targets
    node = int(target.removeprefix("n"))
    return _both_ways((CLIENT, node))(story)


def _worse(what: str, by: float) -> Shows:
    return lambda story: all(look[what] - story.before[what] > by for look in story.looks)


def _narrower(story: Story) -> bool:
    return all(look["kbit"] < 1100 < story.before["kbit"] for look in story.looks)


def _each_stopped_in_turn(story: Story) -> bool:
    never_two = all(sum("gone" in state for state in look.values()) < 2 for look in story.looks)
    starts = [[int(look[node].split()[0]) for node in look] for look in story.looks]
    before = [int(was.split()[0]) for was in story.before.values()]
    return never_two and starts[-1] == [start + 1 for start in before]


def _replica(look: Mapping[str, Any], story: Story) -> tuple[bytes, int, str]:
    found: tuple[bytes, int, str] = look[story.row.targets[0]]
    return found


def _has_no_power(story: Story) -> bool:
    return all(_replica(look, story)[2].endswith("off") for look in story.looks)


def _has_no_log(story: Story) -> bool:
    empty = all(_replica(look, story)[0] == b"" for look in story.looks)
    return empty and _replica(story.before, story)[0] != b""


def _has_another_bit(story: Story) -> bool:
    """Tell whether one bit of what was there before is another, or the broker found it so."""
    before, found, _ = _replica(story.before, story)

    def differs(look: Mapping[str, Any]) -> bool:
        data, said, _ = _replica(look, story)
        bits = sum((a ^ b).bit_count() for a, b in zip(before, data, strict=False))
        return bits == 1 or said > found

    return all(map(differs, story.looks))


def _refuses(error: str) -> Shows:
    return lambda story: (
        story.before == ("", "runs") and all(look == (error, "gone") for look in story.looks)
    )


def _takes_long(story: Story) -> bool:
    return bool(max(story.looks) > 10 * story.before > 0)


def _is_wrong(story: Story) -> bool:
    others = all(abs(look[n]) < OFF_BY_S for look in story.looks for n in ("n1", "n3"))
    return others and max(abs(look["n2"]) for look in story.looks) > 1


def _first_leads(story: Story) -> bool:
    leader, epoch, replicas = story.looks[-1]
    return bool(leader == replicas[0] != story.before[0] and epoch > story.before[1])


def _elsewhere(story: Story) -> bool:
    return set(story.looks[-1][2]) != set(story.before[2])


def _another_leads_the_quorum(story: Story) -> bool:
    controller, processes = story.looks[-1]
    return controller not in {None, story.before[0]} and "gone" in processes[story.before[0]]


def _who_was_behind_leads(story: Story) -> bool:
    now = story.looks[-1]
    return now[0] is not None and now[1] > story.before[1]


def _several_were_struck(story: Story) -> bool:
    """Tell whether more than one node was started again, and that more than once altogether."""

    def starts(look: Mapping[str, str]) -> dict[str, int]:
        return {node: int(state.split()[0]) for node, state in look.items()}

    before, now = starts(story.before), starts(story.looks[-1])
    more = [now[node] - before[node] for node in now]
    return sum(more) > 1 and sum(each > 0 for each in more) > 1


def _has_more(story: Story) -> bool:
    return any(look > story.before for look in story.looks)


PROOFS: Mapping[str, Shows] = {
    "isolate": _both_ways((1, 2), (2, 3)),
    "halves": _both_ways((1, 2), (2, 3)),
    "one-way-in": cuts_only((1, 2), (3, 2)),
    "one-way-out": cuts_only((2, 1), (2, 3)),
    "ring": _one_pair,
    "bridge": _both_ways((1, 3)),
    "flapping": _flaps,
    "client-cut": _client_cut,
    "delay": _worse("least_ms", 45),
    "jitter": _worse("spread_ms", 20),
    "loss": _worse("lost", 0.03),
    "duplicate": _worse("doubled", 0.01),
    "reorder": _worse("overtaken", 0.03),
    "bandwidth": _narrower,
    "kill": now("gone"),
    "stop": now("gone"),
    "pause": now("stands"),
    "rolling-restart": _each_stopped_in_turn,
    "power-loss": _has_no_power,
    "wipe": _has_no_log,
    "bit-flip": _has_another_bit,
    "disk-full": _refuses("No space left on device"),
    "read-only": _refuses("Read-only file system"),
    "slow-disk": _takes_long,
    "clock-offset": _is_wrong,
    "clock-drift": _is_wrong,
    "clock-strobe": _is_wrong,
    "preferred-election": _first_leads,
    "reassignment": _elsewhere,
    "controller-failover": _another_leads_the_quorum,
    "unclean-election": _who_was_behind_leads,
    "disputed-election": _several_were_struck,
    "topic-churn": _has_more,
    **dict(collected("SHOWS_OF", folder="tests/nemesis")),
}


LASTING = ("rolling-restart", "unclean-election", "disputed-election", "bit-flip")
"""Of which something is left that no heal takes back: a start, an epoch, a batch that was found."""


def test_every_kind_is_claimed_and_has_a_proof() -> None:
    faulty = {name for name, kind in KINDS.items() if Ability.FAULTY_DISK in kind.needs}
    assert set(PROOFS) == set(CLAIMED) == set(PLAYABLE) - faulty


@pytest.mark.parametrize("kind", CLAIMED)
def test_a_fault_is_confirmed_shows_and_is_healed(stories: Mapping[str, Story], kind: str) -> None:
    story = stories[kind]
    assert story.row.confirmed_ns is not None, story.row.spec.without_effect
    assert story.row.healed_ns is not None, story.row.spec.not_healed
    assert story.failed == ()
    assert story.looks
    assert PROOFS[kind](story), (story.before, story.looks[-1])
    assert not PROOFS[kind](_unhurt(story, [story.before])), "the proof proves nothing"
    if kind not in LASTING:
        assert not PROOFS[kind](_unhurt(story, [story.after])), "it is still there"


def _unhurt(story: Story, looks: Sequence[Any]) -> Story:
    return Story(before=story.before, looks=[*looks], after=story.before, row=story.row)
