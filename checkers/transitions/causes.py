"""Why a leader was replaced: the faults that were in force at its node, or had just been.

A fault in force counts before one that was just over, and what ends a broker, by itself or by a
fault, before what slows it.
That a fault was in force does not prove that it caused the election; that none was proves that none
of the schedule did. A leader whose node nothing had hit may have been replaced because the active
controller was: the next one knows nobody alive yet.
"""

from collections.abc import Mapping

from checkers.broker_ended import ends
from checkers.changes import FOUND_LATE_NS, HANDLES, MEMORY, PROCESSOR, SETTLED_NS
from checkers.facts import Disturbance, RunFacts
from results.record.transitions import CAUSES

Span = tuple[int, int]
"""From when to when something happened, in nanoseconds since the run's start."""

DISK_FAULT = "leader-disk-fault"
_ENDING = frozenset({"leader-killed", "leader-stopped", DISK_FAULT})
"""After these a broker is gone, or may go; after the others it goes on."""

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
"""By what a fault did to its targets, or its kind."""
_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("partition", "splits"), "leader-cut-off"),
    **dict.fromkeys(("network", "stall", "connections"), "leader-links-bad"),
    **dict.fromkeys(("disk-errors", "lost-flushes"), DISK_FAULT),
    "slow-disks": "leader-disk-late",
    "clock": "leader-clock-wrong",
}
"""By its family, where its kind says nothing."""
_CUTS = frozenset({
    "isolate", "halves", "ring", "bridge", "flapping", "one-way-in", "one-way-out", "cut",
})  # fmt: skip
"""Kinds that a script may order without a family; `cut` is what a story's own cuts are called."""
_BETWEEN = frozenset({"bridge", "ring", "cut"})
"""Kinds that cut links between others than their targets, too."""
_HALVES = "halves"
REASSIGNING = frozenset({"reassignment"})
ORDERING = frozenset({"preferred-election"}) | REASSIGNING
_KILLS_IN_TURN = "aftermath"
_KEEPER = frozenset({"keeper", "keeper-links"})
_RANKS = {cause: rank for rank, cause in enumerate(CAUSES)}
_TO_CLIENTS = frozenset({"clients", "client-connections", "stall-clients"})


def harm_of(fault: Disturbance) -> str:
    """Return what a fault did to the node of a leader, as a cause; empty: nothing that counts."""
    if fault.family in _KEEPER | _TO_CLIENTS or fault.kind in ORDERING:
        return ""
    if fault.kind in _CUTS:
        return "leader-cut-off"
    if fault.family == _KILLS_IN_TURN:
        return "leader-killed"  # As a whole it is told to restart its targets in turn.
    return _KINDS.get(fault.kind) or _FAMILIES.get(fault.family, "")


def was_ordered(
    facts: RunFacts, place: tuple[str, int], span: Span, kinds: frozenset[str] = ORDERING
) -> bool:
    """Tell whether a fault was ordering an election, or a reassignment, of a partition."""
    return any(
        each.kind in kinds and each.place in {place, None} and _meets(each, span, 0)
        for each in facts.disturbances
    )


def harms_to(facts: RunFacts, node: str, span: Span) -> frozenset[str]:
    """Return what faults did to a node at some time or shortly before, as causes."""
    return _harms([each for each in facts.disturbances if _meets(each, span, SETTLED_NS)], node)


def cause_of(facts: RunFacts, node: str, span: Span, place: tuple[str, int] | None = None) -> str:
    """Return why a leader was replaced, a name in `CAUSES`.

    Args:
        facts: Of the run.
        node: Of the last leader.
        span: When the next one was elected: not before, and by when.
        place: The partition; None: the quorum.
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
    """Tell whether a fault hit the active controller at some time or shortly before."""
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
    """Return the nodes that a fault hit; of cuts between others than its target, these.

    Of two halves the smaller one is cut off; of equal halves, either may be.
    """
    equal = fault.kind == _HALVES and len(fault.ends) == 2 * len(fault.nodes)
    return fault.ends if equal or fault.kind in _BETWEEN else fault.nodes


def _ended(facts: RunFacts, node: str, span: Span) -> bool:
    """Tell whether a broker ended by itself before an election, as far as it was found out."""
    return any(
        each.node == node
        and not (each.outside or each.told)
        and span[0] - SETTLED_NS <= each.seen_ns <= span[1] + FOUND_LATE_NS
        for each in ends(facts)
    )
