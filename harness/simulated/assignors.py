"""How a group's leader assigns partitions: range, round robin, and cooperative-sticky.

Subscriptions and assignments are bytes that no broker reads. Here the bytes are MessagePack, with
the fields of Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle

from msgspec import Struct
from msgspec.msgpack import decode, encode

from workloads.protocol import Key

RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative-sticky"
ASSIGNORS = (RANGE, ROUND_ROBIN, COOPERATIVE)


class Subscription(Struct, frozen=True, kw_only=True):
    """The subscription that a member sends to the group.

    Attributes:
        topics: The topics that the member wants to read.
        owned: The partitions that are assigned to the member and that it wants to keep.
        generation: The generation in which the member got these partitions; -1 means no generation.
    """

    topics: tuple[str, ...]
    owned: tuple[Key, ...] = ()
    generation: int = -1


Members = Mapping[str, Subscription]
"""The subscription of each member, by the id of the member."""


def packed(told: Subscription | Sequence[Key]) -> bytes:
    """Return a member's subscription, or its assigned partitions, as bytes."""
    return encode(told)


def subscription(data: bytes) -> Subscription:
    """Return a member's subscription from its bytes."""
    return decode(data, type=Subscription)


def assignment(data: bytes) -> list[Key]:
    """Decode the partitions that a member is assigned; empty bytes mean no partitions."""
    return decode(data, type=list[Key]) if data else []


def dealt(assignor: str, members: Members, partitions: Mapping[str, int]) -> dict[str, list[Key]]:
    """Return the partitions that each member gets.

    Args:
        assignor: One of `ASSIGNORS`.
        members: All members of the generation.
        partitions: How many partitions each topic has.
    """
    if assignor == RANGE:
        return _range(members, partitions)
    if assignor == ROUND_ROBIN:
        return _round_robin(members, partitions)
    return _cooperative(members, partitions)


def _range(members: Members, partitions: Mapping[str, int]) -> dict[str, list[Key]]:
    """Assign consecutive partitions of each topic to each member."""
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
    """Assign one partition after another to the members in turn."""
    given: dict[str, list[Key]] = {member: [] for member in members}
    turn = cycle(sorted(members))
    for topic, part in _all_keys(members, partitions):
        member = next(turn)
        while topic not in members[member].topics:
            member = next(turn)
        given[member].append((topic, part))
    return given


def _cooperative(members: Members, partitions: Mapping[str, int]) -> dict[str, list[Key]]:
    """Assign a fair share to each member; prefer the partitions that the member has (KIP-429).

    A partition that must move goes to its new member only after the old member has released it.
    """
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
    """Return the owner of each partition: the member whose claim has the highest generation.

    If two members claim a partition with the same generation, the partition has no owner.
    """
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
