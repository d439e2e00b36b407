"""Events that may disturb a partition, with their times: faults, elections, restarts, silences."""

import numpy as np
import pyarrow as pa

from checkers.columns import NEVER, Ints, ints, present, select, texts
from checkers.disk_losses import Json, heal_begun_ns, json_object, was_begun
from checkers.facts import Disturbance, RunFacts
from checkers.group import Group
from results.record.declared import Sight
from results.record.milestones import ENDED

SETTLED_NS = 10_000_000_000
"""The maximum delay after the last heal until every process knows the newest leader."""
TOLD_LATE_NS = 5_000_000_000
"""The maximum delay until an election or a restart is reported, on a busy machine."""
FOUND_LATE_NS = 5_000_000_000
"""The maximum delay until a server's end is recorded: two successive checks must see the end."""


_ENDS = frozenset({"kill", "stop", "pause", "rolling-restart"})
_IN_TURN = {"rolling": "rolling-restart"}
"""The first part of a rolling fault's name. A rolling fault ends its targets in turn."""
HANDLES, PROCESSOR, MEMORY = "handles", "processor", "memory"
"""The resources that a fault can take from a broker, as kinds of the measured effect."""
_DEEDS = _ENDS | {HANDLES, PROCESSOR, MEMORY}
_OF_KEEPER = frozenset({"keeper", "keeper-links"})
"""The families of faults that hit ZooKeeper."""
_OF_CLIENTS = "client-connections"
"""The family of faults that break single connections of clients."""


def deeds(faults: pa.Table) -> list[str]:
    """Return each fault's effect on servers: an effect of `_DEEDS`, or else the fault's kind.

    If the measured effect is not in `_DEEDS`, or nothing was measured, the effect is taken from the
    name of the fault. For a fault that hits ZooKeeper, the result is always the fault's kind. Such
    a fault stops no broker, so no broker takes over from another.
    """
    did = [str(json_object(effect).get("kind")) for effect in texts(faults, "effect")]
    kinds, of_keeper = texts(faults, "kind"), takes_keeper(faults)
    meant = [
        next((word for word in (deed, *_words(kind)) if word in _DEEDS), kind)
        for kind, deed in zip(kinds, did, strict=True)
    ]
    return [
        kind if apart else deed for kind, deed, apart in zip(kinds, meant, of_keeper, strict=True)
    ]


def _words(kind: str) -> list[str]:
    """Return the parts of a fault kind's name.

    For a rolling fault, return only its effect, `rolling-restart`.
    """
    first, *others = kind.split("-")
    return [_IN_TURN[first]] if first in _IN_TURN else [first, *others]


def takes_keeper(faults: pa.Table) -> list[bool]:
    """Return, for each fault, whether it belongs to a family that hits ZooKeeper."""
    return [str(json_object(spec).get("family")) in _OF_KEEPER for spec in texts(faults, "spec")]


def disturbances(faults: pa.Table) -> tuple[Disturbance, ...]:
    """Return the faults that may have been in force, confirmed or not, with their times."""
    begun = select(faults, was_begun(faults) & present(faults, "requested_ns"))
    healed = np.where(present(begun, "healed_ns"), ints(begun, "healed_ns"), NEVER)
    times = (ints(begun, name).tolist() for name in ("requested_ns", "confirmed_ns", "healed_ns"))
    rows = zip(
        deeds(begun), *times, healed.tolist(), texts(begun, "heal_effect"),
        begun["targets"].to_pylist(), map(json_object, texts(begun, "spec")), strict=True,
    )  # fmt: skip
    return tuple(
        Disturbance(
            kind=kind,
            begun_ns=at,
            ended_ns=end,
            confirmed_ns=seen,
            healing_ns=heal_begun_ns(heal, over) if over >= 0 else -1,
            nodes=frozenset(nodes or ()),
            family=str(spec.get("family") or ""),
            strikes=_strikes(spec, json_object(heal)),
            place=_place(spec.get("place")),
            controller=_led_controllers(spec.get("roles")),
            ends=_ends(spec.get("links")),
        )
        for kind, at, seen, over, end, heal, nodes, spec in rows
    )


def _place(told: object) -> tuple[str, int] | None:
    """Return the topic and the partition that a fault's row names."""
    pair = told if isinstance(told, list) else []
    topic, partition = pair if len(pair) == len(("topic", "partition")) else (None, None)
    return (topic, partition) if isinstance(topic, str) and isinstance(partition, int) else None


def _led_controllers(roles: object) -> bool:
    """Return whether a target was the active controller when the fault began."""
    return isinstance(roles, dict) and roles.get("controller") is True


def _ends(links: object) -> frozenset[str]:
    """Return the nodes at both ends of the links that a fault's row names."""
    told = [each for each in links if isinstance(each, list)] if isinstance(links, list) else []
    return frozenset(node for link in told for node in link if isinstance(node, str))


def _strikes(spec: Json, heal: Json) -> int:
    """Return how often a fault reset connections of clients; -1 if unknown.

    For a fault that resets connections repeatedly, the heal's row lists the resets. Without that
    row, the number is unknown. The result is 0 for a fault of another family. It is also 0 for a
    healed fault that resets no connections.
    """
    strikes = heal.get("strikes", [])
    if spec.get("family") != _OF_CLIENTS:
        return 0
    return len(strikes) if "took_s" in heal and isinstance(strikes, list) else -1


def ended_meanwhile(
    facts: RunFacts, answers: pa.Table, beside: frozenset[str], span: tuple[int, int]
) -> bool:
    """Return whether a server that is not in `beside` was down in a period by its own end.

    A server that ended before the period may stay down until the heal of everything. It counts
    unless it answered between its end and the period. A server that never answers counts only if it
    ended in the period.

    Args:
        facts: The run's context.
        answers: The servers' answers: the column `node` or `observer`, and `observed_ns`.
        beside: The servers that do not count.
        span: The start and the end of the period.
    """
    names = texts(answers, "node" if "node" in answers.column_names else "observer")
    nodes, seen_ns = np.array(names, dtype=object), ints(answers, "observed_ns")
    ends = [
        (each.detail.get("node"), each.at_ns)
        for each in facts.milestones
        if each.name == ENDED and each.detail.get("node") not in beside
    ]
    return any(
        (span[0] if node not in nodes else 0) <= at_ns <= span[1] + FOUND_LATE_NS
        and not ((nodes == node) & (seen_ns > at_ns) & (seen_ns <= span[0])).any()
        for node, at_ns in ends
    )


def was_quiet(group: Group, since_ns: int, until_ns: int) -> bool:
    """Return whether a period was free of known events that may have delayed or lost answers.

    The period must be in the main phase or later. No fault may have been in force during the period
    or shortly before it. No new leader epoch, and no new process of a broker, may have been first
    reported in the period or within 5 s of it. No broker may have ended by itself, and the machine
    must have been awake. If times, epochs or restarts were not reported, the result is false.
    """
    late_ns = min(until_ns, NEVER - TOLD_LATE_NS) + TOLD_LATE_NS
    return was_left_alone(group.facts, since_ns, until_ns) and not (
        elected(group, since_ns - TOLD_LATE_NS, late_ns)
        or restarted(group, since_ns - TOLD_LATE_NS, late_ns)
    )


def seemed_quiet(group: Group, since_ns: int, until_ns: int) -> bool:
    """Return whether a period was quiet as in `was_quiet`, as far as the system can show this.

    If the system never reports epochs or restarts, the function ignores the conditions on epochs or
    restarts.
    """
    facts = group.facts
    late_ns = min(until_ns, NEVER - TOLD_LATE_NS) + TOLD_LATE_NS
    span = (since_ns - TOLD_LATE_NS, late_ns)
    return was_left_alone(facts, since_ns, until_ns) and not (
        (facts.shows(Sight.LEADER_EPOCHS) and elected(group, *span))
        or (tells_restarts(facts) and restarted(group, *span))
    )


def was_left_alone(facts: RunFacts, since_ns: int, until_ns: int) -> bool:
    """Return True if the whole period, and a short time before it, had no fault in force.

    The period must not begin before the main phase. No broker may have ended by itself since the
    period's start, and the machine must have been awake.
    """
    main = facts.milestone("main")
    if main is None or since_ns < main.at_ns or until_ns < since_ns:
        return False
    asleep = any(begun <= until_ns and since_ns <= ended for begun, ended in facts.silences)
    # An ended broker is noticed late, and the next leader may never be reported.
    ended = any(each.name == ENDED and since_ns <= each.at_ns for each in facts.milestones)
    return not (disturbed(facts, since_ns, until_ns) or asleep or ended)


def elected(group: Group, since_ns: int, until_ns: int = NEVER) -> bool:
    """Return whether a leader epoch was first reported in a period; true if no epoch is known.

    The lowest known epoch does not count. An epoch has no time if only logs show it. If such an
    epoch is above all epochs in brokers' answers, it began after the last answer of some broker.
    For any other epoch without a time, the result is true. A broker's stop at the run's end also
    moves leadership.
    """
    rows = group.table("leadership")
    epochs, seen_ns = ints(rows, "leader_epoch"), ints(rows, "observed_ns")
    if not (epochs >= 0).any():
        return True
    told = epochs <= epochs[seen_ns >= 0].max(initial=epochs[epochs >= 0].min())
    if not told.all() and last_word_ns(group) <= until_ns:
        return True
    return _changed(epochs[told], seen_ns[told], (since_ns, until_ns))


def first_told_ns(group: Group, epoch: int) -> int:
    """Return the time at which a leader epoch was first reported; -1 if unknown.

    If only logs show the epoch, and all reported epochs are lower, return a time before the epoch
    began.
    """
    rows = group.table("leadership")
    times = ints(rows, "observed_ns")[ints(rows, "leader_epoch") == epoch]
    if (times >= 0).any():
        return int(times[times >= 0].min())
    epochs, seen_ns = ints(rows, "leader_epoch"), ints(rows, "observed_ns")
    return last_word_ns(group) if epoch > epochs[seen_ns >= 0].max(initial=-1) else -1


def last_word_ns(group: Group) -> int:
    """Return the time after which at least one broker no longer reported the leader.

    The result is -1 if a broker never reported the leader.
    """
    rows = group.table("leadership")
    observers, seen_ns = np.array(texts(rows, "observer")), ints(rows, "observed_ns")
    nodes = [f"n{broker}" for broker in group.facts.brokers]
    return min(int(seen_ns[observers == node].max(initial=-1)) for node in nodes)


def tells_restarts(facts: RunFacts) -> bool:
    """Return whether the system can show that a broker's process was restarted."""
    return {Sight.HIGH_WATERMARKS, Sight.ENDS} <= facts.declared.sees


def restarted(group: Group, since_ns: int, until_ns: int = NEVER) -> bool:
    """Return whether a broker's restart was first reported in a period.

    The result is also true if the system cannot show restarts.
    """
    if not tells_restarts(group.facts):
        return True
    states = group.table("replica_states")
    nodes = np.array(states["node"].to_pylist(), dtype=np.str_)
    lives, seen_ns = ints(states, "incarnation"), ints(states, "observed_ns")
    return any(
        _changed(lives[nodes == node], seen_ns[nodes == node], (since_ns, until_ns))
        for node in set(nodes)
    )


def disturbed(facts: RunFacts, since_ns: int, until_ns: int, *, kind: str | None = None) -> bool:
    """Return whether a fault was in force in a period or shortly before that period.

    Args:
        facts: The run's context.
        since_ns: The start of the period.
        until_ns: The end of the period.
        kind: Consider only faults of this kind. None: all faults.
    """
    return any(
        kind in {None, each.kind}
        and each.begun_ns <= until_ns
        and since_ns - SETTLED_NS <= each.ended_ns
        for each in facts.disturbances
    )


def _changed(numbers: Ints, seen_ns: Ints, span: tuple[int, int]) -> bool:
    """Return whether a number increased in a period, or at an unknown time."""
    told = numbers >= 0
    numbers, seen_ns = numbers[told], seen_ns[told]
    since_ns, until_ns = span
    fresh = numbers > numbers.min(initial=NEVER)
    for number in np.unique(numbers[fresh]).tolist():
        times = seen_ns[(numbers == number) & (seen_ns >= 0)]
        if not len(times) or since_ns <= int(times.min()) <= until_ns:
            return True
    return False
