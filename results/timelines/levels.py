"""Count the operations by time span, lane and outcome, for time spans of several widths.

A wide view cannot show each of a million operations, so operations are counted in advance. The
coarsest level has 512 spans over the whole run. Each further level has four times as many spans.
The page draws the level whose spans are about one pixel wide. If even the finest spans are wider,
the page itself counts the operations that `blocks.py` packed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from results.timelines.operations import OUTCOMES, Operations

FIRST_SPANS = 512
FACTOR = 4
CLOSE_OPS = 40_000
"""If fewer operations than this are visible, the page unpacks them, so finer levels are not needed.
"""
MAX_CELLS = 1 << 20
_SEEN_SPANS = 256
_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The counts for one width of span.

    Attributes:
        spans: Number of spans over the whole run.
        counts: Array of shape (lanes, spans, outcomes).
    """

    spans: int
    counts: npt.NDArray[np.uint16]


def levels(operations: Operations, end_ns: int) -> list[Level]:
    """Return the counts of operations for each width of time span, the widest spans first.

    Args:
        operations: The run's operations.
        end_ns: End of the run. No operation began after it.
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
    # An unknown outcome is counted as `info`.
    outcome = np.where(operations.outcome < 0, len(OUTCOMES) - 1, operations.outcome)
    cell = (operations.lane * spans + span) * len(OUTCOMES) + outcome
    counts = np.bincount(cell, minlength=lanes * spans * len(OUTCOMES))
    small = np.minimum(counts, _MOST).astype(np.uint16)
    return Level(spans=spans, counts=small.reshape(lanes, spans, len(OUTCOMES)))
