"""Histories of one partition, written by hand; what a row does not say is a harmless default."""

from collections.abc import Mapping

import pyarrow as pa

from checkers.facts import RunFacts
from checkers.group import Group, group_of
from checkers.protocol import Checker, Findings
from results.record.milestones import Milestone
from results.record.plan import Plan, plan_from
from results.record.tables import TABLES
from results.record.values import pack_value
from tests.checkers.faithful import STONES
from tests.checkers.faithful_clients import Row

PLACE = {"topic": "log-0", "topic_id": "id-0", "partition": 0}
A, B, C = (pack_value(1, number) for number in (1, 2, 3))
S = 1_000_000_000
RETENTION = {"broker": {"log.retention.ms": "1000"}}
"""A plan by which brokers drop the beginnings of logs."""


def facts(*, plan: Mapping[str, object] | None = None, **changes: object) -> RunFacts:
    base: Row = {"topics": 1, "partitions": 1}
    values: Row = {
        "run_id": "hand/made",
        "recorded_id": "hand/made",
        "plan": made_plan(**{**base, **(plan or {})}),
        "milestones": tuple(Milestone(name=name, at_ns=at) for at, name in enumerate(STONES)),
        "quorum_high_watermark": 100,
        **changes,
    }
    return RunFacts(**values)


def made_plan(**values: object) -> Plan:
    return plan_from(values)


def group(about: RunFacts | None = None, /, **rows: list[Row]) -> Group:
    tables = {
        name: pa.Table.from_pylist([{**PLACE, **row} for row in each], schema=TABLES[name])
        for name, each in rows.items()
    }
    return group_of(about or facts(), tables, **PLACE)  # type: ignore[arg-type]  # Row's values.


def whole_run(about: RunFacts | None = None, /, **rows: list[Row]) -> Group:
    tables = {name: pa.Table.from_pylist(each, schema=TABLES[name]) for name, each in rows.items()}
    return group_of(about or facts(), tables)


def found(checker: Checker, on: Group) -> Findings:
    return checker.check(on)


def sentences(checker: Checker, on: Group) -> list[str]:
    return [anomaly.sentence for anomaly in checker.check(on).anomalies]


def ack(value: int, offset: int | None, *, op: int = 1, acks: str = "all", at: int = S) -> Row:
    return {"op_id": op, "mop": 0, "value": value, "offset": offset, "outcome": "ok",
            "acked": True, "acks": acks, "process": op, "invoke_ns": at - 5,
            "complete_ns": at}  # fmt: skip


def timed_out(value: int, *, op: int = 1) -> Row:
    return {"op_id": op, "mop": 0, "value": value, "outcome": "info", "acked": False, "acks": "all"}


def read(value: int | None, offset: int, *, op: int = 9, phase: str = "final") -> Row:
    return {"op_id": op, "process": op, "mop": 0, "pos": offset, "value": value, "offset": offset,
            "phase": phase, "isolation": "read_uncommitted", "outcome": "ok"}  # fmt: skip


def final_read(end: int, *, complete: bool = True) -> Row:
    reached = end if complete else end - 1
    return {"isolation": "read_uncommitted", "target_end": end, "reached": reached,
            "complete": complete}  # fmt: skip


def leads(broker: int, epoch: int, *, at: int = S, source: str = "list-offsets") -> Row:
    return {"source": source, "observer": f"n{broker}", "leader": broker, "leader_epoch": epoch,
            "asked_ns": at - 1, "observed_ns": at, "isr": None}  # fmt: skip


def isr(*brokers: int, epoch: int = 0) -> Row:
    return {**leads(brokers[0], epoch, source="metadata"), "isr": list(brokers)}


def elected(leader: int, epoch: int, log_offset: int, *, unclean: bool = False) -> Row:
    row = leads(leader, epoch, source="metadata-log")
    return {**row, "observed_ns": None, "log_offset": log_offset, "unclean": unclean}


def log(node: str, *records: tuple[int, int], start: int = 0, snapshot: str = "final") -> list[Row]:
    """Records as (epoch, value), from the log start on."""
    return [
        {"snapshot": snapshot, "node": node, "offset": offset, "leader_epoch": epoch,
         "value": value,
         "record_hash": value * 7, "producer_id": 1, "producer_epoch": 0, "sequence": offset,
         "control": False}
        for offset, (epoch, value) in enumerate(records, start=start)
    ]  # fmt: skip


def state(node: str, end: int, mark: int | None = None, *, start: int = 0) -> Row:
    return {"snapshot": "final", "node": node, "log_start_offset": start, "log_end_offset": end,
            "high_watermark": mark}  # fmt: skip


def reasons(checker: Checker, on: Group) -> list[str]:
    """Why each of the anomalies that a checker finds came about."""
    return [checker.why(on, each) for each in checker.check(on).anomalies]


def reason(checker: Checker, on: Group) -> str:
    (told,) = reasons(checker, on)
    return told
