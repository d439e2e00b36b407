"""How hard faults come: levels, each harder than the one before, and the way up. Pure.

A run at level 0 is dealt what it always was. The others have a deal of their own
(`nemesis/escalated.py`). Whatever the level, what takes records begins alone, faults of one aspect
exclude each other on a node, each fault proves itself, and the main phase ends with time to settle.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from results.record.terms import Validity


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How faults of a level are dealt.

    Attributes:
        pace: By so much the plan's interval between faults is shorter: 0.5 is half of it.
        moments: Which share of the faults is held for moments, shorter than a broker's session.
        aftermath: Whether the next fault of a lane is due at the planned heal of the last one,
            before the cluster is whole, and strikes those who have just come back, or been elected.
        lanes: How many faults are in force side by side that take nodes, or their links.
        spares_majority: Whether the second one hits only the one process that is known to be hit
            already, so that a majority stays whole.
        says: What is new in it, for people.
        lull_s: So long no fault begins at the end of each `LULL_EVERY_S`: where a
            majority may be gone, it would else be gone nearly always, and what is never
            acknowledged is never lost.
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
        says="as faults are dealt by default",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=False, lanes=1, spares_majority=True,
        says="denser: half of the interval, and one fault in three is held for moments only",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=True, lanes=1, spares_majority=True,
        says="aftermaths: the next fault begins at the planned heal of the last one at the"
        " earliest, and strikes every second time those who have just come back or been elected",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=True, lanes=2, spares_majority=True,
        says="two at once on one node: a second fault, of another aspect, strikes who is hit"
        " already; a majority stays whole",
    ),
    Level(
        pace=1 / 2, moments=1 / 3, aftermath=True, lanes=2, spares_majority=False,
        lull_s=6,
        says="two at once on any nodes: a majority may be gone",
    ),
    Level(
        pace=1 / 2, moments=1 / 2, aftermath=True, lanes=3, spares_majority=False,
        lull_s=6,
        says="three at once, every second for moments only",
    ),
    Level(
        pace=1 / 4, moments=3 / 4, aftermath=True, lanes=4, spares_majority=False,
        lull_s=6,
        says="four at once, in a quarter of the interval; three in four are held for moments only",
    ),
)  # fmt: skip
"""By number."""
LULL_EVERY_S = 20.0


def after_lull(at_s: float, lull_s: float) -> float:
    """Return when a fault may begin that is due: at once, or when a lull is over.

    Args:
        at_s: Seconds from the start of the main phase.
        lull_s: How long each lull is; 0: there is none.
    """
    over_s = (at_s // LULL_EVERY_S + 1) * LULL_EVERY_S
    return over_s if at_s >= over_s - lull_s else at_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Climbed:
    """A run on the way up.

    Attributes:
        level: Of its plan.
        valid: Its verdict.
        quiet: Whether that is unknown for too little traffic alone: it says nothing of the level.
    """

    level: int
    valid: Validity
    quiet: bool = False


def next_level(history: Sequence[Climbed], *, first: int = 0) -> int | None:
    """Return the level of the next run; None: the way is over.

    It goes up by one until a run breaks: one that is not valid, unless it was quiet. After that
    one, or the highest level, the last level that held is played once more.

    Args:
        history: What was played, in order.
        first: Where it begins.
    """
    if not history:
        return first
    last = history[-1]
    if any(each.level >= last.level for each in history[:-1]):
        return None  # It went back already.
    broke = last.valid is not Validity.VALID and not last.quiet
    if not broke and last.level < len(LEVELS) - 1:
        return last.level + 1
    held = [each.level for each in history if each.valid is Validity.VALID]
    return held[-1] if held else None
