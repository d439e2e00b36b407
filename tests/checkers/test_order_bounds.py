"""Twins for single bounds of `offset_order` and `ack_mismatch`."""

from checkers.ack_mismatch import CHECKER as ACK_MISMATCH
from checkers.offset_order import CHECKER as OFFSET_ORDER
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import found, group, leads, log, read, state

V = [pack_value(1, number) for number in range(12)]


def sent(value: int, offset: int, *, op: int, since: int, until: int | None, **more: object) -> Row:
    return {"op_id": op, "mop": 0, "process": op, "value": value, "offset": offset, "acked": True,
            "acks": "all", "outcome": "ok", "invoke_ns": since, "complete_ns": until,
            **more}  # fmt: skip


def test_a_witness_had_ended_before_and_stands_behind() -> None:
    """Ops 3 and 6 ended last, but do not stand behind; op 4 ended only when op 5 began."""
    sends = [
        sent(V[9], 9, op=1, since=10, until=15),
        sent(V[7], 7, op=2, since=10, until=20),
        sent(V[1], 1, op=3, since=10, until=30),
        sent(V[8], 8, op=4, since=10, until=40),
        sent(V[2], 2, op=5, since=40, until=45),
        sent(V[6], 2, op=6, since=10, until=35),
    ]
    (anomaly,) = found(OFFSET_ORDER, group(sends=sends)).anomalies
    assert anomaly.evidence["earlier_op_id"] == 2


def test_an_earlier_one_at_the_same_offset_was_not_overtaken_so_that_the_excuse_holds() -> None:
    """Op 1 was dropped, as acks=1 allows; op 2, which was to stay, has the offset of op 3."""
    sends = [sent(V[9], 9, op=1, since=10, until=15, acks="1"),
             sent(V[7], 2, op=2, since=10, until=15),
             sent(V[2], 2, op=3, since=40, until=45)]  # fmt: skip
    (anomaly,) = found(OFFSET_ORDER, group(sends=sends)).anomalies
    assert anomaly.excuses == ("acks-0-1",)
    sends[1]["offset"] = 3
    (anomaly,) = found(OFFSET_ORDER, group(sends=sends)).anomalies
    assert anomaly.excuses == ()


def test_of_witnesses_that_ended_together_the_highest_is_told() -> None:
    sends = [sent(V[9], 9, op=1, since=10, until=15), sent(V[7], 7, op=2, since=10, until=15),
             sent(V[2], 2, op=5, since=40, until=45)]  # fmt: skip
    for order in (sends, sends[::-1]):
        (anomaly,) = found(OFFSET_ORDER, group(sends=order)).anomalies
        assert anomaly.evidence["earlier_op_id"] == 1


def test_the_run_s_first_moment_and_the_log_s_first_offset_are_like_any_other() -> None:
    first = sent(V[5], 5, op=1, since=0, until=0)
    second = sent(V[0], 0, op=2, since=1, until=2)
    result = found(OFFSET_ORDER, group(sends=[first, second]))
    assert (result.rows, [each.offset for each in result.anomalies]) == (1, [0])


def test_the_smallest_value_may_stand_where_another_was_acknowledged() -> None:
    sends = [sent(V[1], 0, op=1, since=10, until=15)]
    records: list[Row] = log("n1", (0, 0), (0, V[1]))
    rows: dict[str, list[Row]] = {
        "leadership": [leads(1, 0)], "replica_records": records,
        "replica_states": [state("n1", 2)],
    }  # fmt: skip
    (logged,) = found(ACK_MISMATCH, group(sends=sends, **rows)).anomalies
    assert logged.evidence["holds_instead"] == 0
    polls = [read(0, 0), read(V[1], 1)]
    (polled,) = found(ACK_MISMATCH, group(sends=sends, polls=polls)).anomalies
    assert polled.evidence["holds_instead"] == 0
    assert polled.evidence["also"] == ["inconsistent-offsets"]
