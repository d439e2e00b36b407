"""A run's folder as a real run leaves it, made by hand: a lost write, faults, leaders, statistics.

Two topics of two partitions on three brokers. Broker 1 leads log-0-1 in epoch 4, is isolated from
20 s to 26 s, acknowledges offsets 120 to 122 alone (acks 1), and truncates them when it becomes a
follower of broker 2 in epoch 5.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.record.clock import NS_PER_S
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.record.tables import TABLES
from results.record.terms import AnomalyClass, Validity
from results.record.topics import CreatedTopic, dump_topics
from results.record.values import pack_value
from results.record.verdict import AnomalySummary, Evidence, Example, Verdict
from results.tables import STATISTICS, statistics_path
from results.verdict_json import write_verdict
from tests.results.told import told

TOPIC, TOPIC_ID, PARTITION = "log-0", "4f5b7c5e-0000-4000-8000-000000000001", 1
PLACE = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": PARTITION}
LOST_OFFSET = 121
LOST_VALUE = pack_value(2, 1121)
SENTENCE = (
    f"value {LOST_VALUE}, acknowledged at offset {LOST_OFFSET} of log-0-1 (leader as observed then:"
    " broker 1, epoch 4), is in no replica's log; n1 truncated offset 121 at 27.4 s when it became"
    " a follower of broker 2 in epoch 5"
)

Row = dict[str, Any]
MakeRun = Callable[..., RunPaths]
"""`make_run(verdict=..., statistics=True, topic="log-0")`."""


def ns(second: float) -> int:
    return int(second * NS_PER_S)


def write_rows(path: Path, schema: pa.Schema, rows: Sequence[Row], run_id: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([{"run_id": run_id, **row} for row in rows], schema=schema)
    pq.write_table(table, path)


def lost_write(topic: str = TOPIC, sentence: str = SENTENCE) -> Example:
    evidence: Evidence = {
        "value": LOST_VALUE,
        "offset": LOST_OFFSET,
        "op_id": 4721,
        "acknowledged_ns": ns(22.3),
        "leader_then": 1,
        "leader_epoch_then": 4,
        "final_leader": 2,
        "final_leader_epoch": 5,
        "replicas": ["n1 holds 8589935792 (epoch 5)", "n2 holds 8589935792 (epoch 5)"],
        "found_on": [],
    }
    return Example(
        sentence=sentence,
        evidence=evidence,
        topic=topic,
        topic_id=TOPIC_ID,
        partition=PARTITION,
        offset=LOST_OFFSET,
        allowed=False,
        trusted=True,
        why="",
    )


def summary(count: int, *examples: Example, allowed: int = 0) -> AnomalySummary:
    return AnomalySummary(
        anomaly_class=AnomalyClass.SAFETY,
        count=count,
        allowed=allowed,
        trusted=count,
        examples=examples,
    )


def verdict_of(run_id: str, valid: Validity = Validity.INVALID) -> Verdict:
    held = "offset 121 of log-0-1 held 8589935713 and 8589935784"
    return told(
        Verdict(
            run_id=run_id,
            valid=valid,
            judge="strict",
            engine="local",
            anomalies={
                "lost-write": summary(3, lost_write()),
                "inconsistent-offsets": summary(1, lost_write(sentence=held)),
            },
            guarantees=(
                "acks=1: a write is acknowledged once its leader has it; it may be lost with it.",
                "min.insync.replicas=2, replication factor 3.",
            ),
            checked={
                "lost-write": 14231,
                "duplicate": 28462,
                "inconsistent-offsets": 28463,
                "log-divergence": 42800,
                "two-leaders-in-epoch": 9120,
                "unseen": None,
            },
            stats={"ops": 30000},
        )
    )


def _milestones(paths: RunPaths) -> None:
    for name, second in (
        ("started", 0.0), ("ready", 4.2), ("warmup", 5.0), ("main", 10.0), ("main-ended", 50.0),
        ("healed", 52.5), ("recovered", 58.0), ("final-reads", 58.1), ("noted", 63.0),
        ("stopped", 66.0), ("collected", 67.0),
    ):  # fmt: skip
        append_milestone(paths.milestones, Milestone(name=name, at_ns=ns(second)))


def _fault(
    number: int,
    kind: str,
    targets: list[str],
    *,
    times: tuple[float, float, float | None],
    effect: Row,
) -> Row:
    spec = {
        "kind": kind, "target": "leader(log-0,1)", "hold_s": 5, "at_s": times[0] - 10,
        "links": [], "roles": {"led": ["log-0-1"], "followed": 3, "controller": number == 1},
    }  # fmt: skip
    healed = times[2]
    return {
        "fault_id": number, "kind": kind, "spec": json.dumps(spec), "targets": targets,
        "requested_ns": ns(times[0]), "confirmed_ns": ns(times[1]),
        "healed_ns": None if healed is None else ns(healed),
        "effect": json.dumps(effect),
        "heal_effect": json.dumps({"kind": "back", "took_s": 1.5, "was_gone": targets,
                                   "processes": [{"node": each} for each in targets]}),
    }  # fmt: skip


def fault_rows() -> list[Row]:
    links = [
        {"sender": a, "receiver": b, "cut": True, "before": True, "during": False}
        for a, b in (("n1", "n2"), ("n2", "n1"), ("n1", "n3"), ("n3", "n1"))
    ]
    kill = {"kind": "kill", "processes": [{"node": "n3", "pid": 812, "state_after": None}]}
    pause = {"kind": "pause", "processes": [{"node": "n2", "pid": 811, "state_after": "T"}]}
    return [
        _fault(
            1, "isolate", ["n1"], times=(20.0, 20.9, 26.0), effect={"kind": "cut", "links": links}
        ),
        _fault(2, "kill", ["n3"], times=(30.0, 30.2, 36.0), effect=kill),
        _fault(3, "pause", ["n2"], times=(40.0, 40.1, 46.5), effect=pause),
        _fault(4, "pause", ["n1"], times=(43.0, 43.4, 48.0), effect=pause),
    ]


def _sends(topic: str) -> list[Row]:
    place = {**PLACE, "topic": topic}
    return [
        {
            "op_id": 4600 + offset, "mop": 0, **place, "value": pack_value(2, 1000 + offset),
            "offset": offset, "outcome": "ok", "acked": True, "acks": "1", "process": 1,
            "phase": "main", "invoke_ns": ns(20 + offset / 100),
            "complete_ns": ns(20.01 + offset / 100),
        }
        for offset in range(100, 123)
    ]  # fmt: skip


def _replica_records(topic: str) -> list[Row]:
    rows = []
    for node in ("n1", "n2", "n3"):
        for offset in range(100, 130):
            lost = offset >= 120
            value = pack_value(2, 1071 + offset if lost else 1000 + offset)
            rows.append({
                **PLACE, "topic": topic, "snapshot": "final", "node": node, "offset": offset,
                "leader_epoch": 5 if lost else 4, "value": value, "record_hash": value * 31,
                "producer_id": 1, "producer_epoch": 0, "sequence": offset, "control": False,
            })  # fmt: skip
    return rows


def _leaders(topic: str) -> list[Row]:
    changes = {
        (topic, 1): [(1, 4, 4.2, 21.6), (-1, 4, 21.6, 23.0), (2, 5, 23.0, 66.0)],
        (topic, 0): [(2, 0, 4.2, 41.0), (3, 1, 41.0, 66.0)],
        ("log-1", 0): [(3, 0, 4.2, 30.4), (1, 1, 30.4, 66.0)],
        ("log-1", 1): [(1, 0, 4.2, 66.0)],
    }
    return [
        {
            "topic": name, "partition": partition, "leader": leader, "leader_epoch": epoch,
            "from_ns": ns(start), "to_ns": ns(end),
        }
        for (name, partition), line in changes.items()
        for leader, epoch, start, end in line
    ]  # fmt: skip


def _in_fault(second: int) -> bool:
    return 20 <= second < 24 or 30 <= second < 33 or 40 <= second < 44


def statistics_rows(topic: str) -> dict[str, list[Row]]:
    rates: list[Row] = []
    latency: list[Row] = []
    offered: list[Row] = []
    availability: list[Row] = []
    for second in range(5, 52):
        bad = _in_fault(second)
        for f in ("send", "poll"):
            counts = {"ok": 150 if bad else 250, "info": 60 if bad and f == "send" else 0}
            rates += [
                {"second": second, "f": f, "outcome": outcome, "count": count}
                for outcome, count in counts.items()
                if count
            ]
            base = 4.0 + (second % 5) + (900.0 if bad else 0.0)
            latency.append({
                "second": second, "f": f, "p50_ms": base, "p95_ms": base * 2, "p99_ms": base * 3,
                "max_ms": base * 4,
            })  # fmt: skip
        offered.append({"second": second, "offered": 500, "missed": 40 if bad else 0})
        availability += [
            {
                "topic": topic, "partition": partition, "second": second, "attempted": 60,
                "ok": 20 if bad and partition else 60,
            }
            for partition in (0, 1)
        ]  # fmt: skip
    return {
        "rates": rates, "latency": latency, "offered": offered, "availability": availability,
        "leaders": _leaders(topic),
    }  # fmt: skip


def record_rows(topic: str) -> dict[str, list[Row]]:
    states: list[Row] = [
        {**PLACE, "topic": topic, "snapshot": "final", "node": node, "log_start_offset": 0,
         "log_end_offset": 130}
        for node in ("n1", "n2", "n3")
    ]  # fmt: skip
    truncation = {
        **PLACE, "topic": topic, "node": "n1", "from_offset": 120, "to_offset": 123,
        "observed_ns": ns(27.4), "reason": "follower of broker 2 in epoch 5",
    }  # fmt: skip
    return {
        "faults": fault_rows(), "sends": _sends(topic), "truncations": [truncation],
        "replica_records": _replica_records(topic), "replica_states": states,
    }  # fmt: skip


def fill_run(paths: RunPaths, *, verdict: Verdict | None, statistics: bool, topic: str) -> RunPaths:
    for folder in (paths.live, paths.statistics, paths.node("n1")):
        folder.mkdir(parents=True, exist_ok=True)
    plan = plan_from({"partitions": 2, "acks": "1", "judge": "strict", "seed": 7})
    paths.plan.write_text(dump_plan(plan), encoding="utf-8")
    environment = {"logquake": "0.1.0", "python": "3.12.1", "java": "/usr/bin/java", "cores": 2,
                   "memory_bytes": 8_000_000_000, "libraries": {"pyarrow": "18"}}  # fmt: skip
    paths.environment.write_text(json.dumps(environment), encoding="utf-8")
    dump_topics([CreatedTopic(topic=topic, topic_id=TOPIC_ID, partitions=2)], paths.topics)
    _milestones(paths)
    for name, rows in record_rows(topic).items():
        write_rows(paths.table(name), TABLES[name], rows, paths.run_id)
    for name, rows in statistics_rows(topic).items() if statistics else ():
        write_rows(statistics_path(paths, name), STATISTICS[name], rows, paths.run_id)
    (paths.node("n1") / "server.log").write_text("started\n", encoding="utf-8")
    if verdict is not None:
        write_verdict(paths, verdict)
    return paths


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make a run with a lost write in a store of its own."""

    def make(
        *,
        verdict: Verdict | None = None,
        judged: bool = True,
        statistics: bool = True,
        topic: str = TOPIC,
    ) -> RunPaths:
        paths = RunPaths(tmp_path / "runs" / "log" / "20261121T104500Z-7")
        chosen = verdict or (verdict_of(paths.run_id) if judged else None)
        return fill_run(paths, verdict=chosen, statistics=statistics, topic=topic)

    return make
