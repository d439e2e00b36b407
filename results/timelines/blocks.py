"""The operations themselves, packed: slices of time that the page unpacks when they are looked at.

A block is a few arrays of 32-bit numbers, column after column, deflated (zlib) and in base64. Its
rows are in order of lane and time; `rows` tells how many each lane has. Numbers that grow by little
are differences to the row before, for those pack better; a number of 64 bits is two columns, its
upper and its lower half.
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
"""More are not taken along one by one; the calmest moments are counted only."""
COLUMNS = (
    "start", "took", "idHigh", "idLow", "process", "kind", "messages", "place", "error",
    "valueHigh", "valueLow", "offsetHigh", "offsetLow", "ordinal",
)  # fmt: skip
"""The order of a block's columns. `start` and `took` are microseconds, the first since the block's
own start; `kind` is f + 8 * outcome + 32 * phase, each 7, 3, 7 if it is another word."""
DIFFERENCES = ("start", "idLow", "process", "valueLow", "offsetLow", "ordinal")
OPEN = 0xFFFF_FFFF
"""What `took` is of an op that never ended."""
NS_PER_US = 1_000
_LEVEL = 6
_HALF = np.int64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some operations that began one after the other.

    Attributes:
        start_us, end_us: When the first and the last of them began, since the run's start.
        count: How many.
        longest_us: None of them took longer, unless it never ended.
        rows: Of each lane.
        data: The columns, packed; empty: they are left out.
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
    """Return the parts that are taken along: all, or those in which most went wrong."""
    wrong = [-int(np.count_nonzero(operations.outcome[part])) for part in parts]
    ranked = sorted(range(len(parts)), key=lambda number: (wrong[number], number))
    return set(ranked[: MOST_OPS // BLOCK_OPS])


def _block(operations: Operations, rows: Ints, *, packed: bool) -> Block:
    """Pack some rows, which are in the order of `operations`: by lane and time."""
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
    """Return columns as text: bytes of like weight side by side, which packs best."""
    small = np.stack([(column & _HALF).astype("<u4") for column in columns])
    planes = small.view(np.uint8).reshape(len(columns), -1, 4).transpose(0, 2, 1)
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), _LEVEL)).decode()


def packed_counts(counts: npt.NDArray[np.uint16]) -> str:
    """Return the counts of a level as text, packed as columns are."""
    planes = counts.astype("<u2").reshape(-1).view(np.uint8).reshape(-1, 2).T
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), _LEVEL)).decode()


assert NONE == -1, "minus one is all bits set, in both halves"  # As the page takes it.
