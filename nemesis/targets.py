"""Targets of a fault: names and roles, which are resolved to nodes when the fault starts.

An expression has one of these forms:

- a node (`n2`);
- a number of brokers (`one`, `minority`, `majority`, `all`);
- a role in a partition (`leader(log-0,1)`, `follower`, `followers`, `replicas`, `isr`, `last-isr`);
- a role among the nodes that keep the metadata (`controller`, `quorum-leader`, `quorum-voter`,
  `quorum-voters`);
- a broker that is not the active controller (`not-controller`);
- all brokers and controllers (`servers`);
- ZooKeeper (`keeper`);
- the coordinator of a group or of a transactional id (`coordinator(log-0)`).

If a role names no partition or id, a random partition or id of the run is chosen when the fault
starts. All functions are pure: the caller passes the metadata view, the coordinator and the random
source.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from cluster.protocol import ClusterError, ClusterView, CoordinatorKind, PartitionState
from nemesis.roster import Coordinated, Roster
from results.record.plan import PlanError

TopicPartition = tuple[str, int]
Find = Callable[[Coordinated], str | None]
"""The type of a function that returns the coordinator of a group or transactional id, or None."""

_EXPRESSION = re.compile(
    r"(?P<word>[a-z][a-z0-9-]*)(\((?P<of>[^(),]+)(,(?P<partition>\d{1,9}))?\))?"
)


class NoTargetError(ClusterError):
    """No node has the role now. The message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed target expression.

    Attributes:
        word: The node's name, or the role.
        topic_partition: The partition of a partition role. None means a random partition.
        coordinated: The groups or transactional ids of a coordinator role. The fault chooses one of
            them.
    """

    word: str
    topic_partition: TopicPartition | None = None
    coordinated: tuple[Coordinated, ...] = ()


def _leader(state: PartitionState) -> Collection[str]:
    return [] if state.leader is None else [state.leader]


def _followers(state: PartitionState) -> Collection[str]:
    # Without a leader there are no followers.
    return [] if state.leader is None else [n for n in state.replicas if n != state.leader]


def _last_isr(state: PartitionState) -> Collection[str]:
    return state.isr if len(state.isr) == 1 else []


_IN_PARTITION: dict[str, tuple[Callable[[PartitionState], Collection[str]], bool]] = {
    "leader": (_leader, False),
    "follower": (_followers, False),
    "followers": (_followers, True),
    "replicas": (lambda state: state.replicas, True),
    "isr": (lambda state: state.isr, False),
    "last-isr": (_last_isr, False),
}
"""For each partition role: a function that returns the nodes with this role, and whether the role
means all of them or one."""

PARTITION_ROLES = frozenset(_IN_PARTITION)
"""Roles in a partition, such as `leader(log-0,1)`."""

_OF_SIZE: dict[str, Callable[[int], int]] = {
    "one": lambda _: 1,
    "minority": lambda count: (count - 1) // 2,
    "majority": lambda count: count // 2 + 1,
    "all": lambda count: count,
}

OF_FOLLOWERS = ("follower", "followers")
"""If a partition has only one replica, no node has these roles."""
QUORUM_VOTERS = "quorum-voters"
"""The role of all nodes that keep the metadata."""
SERVERS = "servers"
"""The role of all brokers and all separate controllers."""
KEEPER = "keeper"
"""The role of ZooKeeper, which has kinds of faults of its own."""
ON_CONTROLLERS = ("controller", "quorum-leader", "quorum-voter", QUORUM_VOTERS, SERVERS)
"""Roles that can mean separate controllers, if the cluster has them."""
_OF_QUORUM = ("controller", "not-controller", "quorum-leader", "quorum-voter", QUORUM_VOTERS)
COORDINATOR = "coordinator"

ROLES = (*_OF_SIZE, SERVERS, KEEPER, *_IN_PARTITION, *_OF_QUORUM, COORDINATOR)


def parse_target(expression: str, roster: Roster) -> Target:
    """Parse a target expression, and check that it is possible in this cluster.

    Args:
        expression: The text in a plan: `leader(log-0,1)`.
        roster: All possible targets.

    Raises:
        PlanError: The expression is wrong. The message has the reason and a remedy.
    """
    match = _EXPRESSION.fullmatch(expression.replace(" ", ""))
    if match is None:
        raise PlanError(
            f"target {expression!r} is not valid; write a node or a role, such as n1,"
            " one or leader(log-0,1)"
        )
    word, of, partition = match["word"], match["of"], match["partition"]
    if word == COORDINATOR and partition is None:
        return Target(word=word, coordinated=_coordinated(expression, of, roster))
    if of is None:
        _check_word(word, roster)
        return Target(word=word)
    if word not in _IN_PARTITION or partition is None:
        raise PlanError(f"target {expression!r}: {_what_it_takes(word)}")
    place = (of, int(partition))
    if place not in roster.partitions:
        raise PlanError(
            f"target {expression!r}: the plan has no partition {_place(place)}; use"
            f" {_place(min(roster.partitions))} to {_place(max(roster.partitions))}"
        )
    return Target(word=word, topic_partition=place)


def resolve_target(
    target: Target, view: ClusterView | None, rng: Random, *, roster: Roster, find: Find
) -> tuple[str, ...]:
    """Return the nodes that match a target expression now, sorted.

    Args:
        target: A parsed expression.
        view: The cluster's metadata. None if no node answers.
        rng: The source of a random choice among the nodes with the role.
        roster: All possible targets.
        find: Returns coordinators.

    Raises:
        NoTargetError: No node has the role now.
    """
    nodes = roster.nodes
    if target.word in roster.everybody:
        return (target.word,)
    if target.word in _OF_SIZE:
        return _drawn(sorted(nodes), _OF_SIZE[target.word](len(nodes)), rng)
    if target.word in (among := _listed(roster)):
        listed = among[target.word]
        return _drawn(sorted(listed), 1 if target.word == "quorum-voter" else len(listed), rng)
    if target.word == COORDINATOR:
        return _coordinator(rng.choice(target.coordinated), find)
    if view is None:
        raise NoTargetError(f"no node answers, so it is unknown which node is {target.word}")
    if target.word in _OF_QUORUM:
        return _of_quorum(target.word, view.controller, nodes, rng)
    return _in_partition(target, view, nodes, rng)


def _listed(roster: Roster) -> Mapping[str, tuple[str, ...]]:
    """Return the roles that need no metadata, and the nodes of each."""
    return {
        SERVERS: roster.everybody,
        KEEPER: roster.outside,
        QUORUM_VOTERS: roster.voters,
        "quorum-voter": roster.voters,
    }


def replaceable(view: ClusterView | None, nodes: Collection[str]) -> frozenset[TopicPartition]:
    """Return the partitions that the nodes lead, and that another in-sync replica could lead."""
    states = {} if view is None else view.partitions
    return frozenset(
        place
        for place, state in states.items()
        if state.leader in nodes and not set(state.isr) <= set(nodes)
    )


def led_by_others(
    view: ClusterView | None, places: Collection[TopicPartition], nodes: Collection[str]
) -> bool:
    """Return whether all partitions have leaders outside `nodes`. False if no node answers."""
    known = None if view is None else view.partitions
    return known is not None and all(
        known[place].leader not in {None, *nodes} for place in places if place in known
    )


def _check_word(word: str, roster: Roster) -> None:
    nodes = roster.nodes
    if word not in ROLES and word not in roster.everybody:
        raise PlanError(
            f"target {word!r} is neither a node ({', '.join(roster.everybody)})"
            f" nor a role ({', '.join(ROLES)})"
        )
    if word in _OF_SIZE and not _OF_SIZE[word](len(nodes)):
        raise PlanError(f"target {word!r}: with {len(nodes)} nodes there is no {word}; use one")
    if word == KEEPER and not roster.outside:
        raise PlanError(
            f"target {word!r}: this plan has no ZooKeeper, because a KRaft quorum keeps the"
            " metadata; use controller"
        )
    if word.startswith("quorum-") and not roster.voters:
        raise PlanError(
            f"target {word!r}: this plan has no KRaft quorum, because ZooKeeper keeps the"
            " metadata; use controller"
        )


def _what_it_takes(word: str) -> str:
    if word in _IN_PARTITION:
        return f"{word!r} needs a topic and a partition: write {word}(log-0,1)"
    return f"{word!r} does not accept a partition"


def _coordinated(expression: str, key: str | None, roster: Roster) -> tuple[Coordinated, ...]:
    """Return the group or transactional id that a coordinator role names, or else all."""
    if key is not None:
        own = [each for each in roster.coordinated if each.key == key]
        return (own[0] if own else Coordinated(kind=CoordinatorKind.GROUP, key=key),)
    if not roster.coordinated:
        raise PlanError(
            f"target {expression!r}: the workload has neither groups nor transactions; name a"
            " group with coordinator(GROUP), or use --workload groups or txn"
        )
    return roster.coordinated


_COORDINATED = {
    CoordinatorKind.GROUP: "group",
    CoordinatorKind.TRANSACTION: "transactional id",
    CoordinatorKind.SHARE: "state of the share group",
}


def _coordinator(of: Coordinated, find: Find) -> tuple[str, ...]:
    node = find(of)
    if node is None:
        what = _COORDINATED[of.kind]
        raise NoTargetError(f"the coordinator of the {what} {of.key} is not known now")
    return (node,)


def _of_quorum(
    word: str, controller: str | None, nodes: Sequence[str], rng: Random
) -> tuple[str, ...]:
    if controller is None:
        raise NoTargetError("no controller is known now")
    if word != "not-controller":
        return (controller,)
    others = [node for node in sorted(nodes) if node != controller]
    if not others:
        raise NoTargetError(f"{controller} is the controller and the only node")
    return _drawn(others, 1, rng)


def _in_partition(
    target: Target, view: ClusterView, nodes: Sequence[str], rng: Random
) -> tuple[str, ...]:
    holders, all_of_them = _IN_PARTITION[target.word]
    states = [state for place, state in sorted(view.partitions.items()) if _meant(target, place)]
    held = [
        [node for node in sorted(nodes) if node in holders(state)]
        for state in states
        if holders(state)
    ]
    if not held:
        where = _place(target.topic_partition) if target.topic_partition else "any partition"
        seen = f" (ISR {','.join(states[0].isr)})" if len(states) == 1 else ""
        raise NoTargetError(f"no node is {target.word} of {where} now{seen}")
    chosen = held[0] if target.topic_partition else rng.choice(held)
    return tuple(chosen) if all_of_them else _drawn(chosen, 1, rng)


def _meant(target: Target, place: TopicPartition) -> bool:
    if target.topic_partition is not None:
        return place == target.topic_partition
    return not place[0].startswith("__")  # Not Kafka's internal topics.


def _drawn(nodes: Sequence[str], count: int, rng: Random) -> tuple[str, ...]:
    return tuple(sorted(rng.sample(nodes, min(count, len(nodes)))))


def _place(place: TopicPartition) -> str:
    return f"{place[0]}-{place[1]}"
