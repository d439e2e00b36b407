"""The crew with transactions and members in memory: what is recorded, and where readers go on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from results.record.clock import RunClock, wait_until
from results.record.paths import RunPaths
from results.record.stream import read_stream
from results.record.terms import (
    AssignmentKind,
    Decision,
    GroupAct,
    Isolation,
    Outcome,
    Phase,
    TransactionOutcome,
)
from results.record.topics import CreatedTopic
from workloads.crew import Clients, Crew
from workloads.protocol import (
    Assign,
    Batch,
    Commit,
    Crash,
    Delivery,
    GroupOffset,
    Key,
    Observed,
    Op,
    Poll,
    Reader,
    Rebalance,
    Reservation,
    Seek,
    Send,
    Sought,
    Subscribe,
    Txn,
    TxnResult,
)
from workloads.recorder import COMMITS, STREAMS, TRANSACTIONS, TRANSFORMS, Recorder

TOPICS = [CreatedTopic(topic="log-0", topic_id="id-0", partitions=2)]
HERE, THERE = ("log-0", 0), ("log-0", 1)
CONCURRENCY = 8
Row = dict[str, Any]


def batch(key: Key, offsets: list[int], error: str | None = None) -> Batch:
    return Batch(
        spans=[(key, len(offsets))] if offsets else [],
        offsets=np.array(offsets, np.int64),
        values=np.array(offsets, np.int64) + 1000,
        leader_epochs=np.zeros(len(offsets), np.int32),
        ends={},
        error=error,
        isolation=Isolation.READ_COMMITTED,
    )


def send(key: Key, *values: int) -> Send:
    reserved = Reservation(value_from=values[0], value_to=values[-1] + 1)
    return Send(key=key, values=np.array(values, np.int64), reserved=reserved)


def result(
    outcome: Outcome, deliveries: Sequence[Delivery] = (), *batches: tuple[int, Batch]
) -> TxnResult:
    decision, ended = {
        Outcome.OK: (Decision.COMMIT, TransactionOutcome.COMMITTED),
        Outcome.FAIL: (Decision.ABORT, TransactionOutcome.ABORTED),
        Outcome.INFO: (Decision.COMMIT, TransactionOutcome.UNKNOWN),
    }[outcome]
    return TxnResult(
        outcome=outcome,
        decision=decision,
        ended=ended,
        deliveries=deliveries,
        batches=batches,
        error=None if outcome is Outcome.OK else "E",
    )


@dataclass(slots=True, kw_only=True)
class Scripted:
    """A generator that gives the ops of a list, and remembers what it was shown."""

    ops: Iterator[Op]
    shown: list[Observed] = field(default_factory=list)
    positions: list[dict[Key, int]] = field(default_factory=list)

    def next_op(self, observed: Observed) -> Op:
        self.shown.append(observed)
        self.positions.append(dict(observed.positions))
        return next(self.ops)


@dataclass(slots=True, kw_only=True)
class MemoryMember:
    process: int
    group_id: str
    batches: list[Batch]
    calls: list[tuple[str, object]] = field(default_factory=list)
    offsets: list[GroupOffset] = field(default_factory=list)
    waiting: list[GroupOffset] = field(default_factory=list)

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        self.calls.append(("assign", dict(starts)))
        return None

    def subscribe(self, topics: Sequence[str]) -> str | None:
        self.calls.append(("subscribe", list(topics)))
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:  # noqa: ARG002 - the protocol's
        return self.batches.pop(0) if self.batches else batch(HERE, [])

    def commit(self, positions: Mapping[Key, int], *, op_id: int, wait: bool) -> str | None:
        self.calls.append(("commit", (dict(positions), wait)))
        for key, offset in positions.items():
            asked = GroupOffset(
                act=GroupAct.COMMIT, key=key, offset=offset, asked_ns=20, op_id=op_id
            )
            (self.offsets if wait else self.waiting).append(asked)
        return "REFUSED" if wait else None

    def seek(self, back: int | None) -> Sought:
        self.calls.append(("seek", back))
        if back is None:
            self.offsets.append(
                GroupOffset(act=GroupAct.FETCH, key=HERE, offset=2, asked_ns=30, told_ns=31)
            )
        error = "_STATE" if back == 99 else None
        return Sought(starts={HERE: 2}, at_ns=30, error=error)

    def told(self, *, last: bool = False) -> list[GroupOffset]:
        told = [*self.offsets, *(self.waiting if last else ())]
        self.offsets.clear()
        return told

    def membership(self) -> object:
        return None

    def close(self) -> None:
        self.calls.append(("close", None))

    def abandon(self) -> None:
        self.calls.append(("abandon", None))


@dataclass(slots=True, kw_only=True)
class MemoryTransactor:
    results: list[TxnResult]
    transactional_id: str = "txn-0"
    seen: list[tuple[Txn, Reader, dict[Key, int]]] = field(default_factory=list)

    def transact(self, op: Txn, reader: Reader, starts: Mapping[Key, int]) -> TxnResult:
        self.seen.append((op, reader, dict(starts)))
        return self.results.pop(0)


class Stage:
    """One thread that carries a list of ops out, one after the other."""

    def __init__(
        self,
        paths: RunPaths,
        *ops: Op,
        results: Sequence[TxnResult] = (),
        batches: Sequence[Batch] = (),
    ) -> None:
        self.live = paths.live
        self.members: list[MemoryMember] = []
        self.transactor = MemoryTransactor(results=list(results))
        self.script = Scripted(ops=iter(ops))
        left = list(batches)

        def reader(process: int) -> MemoryMember:
            self.members.append(MemoryMember(process=process, group_id="group-0", batches=left))
            return self.members[-1]

        self.recorder = Recorder(
            self.live, "worker-0", worker=0, topics=TOPICS, acks="all",
            streams=(*STREAMS, TRANSACTIONS, COMMITS, TRANSFORMS),
        )  # fmt: skip
        self.crew = Crew(
            range(1),
            concurrency=CONCURRENCY,
            worker=0,
            generator=self.script,
            clients=Clients(reader=reader, transactor=lambda _thread: self.transactor),
            recorder=self.recorder,
            clock=RunClock.starting_now(),
        )
        for _ in ops:
            self.crew.invoke(Phase.MAIN)
            while not self.crew.free:
                self.crew.serve(1)
        self.recorder.close()

    def rows(self, table: str) -> list[Row]:
        batches = list(read_stream(Path(self.live / f"{table}.worker-0.arrows")))
        return pa.Table.from_batches(batches).to_pylist() if batches else []

    def outcomes(self) -> list[str]:
        return [row["outcome"] for row in self.rows("op_completions")]


ASSIGNED = Assign(starts={HERE: 5, THERE: None})


def test_a_transaction_is_recorded_part_by_part(run_paths: RunPaths) -> None:
    op = Txn(mops=[send(HERE, 1, 2), Poll(limit=9), send(THERE, 7)])
    deliveries = [
        Delivery(offset=40, acked=True, error=None),
        Delivery(error="LATE"),
        Delivery(offset=3, acked=True, error=None),
    ]
    done = result(Outcome.FAIL, deliveries, (2, batch(HERE, [5, 6])))
    stage = Stage(run_paths, ASSIGNED, op, results=[done])
    sending = stage.rows("send_invocations")
    assert [(row["mop"], row["partition"], row["value"]) for row in sending] == [
        (0, 0, 1), (1, 0, 2), (3, 1, 7),
    ]  # fmt: skip
    assert {(row["op_id"], row["txn_id"], row["transactional_id"]) for row in sending} == {
        (1, 1, "txn-0")
    }
    sent = stage.rows("send_completions")
    columns = ("mop", "offset", "outcome", "acked", "error")
    assert [tuple(row[name] for name in columns) for row in sent] == [
        (0, 40, "fail", True, None), (1, None, "fail", False, "LATE"), (3, 3, "fail", True, None),
    ]  # fmt: skip
    polled = [(row["op_id"], row["mop"], row["offset"]) for row in stage.rows("polled")]
    assert polled == [(1, 2, 5), (1, 2, 6)]
    assert {row["isolation"] for row in stage.rows("polled")} == {"read_committed"}
    (row,) = stage.rows("transactions")
    assert row == {
        "txn_id": 1, "op_id": 1, "transactional_id": "txn-0", "producer_id": None,
        "producer_epoch": None, "decision": "abort", "outcome": "aborted",
    }  # fmt: skip
    reserved = [(row["value_from"], row["value_to"]) for row in stage.rows("reservations")]
    assert reserved == [(1, 3), (7, 8)]
    assert stage.rows("op_invocations")[1]["f"] == "txn"
    assert stage.outcomes() == ["ok", "fail"]


@pytest.mark.parametrize(
    ("decision", "outcome"), [(Decision.ABORT, "fail"), (Decision.COMMIT, "info")]
)
def test_what_nobody_asked_to_commit_has_failed_however_its_op_ended(
    run_paths: RunPaths, decision: Decision, outcome: str
) -> None:
    sent = Delivery(offset=40, acked=True, error=None)
    thrown_away = replace(result(Outcome.INFO, [sent]), decision=decision)
    stage = Stage(run_paths, ASSIGNED, Txn(mops=[send(HERE, 1)]), results=[thrown_away])
    assert [row["outcome"] for row in stage.rows("send_completions")] == [outcome]
    assert stage.outcomes() == ["ok", "info"]


def test_what_a_member_read_is_handled_once_and_recorded_with_its_results(
    run_paths: RunPaths,
) -> None:
    pipe = Txn(mops=[send(THERE, 7, 8)], handles=True)
    sent = [Delivery(offset=3, acked=True, error=None), Delivery(offset=4, acked=True, error=None)]
    stage = Stage(
        run_paths, Subscribe(topics=["log-0"]), Poll(limit=9), pipe, Poll(limit=9),
        results=[result(Outcome.OK, sent)], batches=[batch(HERE, [5, 6]), batch(HERE, [])],
    )  # fmt: skip
    columns = ("op_id", "partition", "offset", "value", "result")
    read = [row["value"] for row in stage.rows("polled")]
    assert [tuple(row[name] for name in columns) for row in stage.rows("transforms")] == [
        (2, 0, 5, read[0], 7), (2, 0, 6, read[1], 8),
    ]  # fmt: skip
    assert stage.transactor.seen[0][2] == {HERE: 7}
    assert [each.unhandled for each in stage.script.shown] == [0, 0, 2, 0]
    assert stage.outcomes() == ["ok"] * 4


def test_a_member_does_not_handle_what_was_taken_from_it(run_paths: RunPaths) -> None:
    taken = Rebalance(kind=AssignmentKind.REBALANCE_REVOKED, starts={HERE: None}, at_ns=1)
    stage = Stage(
        run_paths, Subscribe(topics=["log-0"]), Poll(limit=9), Subscribe(topics=["log-0"]),
        batches=[replace(batch(HERE, [5]), rebalances=[taken])],
    )  # fmt: skip
    assert stage.outcomes() == ["ok", "info", "ok"]
    assert [each.unhandled for each in stage.script.shown] == [0, 0, 0]
    assert "was revoked during the poll" in stage.rows("op_completions")[1]["error"]


def test_a_member_that_handled_in_vain_is_thrown_away_and_its_sends_have_failed(
    run_paths: RunPaths,
) -> None:
    pipe = Txn(mops=[send(THERE, 7)], handles=True)
    failed = result(Outcome.FAIL, [Delivery(offset=3, acked=True, error=None)])
    stage = Stage(
        run_paths, Subscribe(topics=["log-0"]), Poll(limit=9), pipe, Subscribe(topics=["log-0"]),
        results=[failed], batches=[batch(HERE, [5])],
    )  # fmt: skip
    assert stage.outcomes() == ["ok", "ok", "info", "ok"]
    assert [row["outcome"] for row in stage.rows("send_completions")] == ["fail"]
    assert [row["process"] for row in stage.rows("op_invocations")] == [0, 0, 0, CONCURRENCY]


def test_a_reader_goes_on_behind_what_a_committed_transaction_read(run_paths: RunPaths) -> None:
    op = Txn(mops=[Poll(limit=9)])
    done = result(Outcome.OK, [], (0, batch(HERE, [5, 6])))
    stage = Stage(run_paths, ASSIGNED, op, Poll(limit=1), results=[done])
    assert stage.script.positions[-1] == {HERE: 7}
    assert stage.transactor.seen[0][2] == {HERE: 5}
    assert [call for call in stage.members[0].calls if call[0] == "assign"] == [
        ("assign", ASSIGNED.starts)
    ]


def test_a_reader_goes_back_to_where_an_aborted_transaction_began(run_paths: RunPaths) -> None:
    op = Txn(mops=[Poll(limit=9)])
    done = result(Outcome.FAIL, [], (0, batch(HERE, [5, 6])))
    read = batch(THERE, [0, 1])
    stage = Stage(run_paths, ASSIGNED, Poll(limit=9), op, Poll(limit=1), results=[done],
                  batches=[read])  # fmt: skip
    assert stage.script.positions[-1] == {HERE: 5, THERE: 2}
    assert stage.members[0].calls == [
        ("assign", ASSIGNED.starts), ("assign", {HERE: 5, THERE: 2}),
    ]  # fmt: skip
    assert len(stage.rows("assignments")) == 2, "it is no assignment of the workload's"
    assert len(stage.members) == 1, "the process goes on"


def test_a_reader_that_could_not_go_back_is_assigned_anew(
    run_paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, "REFUSED", None])
    monkeypatch.setattr(MemoryMember, "assign", lambda _self, _starts: next(answers))
    done = result(Outcome.FAIL, [], (0, batch(HERE, [5, 6])))
    stage = Stage(run_paths, ASSIGNED, Txn(mops=[Poll(limit=9)]), ASSIGNED, results=[done])
    assert [seen.assigned for seen in stage.script.shown] == [False, True, False]
    assert stage.script.positions[-1] == {HERE: 5}


def test_a_transaction_that_read_nothing_moves_nobody(run_paths: RunPaths) -> None:
    done = result(Outcome.FAIL, [], (0, batch(HERE, [])))
    stage = Stage(run_paths, ASSIGNED, Txn(mops=[Poll(limit=9)]), results=[done])
    assert stage.members[0].calls == [("assign", ASSIGNED.starts)]


def test_an_unknown_end_retires_the_process_where_it_began(run_paths: RunPaths) -> None:
    done = result(Outcome.INFO, [], (0, batch(HERE, [5, 6])))
    stage = Stage(run_paths, ASSIGNED, Txn(mops=[Poll(limit=9)]), ASSIGNED, results=[done])
    assert [member.process for member in stage.members] == [0, CONCURRENCY]
    assert stage.script.shown[-1].assigned is False
    assert stage.script.positions[-1] == {HERE: 5}
    assert stage.rows("op_invocations")[-1]["process"] == CONCURRENCY


def test_a_reader_that_failed_in_a_transaction_forgets_where_it_was(run_paths: RunPaths) -> None:
    done = result(Outcome.INFO, [], (0, batch(HERE, [5], error="OUT_OF_RANGE")))
    stage = Stage(run_paths, ASSIGNED, Txn(mops=[Poll(limit=9)]), ASSIGNED, results=[done])
    assert stage.script.positions[-1] == {}


def test_the_generator_sees_what_is_in_flight(run_paths: RunPaths) -> None:
    op = Txn(mops=[send(HERE, 1), send(HERE, 2), send(THERE, 9)])
    done = result(Outcome.OK, [Delivery()] * 3)
    stage = Stage(run_paths, ASSIGNED, op, Poll(limit=1), results=[done])
    after = stage.script.shown[-1]
    assert (dict(after.in_flight), after.transacting) == ({HERE: 0, THERE: 0}, 0)
    assert stage.crew.in_flight == 0
    assert len(stage.crew.latencies_ns) == 1


def test_members_subscribe_commit_and_are_told_of_their_partitions(run_paths: RunPaths) -> None:
    told = [
        Rebalance(kind=AssignmentKind.REBALANCE_REVOKED, starts={HERE: None}, at_ns=11),
        Rebalance(kind=AssignmentKind.REBALANCE_ASSIGNED, starts={HERE: 4, THERE: None}, at_ns=12),
    ]
    first = Batch(
        spans=[], offsets=np.empty(0, np.int64), values=[], leader_epochs=[], ends={}, error=None,
        rebalances=told,
    )  # fmt: skip
    stage = Stage(
        run_paths,
        Subscribe(topics=["log-0"]),
        Poll(limit=9),
        Poll(limit=9, commit=Commit.ASYNC),
        Poll(limit=9, commit=Commit.SYNC),
        Poll(limit=9, commit=Commit.SYNC),
        batches=[first, batch(HERE, [0]), batch(THERE, [0, 1])],
    )
    assigned = [
        (row["op_id"], row["kind"], row["partition"], row["offset"])
        for row in stage.rows("assignments")
    ]
    assert assigned == [
        (0, "subscribe", 0, None), (0, "subscribe", 1, None),
        (1, "rebalance-revoked", 0, None),
        (1, "rebalance-assigned", 0, 4), (1, "rebalance-assigned", 1, None),
    ]  # fmt: skip
    assert [row["time_ns"] for row in stage.rows("assignments")][2:] == [11, 12, 12]
    # A poll that found nothing has nothing to commit.
    assert stage.members[0].calls == [
        ("subscribe", ["log-0"]), ("commit", ({HERE: 1}, False)), ("commit", ({THERE: 2}, True)),
    ]  # fmt: skip
    assert stage.outcomes() == ["ok"] * 5
    # A commit that is refused does not unread the records.
    assert [row["error"] for row in stage.rows("op_completions")] == [None] * 3 + ["REFUSED", None]
    assert [row["op_id"] for row in stage.rows("polled")] == [2, 3, 3]


def test_a_seek_is_recorded_and_one_that_fails_ends_its_process(run_paths: RunPaths) -> None:
    stage = Stage(
        run_paths, Subscribe(topics=["log-0"]), Seek(back=None), Seek(back=99), Poll(limit=9),
        Poll(limit=9),
    )  # fmt: skip
    sought = [
        (row["op_id"], row["process"], row["time_ns"], row["partition"], row["offset"])
        for row in stage.rows("assignments")
        if row["kind"] == "seek"
    ]
    assert sought == [(1, 0, 30, 0, 2), (2, 0, 30, 0, 2)]
    assert [row["f"] for row in stage.rows("op_invocations")][1:3] == ["seek", "seek"]
    assert stage.outcomes()[:3] == ["ok", "ok", "info"]
    (asked,) = stage.rows("commits")
    assert (asked["op_id"], asked["act"], asked["offset"]) == (1, "fetch", 2)
    assert stage.script.positions[2] == {HERE: 2}
    assert stage.rows("op_invocations")[3]["process"] == CONCURRENCY


def test_commits_are_recorded_also_those_that_nobody_answered(run_paths: RunPaths) -> None:
    stage = Stage(
        run_paths,
        Subscribe(topics=["log-0"]),
        Poll(limit=9, commit=Commit.SYNC),
        Poll(limit=9, commit=Commit.ASYNC),
        Poll(limit=9),
        Crash(leave=False),
        batches=[batch(HERE, [0]), batch(THERE, [0, 1])],
    )
    commits = [
        (row["op_id"], row["process"], row["act"], row["partition"], row["offset"], row["told_ns"])
        for row in stage.rows("commits")
    ]
    assert commits == [(1, 0, "commit", 0, 1, None), (2, 0, "commit", 1, 2, None)]


@pytest.mark.parametrize(("leave", "call"), [(True, "close"), (False, "abandon")])
def test_a_member_leaves_or_vanishes(run_paths: RunPaths, leave: bool, call: str) -> None:  # noqa: FBT001 - a parameter of a test
    stage = Stage(run_paths, Subscribe(topics=["log-0"]), Crash(leave=leave))
    calls = stage.members[0].calls
    wait_until(lambda: len(calls) > 1, timeout_s=10, what="the client's end")
    assert calls[-1] == (call, None)
    assert stage.outcomes() == ["ok", "info"]
