"""How a simulated group's leader deals: everything once, fairly, and without moving much."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.simulated.assignors import (
    ASSIGNORS,
    COOPERATIVE,
    RANGE,
    ROUND_ROBIN,
    Subscription,
    assignment,
    dealt,
    packed,
    subscription,
)
from workloads.protocol import Key

TOPICS = st.dictionaries(st.sampled_from(("a", "b", "c")), st.integers(1, 9), min_size=1)
MEMBERS = st.lists(st.sampled_from("uvwxyz"), min_size=1, unique=True)


def joined(
    names: list[str], topics: Mapping[str, int], owned: Mapping[str, list[Key]], generation: int
) -> dict[str, Subscription]:
    return {
        name: Subscription(
            topics=tuple(topics), owned=tuple(owned.get(name, ())), generation=generation
        )
        for name in names
    }


@settings(deadline=None)
@given(topics=TOPICS, names=MEMBERS, assignor=st.sampled_from(ASSIGNORS))
def test_each_partition_is_given_once_and_nobody_gets_much_more(
    topics: dict[str, int], names: list[str], assignor: str
) -> None:
    given_to = dealt(assignor, joined(names, topics, {}, -1), topics)
    every = [key for keys in given_to.values() for key in keys]
    assert sorted(every) == [(topic, n) for topic in sorted(topics) for n in range(topics[topic])]
    sizes = [len(keys) for keys in given_to.values()]
    assert max(sizes) - min(sizes) <= (len(topics) if assignor == RANGE else 1)


@settings(deadline=None)
@given(topics=TOPICS, before=MEMBERS, after=MEMBERS)
def test_a_cooperative_rebalance_ends_with_its_second_round(
    topics: dict[str, int], before: list[str], after: list[str]
) -> None:
    first = dealt(COOPERATIVE, joined(before, topics, {}, -1), topics)
    stayed = {name: first[name] for name in after if name in first}
    second = dealt(COOPERATIVE, joined(after, topics, stayed, 1), topics)
    owners = {key: name for name, keys in stayed.items() for key in keys}
    for name, keys in second.items():  # Nobody gets what another one still has.
        assert all(owners.get(key, name) == name for key in keys)
    third = dealt(COOPERATIVE, joined(after, topics, second, 2), topics)
    assert sorted(key for keys in third.values() for key in keys) == [
        (topic, n) for topic in sorted(topics) for n in range(topics[topic])
    ]
    assert all({*second[name]} <= {*third[name]} for name in after), "nothing moves twice"
    sizes = [len(keys) for keys in third.values()]
    assert max(sizes) - min(sizes) <= 1


def test_of_two_who_claim_a_partition_the_later_generation_has_it() -> None:
    claims = {
        "old": Subscription(topics=("a",), owned=(("a", 0),), generation=3),
        "new": Subscription(topics=("a",), owned=(("a", 0),), generation=4),
    }
    assert dealt(COOPERATIVE, claims, {"a": 1}) == {"new": [("a", 0)], "old": []}
    alike = {name: Subscription(topics=("a",), owned=(("a", 0),), generation=3) for name in claims}
    assert dealt(COOPERATIVE, alike, {"a": 1}) == {"new": [("a", 0)], "old": []}


def test_ranges_are_neighbours_and_cards_are_dealt_in_turn() -> None:
    two = joined(["x", "y"], {"a": 3, "b": 1}, {}, -1)
    partitions = {"a": 3, "b": 1}
    assert dealt(RANGE, two, partitions) == {"x": [("a", 0), ("a", 1), ("b", 0)], "y": [("a", 2)]}
    assert dealt(ROUND_ROBIN, two, partitions) == {
        "x": [("a", 0), ("a", 2)], "y": [("a", 1), ("b", 0)],
    }  # fmt: skip


def test_what_is_packed_is_read_again() -> None:
    told = Subscription(topics=("a", "b"), owned=(("a", 1), ("b", 0)), generation=4)
    assert subscription(packed(told)) == told
    assert assignment(packed([("a", 1), ("b", 0)])) == [("a", 1), ("b", 0)]
    assert assignment(b"") == []
