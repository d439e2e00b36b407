"""Export a run as a trace for Perfetto (ui.perfetto.dev), Chrome and similar viewers.

The file is JSON in Chromium's trace event format ("Trace Event Format", JSON Object Format), with
one event per line. An `X` event has a duration, an `i` event is a single moment, and a `C` event is
a counter. An `M` event gives a lane its name. In this format, a group of lanes is called a process,
and a single lane is called a thread. The groups are:

* `faults`: one or more lanes for each node; a fault lasts from its request to its heal.
* `leaders`: a lane for each partition, with its leader in each epoch.
* `brokers`: a lane for each broker, with its truncations and the number of partitions that it led.
* `clients`: a lane for each client thread; an op lasts from its invocation to its completion.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from results.record.atomic import StoreError
from results.record.clock import NS_PER_S
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.short import op_name
from results.record.whole import written_whole
from results.tables import RunTables
from results.timelines.operations import (
    KINDS,
    NONE,
    OUTCOMES,
    PHASES,
    Operations,
    load_operations,
)
from results.timelines.spans import Span, Spans, fault_spans, leader_spans
from results.verdict_json import read_verdict
from results.wording.inert import inert
from results.wording.naming import Names, names_of

Event = dict[str, Any]
_FAULTS, _LEADERS, _BROKERS, _CLIENTS = 1, 2, 3, 4
_US, _NS_PER_US = 1e6, 1_000
_ROWS = 1 << 14


class _Writes(Protocol):
    """A file object that accepts bytes. It may compress them."""

    def write(self, data: bytes, /) -> int:
        """Append bytes."""


def write_perfetto(paths: RunPaths, target: Path) -> Path:
    """Write a run as a trace. If the file's name ends with `.gz`, compress it with gzip.

    Returns:
        The file.

    Raises:
        StoreError: A table is damaged, or the file cannot be written.
    """
    with written_whole(target) as file:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                _write(paths, packed)
        else:
            _write(paths, file)
    return target


def _write(paths: RunPaths, file: _Writes) -> None:
    about = {"run": inert(paths.run_id), "clock": "microseconds since the run's start"}
    file.write(b'{"displayTimeUnit":"ms","otherData":' + orjson.dumps(about))
    file.write(b',"traceEvents":[')
    for number, event in enumerate(events(paths)):
        file.write((b",\n" if number else b"\n") + orjson.dumps(event))
    file.write(b"\n]}\n")


def events(paths: RunPaths) -> Iterator[Event]:
    """Yield the trace events of a run.

    Raises:
        StoreError: A table is damaged.
    """
    tables, named = RunTables(paths), names_of(paths)
    operations = load_operations(paths, concurrency=_concurrency(paths))
    milestones = load_milestones(paths.milestones)
    last = int(operations.invoke_ns.max(initial=0))
    end_s = max([last, *(each.at_ns for each in milestones)]) / NS_PER_S
    yield from _named(_FAULTS, "faults", order=0)
    yield from _spans(_FAULTS, "fault", fault_spans(tables, end_s))
    yield from _named(_LEADERS, "leaders", order=1)
    yield from _spans(_LEADERS, "leader", leader_spans(tables))
    yield from _brokers(tables)
    for each in milestones:
        yield _moment(each.name, each.at_ns, {"detail": inert(json.dumps(each.detail))})
    yield from _anomalies(paths, named)
    yield from _clients(operations, named)


def _concurrency(paths: RunPaths) -> int:
    try:
        return plan_from(load_plan(paths.plan)).concurrency
    except PlanError:
        return Plan().concurrency


def _named(process: int, name: str, *, order: int) -> Iterator[Event]:
    for key, args in (("name", {"name": name}), ("sort_index", {"sort_index": order})):
        yield {"ph": "M", "name": f"process_{key}", "pid": process, "args": args}


def _lane(process: int, lane: int, name: str) -> Iterator[Event]:
    named: Event = {"ph": "M", "pid": process, "tid": lane}
    yield {**named, "name": "thread_name", "args": {"name": name}}
    yield {**named, "name": "thread_sort_index", "args": {"sort_index": lane}}


def _spans(process: int, category: str, spans: Spans) -> Iterator[Event]:
    for lane, name in enumerate(spans.lanes):
        yield from _lane(process, lane + 1, name or "and at the same time")
    for span in spans.spans:
        yield _lasting(span, process=process, category=category)


def _lasting(span: Span, *, process: int, category: str) -> Event:
    return {
        "ph": "X", "cat": category, "name": span.label, "pid": process, "tid": span.lane + 1,
        "ts": span.start_s * _US, "dur": max(0.0, (span.end_s - span.start_s) * _US),
        "args": {"details": "\n".join(span.lines)},
    }  # fmt: skip


def _moment(name: str, at_ns: int, args: Mapping[str, str]) -> Event:
    """Return an instant event that spans all lanes of the trace."""
    return {"ph": "i", "s": "g", "name": inert(name), "ts": at_ns / _NS_PER_US, "pid": _FAULTS,
            "tid": 0, "args": dict(args)}  # fmt: skip


def _anomalies(paths: RunPaths, named: Names) -> Iterator[Event]:
    """Yield an event for each example of an anomaly, if its evidence contains a time."""
    try:
        verdict = read_verdict(paths.verdict)
    except StoreError:
        return
    for name, summary in verdict.anomalies.items() if verdict else ():
        for example in summary.examples:
            at_ns = example.evidence.get("acknowledged_ns", example.evidence.get("ended_ns"))
            if isinstance(at_ns, int):
                yield _moment(name, at_ns, {"sentence": inert(named(example.sentence))})


def _brokers(tables: RunTables) -> Iterator[Event]:
    cuts = tables.record("truncations").to_pylist()
    led = tables.statistics("leaders").to_pylist()
    nodes = sorted({str(row["node"]) for row in cuts} | {f"n{row['leader']}" for row in led
                                                        if (row["leader"] or 0) > 0})  # fmt: skip
    yield from _named(_BROKERS, "brokers", order=2)
    for number, node in enumerate(nodes, start=1):
        yield from _lane(_BROKERS, number, inert(node))
    for row in cuts:
        if row["observed_ns"] is not None:
            place = f"{row['topic']}-{row['partition']}"
            yield {
                "ph": "i", "s": "t", "cat": "truncation", "name": inert(f"truncates {place}"),
                "pid": _BROKERS, "tid": nodes.index(str(row["node"])) + 1,
                "ts": row["observed_ns"] / _NS_PER_US,
                "args": {"from_offset": row["from_offset"], "to_offset": row["to_offset"],
                         "reason": inert(row["reason"])},
            }  # fmt: skip
    yield from _partitions_led(led)


def _partitions_led(rows: list[dict[str, Any]]) -> Iterator[Event]:
    changes: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if (row["leader"] or 0) > 0:
            changes[row["leader"]][row["from_ns"] or 0] += 1
            changes[row["leader"]][row["to_ns"] or 0] -= 1
    for leader, steps in sorted(changes.items()):
        count = 0
        for at_ns, step in sorted(steps.items()):
            count += step
            yield {"ph": "C", "name": f"partitions led by n{leader}", "pid": _BROKERS,
                   "ts": at_ns / _NS_PER_US, "args": {"partitions": count}}  # fmt: skip


def _clients(operations: Operations, named: Names) -> Iterator[Event]:
    """Yield the ops as events, with one lane for each client thread."""
    for lane, name in enumerate(operations.lanes):
        yield from _lane(_CLIENTS, lane + 1, name)
    yield from _named(_CLIENTS, "clients", order=3)
    for start in range(0, operations.count, _ROWS):
        for row in _rows(operations, start, min(operations.count, start + _ROWS)):
            yield _operation(operations, row, named)


def _rows(operations: Operations, start: int, end: int) -> Iterator[Mapping[str, int]]:
    names = ("op_id", "ordinal", "process", "lane", "f", "phase", "outcome", "invoke_ns",
             "complete_ns", "messages", "place", "value", "offset", "error")  # fmt: skip
    columns = (getattr(operations, name)[start:end].tolist() for name in names)
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _operation(operations: Operations, row: Mapping[str, int], named: Names) -> Event:
    f, outcome = _word(KINDS, row["f"]), _word(OUTCOMES, row["outcome"])
    args: dict[str, object] = {
        "op": op_name(row["process"], row["ordinal"]), "op_id": row["op_id"],
        "process": row["process"], "phase": _word(PHASES, row["phase"]), "outcome": outcome,
    }  # fmt: skip
    if row["place"] != NONE:
        # Numbers of more than 53 bits are not safe in JSON.
        args |= {"partition": operations.places[row["place"]], "value": named.value(row["value"]),
                 "value_number": str(row["value"]), "offset": row["offset"],
                 "messages": row["messages"]}  # fmt: skip
    if row["error"] != NONE:
        args["error"] = operations.errors[row["error"]]
    event: Event = {
        "ph": "X", "cat": f"{f},{outcome}", "name": f if outcome == "ok" else f"{f} {outcome}",
        "pid": _CLIENTS, "tid": row["lane"] + 1, "ts": row["invoke_ns"] / _NS_PER_US, "args": args,
        "dur": max(0, row["complete_ns"] - row["invoke_ns"]) / _NS_PER_US,
    }  # fmt: skip
    if row["complete_ns"] == NONE:
        event |= {"ph": "i", "s": "t", "name": f"{f}, never ended"}
        del event["dur"]
    return event


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if number >= 0 else "?"
