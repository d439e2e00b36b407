"""Workers and final reads against a real broker."""

import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from cluster.kafka.cluster import KafkaCluster
from results.record.clock import RunClock, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.stream import read_stream, table_of
from results.record.terms import F, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.final_reads import FIRST_PROCESS, final_reader, read_to_end
from workloads.fleet import Fleet, FleetError, _Worker
from workloads.worker import WorkerConfig

pytestmark = pytest.mark.kafka

PLAN = Plan(nodes=1, replication=1, min_insync=1, concurrency=8, delivery_timeout_s=3, rate=300)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def topics(log_topics: list[CreatedTopic]) -> list[CreatedTopic]:
    return log_topics


def table(live: Path, name: str) -> list[Row]:
    batches = [
        batch
        for path in sorted(live.iterdir())
        if table_of(path) == name
        for batch in read_stream(path)
    ]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


@contextmanager
def fleet_at_work(
    plan: Plan, topics: Sequence[CreatedTopic], cluster: KafkaCluster, paths: RunPaths
) -> Iterator[Fleet]:
    fleet = Fleet(plan, topics, cluster.bootstrap(), clock=RunClock.starting_now(), paths=paths)
    fleet.start()
    try:
        fleet.phase(Phase.MAIN)
        yield fleet
    finally:
        fleet.stop(5)


def wait_for(fleet: Fleet, f: F, outcome: Outcome, count: int) -> None:
    wait_until(
        lambda: fleet.counts().total.ops.get((f, outcome), 0) >= count,
        timeout_s=60,
        what=f"{count} ops {f} {outcome}",
    )


def processes(fleet: Fleet) -> list[subprocess.Popen[bytes]]:
    return [cast("_Worker", worker)._process for worker in fleet._workers]


def test_a_worker_records_every_op_whole(
    one_broker: KafkaCluster, topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    with fleet_at_work(PLAN, topics, one_broker, run_paths) as fleet:
        wait_for(fleet, F.SEND, Outcome.OK, 200)
        wait_for(fleet, F.POLL, Outcome.OK, 200)
        for process in processes(fleet):
            os.kill(process.pid, signal.SIGINT)
        wait_for(fleet, F.SEND, Outcome.OK, 300)
        assert fleet.died() == []
        assert fleet.stop(5) == []
        counts = fleet.counts().total
    live = run_paths.live
    invoked, completed = table(live, "op_invocations"), table(live, "op_completions")
    ends = {row["op_id"]: row for row in completed}
    assert len(ends) == len(completed) == len(invoked) == sum(counts.ops.values())
    assert {row["op_id"] >> 40 for row in invoked} == {0, 1}

    arrivals = table(live, "arrivals")
    assert sum(row["offered"] for row in arrivals) == counts.offered
    assert sum(row["missed"] for row in arrivals) == counts.missed
    assert counts.offered == counts.missed + len(invoked)

    by_process = defaultdict(list)
    for row in sorted(invoked, key=lambda row: row["invoke_ns"]):
        by_process[row["process"]].append((row["invoke_ns"], ends[row["op_id"]]["complete_ns"]))
    for times in by_process.values():
        assert all(start <= end for start, end in times)
        assert all(this[1] <= later[0] for this, later in pairwise(times))

    sending, sent = table(live, "send_invocations"), table(live, "send_completions")
    assert len({row["value"] for row in sending}) == len(sending) == len(sent)
    assert all(row["acked"] and row["offset"] is not None for row in sent)
    assert {(row["topic"], row["partition"]) for row in sending} == set(PLAN.topic_partitions)
    ranges = [(row["value_from"], row["value_to"]) for row in table(live, "reservations")]
    polled = table(live, "polled")
    assert polled
    for row in polled + sending:
        assert any(low <= row["value"] < high for low, high in ranges)
    offsets = {row["op_id"]: row["offset"] for row in sent}
    where = {(r["topic"], r["partition"], offsets[r["op_id"]]): r["value"] for r in sending}
    assert all(
        where[row["topic"], row["partition"], row["offset"]] == row["value"] for row in polled
    )
    assert {row["topic_id"] for row in polled} == {topic.topic_id for topic in topics}
    assert all(row["leader_epoch"] == 0 for row in polled)


def test_a_broker_that_is_killed_leaves_info_and_new_processes_that_go_on(
    one_broker: KafkaCluster, topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    with fleet_at_work(PLAN, topics, one_broker, run_paths) as fleet:
        wait_for(fleet, F.SEND, Outcome.OK, 50)
        one_broker.kill_node("n1")
        wait_for(fleet, F.SEND, Outcome.INFO, 2)
        one_broker.start_node("n1")
        before = fleet.counts().total.ops[F.SEND, Outcome.OK]
        wait_for(fleet, F.SEND, Outcome.OK, before + 50)
        assert fleet.died() == []
        fleet.stop(5)
    ended = {row["op_id"]: row for row in table(run_paths.live, "op_completions")}
    invoked = table(run_paths.live, "op_invocations")
    lost = [row for row in invoked if row["f"] == "send" and outcome(ended, row) == "info"]
    assert {ended[row["op_id"]]["error"].split(":")[0] for row in lost} == {"_MSG_TIMED_OUT"}
    ops_of = Counter(row["process"] for row in invoked)
    for row in lost:
        later = [each for each in invoked if each["process"] == row["process"]]
        assert max(later, key=lambda each: each["invoke_ns"]) == row
        assert ops_of[row["process"] + PLAN.concurrency] > 0


def test_a_worker_that_crashes_is_told_and_one_that_is_killed_is_none(
    one_broker: KafkaCluster, topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    with fleet_at_work(PLAN, topics, one_broker, run_paths) as fleet:
        assert fleet.crashes() == []
        for process, signum in zip(processes(fleet), (signal.SIGABRT, signal.SIGKILL), strict=True):
            os.kill(process.pid, signum)
            process.wait(10)
        (crash,) = fleet.crashes()
        assert (crash.worker, crash.signal) == (0, "SIGABRT")
        assert len(fleet.died()) == 2


def outcome(ended: dict[int, Row], row: Row) -> str | None:
    return ended[row["op_id"]]["outcome"] if row["op_id"] in ended else None


def test_the_end_of_the_controllers_pipe_ends_a_worker_with_its_record_whole(
    one_broker: KafkaCluster, topics: list[CreatedTopic], run_paths: RunPaths, tmp_path: Path
) -> None:
    config = WorkerConfig(
        plan=PLAN,
        topics=tuple(topics),
        bootstrap=one_broker.bootstrap(),
        start_ns=RunClock.starting_now().start_ns,
        live=run_paths.live,
        worker=0,
        workers=1,
        parent=os.getpid(),
    )
    path = tmp_path / "config.json"
    path.write_text(config.model_dump_json(exclude_none=True))
    with subprocess.Popen(
        [sys.executable, "-m", "workloads.worker", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert b"ready" in process.stdout.readline()
        assert b"ops" in process.stdout.readline()
        process.stdin.close()
        assert process.wait(10) == 0
    assert table(run_paths.live, "op_invocations")
    for stream in run_paths.live.iterdir():
        with pa.ipc.open_stream(stream.read_bytes()) as whole:
            whole.read_all()


def test_a_worker_that_dies_by_itself_is_told(
    one_broker: KafkaCluster, topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    with fleet_at_work(PLAN, topics, one_broker, run_paths) as fleet:
        assert fleet.died() == []
        processes(fleet)[1].kill()
        (sentence,) = wait_until(fleet.died, timeout_s=10, what="the death to be seen")
        assert "worker 1 exited by itself" in sentence
        assert fleet.stop(5) == [sentence]


def test_a_fleet_that_cannot_start_says_why_and_leaves_nothing_running(
    one_broker: KafkaCluster, run_paths: RunPaths
) -> None:
    absent = [CreatedTopic(topic="log-9", topic_id="none", partitions=4)]
    fleet = Fleet(
        PLAN, absent, one_broker.bootstrap(), clock=RunClock.starting_now(), paths=run_paths
    )
    with pytest.raises(FleetError, match="topic log-9 cannot be used"):
        fleet.start()
    assert all(worker.ended() for worker in fleet._workers)


def test_final_reads_reach_every_target_and_say_when_one_was_not_reached(
    one_broker: KafkaCluster, topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    plan = PLAN.model_copy(update={"sends_per_op": 500})
    with fleet_at_work(plan, topics, one_broker, run_paths) as fleet:
        wait_for(fleet, F.SEND, Outcome.OK, 100)
    targets = one_broker.leader_ends(plan.topic_partitions, committed=True, timeout_s=10)
    assert sum(targets.values()) >= 50_000
    clock = RunClock.starting_now()

    def read(live: Path, targets: dict[tuple[str, int], int], timeout_s: float) -> list[bool]:
        live.mkdir()
        reads = read_to_end(
            plan, topics, final_reader(plan, one_broker.bootstrap()), targets=targets,
            clock=clock, live=live, timeout_s=timeout_s,
        )  # fmt: skip
        assert [(each.topic, each.partition) for each in reads] == sorted(targets)
        rows = table(live, "final_reads")
        assert [row["reached"] for row in rows] == [each.reached for each in reads]
        return [each.complete for each in reads]

    whole = run_paths.root / "whole"
    assert all(read(whole, targets, 60))
    seen = Counter((row["topic"], row["partition"]) for row in table(whole, "polled"))
    assert all(seen[key] >= target for key, target in targets.items())
    ops = table(whole, "op_invocations")
    assert {row["phase"] for row in ops} == {"final"}
    assert min(row["process"] for row in ops) == FIRST_PROCESS
    assert len({row["op_id"] for row in ops}) == len(ops)

    beyond = targets | {("log-0", 0): targets["log-0", 0] + 1}
    assert read(run_paths.root / "beyond", beyond, 5) == [False] + [True] * 7
