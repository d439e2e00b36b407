"""Histories of one compacted partition, written by hand, and a cleaner in plain Python."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

import pyarrow as pa

from checkers.facts import RunFacts
from checkers.group import Group
from results.record.keys import is_tombstone, key_number
from results.record.values import pack_value
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, ack, facts, group, isr, leads, state

KEYS = 4
PLAN: Row = {"workload": "keyed", "keys": KEYS, "partitions": 1, "topics": 1}
NODES = ("n1", "n2", "n3")
RETENTION_S = 5


def about(plan: Mapping[str, object] | None = None, **changes: object) -> RunFacts:
    broker = {"log.cleaner.delete.retention.ms": str(RETENTION_S * 1000)}
    return facts(plan={**PLAN, "broker": broker, **(plan or {})}, **changes)


@cache
def value(key: int, number: int = 0, *, dead: bool = False) -> int:
    """Return the value with a key that comes after so many others; `dead`: of a tombstone."""
    fitting = (
        each
        for each in (pack_value(1, at) for at in count(1))
        if key_number(each, KEYS) == key and is_tombstone(each) == dead
    )
    return next(each for at, each in enumerate(fitting) if at == number)


TAIL = value(KEYS - 1, 99)


def logged(node: str, records: Iterable[tuple[int, int]]) -> list[Row]:
    """Rows of a final log: (offset, value)."""
    return [
        {"snapshot": "final", "node": node, "offset": offset, "leader_epoch": 0, "value": each,
         "record_hash": each * 7, "producer_id": 1, "producer_epoch": 0, "sequence": offset,
         "control": False}
        for offset, each in records
    ]  # fmt: skip


def read_back(records: Iterable[tuple[int, int]]) -> list[Row]:
    """Rows of what a read_committed final read returned."""
    return [
        {"op_id": 90, "process": 90, "mop": 0, "pos": offset, "value": each, "offset": offset,
         "phase": "final", "isolation": "read_committed", "outcome": "ok"}
        for offset, each in records
    ]  # fmt: skip


def told_end(node: str, end: int, at_s: float = 1.5) -> Row:
    """What a broker said of its log while the run went on."""
    return {"node": node, "log_end_offset": end, "observed_ns": int(at_s * S)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record that was written.

    Attributes:
        outcome: Of its transaction or send.
        placed: Whether its writer knows where it stands.
        at: When its send ended; it began 5 ns before.
    """

    value: int
    outcome: str = "ok"
    placed: bool = True
    at: int = S

    def row(self, offset: int) -> Row:
        ok = self.outcome == "ok"
        in_txn = {} if ok else {"txn_id": offset, "transactional_id": "t"}
        return {
            **ack(self.value, offset if self.placed else None, op=offset, at=self.at),
            "outcome": self.outcome, "acked": ok or self.placed, **in_txn,
        }  # fmt: skip


def partition(
    sends: Sequence[Sent],
    logs: Mapping[str, Sequence[tuple[int, int]]],
    *,
    read: Sequence[tuple[int, int]] | None = None,
    on: RunFacts | None = None,
    told: Sequence[Row] | None = None,
    polls: Sequence[Row] | None = None,
    **rows: list[Row],
) -> Group:
    """Return the rows of a partition: sends at offsets from 0 on, final logs, a final read.

    Behind them, in each log and in the read, stands a record of a key of its own: no cleaner
    touches the last segment, so that a log is known to reach its end.
    """
    end = len(sends) + 1
    sends = [*sends, Sent(value=TAIL)]
    tail = (len(sends) - 1, TAIL)
    logs = {node: [*log, tail] for node, log in logs.items()}
    read = None if read is None else [*read, tail]
    reads = {"isolation": "read_committed", "target_end": end, "reached": end, "complete": True}
    in_time = [told_end(node, end) for node in NODES] if told is None else list(told)
    return group(
        on or about(),
        sends=[each.row(offset) for offset, each in enumerate(sends)],
        polls=[*(polls or ()), *read_back(read or ())],
        final_reads=[reads] if read is not None else [],
        replica_records=[row for node, log in logs.items() for row in logged(node, log)],
        replica_states=[*(state(node, end, end) for node in logs), *in_time],
        leadership=[leads(1, 0), isr(1, 2, 3)],
        **rows,
    )


def changed(on: Group, name: str, rows: Sequence[Row]) -> Group:
    """Return a group with other rows in one table."""
    table = pa.Table.from_pylist(list(rows), schema=on.table(name).schema)
    return replace(on, tables={**on.tables, name: table})


def cleaned(
    sends: Sequence[Sent], upto: int, *, without_tombstones: bool = False
) -> list[tuple[int, int]]:
    """Return what a cleaner leaves of a log whose records below an offset it has looked at."""
    stand = [(at, each) for at, each in enumerate(sends)]
    last = {
        key_number(each.value, KEYS): at
        for at, each in stand
        if at < upto and each.outcome != "fail"
    }
    return [
        (at, each.value)
        for at, each in stand
        if at >= upto
        or (
            last.get(key_number(each.value, KEYS)) == at
            and not (without_tombstones and is_tombstone(each.value))
        )
    ]
