"""A graph of operations (ops), and the search for the shortest cycles in it.

The nodes are ops. An edge means that one op came before another. Most edges are dependencies. A
search may add two orders: the op order of each process, and real-time order. Such an order has an
edge for each pair of ops, which are too many edges to store. So the order is stored as a chain
beside the ops. An op leads to its own place in the chain. Each place leads to the next place, and
to the ops that follow directly. The graph's size then grows linearly with the ops. A path along the
chain counts as one edge of the order.

scipy computes the strongly connected components. The search for a component's shortest cycle starts
at dependency edges. The search goes back from the end of such an edge to the beginning of the edge.
The search tries a direct edge first, and then the shortest path. The work is bounded. In a
component of thousands of edges, the search does not start at every edge. So it may miss a shorter
cycle.
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
"""The lengths of an edge and of a chain step. All steps of a chain add up to far less than 1."""
_WORK = 4_000_000
"""The approximate number of edges that the search visits for one component."""
_REACHES = (4.5, 16.5, np.inf)
"""The maximum path lengths for the search, tried one after another until a path is found."""


class Order(StrEnum):
    """An order of ops that a search can use in addition to dependencies."""

    PROCESS = "process"
    REALTIME = "realtime"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Precedence:
    """Operations and their dependencies, as columns.

    Attributes:
        ops: Op ids, ascending.
        processes, invoked, ended: One entry for each op. -1 if the entry is unknown, or if the op
            did not end.
        sources, targets: For each dependency, the indices in `ops` of the earlier and later op.
        kinds: The kind of each dependency.
        rows: The row that showed each dependency.
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
        """Return the graph with only the dependencies for which a mask is true."""
        sources, targets, kinds, rows = (
            column[mask] for column in (self.sources, self.targets, self.kinds, self.rows)
        )
        return replace(self, sources=sources, targets=targets, kinds=kinds, rows=rows)

    def part(self, nodes: Ints, edges: Ints) -> "Precedence":
        """Return the subgraph of some ops and dependencies, both given by ascending indices."""
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
"""An edge: the indices of the earlier and the later op, and the order ("" for a dependency)."""


def components(graph: Precedence, orders: Iterable[Order]) -> Ints:
    """Return, for each op, the index of its strongly connected component; -1 if the op is alone."""
    count = len(graph.ops)
    if not count:
        return np.zeros(0, dtype=np.int64)
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - most runs need no graph

    matrix, _ = _matrix(graph, tuple(orders))
    _, found = connected_components(matrix, directed=True, connection="strong")
    mine = np.asarray(found[:count], dtype=np.int64)
    return np.where(np.bincount(mine)[mine] > 1, mine, NONE)


def entangled(graph: Precedence) -> Mask:
    """Return a mask of the ops that may be part of a cycle, whichever orders the search adds.

    Usually these are few ops. The function sorts the ops by their end times, or by their start
    times if they have no end. In that sequence real-time order leads forward, and nearly all other
    edges do too. A cycle needs an edge that leads backward. Each op of the cycle lies between the
    two ends of such an edge.
    """
    count = len(graph.ops)
    if ((graph.ended >= 0) & (graph.ended < graph.invoked)).any():  # Invalid times: no order.
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
    """Yield the components of a graph, ordered by the smallest op in each.

    Args:
        graph: The ops and the dependencies that count.
        numbers: The component number of each op, or -1 to leave the op out.
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
    """Return the edges of a shortest cycle in a strongly connected graph.

    Args:
        graph: One component.
        orders: The orders to use in addition to dependencies.
        through: The dependencies at which the search starts. The first returned edge is one of
            these dependencies.
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
    """Return a mask of the edges for which an edge of `kind` leads from target to source."""
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
    """Return the edges of a path between two ops, and join the steps of a chain into one edge."""
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
    """Return the graph's matrix with a chain for each order, and the first node of each chain."""
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
    matrix.data = np.minimum(matrix.data, _STEP)  # Two dependencies of the same ops count once.
    return matrix, chains


_Links = list[tuple[Ints, Ints, npt.NDArray[np.float64]]]


def _links(sources: Ints, targets: Ints, length: float) -> _Links:
    return [(sources, targets, np.full(len(sources), length))]


def _realtime_chain(graph: Precedence, first: int) -> tuple[int, _Links]:
    """Return the size and edges of the real-time chain.

    The chain has one place for each op that ended, sorted by end time. A place leads to the ops
    that were invoked after that end.
    """
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
    """Return the size and edges of the process chains.

    Each op of a known process has one place, sorted by process and invocation. A place leads to the
    next op of the process.
    """
    mine = _in_turn(graph)
    places = first + np.arange(len(mine))
    on = np.flatnonzero(graph.processes[mine[1:]] == graph.processes[mine[:-1]])
    return len(mine), [
        *_links(mine, places, _STEP),
        *_links(places[on], places[on + 1], _ALONG),
        *_links(places[on], mine[on + 1], _ALONG),
    ]


def _in_turn(graph: Precedence) -> Ints:
    """Return the ops of known processes, sorted by process and invocation."""
    mine = np.flatnonzero(graph.processes >= 0)
    order = np.lexsort((graph.ops[mine], graph.invoked[mine], graph.processes[mine]))
    return np.asarray(mine[order], dtype=np.int64)
