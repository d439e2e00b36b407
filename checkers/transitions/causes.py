"""Find out why a leader was replaced, from the faults on its node at that time or just before.

A fault that was in force takes precedence over a fault that had just ended. The end of the broker,
with or without a fault, takes precedence over a fault that only slows the broker.

A fault that was in force need not be the cause of the election. But if no fault was in force, no
scheduled fault caused the election. A leader may also be replaced because a fault hit the active
controller or ZooKeeper. At first, the next controller may not know which brokers are alive.
"""

from collections.abc import Mapping

from checkers.broker_ended import ends
from checkers.changes import FOUND_LATE_NS, HANDLES, MEMORY, PROCESSOR, SETTLED_NS
from checkers.facts import Disturbance, RunFacts
from results.record.transitions import CAUSES

Span = tuple[int, int]
"""The start and end of a time span, in nanoseconds since the run's start."""

DISK_FAULT = "leader-disk-fault"
_ENDING = frozenset({"leader-killed", "leader-stopped", DISK_FAULT})
"""The causes after which a broker has ended or may end. After other causes, the broker
continues."""

_KINDS: Mapping[str, str] = {
    **dict.fromkeys(
        ("kill", "power-loss", "controller-failover", "disputed-election", "unclean-election"),
        "leader-killed",
    ),
    **dict.fromkeys(("stop", "rolling-restart"), "leader-stopped"),
    **dict.fromkeys(
        ("wipe", "bit-flip", "disk-full", "read-only"),
        DISK_FAULT,
    ),
    "pause": "leader-paused",
    **dict.fromkeys((HANDLES, MEMORY, PROCESSOR), "leader-starved"),
    "slow-disk": "leader-disk-late",
}
"""The cause for each fault kind, or for each effect of a fault on the target nodes."""
_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("partition", "splits"), "leader-cut-off"),
    **dict.fromkeys(("network", "stall", "connections"), "leader-links-bad"),
    **dict.fromkeys(("disk-errors", "lost-flushes"), DISK_FAULT),
    "slow-disks": "leader-disk-late",
    "clock": "leader-clock-wrong",
}
"""The cause for each fault family, if `_KINDS` has no cause for the fault."""
_CUTS = frozenset({
    "isolate", "halves", "ring", "bridge", "flapping", "one-way-in", "one-way-out", "cut",
})  # fmt: skip
"""The kinds that a script may request without a family. `cut` is the name of a scenario's own
cuts."""
_BETWEEN = frozenset({"bridge", "ring", "cut"})
"""The kinds that also cut links between nodes that are not targets."""
_HALVES = "halves"
REASSIGNING = frozenset({"reassignment"})
ORDERING = frozenset({"preferred-election"}) | REASSIGNING
_KILLS_IN_TURN = "aftermath"
_KEEPER = frozenset({"keeper", "keeper-links"})
_RANKS = {cause: rank for rank, cause in enumerate(CAUSES)}
_TO_CLIENTS = frozenset({"clients", "client-connections", "stall-clients"})


def harm_of(fault: Disturbance) -> str:
    """Return the cause that a fault on the leader's node gives; "" if the fault is not a cause."""
    if fault.family in _KEEPER | _TO_CLIENTS or fault.kind in ORDERING:
        return ""
    if fault.kind in _CUTS:
        return "leader-cut-off"
    if fault.family == _KILLS_IN_TURN:
        return "leader-killed"  # Its row as a whole says that it restarts its targets in turn.
    return _KINDS.get(fault.kind) or _FAMILIES.get(fault.family, "")


def was_ordered(
    facts: RunFacts, place: tuple[str, int], span: Span, kinds: frozenset[str] = ORDERING
) -> bool:
    """Return whether a fault requested an election or a reassignment in a time span."""
    return any(
        each.kind in kinds and each.place in {place, None} and _meets(each, span, 0)
        for each in facts.disturbances
    )


def harms_to(facts: RunFacts, node: str, span: Span) -> frozenset[str]:
    """Return the causes from faults on a node, in a time span or shortly before this span."""
    return _harms([each for each in facts.disturbances if _meets(each, span, SETTLED_NS)], node)


def cause_of(facts: RunFacts, node: str, span: Span, place: tuple[str, int] | None = None) -> str:
    """Return why a leader was replaced, as a name in `CAUSES`.

    Args:
        facts: The run's facts.
        node: The node of the replaced leader.
        span: The earliest and the latest possible time of the next election.
        place: The partition. None means the quorum.
    """
    lasting = _harms([each for each in facts.disturbances if _meets(each, span, 0)], node)
    if ending := lasting & _ENDING:
        return _worst(ending)
    if _ended(facts, node, span):
        return DISK_FAULT if DISK_FAULT in harms_to(facts, node, span) else "leader-ended"
    if lasting:
        return _worst(lasting)
    if place and was_ordered(facts, place, span):
        return "ordered"
    if harms := harms_to(facts, node, span):
        return _worst(harms)
    return "controller-hit" if place and _was_controller_hit(facts, span) else "unexplained"


def _was_controller_hit(facts: RunFacts, span: Span) -> bool:
    """Return whether a fault hit the active controller or ZooKeeper.

    The fault must have been in force in the time span, or shortly before it.
    """
    return any(
        each.family in _KEEPER or (each.controller and bool(harm_of(each)))
        for each in facts.disturbances
        if _meets(each, span, SETTLED_NS)
    )


def _meets(fault: Disturbance, span: Span, later_ns: int) -> bool:
    from_ns, by_ns = span
    return fault.begun_ns <= by_ns and from_ns - later_ns <= fault.ended_ns


def _harms(faults: list[Disturbance], node: str) -> frozenset[str]:
    return frozenset(harm_of(each) for each in faults if node in _hit(each)) - {""}


def _worst(harms: frozenset[str]) -> str:
    return min(harms, key=_RANKS.__getitem__)


def _hit(fault: Disturbance) -> frozenset[str]:
    """Return the nodes that a fault hit, and other nodes between which the fault cut links.

    If a fault splits the nodes into two parts, the nodes of the smaller part count as hit. If the
    parts are equal, all nodes count as hit.
    """
    equal = fault.kind == _HALVES and len(fault.ends) == 2 * len(fault.nodes)
    return fault.ends if equal or fault.kind in _BETWEEN else fault.nodes


def _ended(facts: RunFacts, node: str, span: Span) -> bool:
    """Return whether a broker was found to have ended by itself around the time of an election."""
    return any(
        each.node == node
        and not (each.outside or each.told)
        and span[0] - SETTLED_NS <= each.seen_ns <= span[1] + FOUND_LATE_NS
        for each in ends(facts)
    )
