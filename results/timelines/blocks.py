"""Single operations, packed in blocks by time. The page unpacks a block when a reader zooms in.

A block consists of columns of 32-bit numbers. The columns are concatenated, compressed with zlib
and encoded in base64. The rows are sorted by lane, and then by time. `rows` has the number of rows
in each lane. Columns that grow slowly are stored as differences to the previous row, because
differences compress better. A 64-bit number takes two columns, for its upper and lower half.
"""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from results.timelines.operations import NONE, Ints, Operations

BLOCK_OPS = 16_384
MOST_OPS = 2_000_000
"""Maximum number of operations of which the page has the details. If there are more, the operations
in the blocks with the fewest failures are only counted."""
COLUMNS = (
    "start", "took", "idHigh", "idLow", "process", "kind", "messages", "place", "error",
    "valueHigh", "valueLow", "offsetHigh", "offsetLow", "ordinal",
)  # fmt: skip
"""The order of a block's columns. `start` and `took` are microseconds; `start` counts from the
block's start. `kind` is f + 8 * outcome + 32 * phase; the numbers of unknown words are 7, 3 and
7."""
DIFFERENCES = ("start", "idLow", "process", "valueLow", "offsetLow", "ordinal")
OPEN = 0xFFFF_FFFF
"""The value of `took` for an op that never ended."""
NS_PER_US = 1_000
_LEVEL = 6
_HALF = np.int64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of operations that began one after another.

    Attributes:
        start_us, end_us: When the first operation and when the last operation began, in
            microseconds since the run's start.
        count: Number of operations.
        longest_us: Longest duration of an operation that ended.
        rows: Number of operations in each lane.
        data: The packed columns; empty if they are left out.
    """

    start_us: int
    end_us: int
    count: int
    longest_us: int
    rows: tuple[int, ...]
    data: str


def blocks(operations: Operations) -> Iterator[Block]:
    """Yield the blocks of a run in order of time."""
    by_time = np.argsort(operations.invoke_ns, kind="stable")
    parts = [by_time[at : at + BLOCK_OPS] for at in range(0, len(by_time), BLOCK_OPS)]
    kept = _kept(operations, parts)
    for number, part in enumerate(parts):
        yield _block(operations, np.sort(part), packed=number in kept)


def _kept(operations: Operations, parts: list[Ints]) -> set[int]:
    """Return the indexes of the blocks to pack: all, or only the blocks with the most failures."""
    wrong = [-int(np.count_nonzero(operations.outcome[part])) for part in parts]
    ranked = sorted(range(len(parts)), key=lambda number: (wrong[number], number))
    return set(ranked[: MOST_OPS // BLOCK_OPS])


def _block(operations: Operations, rows: Ints, *, packed: bool) -> Block:
    """Pack the given rows of `operations`. The rows are sorted by lane, and then by time."""
    starts = operations.invoke_ns[rows] // NS_PER_US
    ended = operations.complete_ns[rows]
    took = np.where(ended < 0, 0, np.maximum(ended // NS_PER_US - starts, 0))
    first = int(starts.min())
    columns = _columns(operations, rows, starts - first) if packed else {}
    columns["took"] = np.where(ended < 0, OPEN, np.minimum(took, OPEN - 1))
    counts = np.bincount(operations.lane[rows], minlength=len(operations.lanes))
    return Block(
        start_us=first,
        end_us=int(starts.max()),
        count=len(rows),
        longest_us=int(took.max()),
        rows=tuple(counts.tolist()),
        data=_packed([columns[name] for name in COLUMNS]) if packed else "",
    )


def _columns(operations: Operations, rows: Ints, starts: Ints) -> dict[str, Ints]:
    columns = {
        "start": starts,
        "idHigh": operations.op_id[rows] >> 32,
        "idLow": operations.op_id[rows],
        "process": operations.process[rows],
        "kind": (operations.f[rows] & 7)
        + ((operations.outcome[rows] & 3) << 3)
        + ((operations.phase[rows] & 7) << 5),
        "messages": operations.messages[rows],
        "place": operations.place[rows],
        "error": operations.error[rows],
        "valueHigh": operations.value[rows] >> 32,
        "valueLow": operations.value[rows],
        "offsetHigh": operations.offset[rows] >> 32,
        "offsetLow": operations.offset[rows],
        "ordinal": operations.ordinal[rows],
    }
    for name in DIFFERENCES:
        columns[name] = np.diff(columns[name], prepend=0)
    return columns


def _packed(columns: list[Ints]) -> str:
    """Return columns as text; bytes of equal significance are grouped, which compresses better."""
    small = np.stack([(column & _HALF).astype("<u4") for column in columns])
    planes = small.view(np.uint8).reshape(len(columns), -1, 4).transpose(0, 2, 1)
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), _LEVEL)).decode()


def packed_counts(counts: npt.NDArray[np.uint16]) -> str:
    """Return the counts of a level as text, packed like columns."""
    planes = counts.astype("<u2").reshape(-1).view(np.uint8).reshape(-1, 2).T
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), _LEVEL)).decode()


assert NONE == -1, "minus one is all bits set, in both halves"  # The page relies on this.
