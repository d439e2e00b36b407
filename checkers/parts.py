"""Divide the files of a large writer or node into parts of similar size, one for each task.

A unit is one writer with its streams, or one node with its replicas. A writer numbers its ops in
order. So each part of a writer's streams has the rows of a range of ops. An op and its results are
in the same part. Streams without ops are divided by position. A node is divided by replica.

If a stream is broken at some position, only the rows before it count. `shortened` returns the parts
that must be read again because of such a break.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from checkers.columns import Ints
from checkers.ingest import BrokenStream, Part, Unit, broken_stream, stream_paths
from results.record.spans import Span, has_ops, spans
from results.record.tables import BROKEN

PART_BYTES = 128 << 20
"""The approximate number of bytes that one task reads from streams or log segments."""
_TOGETHER = frozenset({"faults"})
"""The small tables that one task reads as a whole."""
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def node_parts(unit: Unit, replicas: Mapping[str, int], part_bytes: int) -> list[Unit]:
    """Divide a node's files into parts of at most about `part_bytes`.

    Each replica is in one part.

    Args:
        unit: The node.
        replicas: The bytes of each replica's segments, by the name of the replica's folder.
        part_bytes: The approximate size of a part. A replica is never divided.
    """
    shares: list[list[str]] = [[]]
    filled = 0
    for folder, size in sorted(replicas.items()):
        if shares[-1] and filled + size > part_bytes:
            shares.append([])
            filled = 0
        shares[-1].append(folder)
        filled += size
    return [
        replace(unit, part=Part(
            number=at, parts=len(shares), folders=tuple(share),
            bytes=sum(replicas[each] for each in share),
        ))
        for at, share in enumerate(shares)
    ]  # fmt: skip


def writer_parts(unit: Unit, part_bytes: int) -> tuple[list[Unit], list[BrokenStream]]:
    """Divide a writer's streams into parts by op ids.

    Args:
        unit: The writer.
        part_bytes: The approximate size of a part in bytes.

    Returns:
        The parts, and the streams that could not be read to their end.
    """
    found: dict[str, list[Span]] = {}
    broken: list[BrokenStream] = []
    of_ops: set[str] = set()
    for path in stream_paths(unit):
        known = found.setdefault(path.name, [])
        if has_ops(path):
            of_ops.add(path.name)
        try:
            known.extend(spans(path))
        except BROKEN as cut:
            broken.append(broken_stream(unit, path, cut, _MOST))
    streams = {name: _Stream(known) for name, known in found.items()}
    total = sum(int(each.sizes.sum()) for each in streams.values())
    count = max(1, -(-total // part_bytes))
    bounds = _bounds([streams[name] for name in sorted(of_ops)], count)
    ops = [(int(low), int(high) - 1) for low, high in pairwise([_LEAST, *bounds, _MOST])]
    ops[-1] = (ops[-1][0], _MOST)
    if not of_ops:
        ops *= count
    shares = {
        name: each.by_ops(ops) if name in of_ops else each.by_place(name, len(ops))
        for name, each in streams.items()
    }
    return [
        replace(unit, part=Part(
            number=at, parts=len(ops), ops=each,
            spans={name: share[at] for name, share in shares.items() if share[at]},
            bytes=sum(streams[name].bytes_at(share[at]) for name, share in shares.items()),
        ))
        for at, each in enumerate(ops)
    ], broken  # fmt: skip


class _Stream:
    """The spans (messages or row groups, with their op ids) of one stream, as column arrays."""

    def __init__(self, known: Iterable[Span]) -> None:
        rows = [(each.at, each.size, each.low, each.high) for each in known]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        self.at, self.sizes, self.low, self.high = columns

    def bytes_at(self, places: Sequence[int]) -> int:
        """Return the total number of bytes of the spans at the given positions."""
        return int(self.sizes[np.isin(self.at, places)].sum())

    def by_ops(self, ops: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
        """Return, for each range of op ids, the positions of the spans that may hold such ops."""
        return [
            tuple(self.at[(self.high >= low) & (self.low <= high)].tolist()) for low, high in ops
        ]

    def by_place(self, name: str, count: int) -> list[tuple[int, ...]]:
        """Divide the spans into `count` shares of similar size.

        Return the positions in each share.
        """
        before = np.cumsum(self.sizes) - self.sizes
        share = before * count // max(1, int(self.sizes.sum()))
        if name.partition(".")[0] in _TOGETHER:
            share = np.zeros_like(share)
        return [tuple(self.at[share == number].tolist()) for number in range(count)]


def _bounds(streams: Sequence[_Stream], count: int) -> list[int]:
    """Return the op ids that divide the streams into at most `count` parts of similar size."""
    if not streams:
        return []
    low = np.concatenate([each.low for each in streams])
    sizes = np.concatenate([each.sizes for each in streams])
    known = low > _LEAST
    low, sizes = low[known], sizes[known]
    if not len(low):
        return []
    order = np.argsort(low, kind="stable")
    below: Ints = np.cumsum(sizes[order])
    wanted = below[-1] * np.arange(1, count) // count
    found = np.unique(low[order][np.searchsorted(below, wanted)])
    return [int(each) for each in found if each > low.min()]


def shortened(
    parts: Sequence[Unit], broken: Iterable[BrokenStream]
) -> tuple[dict[int, Unit], dict[str, BrokenStream]]:
    """Return, for each part that read beyond a stream's break, a part that ends at the break.

    Args:
        parts: The parts of one writer.
        broken: The breaks that were found in the writer's streams.

    Returns:
        Two mappings: the parts that must be read again, by their number; and the first break of
            each stream.
    """
    first: dict[str, BrokenStream] = {}
    for each in broken:
        known = first.get(each.stream)
        if known is None or each.at < known.at:
            first[each.stream] = each
    again: dict[int, Unit] = {}
    for number, unit in enumerate(parts):
        assert unit.part is not None, "they are parts"
        kept = _before(unit.part.spans, first)
        if kept != unit.part.spans:
            again[number] = replace(unit, part=replace(unit.part, spans=kept))
    return again, first


def _before(
    places: Mapping[str, tuple[int, ...]], broken: Mapping[str, BrokenStream]
) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(at for at in each if name not in broken or at < broken[name].at)
        for name, each in places.items()
    }
