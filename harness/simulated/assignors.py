"""How a group's leader deals partitions: range, round robin, and cooperative and sticky.

What members tell of themselves, and what they are given, are bytes that no broker reads: here they
hold what Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment do, as MessagePack.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle

from msgspec import Struct
from msgspec.msgpack import decode, encode

from workloads.protocol import Key

RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative-sticky"
ASSIGNORS = (RANGE, ROUND_ROBIN, COOPERATIVE)


class Subscription(Struct, frozen=True, kw_only=True):
    """What a member tells the group.

    Attributes:
        topics: What it wants to read.
        owned: What it has, and would keep.
        generation: In which it was given that; -1: in none.
    """

    topics: tuple[str, ...]
    owned: tuple[Key, ...] = ()
    generation: int = -1


Members = Mapping[str, Subscription]
"""By member id."""


def packed(told: Subscription | Sequence[Key]) -> bytes:
    """Return what a member sends, or the partitions that it is sent."""
    return encode(told)


def subscription(data: bytes) -> Subscription:
    """Return what a member of this kind sent."""
    return decode(data, type=Subscription)


def assignment(data: bytes) -> list[Key]:
    """Return the partitions that a member was sent; no bytes: none."""
    return decode(data, type=list[Key]) if data else []


def dealt(assignor: str, members: Members, partitions: Mapping[str, int]) -> dict[str, list[Key]]:
    """Return which member gets what.

    Args:
        assignor: One of `ASSIGNORS`.
        members: All of the generation.
        partitions: How many each topic has.
    """
    if assignor == RANGE:
        return _range(members, partitions)
    if assignor == ROUND_ROBIN:
        return _round_robin(members, partitions)
    return _cooperative(members, partitions)


def _range(members: Members, partitions: Mapping[str, int]) -> dict[str, list[Key]]:
    """Give each member neighbouring partitions of each topic."""
    given: dict[str, list[Key]] = {member: [] for member in members}
    for topic in _topics(members):
        readers = sorted(member for member, told in members.items() if topic in told.topics)
        least, more = divmod(partitions.get(topic, 0), len(readers))
        first = 0
        for number, member in enumerate(readers):
            behind = first + least + (number < more)
            given[member] += [(topic, part) for part in range(first, behind)]
            first = behind
    return given


def _round_robin(members: Members, partitions: Mapping[str, int]) -> dict[str, list[Key]]:
    """Deal one partition after another, as cards."""
    given: dict[str, list[Key]] = {member: [] for member in members}
    turn = cycle(sorted(members))
    for topic, part in _all_keys(members, partitions):
        member = next(turn)
        while topic not in members[member].topics:
            member = next(turn)
        given[member].append((topic, part))
    return given


def _cooperative(members: Members, partitions: Mapping[str, int]) -> dict[str, list[Key]]:
    """Let members keep as much as is fair; what must move is given when it was let go (KIP-429)."""
    keys = _all_keys(members, partitions)
    owners = _owners(members, keys)
    held: dict[str, list[Key]] = {member: [] for member in members}
    for key in keys:
        if key in owners:
            held[owners[key]].append(key)
    least, more = divmod(len(keys), len(members))
    given: dict[str, list[Key]] = {}
    for member in sorted(members, key=lambda each: (-len(held[each]), each)):
        room = least + (more > 0 and len(held[member]) > least)
        more -= room - least
        given[member] = held[member][:room]
    kept = {key for each in given.values() for key in each}
    for key in keys:
        if key not in kept:
            taker = min(given, key=lambda each: (len(given[each]), each))
            given[taker].append(key)
    return {
        member: [key for key in each if owners.get(key, member) == member]
        for member, each in given.items()
    }


def _owners(members: Members, keys: Sequence[Key]) -> dict[Key, str]:
    """Return who has what; of two who say so the one of the later generation, or nobody."""
    known, owners = {*keys}, dict[Key, str]()
    since: dict[Key, int] = {}
    for member, told in sorted(members.items()):
        for key in told.owned:
            if key not in known or told.generation < since.get(key, -1):
                continue
            if key in since and told.generation == since[key]:
                owners.pop(key, None)
                continue
            owners[key], since[key] = member, told.generation
    return owners


def _all_keys(members: Members, partitions: Mapping[str, int]) -> list[Key]:
    return [(topic, part) for topic in _topics(members) for part in range(partitions.get(topic, 0))]


def _topics(members: Members) -> list[str]:
    return sorted({topic for told in members.values() for topic in told.topics})
