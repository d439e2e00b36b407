"""The difficulty levels of a fault schedule, and the order in which a search tries them. Pure.

Level 0 is the default schedule. The higher levels have a schedule of their own
(`nemesis/escalated.py`). Four rules hold at every level. A fault that destroys records begins
alone. Two faults on the same aspect of a node exclude each other (`nemesis.claims`). Each fault's
effect is measured. The main phase ends with time for the cluster to settle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from results.record.terms import Validity


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The rules of a level.

    Attributes:
        pace: The factor by which the plan's interval between faults is multiplied: 0.5 means half
            the interval.
        moments: The share of faults that are held only for a moment, at most 4.2 s (`MIN_HOLD_S`).
            Most of these holds are shorter than the default session timeout (3 s). Faults of the
            third and further lanes that disable nodes or their links are all held only so long.
        aftermath: Whether the next fault of a lane is due soon after the planned heal of the
            previous fault, before the cluster is healthy. About half of the faults that can hit any
            node then hit a node that has just come back or has just been elected, if there is one.
        lanes: The number of simultaneous faults that disable nodes or their links.
        spares_majority: Whether the second fault hits only the one process that already has a
            fault, so that a majority stays healthy.
        says: The difference from the level below, as text.
        lull_s: Seconds without a new fault at the end of each `LULL_EVERY_S`. Without such lulls, a
            level that may disable a majority would disable it nearly always. Then no message would
            be acknowledged, and none could be lost.
    """

    pace: float
    moments: float
    aftermath: bool
    lanes: int
    spares_majority: bool
    says: str
    lull_s: float = 0.0


LEVELS = (
    Level(
        pace=1, moments=0, aftermath=False, lanes=1, spares_majority=True,
        says="the default schedule",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=False, lanes=1, spares_majority=True,
        says="more often: half the interval; one fault in three is very short",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=True, lanes=1, spares_majority=True,
        says="aftermaths: a fault may begin at the planned heal of the previous fault; about"
             " half of the faults hit nodes that are just back, or that were just elected",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=True, lanes=2, spares_majority=True,
        says="two at once on one node: a second fault changes another aspect of a node that"
             " already has a fault; a majority stays without faults",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=True, lanes=2, spares_majority=False,
        lull_s=6,
        says="two at once on any nodes: a majority may be down",
    ),
    Level(
        pace=1 / 2, moments=1 / 2, aftermath=True, lanes=3, spares_majority=False,
        lull_s=6,
        says="three at once; every second fault is very short",
    ),
    Level(
        pace=1 / 4, moments=3 / 4, aftermath=True, lanes=4, spares_majority=False,
        lull_s=6,
        says="four at once, at a quarter of the interval; three in four faults are very short",
    ),
)  # fmt: skip
"""The levels. The index is the level's number."""
LULL_EVERY_S = 20.0


def after_lull(at_s: float, lull_s: float) -> float:
    """Return the time at which a due fault can start: now, or at the end of the current lull.

    Args:
        at_s: Seconds from the start of the main phase.
        lull_s: The length of each lull in seconds. 0 means that there are no lulls.
    """
    over_s = (at_s // LULL_EVERY_S + 1) * LULL_EVERY_S
    return over_s if at_s >= over_s - lull_s else at_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Climbed:
    """A finished run of a search through the levels.

    Attributes:
        level: The level of the run's plan.
        valid: The verdict of the run.
        quiet: Whether too little traffic is the only reason for the verdict `unknown`. Such a run
            does not count against the level.
    """

    level: int
    valid: Validity
    quiet: bool = False


def next_level(history: Sequence[Climbed], *, first: int = 0) -> int | None:
    """Return the level of the next run, or None if the search has ended.

    Runs that are valid or quiet pass; all others fail. The level rises by one after each run, until
    a run fails or the highest level is reached. Then the last level with a valid run is run once
    more.

    Args:
        history: The runs so far, in order.
        first: The first level.
    """
    if not history:
        return first
    last = history[-1]
    if any(each.level >= last.level for each in history[:-1]):
        return None  # The last level was already repeated.
    broke = last.valid is not Validity.VALID and not last.quiet
    if not broke and last.level < len(LEVELS) - 1:
        return last.level + 1
    held = [each.level for each in history if each.valid is Validity.VALID]
    return held[-1] if held else None
