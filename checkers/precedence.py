"""A graph of ops, and the smallest circles in it.

Ops are nodes, what one op shows to have been before another is an edge: dependencies, and, where a
search asks for them, the order of a process and real-time order. An order has as many edges as it
has pairs, so it is drawn as a chain beside the ops: an op leads to its own place in the chain, each
place to the next one, and to the ops that come right behind. That is linear, and a path along the
chain is one edge of the order.

Strongly connected components are scipy's. The smallest circle in one is looked for from dependency
edges: back from its end to its beginning, first directly, then by the shortest path. Work is
bounded: in a component of millions only a few beginnings are tried, which then need not give the
smallest circle of all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from checkers.columns import NONE, Ints, Mask, distinct, runs_of, stack

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_STEP, _ALONG = 1.0, 2.0**-40
"""Lengths of an edge and of a step along a chain; the steps of any chain add up to far below 1."""
_WORK = 4_000_000
"""So many edges may be looked at for the smallest circle of one component, about."""
_REACHES = (4.5, 16.5, np.inf)
"""How far a shortest path is looked for, before looking farther."""


class Order(StrEnum):
    """What puts ops in order beside their dependencies."""

    PROCESS = "process"
    REALTIME = "realtime"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays have no one answer to ==.
class Precedence:
    """Ops and their dependencies; columns.

    Attributes:
        ops: Ids, ascending.
        processes, invoked, ended: One entry an op; -1 where it is not known, or did not end.
        sources, targets: Of each dependency: places in `ops`.
        kinds: Of each dependency.
        rows: Of each dependency: which row told it.
    """

    ops: Ints
    processes: Ints
    invoked: Ints
    ended: Ints
    sources: Ints
    targets: Ints
    kinds: Ints
    rows: Ints

    def with_edges(self, mask: Mask) -> "Precedence":
        """Return the same ops with some of the dependencies."""
        sources, targets, kinds, rows = (
            column[mask] for column in (self.sources, self.targets, self.kinds, self.rows)
        )
        return replace(self, sources=sources, targets=targets, kinds=kinds, rows=rows)

    def part(self, nodes: Ints, edges: Ints) -> "Precedence":
        """Return some of the ops, and dependencies between them (places of both, ascending)."""
        return Precedence(
            ops=self.ops[nodes],
            processes=self.processes[nodes],
            invoked=self.invoked[nodes],
            ended=self.ended[nodes],
            sources=np.searchsorted(nodes, self.sources[edges]),
            targets=np.searchsorted(nodes, self.targets[edges]),
            kinds=self.kinds[edges],
            rows=self.rows[edges],
        )


Hop = tuple[int, int, str]
"""Places of two ops, and the order that puts the first before the second; "" for a dependency."""


def components(graph: Precedence, orders: Iterable[Order]) -> Ints:
    """Return the number of each op's strongly connected component, -1 if it is alone in it."""
    count = len(graph.ops)
    if not count:
        return np.zeros(0, dtype=np.int64)
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - runs without it are many

    matrix, _ = _matrix(graph, tuple(orders))
    _, found = connected_components(matrix, directed=True, connection="strong")
    mine = np.asarray(found[:count], dtype=np.int64)
    return np.where(np.bincount(mine)[mine] > 1, mine, NONE)


def entangled(graph: Precedence) -> Mask:
    """Tell which ops may be in a circle of dependencies and any orders; mostly very few may.

    Stand the ops in a row by their ends (by their beginnings, if they have none): there both orders
    lead on, and so do nearly all dependencies. A circle has an edge that leads back, and each of
    its ops lies between the ends of such an edge: to come round, it must be passed both ways.
    """
    count = len(graph.ops)
    if ((graph.ended >= 0) & (graph.ended < graph.invoked)).any():  # Wild times: no such row.
        return np.ones(count, dtype=np.bool_)
    when = np.where(graph.ended >= 0, graph.ended, graph.invoked)
    at = np.empty(count, dtype=np.int64)
    at[np.lexsort((graph.ops, graph.invoked, when))] = np.arange(count)
    mine = _in_turn(graph)
    on = graph.processes[mine[1:]] == graph.processes[mine[:-1]]
    sources = at[stack([graph.sources, mine[:-1][on]])]
    targets = at[stack([graph.targets, mine[1:][on]])]
    back = targets < sources
    begun = np.bincount(targets[back], minlength=count + 1)
    ended = np.bincount(sources[back] + 1, minlength=count + 1)
    return np.asarray((np.cumsum(begun - ended) > 0)[at], dtype=np.bool_)


def split(graph: Precedence, numbers: Ints) -> Iterator[Precedence]:
    """Yield the components of a graph, those of the smallest ops first.

    Args:
        graph: The ops and the dependencies that count.
        numbers: The number of each op's component, -1 where it is none that is wanted.
    """
    inside = np.flatnonzero(
        (numbers[graph.sources] == numbers[graph.targets]) & (numbers[graph.sources] >= 0)
    )
    inside = inside[np.argsort(numbers[graph.sources[inside]], kind="stable")]
    edges_of = numbers[graph.sources[inside]]
    nodes = np.flatnonzero(numbers >= 0)
    nodes = nodes[np.argsort(numbers[nodes], kind="stable")]
    starts = runs_of(numbers[nodes])
    first = np.argsort(nodes[starts[:-1]], kind="stable")
    for start, end in zip(starts[first].tolist(), starts[first + 1].tolist(), strict=True):
        number = numbers[nodes[start]]
        low, high = (
            int(np.searchsorted(edges_of, number, side=side)) for side in ("left", "right")
        )
        yield graph.part(nodes[start:end], np.sort(inside[low:high]))


def smallest_circle(graph: Precedence, orders: Iterable[Order], through: Mask) -> list[Hop]:
    """Return the hops of a smallest circle of a strongly connected graph.

    Args:
        graph: One component.
        orders: What counts beside the dependencies.
        through: Which dependencies to look from; the first hop is one of them.
    """
    orders = tuple(orders)
    sources, targets = graph.sources[through], graph.targets[through]
    for kind in ("", *orders):
        back = np.flatnonzero(_leads_back(graph, kind, sources, targets))
        if len(back):
            source, target = int(sources[back[0]]), int(targets[back[0]])
            return [(source, target, ""), (target, source, kind)]
    return _by_shortest_path(graph, orders, sources, targets)


def _leads_back(graph: Precedence, kind: str, sources: Ints, targets: Ints) -> Mask:
    """Tell which targets come before their sources by one hop of a kind."""
    if kind == Order.PROCESS:
        same = (graph.processes[sources] == graph.processes[targets]) & (
            graph.processes[sources] >= 0
        )
        ranks = np.empty(len(graph.ops), dtype=np.int64)
        ranks[np.lexsort((graph.ops, graph.invoked))] = np.arange(len(graph.ops))
        return np.asarray(same & (ranks[targets] < ranks[sources]), dtype=np.bool_)
    if kind == Order.REALTIME:
        ended = graph.ended[targets]
        return np.asarray((ended >= 0) & (ended < graph.invoked[sources]), dtype=np.bool_)
    count = len(graph.ops)
    back = np.isin(targets * count + sources, graph.sources * count + graph.targets)
    return np.asarray(back, dtype=np.bool_)


def _by_shortest_path(
    graph: Precedence, orders: tuple[Order, ...], sources: Ints, targets: Ints
) -> list[Hop]:
    from scipy.sparse.csgraph import dijkstra  # noqa: PLC0415 - as above

    matrix, chains = _matrix(graph, orders)
    heads = distinct(targets)
    heads = heads[: max(1, _WORK // max(1, matrix.nnz))]
    for reach in _REACHES:
        best: tuple[float, list[Hop]] = (np.inf, [])
        for head in heads.tolist():
            lengths, before = dijkstra(
                matrix, indices=head, return_predecessors=True, limit=min(reach, best[0])
            )
            tails = sources[targets == head]
            tail = int(tails[np.argmin(lengths[tails])])
            if lengths[tail] < best[0]:
                hops = _hops(before, (head, tail), len(graph.ops), chains)
                best = float(lengths[tail]), [(tail, head, ""), *hops]
        if best[1]:
            return best[1]
    return []


def _hops(
    before: npt.NDArray[np.int32], ends: tuple[int, int], count: int, chains: dict[Order, int]
) -> list[Hop]:
    """Return the hops of a path; what goes along a chain is one hop of its order."""
    start, end = ends
    hops: list[Hop] = []
    later, at, kind = end, end, ""
    while at != start:
        at = int(before[at])
        if at < count:
            hops.append((at, later, kind))
            later, kind = at, ""
        else:
            kind = next(order for order, first in reversed(chains.items()) if at >= first)
    return hops[::-1]


def _matrix(
    graph: Precedence, orders: tuple[Order, ...]
) -> tuple["csr_array[np.float64]", dict[Order, int]]:
    """Return the graph with chains for its orders, and the first node of each chain."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - as above

    size = len(graph.ops)
    edges = [(graph.sources, graph.targets, np.full(len(graph.sources), _STEP))]
    chains: dict[Order, int] = {}
    for order in orders:
        chains[order] = size
        nodes, links = (_process_chain if order is Order.PROCESS else _realtime_chain)(graph, size)
        edges += links
        size += nodes
    sources, targets = (stack([each[side] for each in edges]) for side in (0, 1))
    lengths = np.concatenate([each[2] for each in edges])
    matrix = csr_array((lengths, (sources, targets)), shape=(size, size))
    matrix.sum_duplicates()
    matrix.data = np.minimum(matrix.data, _STEP)  # Two dependencies of the same two ops are one.
    return matrix, chains


_Links = list[tuple[Ints, Ints, npt.NDArray[np.float64]]]


def _links(sources: Ints, targets: Ints, length: float) -> _Links:
    return [(sources, targets, np.full(len(sources), length))]


def _realtime_chain(graph: Precedence, first: int) -> tuple[int, _Links]:
    """A place for each op that ended, by its end; behind a place come the ops invoked after it."""
    done = np.flatnonzero(graph.ended >= 0)
    done = done[np.argsort(graph.ended[done], kind="stable")]
    places = first + np.arange(len(done))
    last = np.searchsorted(graph.ended[done], graph.invoked, side="left") - 1
    late = np.flatnonzero(last >= 0)
    return len(done), [
        *_links(done, places, _STEP),
        *_links(places[:-1], places[1:], _ALONG),
        *_links(first + last[late], late, _ALONG),
    ]


def _process_chain(graph: Precedence, first: int) -> tuple[int, _Links]:
    """A place for each op of a known process, by process and invocation; behind it the next op."""
    mine = _in_turn(graph)
    places = first + np.arange(len(mine))
    on = np.flatnonzero(graph.processes[mine[1:]] == graph.processes[mine[:-1]])
    return len(mine), [
        *_links(mine, places, _STEP),
        *_links(places[on], places[on + 1], _ALONG),
        *_links(places[on], mine[on + 1], _ALONG),
    ]


def _in_turn(graph: Precedence) -> Ints:
    """Return the ops of known processes, by process and invocation."""
    mine = np.flatnonzero(graph.processes >= 0)
    order = np.lexsort((graph.ops[mine], graph.invoked[mine], graph.processes[mine]))
    return np.asarray(mine[order], dtype=np.int64)
