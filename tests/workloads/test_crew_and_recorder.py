"""The crew with clients in memory: what is recorded when, and what becomes of processes."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from results.record.clock import RunClock, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream
from results.record.terms import F, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.crew import Clients, Crew
from workloads.log import LogGenerator
from workloads.protocol import Batch, Key, Send, SendResult
from workloads.recorder import Recorder

TOPICS = [CreatedTopic(topic="log-0", topic_id="id-0", partitions=1)]
EMPTY = Batch(
    spans=[], offsets=np.empty(0, np.int64), values=[], leader_epochs=[], ends={}, error=None
)


def rows(live: Path, table: str) -> list[dict[str, Any]]:
    batches = list(read_stream(live / f"{table}.worker-0.arrows"))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


@dataclass(slots=True, kw_only=True)
class MemorySender:
    """Keeps ops until told what became of them; looks at the disk when an op leaves."""

    live: Path
    fatal: bool = False
    open: list[tuple[Send, Callable[[SendResult], None]]] = field(default_factory=list)
    unreserved: list[int] = field(default_factory=list)

    def send(self, op: Send, done: Callable[[SendResult], None]) -> None:
        ranges = [(r["value_from"], r["value_to"]) for r in rows(self.live, "reservations")]
        for value in op.values.tolist():
            if not any(low <= value < high for low, high in ranges):
                self.unreserved.append(value)
        self.open.append((op, done))

    def serve(self, timeout_s: float) -> None:
        """Nothing comes by itself."""

    def waiting(self) -> int:
        return len(self.open)

    def end_all(self, outcome: Outcome) -> None:
        for op, done in self.open:
            count = len(op.values)
            if outcome is Outcome.OK:
                done(SendResult(offsets=np.arange(count)))
            else:
                unknown = np.full(count, -1)
                done(SendResult(offsets=unknown, outcomes=[outcome] * count, errors=["E"] * count))
        self.open.clear()


@dataclass(slots=True, kw_only=True)
class MemoryReader:
    process: int
    closed: bool = False
    silent: threading.Event | None = None
    """Nobody answers this one as it leaves, until then."""

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:  # noqa: ARG002 - the protocol's
        return None

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:  # noqa: ARG002 - the protocol's
        return EMPTY

    def membership(self) -> object:
        return None

    def close(self) -> None:
        if self.silent:
            self.silent.wait()
        self.closed = True


@dataclass(slots=True, kw_only=True)
class Stage:
    crew: Crew
    senders: list[MemorySender]
    readers: list[MemoryReader]
    recorder: Recorder


def stage(paths: RunPaths, plan: Plan) -> Stage:
    senders: list[MemorySender] = []
    readers: list[MemoryReader] = []

    def sender() -> MemorySender:
        senders.append(MemorySender(live=paths.live))
        return senders[-1]

    def reader(process: int) -> MemoryReader:
        readers.append(MemoryReader(process=process))
        return readers[-1]

    recorder = Recorder(paths.live, "worker-0", worker=0, topics=TOPICS, acks=plan.acks)
    crew = Crew(
        range(plan.concurrency),
        concurrency=plan.concurrency,
        worker=0,
        generator=LogGenerator(plan, worker=0, workers=1),
        clients=Clients(sender=sender, reader=reader),
        recorder=recorder,
        clock=RunClock.starting_now(),
    )
    return Stage(crew=crew, senders=senders, readers=readers, recorder=recorder)


PLAN = Plan(topics=1, partitions=1, concurrency=4, workers=1, rate=0)


def work(stage: Stage, passes: int, outcome: Outcome) -> None:
    for _ in range(passes):
        for _ in range(stage.crew.free):
            stage.crew.invoke(Phase.MAIN)
        for sender in stage.senders:
            sender.end_all(outcome)
        stage.crew.serve(0)


def test_values_are_reserved_on_disk_before_they_leave(run_paths: RunPaths) -> None:
    here = stage(run_paths, PLAN)
    work(here, 30, Outcome.OK)
    here.recorder.close()
    assert here.crew.ops[F.SEND, Outcome.OK] > 20
    assert here.senders[0].unreserved == []
    assert len(rows(run_paths.live, "reservations")) == 1


def test_info_retires_the_process_and_a_later_one_goes_on_with_a_new_consumer(
    run_paths: RunPaths,
) -> None:
    here = stage(run_paths, PLAN)
    work(here, 10, Outcome.INFO)
    here.recorder.close()
    invoked = rows(run_paths.live, "op_invocations")
    ended = {row["op_id"]: row["outcome"] for row in rows(run_paths.live, "op_completions")}
    last_of_info = {
        process: [row["op_id"] for row in invoked if row["process"] == process][-1]
        for process in {row["process"] for row in invoked if ended[row["op_id"]] == "info"}
    }
    assert len(last_of_info) > 4
    assert all(ended[op_id] == "info" for op_id in last_of_info.values())
    firsts = {row["process"]: row["f"] for row in reversed(invoked)}
    assert set(firsts.values()) == {"assign"}
    assert {reader.process for reader in here.readers} >= set(firsts)
    assert any(process >= PLAN.concurrency for process in last_of_info)


def test_a_reader_whose_end_takes_long_keeps_no_other_one_open(run_paths: RunPaths) -> None:
    """Else members would stay in their groups whose processes are over."""
    here, answered = stage(run_paths, PLAN), threading.Event()
    here.readers[0].silent = answered
    try:
        work(here, 10, Outcome.INFO)
        ended = [each for each in here.readers if each.process < PLAN.concurrency]
        wait_until(
            lambda: all(each.closed for each in ended[1:]), timeout_s=60, what="the others' end"
        )
        assert not here.readers[0].closed
    finally:
        answered.set()
        here.recorder.close()


def test_a_failed_send_does_not_retire_its_process(run_paths: RunPaths) -> None:
    here = stage(run_paths, PLAN)
    work(here, 30, Outcome.FAIL)
    here.recorder.close()
    assert here.crew.ops[F.SEND, Outcome.FAIL] > 20
    assert {row["process"] for row in rows(run_paths.live, "op_invocations")} == {0, 1, 2, 3}


def test_a_shared_producer_is_replaced_after_a_fatal_error_only(run_paths: RunPaths) -> None:
    here = stage(run_paths, PLAN)
    work(here, 5, Outcome.INFO)
    assert len(here.senders) == 1
    here.senders[0].fatal = True
    work(here, 2, Outcome.OK)
    here.recorder.close()
    assert len(here.senders) == 2


def test_large_ops_are_recorded_like_small_ones(run_paths: RunPaths) -> None:
    here = stage(run_paths, PLAN.model_copy(update={"sends_per_op": 40}))
    work(here, 6, Outcome.OK)
    work(here, 1, Outcome.INFO)
    here.recorder.close()
    sending = rows(run_paths.live, "send_invocations")
    sent = rows(run_paths.live, "send_completions")
    assert len(sending) == len(sent) >= 80
    assert len({row["value"] for row in sending}) == len(sending)
    first = {"mop": 0, "topic": "log-0", "topic_id": "id-0", "partition": 0, "acks": "all"}
    assert first.items() <= sending[0].items()
    ok = [row for row in sent if row["outcome"] == "ok"]
    assert ok[:40] == [
        {**row, "mop": at, "offset": at, "acked": True, "error": None}
        for at, row in enumerate(ok[:40])
    ]
    for row in sent[len(ok) :]:
        assert (row["outcome"], row["acked"], row["offset"], row["error"]) == (
            "info", False, None, "E",
        )  # fmt: skip


def test_without_acknowledgements_nothing_is_acked_and_no_offset_is_known(
    run_paths: RunPaths,
) -> None:
    here = stage(run_paths, PLAN.model_copy(update={"acks": "0"}))
    work(here, 6, Outcome.OK)
    here.recorder.close()
    sent = rows(run_paths.live, "send_completions")
    assert sent
    assert {(row["outcome"], row["acked"], row["offset"]) for row in sent} == {("ok", False, None)}
