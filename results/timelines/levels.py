"""How many operations began in each span of time, by lane and outcome, at several widths of span.

From far away nobody can see single operations of a million. So they are counted here, once: the
coarsest level has 512 spans over the whole run, each further one four times as many. The page draws
the level whose spans are about as wide as a dot, and from the finest one on counts by itself what
`blocks.py` packed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from results.timelines.operations import OUTCOMES, Operations

FIRST_SPANS = 512
FACTOR = 4
CLOSE_OPS = 40_000
"""With fewer operations in sight the page unpacks them; the levels need not go further."""
MAX_CELLS = 1 << 20
_SEEN_SPANS = 256
_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One width of span.

    Attributes:
        spans: How many cover the run.
        counts: Shape (lanes, spans, outcomes).
    """

    spans: int
    counts: npt.NDArray[np.uint16]


def levels(operations: Operations, end_ns: int) -> list[Level]:
    """Return the levels, the coarsest first.

    Args:
        operations: Of a run.
        end_ns: When the run was over: no operation began later.
    """
    lanes = max(1, len(operations.lanes))
    wanted = _SEEN_SPANS * operations.count // CLOSE_OPS
    found = [_level(operations, FIRST_SPANS, end_ns)]
    while found[-1].spans < wanted and found[-1].spans * FACTOR * lanes <= MAX_CELLS:
        found.append(_level(operations, found[-1].spans * FACTOR, end_ns))
    return found


def _level(operations: Operations, spans: int, end_ns: int) -> Level:
    lanes = max(1, len(operations.lanes))
    span = np.minimum(operations.invoke_ns.astype(np.float64) * spans / max(1, end_ns), spans - 1)
    span = np.maximum(span, 0).astype(np.int64)
    # An outcome that is none of the three tells no more than `info`.
    outcome = np.where(operations.outcome < 0, len(OUTCOMES) - 1, operations.outcome)
    cell = (operations.lane * spans + span) * len(OUTCOMES) + outcome
    counts = np.bincount(cell, minlength=lanes * spans * len(OUTCOMES))
    small = np.minimum(counts, _MOST).astype(np.uint16)
    return Level(spans=spans, counts=small.reshape(lanes, spans, len(OUTCOMES)))
