"""The checks of order say what their definitions say: on faithful runs, planted ones, any rows."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.ack_mismatch import CHECKER as ACK_MISMATCH
from checkers.group import Group
from checkers.offset_order import CHECKER as OFFSET_ORDER
from checkers.poll_order import (
    INT_NONMONOTONIC_CHECKER as INT_NONMONOTONIC_POLL,
)
from checkers.poll_order import INT_SKIP_CHECKER as INT_POLL_SKIP
from checkers.poll_order import NONMONOTONIC_CHECKER as NONMONOTONIC_POLL
from checkers.poll_order import SKIP_CHECKER as POLL_SKIP
from checkers.protocol import Checker
from checkers.runner import run_checkers
from checkers.send_order import INT_NONMONOTONIC_CHECKER as INT_NONMONOTONIC_SEND
from checkers.send_order import INT_SKIP_CHECKER as INT_SEND_SKIP
from checkers.send_order import NONMONOTONIC_CHECKER as NONMONOTONIC_SEND
from results.record.verdict import Anomaly
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import A, facts, group, leads
from tests.oracle import order

SEEDS = st.integers(0, 2**32)
Places = list[tuple[int, int]]


def _int(anomaly: Anomaly, name: str) -> int:
    number = anomaly.evidence[name]
    assert isinstance(number, int)
    return number


def places(checker: Checker, on: Group, offset: str = "offset") -> Places:
    result = checker.check(on)
    assert not result.beyond
    found = {(_int(each, "op_id"), _int(each, offset)) for each in result.anomalies}
    return sorted(found)


def agree(on: Group) -> None:
    rows = {name: table.to_pylist() for name, table in on.tables.items()}
    between, inside = order.steps_between(rows), order.steps_inside(rows)
    assert places(POLL_SKIP, on) == sorted(order.skips(rows, between))
    assert places(INT_POLL_SKIP, on) == sorted(order.skips(rows, inside))
    assert places(NONMONOTONIC_POLL, on) == sorted(order.steps_back(between))
    assert places(INT_NONMONOTONIC_POLL, on) == sorted(order.steps_back(inside))
    assert places(NONMONOTONIC_SEND, on) == sorted(order.steps_back(order.sends_between(rows)))
    assert places(INT_NONMONOTONIC_SEND, on) == sorted(order.steps_back(order.sends_inside(rows)))
    assert places(INT_SEND_SKIP, on) == sorted(order.skips_of_others(rows))
    assert places(OFFSET_ORDER, on) == sorted(order.offset_order(rows))
    mismatches = order.ack_mismatches(rows)
    told = {
        tuple(_int(each, name) for name in ("op_id", "acknowledged_offset", "value")):
        each.evidence["offsets"]
        for each in ACK_MISMATCH.check(on).anomalies
    }  # fmt: skip
    assert told == mismatches


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_the_order_of_a_faithful_run_is_accepted(seed: int) -> None:
    run = FaithfulRun(seed)
    for number, _ in enumerate(run.partitions):
        on = run.group(number)
        agree(on)
        wrong = [each for each in run_checkers(on) if each.anomalies or each.error]
        assert [each.name for each in wrong if each.name != "int-send-skip"] == []


def mine(row: Row) -> bool:
    return bool(row["partition"] == 0)


def read_by(run: FaithfulRun, *, at_least: int) -> list[Row]:
    """The records of the partition that one ok op read, of the first that read so many.

    Not of a final read: what that leaves out is lost, and the rest its shadow.
    """
    done = {row["op_id"]: row["outcome"] for row in run.rows["op_completions"]}
    main = [row["op_id"] for row in run.rows["op_invocations"] if row["phase"] == "main"]
    for op_id in main:
        rows = [row for row in run.rows["polled"] if row["op_id"] == op_id and mine(row)]
        if done[op_id] == "ok" and len(rows) >= at_least and rows[0]["offset"] > 0:
            return rows
    return []


def skip(run: FaithfulRun) -> Places:
    first, second = read_by(run, at_least=2)[:2]
    run.rows["polled"].remove(first)
    return [(second["op_id"], second["offset"])]


def skip_inside(run: FaithfulRun) -> Places:
    _, second, third = read_by(run, at_least=3)[:3]
    run.rows["polled"].remove(second)
    return [(third["op_id"], third["offset"])]


def go_back(run: FaithfulRun) -> Places:
    first = read_by(run, at_least=3)[0]
    again = run.partitions[0].leaders_log[first["offset"] - 1]
    run.add("polled", **{**first, "pos": -1, "offset": first["offset"] - 1, "value": again[1]})
    return [(first["op_id"], first["offset"] - 1)]


def go_back_inside(run: FaithfulRun) -> Places:
    last = read_by(run, at_least=3)[-1]
    run.add("polled", **{**last, "pos": 99})
    return [(last["op_id"], last["offset"])]


def acked(run: FaithfulRun) -> list[Row]:
    ours = {row["op_id"] for row in run.rows["send_invocations"] if mine(row)}
    return [row for row in run.rows["send_completions"] if row["acked"] and row["op_id"] in ours]


def mistake(run: FaithfulRun) -> Places:
    row = acked(run)[-1]
    row["offset"] = 10_000
    return [(row["op_id"], 10_000)]


def swap_ends(run: FaithfulRun) -> Places:
    """Let the first op's last send and the last op's first send change their offsets."""
    first, last = acked(run)[0], acked(run)[-1]
    first["offset"], last["offset"] = last["offset"], first["offset"]
    return [(last["op_id"], last["offset"])]


PLANTS: Mapping[str, Callable[[FaithfulRun], Places]] = {
    "poll-skip": skip, "int-poll-skip": skip_inside, "nonmonotonic-poll": go_back,
    "int-nonmonotonic-poll": go_back_inside, "ack-mismatch": mistake, "offset-order": swap_ends,
}  # fmt: skip
CHECKERS = {each.name: each for each in (
    POLL_SKIP, INT_POLL_SKIP, NONMONOTONIC_POLL, INT_NONMONOTONIC_POLL, ACK_MISMATCH, OFFSET_ORDER,
)}  # fmt: skip


@pytest.mark.parametrize("name", PLANTS)
@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_a_planted_disorder_is_found_and_as_the_oracle_says(name: str, seed: int) -> None:
    run = enough(seed)
    (planted,) = PLANTS[name](run)
    on = run.group()
    agree(on)
    offset = "acknowledged_offset" if name == "ack-mismatch" else "offset"
    assert planted in places(CHECKERS[name], on, offset)


def enough(seed: int) -> FaithfulRun:
    """The first run from a seed on with sends and reads enough to plant something."""
    while True:
        run = FaithfulRun(seed)
        sent = {row["op_id"]: row["invoke_ns"] for row in run.rows["op_invocations"]}
        ended = {row["op_id"]: row["complete_ns"] for row in run.rows["op_completions"]}
        ops = [row["op_id"] for row in acked(run)]
        apart = bool(ops) and ended[ops[0]] < sent[ops[-1]]
        if apart and len(read_by(run, at_least=3)) > 2:
            return run
        seed += 1


# Rows that no run would leave, but that say exactly where the definitions draw their lines.

SMALL = st.integers(0, 7)
POLLS = st.lists(st.tuples(SMALL, st.integers(0, 1), st.integers(0, 2), SMALL, SMALL), max_size=14)
SENDS = st.lists(
    st.tuples(SMALL, st.integers(0, 2), SMALL, st.one_of(st.none(), SMALL), st.booleans()),
    max_size=10,
)
KINDS = (
    "assign", "assign", "subscribe", "left-out", "rebalance-assigned", "rebalance-revoked", "seek",
)  # fmt: skip
MOVES = st.lists(st.tuples(SMALL, st.sampled_from(KINDS), st.one_of(st.none(), SMALL)), max_size=5)
OUTCOMES = st.lists(st.sampled_from(["ok", "ok", "ok", "info", "fail"]), min_size=8, max_size=8)
LOG = st.one_of(st.none(), st.lists(st.one_of(st.none(), SMALL), max_size=8))


@st.composite
def strange(draw: st.DrawFn) -> Group:
    """Ops 0 to 7 belong to three processes; each begins at 3 n, and some overlap the next ones."""
    times = [
        {
            "op_id": op,
            "process": op % 3,
            "invoke_ns": 3 * op,
            "complete_ns": 3 * op + op % 4 * 2 + 1,
        }
        for op in range(8)
    ]
    outcomes = draw(OUTCOMES)
    rows: dict[str, list[Row]] = {
        "polls": [
            {**times[op], "mop": mop, "pos": pos, "offset": offset, "value": A + value,
             "phase": "main", "outcome": outcomes[op], "isolation": "read_uncommitted"}
            for op, mop, pos, offset, value in draw(POLLS)
        ],
        "sends": [
            {**times[op], "mop": mop, "value": A + value, "offset": offset, "acks": "all",
             "acked": told, "outcome": outcomes[op]}
            for op, mop, value, offset, told in draw(SENDS)
        ],
        "assignments": [
            {"op_id": op, "process": op % 3, "kind": kind, "time_ns": op, "offset": offset}
            for op, kind, offset in draw(MOVES)
        ],
    }  # fmt: skip
    log, start = draw(LOG), draw(st.integers(0, 2))
    if log is not None:
        rows["leadership"] = [leads(1, 0)]
        rows["replica_records"] = [
            {"snapshot": "final", "node": "n1", "offset": start + at, "leader_epoch": 0,
             "value": value if value is None else A + value, "control": value is None}
            for at, value in enumerate(log)
        ]  # fmt: skip
        end = {"log_start_offset": start, "log_end_offset": start + len(log)}
        rows["replica_states"] = [{"snapshot": "final", "node": "n1", **end}]
    # Without retention nothing below a log's start is excused, which is another check's.
    return group(facts(plan={"broker": {"log.retention.bytes": "1000"}}), **rows)


@settings(max_examples=100, deadline=None)
@given(on=strange())
def test_any_rows_are_judged_as_the_oracle_says(on: Group) -> None:
    agree(on)
