"""The order that clients saw by Jepsen's rules, twin by twin: distances between indexes."""

from checkers.group import Group
from checkers.jepsen.order import CHECKERS
from checkers.runner import run_checkers
from results.record.terms import Judge
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import ack, facts, group, log, read

V = [pack_value(1, number) for number in range(9)]
JEPSEN = facts(judge=Judge.JEPSEN)


def got(*values: int, op: int, process: int = 1, outcome: str = "ok") -> list[Row]:
    """One op's records: V[n] stands at offset 10 n."""
    return [
        {**read(V[value], 10 * value, op=op, phase="main"), "process": process, "pos": pos,
         "outcome": outcome}
        for pos, value in enumerate(values)
    ]  # fmt: skip


def sent(*values: int, op: int, process: int = 1, outcome: str = "ok") -> list[Row]:
    return [
        {**ack(V[value], 10 * value, op=op), "mop": mop, "process": process, "outcome": outcome}
        for mop, value in enumerate(values)
    ]


def move(kind: str, *, op: int, process: int = 1, offset: int | None = None) -> Row:
    return {"op_id": op, "process": process, "kind": kind, "time_ns": op, "offset": offset}


def anomalies(**rows: list[Row]) -> dict[str, list[int]]:
    on: Group = group(JEPSEN, **rows)
    results = run_checkers(on, CHECKERS)
    assert [each.error for each in results if each.error] == []
    return {each.name: [int(str(one.evidence["distance"])) for one in each.anomalies]
            for each in results if each.anomalies}  # fmt: skip


ELSEWHERE = got(*range(6), op=90, process=9)


def test_the_next_index_is_right_whatever_the_offsets() -> None:
    assert anomalies(polls=[*got(0, 1, op=1), *got(2, op=2), *ELSEWHERE]) == {}
    assert anomalies(sends=[*sent(0, 1, op=1), *sent(2, op=2)]) == {}


def test_a_distance_above_one_is_a_skip_and_one_below_one_goes_back() -> None:
    assert anomalies(polls=[*got(0, op=1), *got(2, op=2), *ELSEWHERE]) == {"poll-skip": [2]}
    assert anomalies(polls=[*got(1, op=1), *got(1, op=2)]) == {"nonmonotonic-poll": [0]}
    assert anomalies(polls=[*got(0, 2, op=1), *ELSEWHERE]) == {"int-poll-skip": [2]}
    assert anomalies(polls=[*got(1, 0, op=1)]) == {"int-nonmonotonic-poll": [-1]}
    assert anomalies(sends=[*sent(1, op=1), *sent(0, op=2)]) == {"nonmonotonic-send": [-1]}
    assert anomalies(sends=[*sent(0, op=1), *sent(2, op=2), *sent(1, op=3, process=2)]) == {}
    inside = [*sent(0, 2, op=1), *sent(1, op=3, process=2)]
    assert anomalies(sends=inside) == {"int-send-skip": [2]}
    assert anomalies(sends=sent(1, 0, op=1)) == {"int-nonmonotonic-send": [-1]}


def test_an_op_of_any_outcome_may_jump_and_only_an_ok_one_moves_a_reader() -> None:
    for outcome in ("fail", "info"):
        jumps = [*got(0, op=1), *got(2, op=2, outcome=outcome), *got(1, op=3), *ELSEWHERE]
        assert anomalies(polls=jumps) == {"poll-skip": [2]}


def test_a_send_that_failed_neither_moves_a_writer_nor_jumps() -> None:
    known = got(*range(6), op=90, process=9)  # So that each value has an index.
    failed = [*sent(3, op=1), *sent(0, op=2, outcome="fail"), *sent(4, op=3)]
    assert anomalies(sends=failed, polls=known) == {}
    unknown = [*sent(3, op=1), *sent(0, op=2, outcome="info"), *sent(4, op=3)]
    assert anomalies(sends=unknown, polls=known) == {"nonmonotonic-send": [-3]}


def test_only_an_assignment_that_leaves_the_partition_out_forgets() -> None:
    reads, writes = [*got(1, op=1), *got(0, op=3)], [*sent(1, op=1), *sent(0, op=3)]
    assert anomalies(polls=reads, assignments=[move("left-out", op=2)]) == {}
    assert anomalies(polls=reads, assignments=[move("seek", op=2)]) == {}
    assert anomalies(sends=writes, assignments=[move("left-out", op=2)]) == {}
    for other in (
        move("assign", op=2), move("assign", op=2, offset=0), move("subscribe", op=2),
        move("left-out", op=0), move("left-out", op=4), move("left-out", op=2, process=2),
    ):  # fmt: skip
        assert anomalies(polls=reads, assignments=[other]) == {"nonmonotonic-poll": [-1]}
        assert anomalies(sends=writes, assignments=[other]) == {"nonmonotonic-send": [-1]}


def test_a_key_of_a_rebalance_is_exempt_inside_of_its_op() -> None:
    turned = [move("rebalance-revoked", op=1)]
    assert anomalies(polls=got(1, 0, op=1), assignments=turned) == {}
    assert anomalies(polls=got(1, 0, op=2), assignments=turned) == {"int-nonmonotonic-poll": [-1]}


def test_a_value_without_an_index_and_a_row_without_a_process_are_no_error() -> None:
    lost = [{**row, "offset": None} for row in sent(3, op=2)]
    assert anomalies(sends=[*sent(1, op=1), *lost, *sent(0, op=3)]) == {}
    nobody = [{**row, "process": None} for row in (*got(1, op=1), *got(0, op=2))]
    assert anomalies(polls=nobody) == {}


def test_a_value_with_two_places_has_the_index_of_its_last_one() -> None:
    twice = [*got(0, op=1), {**got(0, op=91, process=9)[0], "offset": 25}]
    order = [*twice, *got(1, op=92, process=8), *got(2, op=93, process=7)]
    assert anomalies(polls=[*order, *got(3, op=2)]) == {}  # From the one at 25 to the one at 30.
    assert anomalies(polls=[*order, *got(1, op=2)]) == {"nonmonotonic-poll": [-2]}


def test_what_a_replica_holds_means_nothing_to_jepsen() -> None:
    records = log("n1", *((0, value) for value in V))
    polls = [*got(0, op=1), *got(2, op=2)]
    on = group(JEPSEN, polls=polls, replica_records=records)
    assert [each.name for each in run_checkers(on, CHECKERS) if each.anomalies] == []
