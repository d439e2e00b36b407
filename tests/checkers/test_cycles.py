"""Circles of ops: what counts, what it is called, and which one is told."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import cycles, precedence
from checkers.cycles import CONTRACTS, JEPSENS, NAMES, Cycle
from checkers.dependencies import DEPENDENCIES, PARTICIPANTS, WR, WW
from checkers.group import Group
from checkers.protocol import MAX_DESCRIBED, Findings
from checkers.registry import checkers_of
from results.record.terms import Judge
from tests.checkers.partition_rows import facts
from tests.oracle import transactions as oracle

Dependency = tuple[int, int, int]
"""Source, target, kind."""
Op = tuple[int | None, int | None, int | None]
"""Process, invocation, completion."""
AT_ONCE: dict[int, Op] = {op: (op, 10, 20) for op in range(1, 10)}
"""Ops of processes of their own that all run at the same time."""


def tables(edges: list[Dependency], ops: dict[int, Op]) -> tuple[pa.Table, pa.Table]:
    rows = [
        {"source": one, "target": other, "kind": kind, "value": 100 * one + other, "offset": one,
         "next_offset": one + 1 if kind == WW else None, "place": "t-0"}
        for one, other, kind in edges
    ]  # fmt: skip
    people = [
        {"op_id": op, "process": process, "invoke_ns": begun, "complete_ns": ended}
        for op, (process, begun, ended) in ops.items()
    ]
    return (
        pa.Table.from_pylist(rows, schema=DEPENDENCIES),
        pa.Table.from_pylist(people, schema=PARTICIPANTS),
    )


def found(edges: list[Dependency], ops: dict[int, Op] | None = None) -> list[Cycle]:
    return cycles.cycles(*tables(edges, ops or AT_ONCE))


def names(edges: list[Dependency], ops: dict[int, Op] | None = None) -> list[tuple[str, bool]]:
    return [(each.name, each.needs_ww) for each in found(edges, ops)]


def group(edges: list[Dependency], ops: dict[int, Op], **changes: object) -> Group:
    parts = dict(zip(("dependencies", "participants"), tables(edges, ops), strict=True))
    about = facts(plan={"workload": "txn"}, **changes)
    return Group(facts=about, tables={}, derived=parts)


def said(name: str, on: Group) -> Findings:
    return next(each for each in cycles.CHECKERS if each.name == name).check(on)


WR_12, WR_21 = (1, 2, WR), (2, 1, WR)
WW_12, WW_21 = (1, 2, WW), (2, 1, WW)
SERIAL: dict[int, Op] = {1: (1, 10, 20), 2: (2, 21, 30)}
"""Op 1 ended before op 2 began."""
ONE_PROCESS: dict[int, Op] = {1: (1, 10, 20), 2: (1, 20, 30)}
"""One process did both; the times touch, so that they are no order."""


@pytest.mark.parametrize(
    ("edges", "ops", "told"),
    [
        ([WR_12], AT_ONCE, []),  # One way only.
        ([WR_12, WR_21], AT_ONCE, [("G1c", False)]),  # Each was shown what the other wrote.
        ([WW_12, WW_21], AT_ONCE, [("G0", True)]),  # They interleaved.
        ([WR_12, WW_21], AT_ONCE, [("G1c", True)]),  # One half of it is an interleaving.
        ([WR_12, WR_21, WW_12], AT_ONCE, [("G1c", False)]),  # It closes without that.
        ([WR_21], SERIAL, [("G1c-realtime", False)]),  # Op 1 read what op 2 wrote only later.
        ([WR_12], SERIAL, []),  # In order.
        ([WW_21], SERIAL, [("G0-realtime", True)]),
        ([WR_21], ONE_PROCESS, [("G1c-process", False)]),
        ([WW_21], ONE_PROCESS, [("G0-process", True)]),
        ([WR_21], {1: (1, 10, 21), 2: (2, 21, 30)}, []),  # They touch: anybody's guess.
        ([WR_21], {1: (1, 10, None), 2: (2, 21, 30)}, []),  # Op 1 may be going on.
        ([WR_21], {1: (1, 10, 20), 2: (2, None, 30)}, []),  # When op 2 began is not known.
        ([WR_21], {1: (None, 10, 20), 2: (None, 20, 30)}, []),  # Unknown processes are not one.
        ([WR_12, WR_21], {1: (None, 10, None), 2: (None, 10, None)}, [("G1c", False)]),
        ([(1, 1, WR)], {1: (1, 10, 20)}, []),
        ([(1, 7, WR), (7, 1, WR)], SERIAL, []),  # Nobody knows op 7.
    ],
)
def test_what_a_circle_is_called(
    edges: list[Dependency], ops: dict[int, Op], told: list[tuple[str, bool]]
) -> None:
    assert names(edges, ops) == told


def test_ops_without_dependencies_pass_on_what_is_before_what() -> None:
    """Op 2 wrote what op 1 read, long after it; op 3 ran in between, and does nothing here."""
    ops: dict[int, Op] = {1: (1, 10, 20), 3: (3, 21, 25), 2: (2, 26, 30)}
    (told,) = found([WR_21], ops)
    assert (told.name, told.ops) == ("G1c-realtime", 2)


def test_a_plain_circle_is_not_shortened_by_an_order() -> None:
    ops: dict[int, Op] = {op: (op, 10 * op, 10 * op + 5) for op in range(1, 9)}
    (told,) = found([*((op, op + 1, WR) for op in range(1, 8)), (8, 1, WR)], ops)
    assert (told.name, len(told.edges)) == ("G1c", 8)


@pytest.mark.parametrize("order", ["process", "realtime"])
def test_a_path_along_an_order_is_one_hop(order: str) -> None:
    """Op 8 was read by op 1, which never ended; op 3 read op 1, and was long over before op 8."""
    far = 7 if order == "process" else 0  # Times that touch are no order; a process is one.
    ops: dict[int, Op] = {
        op: (99 if far else op, 10 * op, 10 * op + (10 if far else 5)) for op in range(3, 9)
    }
    ops[1] = (1, 0, None)
    others = [(op, op + 1, WR) for op in range(4, 7)]  # They stand between op 3 and op 8.
    (told,) = found([(8, 1, WR), (1, 3, WR), *others], ops)
    assert told.name == f"G1c-{order}"
    assert told.ops == 7
    assert {edge.process for edge in told.edges if edge.kind != "process"} == {-1}
    kinds = sorted((edge.source, edge.target, edge.kind) for edge in told.edges)
    assert kinds == [(1, 3, "write-read"), (3, 8, order), (8, 1, "write-read")]


def test_the_smallest_circle_is_told_in_words() -> None:
    ops: dict[int, Op] = {1: (3, 10, 20), 2: (3, 1_200_000_000, 1_300_000_000)}
    (process,) = said("G1c-process", group([WR_21], ops)).anomalies
    assert process.sentence == (
        "op 2 wrote value 201 at offset 2 of t-0, which op 1 read;"
        " op 1 came before op 2 in process 3"
    )
    assert process.excuses == ()
    assert process.evidence == {
        "ops": [2, 1], "edges": ["write-read", "process"], "places": ["t-0", ""],
        "values": [201, -1], "offsets": [2, -1], "ended_ns": [-1, 20],
        "began_ns": [-1, 1_200_000_000], "needs_write_write": False, "ops_of_component": 2,
    }  # fmt: skip
    (realtime,) = said("G0-realtime", group([WW_21], {**ops, 1: (4, 10, 20)})).anomalies
    assert realtime.sentence == (
        "op 2 wrote value 201 at offset 2 of t-0, and op 1 wrote the next value, at offset 3; op"
        " 1 ended at 0.000 s, before op 2 began at 1.200 s"
    )
    assert realtime.excuses == ("always",)
    assert realtime.evidence["needs_write_write"] is True


def test_a_big_component_is_told_by_its_smallest_circle() -> None:
    ring = [(op, op % 5 + 1, WR) for op in range(1, 6)]
    (told,) = said("G1c", group([*ring, (3, 1, WR)], AT_ONCE)).anomalies
    assert told.evidence["ops"] in ([1, 2, 3], [2, 3, 1], [3, 1, 2])
    assert told.sentence.endswith(" (the smallest cycle among 5 ops)")


def test_an_edge_of_both_kinds_is_told_as_a_reading() -> None:
    (told,) = found([WW_12, WR_12, WW_21])[:1]
    assert (told.name, told.needs_ww) == ("G1c", True)
    assert sorted(edge.kind for edge in told.edges) == ["write-read", "write-write"]


def test_components_are_told_apart_and_the_excused_do_not_hide_others() -> None:
    apart = [WR_12, WR_21, (3, 4, WW), (4, 3, WR), (5, 6, WW), (6, 5, WW)]
    assert names(apart) == [("G1c", False), ("G1c", True), ("G0", True)]
    joined = [*apart, (2, 3, WW), (4, 1, WW)]  # Now the first two are one component.
    assert names(joined) == [("G1c", False), ("G0", True)]
    assert [each.ops for each in found(joined)] == [2, 2]


def test_a_reading_between_two_components_closes_neither() -> None:
    """Only real time leads back from op 4 to the others."""
    ops: dict[int, Op] = {1: (1, 30, 60), 2: (2, 30, 60), 3: (3, 10, 50), 4: (4, 10, 20)}
    edges = [WW_12, WW_21, (1, 3, WR), (3, 4, WW), (4, 3, WW)]
    assert names(edges, ops) == [("G1c-realtime", True), ("G0", True), ("G0", True)]
    assert [each.ops for each in found(edges, ops)] == [4, 2, 2]


def test_a_circle_of_readings_has_one_though_a_smaller_one_has_none() -> None:
    told = found([WW_12, WW_21, (2, 3, WR), (3, 1, WW)])
    assert [(each.name, len(each.edges)) for each in told] == [("G1c", 3), ("G0", 2)]


def test_more_circles_than_can_be_described_are_counted() -> None:
    many = MAX_DESCRIBED + 5
    edges = [(2 * at + one, 2 * at + 1 - one, WR) for at in range(many) for one in (0, 1)]
    ops: dict[int, Op] = {op: (op, 10, 20) for op in range(2 * many)}
    looked_for = [bool(each.edges) for each in found(edges, ops)]
    assert looked_for == [True] * MAX_DESCRIBED + [False] * 5
    told = said("G1c", group(edges, ops))
    assert len(told.anomalies) == MAX_DESCRIBED
    assert told.beyond == {((), ()): 5}
    assert [each.evidence["ops_of_component"] for each in told.anomalies] == [2] * MAX_DESCRIBED
    firsts = [each.evidence["ops"] for each in told.anomalies]
    assert firsts == [[2 * at, 2 * at + 1] for at in range(MAX_DESCRIBED)]
    assert told.rows == 2 * many


def test_jepsen_tells_a_component_by_its_plainest_kind() -> None:
    def kinds(edges: list[Dependency], ops: dict[int, Op]) -> list[str]:
        return [each.name for each in cycles.cycles(*tables(edges, ops), JEPSENS)]

    both = [WW_12, WW_21, WR_12]
    assert kinds(both, AT_ONCE) == ["G0"]
    assert [name for name, _ in names(both)] == ["G1c", "G0"]
    assert kinds([WR_12, WW_21], AT_ONCE) == ["G1c"]
    assert kinds([WW_21], ONE_PROCESS) == []  # It does not ask for the order of processes.
    assert kinds([WW_21], SERIAL) == ["G0-realtime"]
    assert kinds([WR_21], SERIAL) == ["G1c-realtime"]
    assert kinds([WR_21, WW_21], SERIAL) == ["G0-realtime"]


def test_jepsens_judge_excuses_all_circles_once_it_infers_writes_from_logs() -> None:
    loose = group([WR_12, WR_21], AT_ONCE, judge=Judge.JEPSEN)
    assert said("G1c", loose).anomalies[0].excuses == ("always",)
    both = group([WW_12, WW_21, WR_12], AT_ONCE, judge=Judge.JEPSEN)
    assert said("G1c", both).anomalies == ()
    assert said("G0", both).anomalies[0].excuses == ("always",)
    strict = group([WR_12, WR_21], AT_ONCE, judge=Judge.JEPSEN, ww_deps=False)
    assert said("G1c", strict).anomalies[0].excuses == ()


def test_who_is_asked_for_circles() -> None:
    def asked(**changes: object) -> set[str]:
        about = facts(plan={"workload": changes.pop("workload", "log")}, **changes)
        return {each.name for each in checkers_of(about) if each.applies(about)} & set(NAMES)

    g1c = {name for name in NAMES if name.startswith("G1c")}
    assert asked() == set()
    assert asked(workload="groups") == set()
    assert asked(workload="txn") == set(NAMES)
    assert asked(history=True) == set(NAMES)
    assert asked(judge=Judge.JEPSEN) == set(NAMES)
    assert asked(judge=Judge.JEPSEN, ww_deps=False) == g1c


OPS = st.dictionaries(
    st.integers(1, 7),
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 6), st.booleans()),
    min_size=2,
)
EDGES = st.sets(st.tuples(st.integers(1, 7), st.integers(1, 7), st.sampled_from([WW, WR])))


@settings(max_examples=150, deadline=None)
@given(drawn=OPS, edges=EDGES)
def test_circles_are_those_of_brute_force(
    drawn: dict[int, tuple[int, int, int, bool]], edges: set[Dependency]
) -> None:
    edges = {each for each in edges if each[0] != each[1] and {*each[:2]} <= set(drawn)}
    ends = {op for each in edges for op in each[:2]}
    ops: dict[int, Op] = {
        op: (process, 20 * begun + op, 20 * (begun + span) + op + 1 if known else None)
        for op, (process, begun, span, known) in drawn.items()
        if op in ends
    }
    words = {WW: "write-write", WR: "write-read"}
    told = found(sorted(edges), ops)
    defined = oracle.cycles(
        {(one, other, words[kind]) for one, other, kind in edges},
        ops,  # type: ignore[arg-type]  # Here all ops have begun.
    )
    assert sorted((each.name, each.needs_ww, each.ops, len(each.edges)) for each in told) == (
        sorted((name, needs_ww, len(members), hops) for name, needs_ww, members, hops in defined)
    )
    for each in told:
        holds(each, edges, ops)


def holds(cycle: Cycle, edges: set[Dependency], ops: dict[int, Op]) -> None:
    """Hold a witness to the facts: each hop is there, and each leads on to the next."""
    words = {WW: "write-write", WR: "write-read"}
    rows = {(one, other, words[kind]) for one, other, kind in edges}
    for edge, following in zip(cycle.edges, [*cycle.edges[1:], cycle.edges[0]], strict=True):
        assert edge.target == following.source
        if edge.kind in words.values():
            assert (edge.source, edge.target, edge.kind) in rows
            assert (edge.value, edge.offset) == (100 * edge.source + edge.target, edge.source)
            assert edge.next_offset == (edge.source + 1 if edge.kind == words[WW] else -1)
            assert (edge.process, edge.ended_ns, edge.began_ns) == (-1, -1, -1)
        else:
            assert (edge.process >= 0) is (edge.kind == "process")
            assert (edge.value, edge.offset, edge.next_offset) == (-1, -1, -1)
            assert oracle.before(ops[edge.source], ops[edge.target], edge.kind)  # type: ignore[arg-type]  # As above.


def test_where_there_is_too_much_to_look_at_a_circle_is_still_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ring of thousands, with no short way round: only some beginnings are tried."""
    monkeypatch.setattr(precedence, "_WORK", 1)
    count = 40
    ring = [(op, op % count + 1, WR) for op in range(1, count + 1)]
    ops: dict[int, Op] = {op: (op, 10, 20) for op in range(1, count + 1)}
    (told,) = found([*ring, (30, 25, WR)], ops)
    assert len(told.edges) in (6, count)
    assert told.ops == count
    holds(told, set(ring) | {(30, 25, WR)}, ops)


def test_all_searches_have_names_that_are_checked() -> None:
    checked = {each.name for each in cycles.CHECKERS}
    assert {each.name for each in (*CONTRACTS, *JEPSENS)} == checked
