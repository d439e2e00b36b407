"""Find faults that are near the main anomaly, but are not needed to explain a lost write.

The page lists these faults apart from the explanation. A fault is listed apart in two cases:

- It began after the last truncation of the message.
- Between the send and the truncation, none of the brokers that it hit led the partition,
  acknowledged the message or truncated it. In addition, the fault was not in force around an
  election.

Faults that delete records or cause an election always stay in the explanation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from results.page.case import Case
from results.page.cuts import LOSING, Told
from results.record.clock import NS_PER_S
from results.wording.faults import FaultLine
from results.wording.plural import many

_SETTLED_S = 10.0
"""After this many seconds, the session of a failed broker has ended, and so have the effects of a
healed fault."""
_TOLD = {*LOSING, "preferred-election", "unclean-election", "controller-failover", "topic-churn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bystanders:
    """Faults that the explanation of a lost write does not need.

    Attributes:
        faults: The faults, in order.
        because: The reason, in a sentence; empty if there are no such faults.
    """

    faults: tuple[FaultLine, ...] = ()
    because: str = ""


def bystanders(case: Case, near: Sequence[FaultLine], cuts: Sequence[Told]) -> Bystanders:
    """Return the faults that are near a lost write, but are not needed to explain the loss.

    The result is empty for other anomalies.

    Args:
        case: The record's facts about the main anomaly.
        near: The faults around the main anomaly.
        cuts: The truncations that removed the main anomaly's message.
    """
    own = [each for each in cuts if not each.another]
    times = [each.at_s for each in own if each.at_s is not None]
    sent = [row["invoke_ns"] for row in case.sends if row["value"] in case.values[:1]]
    known = [each / NS_PER_S for each in sent if each is not None]
    first = _acknowledgers(case)
    if not first or not known or not times or len(times) < len(own):
        return Bystanders()
    from_s, until_s = min(known), max(times)
    led = {each.leader for each in case.reigns
           if each.from_ns / NS_PER_S <= until_s and each.to_ns / NS_PER_S >= from_s}  # fmt: skip
    cast = first | {each.node for each in own} | {f"n{each}" for each in led if each >= 0}
    elections = [
        each.from_ns / NS_PER_S
        for each in case.reigns
        if from_s - _SETTLED_S <= each.from_ns / NS_PER_S <= until_s
    ]
    late = [each for each in near if each.kind not in LOSING and each.requested_s > until_s]
    elsewhere = [
        each
        for each in near
        if each not in late
        and each.kind not in _TOLD
        and cast.isdisjoint(each.nodes.split(", "))
        and not any(_around(each, at_s) for at_s in elections)
    ]
    if not late and not elsewhere:
        return Bystanders()
    aside = tuple(each for each in near if each in late or each in elsewhere)
    count, whole = many(len(aside), "other fault"), "it" if len(aside) == 1 else "each"
    reasons = ["was requested after the last truncation"] if late else []
    if elsewhere:
        reasons.append(f"hit none of {', '.join(sorted(cast))} and was not in force at an election")
    told = (
        f"{count} near the anomaly, not needed to explain the anomaly: {whole}"
        f" {', or '.join(reasons)}"
    )
    return Bystanders(faults=aside, because=told)


def _acknowledgers(case: Case) -> set[str]:
    evidence = case.example.evidence
    told = evidence.get("may_have_acknowledged")
    named = [str(each).partition(",")[0] for each in told] if isinstance(told, list) else []
    leader = evidence.get("leader_then")
    return {*named, *([f"n{leader}"] if isinstance(leader, int) and leader >= 0 else [])}


def _around(fault: FaultLine, at_s: float) -> bool:
    """Return whether a fault, or its effects after the heal, may overlap an election."""
    over_s = fault.healed_s
    return fault.requested_s <= at_s and (over_s is None or over_s + _SETTLED_S >= at_s)
