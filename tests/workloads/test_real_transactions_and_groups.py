"""Workers with transactions, and with groups, on a real broker: what they record."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cluster.kafka.cluster import KafkaCluster
from results.record.clock import RunClock, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.stream import read_stream, table_of
from results.record.terms import F, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.final_reads import final_reader, read_to_end
from workloads.fleet import Fleet

pytestmark = [pytest.mark.everything, pytest.mark.kafka]

LIMIT_S = 60.0
ALONE = {"nodes": 1, "replication": 1, "min_insync": 1}
TXN = plan_from({**ALONE, "workload": "txn", "rate": 200})
GROUPS = plan_from({**ALONE, "workload": "groups", "rate": 300})
Row = dict[str, Any]


def rows(live: Path, name: str) -> list[Row]:
    batches = [
        batch
        for path in sorted(live.iterdir())
        if table_of(path) == name
        for batch in read_stream(path)
    ]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


@contextmanager
def at_work(
    plan: Plan, topics: list[CreatedTopic], cluster: KafkaCluster, paths: RunPaths
) -> Iterator[Fleet]:
    fleet = Fleet(plan, topics, cluster.bootstrap(), clock=RunClock.starting_now(), paths=paths)
    fleet.start()
    try:
        fleet.phase(Phase.MAIN)
        yield fleet
    finally:
        assert fleet.stop(30) == []


def wait_for(fleet: Fleet, f: F, outcome: Outcome, count: int) -> None:
    wait_until(
        lambda: fleet.counts().total.ops.get((f, outcome), 0) >= count,
        timeout_s=LIMIT_S,
        what=f"{count} ops {f} {outcome}",
    )


def test_a_worker_records_transactions_whole_and_nobody_is_given_what_was_aborted(
    one_broker: KafkaCluster, log_topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    with at_work(TXN, log_topics, one_broker, run_paths) as fleet:
        wait_for(fleet, F.TXN, Outcome.OK, 60)
        wait_for(fleet, F.TXN, Outcome.FAIL, 4)
    live = run_paths.live
    ended = {row["op_id"]: row for row in rows(live, "op_completions")}
    invoked = {row["op_id"]: row for row in rows(live, "op_invocations")}
    assert set(ended) == set(invoked)
    txns = {op_id for op_id, row in invoked.items() if row["f"] == "txn"}
    told = {row["op_id"]: row for row in rows(live, "transactions")}
    assert set(told) == txns
    words = {
        "ok": ("commit", "committed"), "fail": ("abort", "aborted"), "info": ("abort", "unknown"),
    }  # fmt: skip
    for op_id, row in told.items():
        # On a slow machine an abort may come too late to be heard of.
        assert row["decision"] == words[ended[op_id]["outcome"]][0]
        assert row["outcome"] in {words[ended[op_id]["outcome"]][1], "unknown"}
        thread = invoked[op_id]["process"] % TXN.concurrency
        assert row["transactional_id"] == f"txn-{thread}"
        assert row["txn_id"] == op_id

    sending = {(row["op_id"], row["mop"]): row for row in rows(live, "send_invocations")}
    sent = {(row["op_id"], row["mop"]): row for row in rows(live, "send_completions")}
    assert set(sending) == set(sent)
    assert {op_id for op_id, _ in sending} <= txns
    assert all(row["txn_id"] == row["op_id"] for row in sending.values())
    # What was thrown away has failed: nobody ever asked for its commit.
    fate = {"commit": "ok", "abort": "fail"}
    assert all(row["outcome"] == fate[told[op_id]["decision"]] for (op_id, _), row in sent.items())
    assert all(row["acked"] for row in sent.values() if row["outcome"] == "ok")
    assert all(row["acked"] == (row["offset"] is not None) for row in sent.values())

    aborted = {
        (sending[part]["topic"], sending[part]["partition"], row["offset"])
        for part, row in sent.items()
        if row["outcome"] == "fail" and row["acked"]
    }
    seen = defaultdict(set)
    for row in rows(live, "polled"):
        seen[row["isolation"]].add((row["topic"], row["partition"], row["offset"]))
    assert aborted & seen["read_uncommitted"]
    assert seen["read_committed"]
    assert not aborted & seen["read_committed"]


def test_final_reads_of_transactions_come_to_the_last_stable_offset(
    one_broker: KafkaCluster, log_topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    with at_work(TXN, log_topics, one_broker, run_paths) as fleet:
        wait_for(fleet, F.TXN, Outcome.OK, 30)
        wait_for(fleet, F.TXN, Outcome.FAIL, 2)
    targets = one_broker.leader_ends(TXN.topic_partitions, committed=True, timeout_s=LIMIT_S)
    ends = one_broker.leader_ends(TXN.topic_partitions, committed=False, timeout_s=LIMIT_S)
    assert targets == ends
    live = run_paths.root / "final"
    live.mkdir()
    reads = read_to_end(
        TXN, log_topics, final_reader(TXN, one_broker.bootstrap()), targets=targets,
        clock=RunClock.starting_now(), live=live, timeout_s=LIMIT_S,
    )  # fmt: skip
    assert all(each.complete for each in reads)
    assert {row["isolation"] for row in rows(live, "final_reads")} == {"read_committed"}
    polled = {(row["topic"], row["partition"], row["offset"]) for row in rows(live, "polled")}
    sending = {(row["op_id"], row["mop"]): row for row in rows(run_paths.live, "send_invocations")}
    for row in rows(run_paths.live, "send_completions"):
        place = sending[row["op_id"], row["mop"]]
        at = (place["topic"], place["partition"], row["offset"])
        assert (at in polled) == (row["outcome"] == "ok")


def test_members_are_recorded_with_their_rebalances_and_with_what_they_read(
    one_broker: KafkaCluster, log_topics: list[CreatedTopic], run_paths: RunPaths
) -> None:
    with at_work(GROUPS, log_topics, one_broker, run_paths) as fleet:
        wait_for(fleet, F.SEND, Outcome.OK, 60)
        wait_until(
            lambda: sum(row["kind"] == "rebalance-assigned" for row in assignments(run_paths)) >= 8,
            timeout_s=LIMIT_S,
            what="members that were given partitions",
        )
        before = fleet.counts().total.of_f(F.POLL)
        wait_until(
            lambda: fleet.counts().total.of_f(F.POLL) >= before + 300,
            timeout_s=LIMIT_S,
            what="their polls",
        )
    live = run_paths.live
    invoked = {row["op_id"]: row for row in rows(live, "op_invocations")}
    ended = {row["op_id"]: row for row in rows(live, "op_completions")}
    assert set(ended) == set(invoked)
    members = {row["process"] for row in invoked.values() if row["f"] == "subscribe"}
    assert {process % GROUPS.concurrency // 2 % 2 for process in members} == {0}
    given = defaultdict(set)
    for row in rows(live, "assignments"):
        assert invoked[row["op_id"]]["process"] == row["process"]
        assert (row["process"] in members) == (row["kind"] != "assign")
        if row["kind"] == "rebalance-assigned":
            assert invoked[row["op_id"]]["f"] == "poll"
            given[row["process"]].add((row["topic"], row["partition"]))
    read = defaultdict(set)
    for row in rows(live, "polled"):
        process = invoked[row["op_id"]]["process"]
        if process in members:
            read[process].add((row["topic"], row["partition"]))
    assert read
    assert all(places <= given[process] for process, places in read.items())


def assignments(paths: RunPaths) -> list[Row]:
    return rows(paths.live, "assignments")
