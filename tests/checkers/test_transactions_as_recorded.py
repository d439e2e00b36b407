"""What ingest, the traffic's minimums and the guarantees make of a workload in transactions."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from checkers import aborted_read, traffic
from checkers.facts import RunFacts
from checkers.group import group_of
from checkers.guarantees import guarantees
from checkers.ingest import completed
from checkers.stored import missing_streams
from checkers.transactions import unknown_sends, witnessed
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan
from results.record.stream import StreamWriter
from results.record.tables import LIVE
from tests.checkers.faithful import open_tellers
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, sentences, whole_run

STREAMS = (
    "op_invocations", "op_completions", "send_invocations", "send_completions", "polled",
    "assignments",
)  # fmt: skip
PLACE = {"topic": "log-0", "topic_id": "id", "partition": 0}


def live(name: str, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=LIVE[name])


def test_a_transaction_counts_what_it_sent_and_a_poll_what_it_read() -> None:
    invoked = [
        {"op_id": op_id, "process": op_id, "f": f, "phase": "main", "invoke_ns": 1}
        for op_id, f in ((7, "txn"), (8, "poll"), (9, "txn"), (10, "send"))
    ]
    sends = [
        {"op_id": op_id, "mop": mop, **PLACE, "value": 10 * op_id + mop, "acks": "all"}
        for op_id, mop in ((7, 0), (7, 2), (10, 0))
    ]
    polled = [
        {"op_id": op_id, "mop": 1, "pos": at, **PLACE, "offset": at, "value": at}
        for op_id in (7, 8, 9)
        for at in range(3)
    ]
    ops = completed({
        "op_invocations": live("op_invocations", invoked),
        "send_invocations": live("send_invocations", sends),
        "polled": live("polled", polled),
    })["ops"]  # fmt: skip
    counts = {row["op_id"]: row["messages"] for row in ops.to_pylist()}
    assert counts == {7: 2, 8: 3, 9: 0, 10: 1}


def test_a_transaction_that_was_thrown_away_must_not_be_shown() -> None:
    """Its op is unknown, since its process ended; but nobody ever asked for a commit."""
    ops = [(7, "txn", "info"), (8, "poll", "ok")]
    tables = completed({
        "op_invocations": live("op_invocations", [
            {"op_id": op_id, "process": op_id, "f": f, "phase": "main", "invoke_ns": op_id}
            for op_id, f, _ in ops
        ]),
        "op_completions": live("op_completions", [
            {"op_id": op_id, "complete_ns": 10 + op_id, "outcome": outcome}
            for op_id, _, outcome in ops
        ]),
        "send_invocations": live("send_invocations", [
            {"op_id": 7, "mop": 0, **PLACE, "value": 70, "acks": "all", "txn_id": 7}
        ]),
        "send_completions": live("send_completions", [
            {"op_id": 7, "mop": 0, "offset": 3, "outcome": "fail", "acked": True}
        ]),
        "polled": live("polled", [
            {"op_id": 8, "mop": 0, "pos": 0, **PLACE, "offset": 3, "value": 70,
             "isolation": "read_committed"}
        ]),
    })  # fmt: skip
    assert tables["ops"]["outcome"].to_pylist() == ["info", "ok"]
    assert witnessed(unknown_sends(tables["sends"]), [tables["polls"]]) == frozenset()
    group = group_of(facts(), tables, topic="log-0", topic_id="id", partition=0)
    (told,) = aborted_read.CHECKER.check(group).anomalies
    assert (told.evidence["writer"], told.evidence["readers"]) == (7, [8])


def test_messages_of_transactions_are_traffic() -> None:
    def busy(txns: int, messages: int) -> list[Row]:
        ops = [("txn", messages)] * txns + [("poll", 1)] * 100
        return [
            {"op_id": at, "process": 1, "f": f, "phase": "main", "invoke_ns": at * S,
             "complete_ns": at * S + 1, "outcome": "ok", "messages": count}
            for at, (f, count) in enumerate(ops)
        ]  # fmt: skip

    assert sentences(traffic.CHECKER, whole_run(ops=busy(50, 2))) == []
    assert sentences(traffic.CHECKER, whole_run(ops=busy(33, 3))) == [
        "99 ok sends in the main phase; at least 100 are needed for a verdict"
    ]


def test_only_transactions_promise_what_transactions_do() -> None:
    def promises(plan: Plan) -> str:
        return " ".join(guarantees(RunFacts(run_id="", recorded_id="", plan=plan)))

    assert "aborted after 12.5 s" in promises(Plan(workload="txn", transaction_timeout_s=12.5))
    assert "transactions" not in promises(Plan()) + promises(Plan(workload="groups"))
    assert "transactions" not in " ".join(guarantees(facts()))


@pytest.mark.parametrize(("concurrency", "missed"), [(1, 0), (2, 6), (16, 6)])
def test_a_worker_without_a_process_is_not_missed(
    tmp_path: Path, concurrency: int, missed: int
) -> None:
    paths = RunPaths(tmp_path / "name" / "run")
    paths.live.mkdir(parents=True)
    paths.plan.write_text(dump_plan(Plan(workers=2, concurrency=concurrency)))
    append_milestone(paths.milestones, Milestone(name="main", at_ns=1))
    for table in STREAMS:
        StreamWriter(paths.live, table, "worker-0").close()
    open_tellers(paths.live)
    assert len(missing_streams(paths)) == missed


@pytest.mark.parametrize(
    ("workload", "reached", "missed"),
    [
        ("txn", "main", {f"transactions.worker-{at}.arrows" for at in (0, 1)}),
        ("txn", "ready", set()),
        ("log", "main", set()),
        ("shares", "main", {f"shared.worker-{at}.arrows" for at in (0, 1)}),
        ("log", "drained", set()),
        ("shares", "drained", {f"{table}.drain.arrows" for table in (*STREAMS, "shared")}),
        ("groups", "main", {f"commits.worker-{at}.arrows" for at in (0, 1)}),
    ],
)
def test_who_writes_a_stream_of_its_own_has_it(
    tmp_path: Path, workload: str, reached: str, missed: set[str]
) -> None:
    paths = RunPaths(tmp_path / "name" / "run")
    paths.live.mkdir(parents=True)
    paths.plan.write_text(dump_plan(Plan.model_validate({"workload": workload})))
    append_milestone(paths.milestones, Milestone(name=reached, at_ns=1, detail={}))
    for worker in (0, 1):
        for table in STREAMS:
            StreamWriter(paths.live, table, f"worker-{worker}").close()
    open_tellers(paths.live)
    assert {each.sentence for each in missing_streams(paths)} == {
        f"the stream {name} is missing" for name in missed
    }
    for name in missed:
        table, writer, _ = name.split(".")
        StreamWriter(paths.live, table, writer).close()
    assert missing_streams(paths) == []
