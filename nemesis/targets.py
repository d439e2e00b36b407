"""Whom a fault hits: names and roles, resolved at the moment of the fault.

An expression is a node (`n2`), a number of nodes (`one`, `minority`, `majority`, `all`), a role in
a partition (`leader(log-0,1)`, `follower`, `followers`, `isr`, `last-isr`), or a role among the
controllers (`controller`, `not-controller`). A role without its partition is that of a partition
that is drawn when the fault starts. Pure: the view and the random source are handed in.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random

from cluster.protocol import ClusterError, ClusterView, PartitionState
from results.record.plan import PlanError

TopicPartition = tuple[str, int]

_EXPRESSION = re.compile(r"(?P<word>[a-z][a-z0-9-]*)(\((?P<topic>[^(),]+),(?P<partition>\d+)\))?")


class NoTargetError(ClusterError):
    """Nobody holds the role now; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target expression, parsed.

    Attributes:
        word: The node's name, or the role.
        topic_partition: Of a role in a partition; None: draw one.
    """

    word: str
    topic_partition: TopicPartition | None = None


def _leader(state: PartitionState) -> Collection[str]:
    return [] if state.leader is None else [state.leader]


def _followers(state: PartitionState) -> Collection[str]:
    # Without a leader nobody follows.
    return [] if state.leader is None else [n for n in state.replicas if n != state.leader]


def _last_isr(state: PartitionState) -> Collection[str]:
    return state.isr if len(state.isr) == 1 else []


_IN_PARTITION: dict[str, tuple[Callable[[PartitionState], Collection[str]], bool]] = {
    "leader": (_leader, False),
    "follower": (_followers, False),
    "followers": (_followers, True),
    "isr": (lambda state: state.isr, False),
    "last-isr": (_last_isr, False),
}
"""Who holds a role in a partition, and whether all of them are meant or one that is drawn."""

PARTITION_ROLES = frozenset(_IN_PARTITION)
"""Roles that are held in a partition: `leader(log-0,1)`."""

_OF_SIZE: dict[str, Callable[[int], int]] = {
    "one": lambda _: 1,
    "minority": lambda count: (count - 1) // 2,
    "majority": lambda count: count // 2 + 1,
    "all": lambda count: count,
}

_OF_QUORUM = ("controller", "not-controller")

ROLES = (*_OF_SIZE, *_IN_PARTITION, *_OF_QUORUM)


def parse_target(
    expression: str, nodes: Sequence[str], partitions: Collection[TopicPartition]
) -> Target:
    """Parse an expression and see that it can mean somebody in this cluster.

    Args:
        expression: As in a plan: `leader(log-0,1)`.
        nodes: The cluster's nodes.
        partitions: The plan's topic-partitions.

    Raises:
        PlanError: What is wrong with it, and what would do.
    """
    match = _EXPRESSION.fullmatch(expression.replace(" ", ""))
    if match is None:
        raise PlanError(f"target {expression!r} is not of the form n1, one or leader(log-0,1)")
    word = match["word"]
    if match["topic"] is None:
        _check_word(word, nodes)
        return Target(word=word)
    place = (match["topic"], int(match["partition"]))
    if word not in _IN_PARTITION:
        raise PlanError(f"target {expression!r}: {word!r} takes no partition")
    if place not in partitions:
        raise PlanError(
            f"target {expression!r}: the plan has no partition {_place(place)}; it has"
            f" {_place(min(partitions))} to {_place(max(partitions))}"
        )
    return Target(word=word, topic_partition=place)


def resolve_target(
    target: Target, view: ClusterView | None, nodes: Sequence[str], rng: Random
) -> tuple[str, ...]:
    """Return the nodes that an expression means now, in order.

    Args:
        target: A parsed expression.
        view: What the cluster says of itself; None if nobody answers.
        nodes: The cluster's nodes.
        rng: Draws among those who hold the role.

    Raises:
        NoTargetError: Nobody holds the role now.
    """
    if target.word in nodes:
        return (target.word,)
    if target.word in _OF_SIZE:
        return _drawn(sorted(nodes), _OF_SIZE[target.word](len(nodes)), rng)
    if view is None:
        raise NoTargetError(f"no node answers, so nobody is known as {target.word}")
    if target.word in _OF_QUORUM:
        return _of_quorum(target.word, view.controller, nodes, rng)
    return _in_partition(target, view, nodes, rng)


def _check_word(word: str, nodes: Sequence[str]) -> None:
    if word not in ROLES and word not in nodes:
        raise PlanError(
            f"target {word!r} is neither a node ({', '.join(nodes)})"
            f" nor a role ({', '.join(ROLES)})"
        )
    if word in _OF_SIZE and not _OF_SIZE[word](len(nodes)):
        raise PlanError(f"target {word!r}: no node is a {word} of {len(nodes)}; use one")


def _of_quorum(
    word: str, controller: str | None, nodes: Sequence[str], rng: Random
) -> tuple[str, ...]:
    if controller is None:
        raise NoTargetError("no controller is known now")
    if word == "controller":
        return (controller,)
    others = [node for node in sorted(nodes) if node != controller]
    if not others:
        raise NoTargetError(f"{controller} is the only node, and the controller")
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
        raise NoTargetError(f"nobody is {target.word} of {where} now{seen}")
    chosen = held[0] if target.topic_partition else rng.choice(held)
    return tuple(chosen) if all_of_them else _drawn(chosen, 1, rng)


def _meant(target: Target, place: TopicPartition) -> bool:
    if target.topic_partition is not None:
        return place == target.topic_partition
    return not place[0].startswith("__")  # Kafka's own topics carry none of our values.


def _drawn(nodes: Sequence[str], count: int, rng: Random) -> tuple[str, ...]:
    return tuple(sorted(rng.sample(nodes, min(count, len(nodes)))))


def _place(place: TopicPartition) -> str:
    return f"{place[0]}-{place[1]}"
