"""Twins for single bounds of the search for circles, and of their names in Jepsen."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from checkers import precedence
from checkers.columns import Ints
from checkers.cycles import Cycle, cycles
from checkers.dependencies import DEPENDENCIES, PARTICIPANTS, WR, WW
from checkers.jepsen.levels import LEVELS, with_levels
from checkers.precedence import (
    Order,
    Precedence,
    components,
    entangled,
    smallest_circle,
    split,
)

Dependency = tuple[int, int, int]
Op = tuple[int | None, int | None, int | None]
APART: dict[int, Op] = {op: (op, 10, 20) for op in range(12)}


def found(edges: list[Dependency], ops: dict[int, Op]) -> list[Cycle]:
    rows = [
        {"source": one, "target": other, "kind": kind, "value": 100 * one + other, "offset": one,
         "next_offset": one + 1 if kind == WW else None, "place": "t-0"}
        for one, other, kind in edges
    ]  # fmt: skip
    people = [{"op_id": op, "process": process, "invoke_ns": begun, "complete_ns": ended}
              for op, (process, begun, ended) in ops.items()]  # fmt: skip
    return cycles(
        pa.Table.from_pylist(rows, schema=DEPENDENCIES),
        pa.Table.from_pylist(people, schema=PARTICIPANTS),
    )


def kinds(edges: list[Dependency], ops: dict[int, Op]) -> list[str]:
    return [each.name for each in found(edges, ops)]


def test_the_first_process_and_the_first_moment_are_like_any_other() -> None:
    later = [(2, 1, WR)]
    assert kinds(later, {1: (0, 10, 20), 2: (0, 20, 30)}) == ["G1c-process"]
    assert kinds(later, {1: (3, 0, 0), 2: (4, 1, 2)}) == ["G1c-realtime"]


def test_ops_of_two_processes_are_in_no_order_whichever_comes_first() -> None:
    for one, other in ((1, 2), (2, 1)):
        at_once: dict[int, Op] = {1: (one, 10, 20), 2: (other, 10, 20)}
        assert kinds([(2, 1, WR)], at_once) == []
        assert kinds([(1, 2, WR)], at_once) == []


def test_each_edge_of_a_circle_is_told_with_its_own_row() -> None:
    ring = [(1, 2, WR), (2, 3, WR), (3, 1, WR)]
    others = [(4, 2, WW), (2, 5, WW), (5, 1, WR), (1, 4, WW), (3, 5, WR), (0, 2, WR), (2, 9, WR)]
    for edges in ([*ring, *others], [*others, *ring], [*others[::-1], *ring[::-1]]):
        for told in found(edges, APART):
            for edge in told.edges:
                assert edge.value == 100 * edge.source + edge.target
                assert edge.offset == edge.source


def test_components_that_depend_on_each_other_one_way_are_told_apart() -> None:
    edges = [(1, 2, WR), (2, 1, WR), (5, 6, WR), (6, 5, WR)]
    for bridge in ((1, 5), (5, 1), (6, 2), (2, 6)):
        told = found([*edges, (*bridge, WR)], APART)
        assert [(each.name, each.ops, len(each.edges)) for each in told] == [("G1c", 2, 2)] * 2
        assert [{edge.source for edge in each.edges} for each in told] == [{1, 2}, {5, 6}]


def at(*numbers: int) -> Ints:
    return np.array(numbers, dtype=np.int64)


def graph(edges: list[tuple[int, int]], *, count: int = 6) -> Precedence:
    sources, targets = (at(*(edge[side] for edge in edges)) for side in (0, 1))
    return Precedence(
        ops=np.arange(count), processes=np.zeros(count, dtype=np.int64),
        invoked=10 * np.arange(count), ended=10 * np.arange(count) + 5,
        sources=sources, targets=targets, kinds=np.full(len(edges), WR),
        rows=np.arange(len(edges)),
    )  # fmt: skip


def test_a_split_keeps_the_edges_inside_and_leaves_out_all_others() -> None:
    whole = graph([(0, 3), (3, 0), (1, 4), (4, 1), (0, 1), (4, 3), (2, 5), (5, 5), (2, 0)])
    numbers = at(7, 4, -1, 7, 4, -1)
    parts = list(split(whole, numbers))
    assert [part.ops.tolist() for part in parts] == [[0, 3], [1, 4]]
    assert [part.rows.tolist() for part in parts] == [[0, 1], [2, 3]]
    assert [part.sources.tolist() for part in parts] == [[0, 1], [0, 1]]
    assert [part.targets.tolist() for part in parts] == [[1, 0], [1, 0]]
    assert list(split(whole, np.full(6, -1))) == []


def test_only_what_an_edge_that_leads_back_spans_may_be_in_a_circle() -> None:
    assert not entangled(graph([(0, 1), (1, 5), (0, 4), (2, 3)])).any()
    assert np.flatnonzero(entangled(graph([(0, 1), (3, 1), (1, 5)]))).tolist() == [1, 2, 3]
    assert np.flatnonzero(entangled(graph([(2, 1), (5, 4)]))).tolist() == [1, 2, 4, 5]
    wild = replace(graph([(0, 1)]), ended=at(5, 15, 19, 35, 45, 55))
    assert entangled(wild).all()  # An op ended before it began.
    assert entangled(graph([], count=0)).tolist() == []


@pytest.mark.parametrize("turn", range(2))
def test_no_op_of_a_circle_is_taken_for_one_that_can_be_in_none(turn: int) -> None:
    """Of many small graphs: with open ops, unknown processes and times, and wild ones."""
    circles = 0
    for seed in range(300):
        random = np.random.default_rng((turn, seed))
        count = int(random.integers(2, 12))
        invoked = random.integers(-1, 30, count)
        ended = invoked + random.integers(-1 if seed % 5 == 0 else 0, 12, count)
        some = replace(
            graph([(one, other) for one, other in random.integers(0, count, (count, 2)).tolist()
                   if one != other] or [(0, 1)], count=count),
            processes=random.integers(-1, 4, count),
            invoked=invoked,
            ended=np.where(random.random(count) < 0.7, np.maximum(ended, -1), -1),
        )  # fmt: skip
        inside = components(some, tuple(Order)) >= 0
        assert not (inside & ~entangled(some)).any()
        circles += bool(inside.any())
    assert circles > 100


def test_an_op_alone_is_in_no_component() -> None:
    numbers = components(graph([(0, 3), (3, 0), (0, 1), (2, 2)]), ())
    assert numbers[0] == numbers[3] >= 0
    assert numbers[[1, 2, 4, 5]].tolist() == [-1] * 4
    assert components(graph([], count=0), ()).tolist() == []


@pytest.mark.parametrize("order", list(Order))
def test_what_leads_back_by_an_order_is_told_by_that_order(order: Order) -> None:
    through = np.ones(1, dtype=np.bool_)
    for edge in ((4, 1), (1, 0), (5, 4)):
        source, target = edge
        hops = smallest_circle(graph([edge]), (order,), through)
        assert hops == [(source, target, ""), (target, source, order)]


def test_of_two_orders_that_lead_back_the_first_is_told() -> None:
    hops = smallest_circle(graph([(4, 1)]), tuple(Order), np.ones(1, dtype=np.bool_))
    assert hops == [(4, 1, ""), (1, 4, Order.PROCESS)]


def test_a_long_way_round_is_found_and_its_orders_are_named() -> None:
    """From op 5 to op 0 by reading; back by process, a reading, and real time."""
    edges = [(5, 0), (2, 3)]
    base = graph(edges)
    mixed = Precedence(
        ops=base.ops, processes=at(0, 1, 0, 2, 3, 4), invoked=at(0, 0, 10, 0, 100, 50),
        ended=at(-1, -1, -1, 40, 101, 60), sources=base.sources, targets=base.targets,
        kinds=base.kinds, rows=base.rows,
    )  # fmt: skip
    hops = smallest_circle(mixed, tuple(Order), at(1, 0).astype(np.bool_))
    assert hops == [(5, 0, ""), (0, 2, Order.PROCESS), (2, 3, ""), (3, 5, Order.REALTIME)]


def test_a_long_chain_of_an_order_is_nearer_than_two_more_readings() -> None:
    count = 24
    far = graph([(0, 1), (20, 0), (1, 21), (21, 22), (22, 23), (23, 0)], count=count)
    processes = np.full(count, 9)
    processes[[0, 21, 22, 23]] = 0, 1, 2, 3
    through = np.arange(6) == 0
    for order in Order:
        chained = replace(
            far, processes=processes,
            ended=np.where(processes == 9, far.ended, -1) if order == Order.PROCESS else far.ended,
        )  # fmt: skip
        hops = smallest_circle(chained, (order,), through)
        assert hops == [(0, 1, ""), (1, 20, order), (20, 0, "")]


def test_ops_of_unknown_processes_and_times_that_touch_are_no_short_way_back() -> None:
    ring = graph([(4, 1), (1, 2), (2, 4)])
    unknown = replace(ring, processes=np.full(6, -1))
    first = np.arange(3) == 0
    for order, whole in (
        (Order.PROCESS, unknown),
        (Order.REALTIME, replace(unknown, ended=np.where(ring.ops == 1, 40, -1))),
    ):
        hops = smallest_circle(whole, (order,), first)
        assert hops == [(4, 1, ""), (1, 2, ""), (2, 4, "")]


@pytest.mark.parametrize("length", [3, 4, 5, 6, 15, 17, 18, 40])
def test_rings_of_any_length_are_found_whole(length: int) -> None:
    ring = [(op, (op + 1) % length) for op in range(length)]
    hops = smallest_circle(graph(ring, count=length), (), np.ones(length, dtype=np.bool_))
    assert sorted((one, other) for one, other, _ in hops) == sorted(ring)


def test_only_some_beginnings_are_tried_where_there_is_too_much_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The small circle does not touch the first op, at which the search begins."""
    ring = [(op, (op + 1) % 12) for op in range(12)]
    whole = graph([*ring, (8, 6)], count=12)
    through = np.ones(13, dtype=np.bool_)
    assert len(smallest_circle(whole, (), through)) == 3
    monkeypatch.setattr(precedence, "_WORK", 1)
    assert len(smallest_circle(whole, (), through)) == 12
    monkeypatch.setattr(precedence, "_WORK", 7 * 13)
    assert len(smallest_circle(whole, (), through)) == 3


def test_levels_are_told_beside_the_kinds_that_were_found() -> None:
    assert with_levels({"G0": 2, "G1c": 0, "poll-skip": 4}) == {
        "G0": 2, "G1c": 0, "poll-skip": 4, "PL-1-cycle-exists": 2,
    }  # fmt: skip
    every = dict.fromkeys(LEVELS, 1)
    assert with_levels(every) == {**every, **dict.fromkeys(LEVELS.values(), 1)}
