"""Which rows of a partition make one op depend on another, condition by condition."""

import pytest

from checkers.dependencies import WR, WW, dependencies, participants
from results.record.terms import Judge
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import facts, group, read

V = [pack_value(1, number) for number in range(12)]
READER = 9
UNTOLD: Row = dict.fromkeys(("server", "server_epoch", "rest", "early"))


def sent(value: int | None, offset: int | None, *, op: int | None, **more: object) -> Row:
    return {"op_id": op, "mop": 0, "process": 1, "value": value, "offset": offset, "acked": True,
            "acks": "all", "outcome": "ok", "invoke_ns": 10, "complete_ns": 20, **more}  # fmt: skip


def got(value: int | None, offset: int, *, op: int | None = READER, **more: object) -> Row:
    row = {**read(value, offset, op=1, phase="main"), "op_id": op, "process": 2, "invoke_ns": 30}
    return {**row, "complete_ns": 40, **more}


def rows(
    *,
    ww: bool = False,
    judge: Judge = Judge.CONTRACT,
    workload: str = "txn",
    sends: list[Row],
    polls: list[Row],
) -> list[Row]:
    about = facts(plan={"workload": workload}, ww_deps=ww, judge=judge)
    return dependencies(group(about, sends=sends, polls=polls)).to_pylist()


def edges(**about: object) -> list[tuple[object, object]]:
    return [(row["source"], row["target"]) for row in rows(**about)]  # type: ignore[arg-type]


def test_a_reader_depends_on_who_wrote_and_the_edge_tells_what() -> None:
    told = rows(sends=[sent(V[3], 3, op=0), sent(V[4], 4, op=5)], polls=[got(V[3], 3)])
    assert told == [
        {"source": 0, "target": READER, "kind": WR, "value": V[3], "offset": 3,
         "next_offset": None, **UNTOLD, "place": "log-0-0"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("send", "poll"),
    [
        (sent(V[1], 1, op=1), got(V[2], 2)),  # Nobody sent that.
        (sent(None, 1, op=1), got(None, 1)),  # A record without a value is nobody's.
        (sent(V[1], 1, op=None), got(V[1], 1)),  # Nobody knows which op it was.
        (sent(V[1], 1, op=1), got(V[1], 1, op=None)),
        (sent(V[1], 1, op=1), got(V[1], 1, outcome="info")),  # It may have been given more.
        (sent(V[1], 1, op=1), got(V[1], 1, outcome="fail")),
        (sent(V[1], 1, op=READER), got(V[1], 1)),  # What it wrote itself.
        (sent(V[1], 1, op=1, outcome="fail"), got(V[1], 1)),  # Nothing was written: `G1a`.
        (sent(V[1], 1, op=1, txn_id=1), got(V[1], 1)),  # It did not wait for the end.
    ],
)
def test_no_one_depends_on_what_is_not_known_to_have_been_written_and_read(
    send: Row, poll: Row
) -> None:
    assert edges(sends=[send], polls=[poll]) == []


def test_a_transaction_binds_readers_of_committed_data_and_a_plain_send_all() -> None:
    committed = got(V[1], 1, isolation="read_committed")
    assert edges(sends=[sent(V[1], 1, op=1, txn_id=1)], polls=[committed]) == [(1, READER)]
    assert edges(sends=[sent(V[1], 1, op=1)], polls=[committed]) == [(1, READER)]
    unknown = sent(V[1], 1, op=1, txn_id=1, outcome="info")
    assert edges(sends=[unknown], polls=[committed]) == [(1, READER)]


def test_jepsen_takes_every_sender_and_in_runs_of_transactions_no_watcher() -> None:
    plain, committed = got(V[1], 1), got(V[1], 1, isolation="read_committed")
    for send in (sent(V[1], 1, op=1, outcome="fail"), sent(V[1], 1, op=1, txn_id=1)):
        assert edges(judge=Judge.JEPSEN, sends=[send], polls=[committed]) == [(1, READER)]
        assert edges(judge=Judge.JEPSEN, sends=[send], polls=[plain]) == []
        alone = edges(judge=Judge.JEPSEN, workload="log", sends=[send], polls=[plain])
        assert alone == [(1, READER)]


def test_of_several_edges_between_two_ops_the_first_by_offset_is_told() -> None:
    sends = [sent(V[each], each, op=1) for each in (4, 2, 3)]
    (told,) = rows(sends=sends, polls=[got(V[each], each) for each in (3, 2, 4)])
    assert (told["value"], told["offset"]) == (V[2], 2)


def test_writers_depend_on_whoever_wrote_right_before() -> None:
    sends = [sent(V[1], 3, op=0), sent(V[2], 5, op=7), sent(V[3], 8, op=7), sent(V[4], 9, op=2)]
    assert edges(sends=sends, polls=[]) == []  # Unless asked for.
    told = rows(ww=True, sends=sends, polls=[])
    assert told == [
        {"source": 0, "target": 7, "kind": WW, "value": V[1], "offset": 3, "next_offset": 5,
         **UNTOLD, "place": "log-0-0"},
        {"source": 7, "target": 2, "kind": WW, "value": V[3], "offset": 8, "next_offset": 9,
         **UNTOLD, "place": "log-0-0"},
    ]  # fmt: skip


def test_a_record_of_nobody_stands_between_two_writers() -> None:
    sends = [sent(V[1], 1, op=0), sent(V[3], 3, op=2)]
    assert edges(ww=True, sends=sends, polls=[]) == [(0, 2)]
    assert edges(ww=True, sends=sends, polls=[got(V[2], 2)]) == []


def test_a_value_that_stands_twice_counts_at_its_last_place() -> None:
    sends = [sent(V[each], None, op=each) for each in (1, 2, 3)]
    polls = [got(V[each], at, op=2) for at, each in enumerate((1, 2, 3, 2))]
    told = [row for row in rows(ww=True, sends=sends, polls=polls) if row["kind"] == WW]
    assert [(row["source"], row["target"], row["offset"]) for row in told] == [(2, 3, 1), (3, 2, 2)]


def test_an_op_takes_part_once_and_is_over_only_if_it_ended_well() -> None:
    sends = [sent(V[1], 1, op=1), sent(V[2], 2, op=1), sent(V[3], 3, op=3, outcome="info"),
             sent(V[4], 4, op=4, outcome="fail"), sent(V[5], 5, op=None)]  # fmt: skip
    polls = [got(V[1], 1), got(V[2], 2), got(V[3], 3, op=1)]
    told = participants(group(sends=sends, polls=polls)).to_pylist()
    assert [(row["op_id"], row["complete_ns"]) for row in told] == [
        (1, 20), (3, None), (4, None), (READER, 40),
    ]  # fmt: skip
    assert [(row["process"], row["invoke_ns"]) for row in told] == [(1, 10)] * 3 + [(2, 30)]


def test_the_first_edge_by_offset_is_told_though_its_value_is_larger() -> None:
    sends = [sent(V[5 - each], each, op=1) for each in (1, 2, 3)]
    (told,) = rows(sends=sends, polls=[got(V[5 - each], each) for each in (3, 1, 2)])
    assert (told["value"], told["offset"]) == (V[4], 1)


def test_op_0_may_write_and_read_like_any_other() -> None:
    sends = [sent(V[1], 1, op=3), sent(V[2], 2, op=0)]
    assert edges(ww=True, sends=sends, polls=[]) == [(3, 0)]
    assert edges(sends=sends, polls=[got(V[1], 1, op=0)]) == [(3, 0)]


def test_a_reader_of_what_nobody_sent_depends_on_nobody_whatever_it_waited_for() -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        sends = [sent(V[1], 1, op=1), sent(V[3], 3, op=4, txn_id=4)]
        assert edges(sends=sends, polls=[got(V[2], 2, isolation=isolation)]) == []
