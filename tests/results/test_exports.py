"""What other programs read: traces for Perfetto, tables for spreadsheets, histories as Jepsen's.

The trace is held to what the format's document asks for ("Trace Event Format", Chromium); a history
to our reader of others', and to the judge that both have in common.
"""

import csv
import gzip
import itertools
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.histories.judging import Mode, judge_histories
from checkers.histories.reading import read_histories
from checkers.run import judge_runs
from results.export.jepsen import edn, entries, write_history
from results.export.perfetto import events, write_perfetto
from results.export.sheets import SHEETS, write_sheets
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import Judge
from results.record.verdict import Verdict
from results.samples import copy_sample, find_sample
from results.tables import read_table
from tests.results.conftest import MakeRun, ns
from tests.results.hostile import FORBIDDEN, TOPIC, hostile

Row = dict[str, Any]
PLACE = {"topic": "log-0", "topic_id": "a", "partition": 1}


def write_table(paths: RunPaths, name: str, rows: list[Row]) -> None:
    told = [{"run_id": paths.run_id, **row} for row in rows]
    pq.write_table(pa.Table.from_pylist(told, schema=TABLES[name]), paths.table(name))


def op(
    op_id: int, f: str, *, process: int = 0, at: int, took: int | None = 5, **more: object
) -> Row:
    ended = None if took is None else at + took
    return {"op_id": op_id, "process": process, "worker": 0, "f": f, "phase": "main",
            "invoke_ns": at, "complete_ns": ended, "outcome": "ok", "messages": 1,
            **more}  # fmt: skip


def counts(verdict: Verdict) -> Mapping[str, object]:
    found = {name: (each.count, each.allowed) for name, each in verdict.anomalies.items()}
    return {"valid": verdict.valid, **found}


@pytest.mark.parametrize(
    ("sample", "name"),
    [("loss-acks-1", "history.edn"), ("leader-epoch-2-high-watermark", "history.jsonl.gz")],
)
def test_jepsens_judge_says_the_same_of_a_run_and_of_its_history(
    sample: str, name: str, tmp_path: Path
) -> None:
    run = copy_sample(RunPaths(find_sample(sample)), tmp_path)
    (of_run,) = judge_runs([run.root], judge=Judge.JEPSEN, engine="local")
    (of_history,) = judge_histories(read_histories(write_history(run, tmp_path / name)), Mode())
    assert counts(of_history) == counts(of_run)
    assert of_run.anomalies


@pytest.fixture
def told(make_run: MakeRun) -> RunPaths:
    """A run of an assignment, a transaction, an op that never ended, and a reader."""
    paths = make_run()
    write_table(paths, "ops", [
        op(1, "assign", at=0),
        op(2, "txn", at=10),
        op(3, "send", process=1, at=12, took=None, outcome="info", error="timed out\x1b[2J"),
        op(4, "poll", process=2, at=15),
        op(5, "poll", at=15),
        op(6, "send", process=2, at=20, took=0, outcome="fail"),
        op(7, "poll", process=2, at=20),
    ])  # fmt: skip
    write_table(paths, "assignments", [
        {"op_id": 1, "process": 0, "kind": "assign", "time_ns": 0, **PLACE},
        {"op_id": 1, "process": 0, "kind": "left-out", "time_ns": 0, **PLACE, "partition": 2},
        {"op_id": 7, "process": 2, "kind": "rebalance-revoked", "time_ns": 21, **PLACE},
    ])  # fmt: skip
    sent = {**PLACE, "acks": "all"}
    write_table(paths, "sends", [
        {"op_id": 2, "mop": 1, **sent, "value": 71, "offset": 3, "txn_id": 9, "outcome": "ok"},
        {"op_id": 3, "mop": 0, **sent, "value": 72, "offset": None, "outcome": "info"},
        {"op_id": 6, "mop": 0, **sent, "value": 73, "offset": None, "outcome": "fail"},
    ])  # fmt: skip
    seen = {"mop": 0, **PLACE, "isolation": "read_committed"}
    write_table(paths, "polls", [
        {**seen, "op_id": 2, "pos": 1, "offset": 2, "value": 61},
        {**seen, "op_id": 2, "pos": 0, "offset": 0, "value": 60},
        {**seen, "op_id": 4, "pos": 0, "offset": 3, "value": 71, "isolation": "read_uncommitted"},
        {**seen, "op_id": 5, "pos": 0, "offset": 4, "value": None},
    ])  # fmt: skip
    return paths


def test_a_history_has_each_beginning_and_each_end_in_order(told: RunPaths) -> None:
    found = [(each["time"], each["op_id"], each["type"], each["value"]) for each in entries(told)]
    key = "log-0-1"
    assert found == [
        (0, 1, "invoke", [key]),
        (5, 1, "ok", [key]),
        (10, 2, "invoke", [["send", key, 71]]),
        (12, 3, "invoke", [["send", key, 72]]),
        # What begins at a moment comes before what ends then, except for a process's own.
        (15, 4, "invoke", [["poll"]]),
        (15, 2, "ok", [["poll", {key: [[0, 60], [2, 61]]}], ["send", key, [3, 71]]]),
        (15, 5, "invoke", [["poll"]]),
        (20, 4, "ok", [["poll", {}]]),
        (20, 5, "ok", [["poll", {}]]),
        (20, 6, "invoke", [["send", key, 73]]),
        (20, 6, "fail", [["send", key, 73]]),
        (20, 7, "invoke", [["poll"]]),
        (25, 7, "ok", [["poll", {}]]),
    ]
    last = list(entries(told))[-1]
    assert last["rebalance_log"] == [{"keys": [key]}]
    assert [each["index"] for each in entries(told)] == list(range(13))


def test_both_forms_are_read_as_the_same_history(told: RunPaths, tmp_path: Path) -> None:
    files = [write_history(told, tmp_path / name) for name in ("a.edn", "a.jsonl", "b/a.edn.gz")]
    texts = [each.read_text() for each in files[:2]]
    assert texts[0].splitlines()[4] == (
        "{:index 4, :time 15, :process 2, :type :invoke, :f :poll, :value [[:poll]], :op-id 4}"
    )
    assert gzip.decompress(files[2].read_bytes()).decode() == texts[0]
    read = [next(read_histories(each)) for each in files]
    for name in read[0].tables:
        rows = [each.tables[name].to_pylist() for each in read]
        # A key that is a string of EDN is named with its quotes.
        unquoted = [
            {column: value.strip('"') if isinstance(value, str) else value
             for column, value in row.items()} for row in rows[0]
        ]  # fmt: skip
        assert unquoted == rows[1]
        assert rows[2] == rows[0]
    assert len(read[0].tables["ops"]) == 7


def test_a_topic_that_was_made_anew_is_another_key(told: RunPaths) -> None:
    again = {**PLACE, "topic_id": "b"}
    gone = {**PLACE, "topic_id": None}
    write_table(told, "ops", [op(1, "send", at=0), op(2, "send", at=9), op(3, "send", at=18)])
    write_table(told, "sends", [
        {"op_id": number, "mop": 0, **place, "value": 70, "offset": 0, "outcome": "ok"}
        for number, place in ((1, PLACE), (2, again), (3, gone))
    ])  # fmt: skip
    told.table("polls").unlink()
    values = [each["value"] for each in entries(told) if each["type"] == "ok"]
    assert values == [[["send", "log-0-1", [0, 70]]], [["send", "log-0-1#2", [0, 70]]], []]


@pytest.mark.parametrize(("sought", "expected"), [(True, set()), (False, {"nonmonotonic-poll"})])
def test_a_seek_is_an_assignment_without_what_it_moved(
    make_run: MakeRun, tmp_path: Path, *, sought: bool, expected: set[str]
) -> None:
    paths, other = make_run(), {**PLACE, "partition": 2}
    f = "seek" if sought else "crash"
    write_table(paths, "ops", [
        op(1, "subscribe", at=0), op(2, "poll", at=9), op(3, f, at=18), op(4, "poll", at=27),
    ])  # fmt: skip
    moved = [(1, "subscribe", PLACE), (1, "subscribe", other)] + [(3, "seek", PLACE)] * sought
    write_table(paths, "assignments", [
        {"op_id": op_id, "process": 0, "kind": kind, "time_ns": op_id, **place, "offset": 0}
        for op_id, kind, place in moved
    ])  # fmt: skip
    write_table(paths, "sends", [])
    write_table(paths, "polls", [
        {"op_id": op_id, "mop": 0, "pos": pos, **PLACE, "isolation": "read_committed",
         "offset": pos, "value": 70 + pos}
        for op_id in (2, 4) for pos in range(2)
    ])  # fmt: skip
    told = [each for each in entries(paths) if each["op_id"] == 3 and each["type"] == "ok"]
    if sought:
        assert [(each["f"], each["value"]) for each in told] == [("assign", ["log-0-2"])]
    (verdict,) = judge_histories(read_histories(write_history(paths, tmp_path / "a.edn")), Mode())
    assert {*verdict.anomalies} & {"nonmonotonic-poll", "poll-skip"} == expected


def test_edn_refuses_what_it_has_no_word_for() -> None:
    assert edn({"a": [None, 1, 'x"y']}) == '{"a" [nil 1 "x\\"y"]}'
    with pytest.raises(TypeError, match="no EDN"):
        edn(1.5)


def test_a_trace_has_what_the_format_asks_for(told: RunPaths, tmp_path: Path) -> None:
    plain = json.loads(write_perfetto(told, tmp_path / "trace.json").read_bytes())
    packed = write_perfetto(told, tmp_path / "trace.json.gz").read_bytes()
    assert json.loads(gzip.decompress(packed)) == plain
    assert plain["displayTimeUnit"] == "ms"
    found: list[Row] = plain["traceEvents"]
    assert {each["ph"] for each in found} == {"M", "X", "i", "C"}
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    named = {(each["pid"], each.get("tid")) for each in found if each["ph"] == "M"}
    for each in found:
        assert isinstance(each["name"], str)
        assert isinstance(each["pid"], int)
        if each["ph"] != "M":
            assert each["ts"] >= 0
        if each["ph"] == "X":
            assert each["dur"] >= 0
            assert (each["pid"], each["tid"]) in named
            lanes[each["pid"], each["tid"]].append((each["ts"], each["ts"] + each["dur"]))
    for spans in lanes.values():  # What overlaps in a lane without nesting is drawn wrong.
        spans.sort()
        assert all(one[1] <= two[0] + 1e-6 for one, two in itertools.pairwise(spans))


def test_a_trace_tells_of_brokers_faults_and_clients(told: RunPaths) -> None:
    found = list(events(told))
    processes = {each["pid"]: each["args"]["name"] for each in found
                 if each["name"] == "process_name"}  # fmt: skip
    assert sorted(processes.values()) == ["brokers", "clients", "faults", "leaders"]
    by_name = {each["name"]: each for each in found}
    kill = by_name["kill"]
    assert (kill["ts"], kill["dur"]) == (30e6, 6e6)
    assert "planned for" in kill["args"]["details"]
    assert by_name["truncates log-0-1"]["args"]["from_offset"] == 120
    assert by_name["lost-write"]["ts"] == ns(22.3) / 1000
    led = [(each["ts"] / 1e6, each["args"]["partitions"]) for each in found
           if each["name"] == "partitions led by n2"]  # fmt: skip
    assert led == [(4.2, 1), (23.0, 2), (41.0, 1), (66.0, 0)]
    never = by_name["send, never ended"]
    assert never["args"] == {
        "op": "p1#1", "op_id": 3, "process": 1, "phase": "main", "outcome": "info",
        "partition": "log-0-1", "value": "72", "value_number": "72", "offset": -1, "messages": 1,
        "error": r"timed out\x1b[2J",
    }  # fmt: skip
    txn = by_name["txn"]
    assert (txn["ts"], txn["dur"], txn["args"]["value"]) == (0.01, 0.005, "71")


def test_sheets_have_every_row_and_no_formula(told: RunPaths, tmp_path: Path) -> None:
    faults = read_table(told, "faults").to_pylist()
    bad = ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "fine = 1", 'a "quoted", line\nand another']
    faults = [{**faults[0], "fault_id": at, "kind": kind} for at, kind in enumerate(bad)]
    write_table(told, "faults", faults)
    files = write_sheets(told, tmp_path / "sheets")
    assert [each.stem for each in files] == [*SHEETS, "anomalies"]
    sheets = {}
    for each in files:
        with each.open(newline="", encoding="utf-8") as file:
            sheets[each.stem] = list(csv.DictReader(file))
    for name in SHEETS:
        assert len(sheets[name]) == read_table(told, name).num_rows, name
    assert [row["kind"] for row in sheets["faults"]] == [f"'{each}" for each in bad[:6]] + bad[6:]
    assert sheets["faults"][0]["targets"] == "n1"
    ops = sheets["ops"]
    assert [row["complete_ns"] for row in ops[:3]] == ["5", "15", ""]
    (lost,) = [row for row in sheets["anomalies"] if row["anomaly"] == "lost-write"]
    assert lost["offset"] == "121"
    assert json.loads(lost["evidence"])["op_id"] == 4721


def test_hostile_text_is_inert_in_traces_and_told_apart_in_histories(
    make_run: MakeRun, tmp_path: Path
) -> None:
    paths = hostile(make_run(topic=TOPIC))
    write_table(paths, "ops", [op(4700, "send", at=5, error=TOPIC)])
    trace = json.dumps(list(events(paths)), ensure_ascii=False)
    for name in ("h.edn", "h.jsonl"):
        text = write_history(paths, tmp_path / name).read_text(encoding="utf-8")
        assert not [each for each in FORBIDDEN if each in text or each in trace]
        assert len(next(read_histories(tmp_path / name)).places) == 1


def test_a_damaged_table_is_told_in_a_sentence_and_leaves_no_file(
    told: RunPaths, tmp_path: Path
) -> None:
    told.table("polls").write_bytes(b"PAR1")
    for write, name in ((write_history, "a.edn"), (write_perfetto, "a.json")):
        with pytest.raises(StoreError, match=r"polls\.parquet cannot be read"):
            write(told, tmp_path / "out" / name)
    with pytest.raises(StoreError, match=r"polls\.parquet cannot be read"):
        write_sheets(told, tmp_path / "sheets")
    assert not list((tmp_path / "out").iterdir())
    assert not (tmp_path / "sheets" / "polls.csv").exists()


def test_a_table_without_its_columns_is_told_and_one_of_an_early_record_is_filled(
    told: RunPaths, tmp_path: Path
) -> None:
    whole = pq.read_table(told.table("polls"))
    pq.write_table(whole.drop_columns(["topic"]), told.table("polls"))
    with pytest.raises(StoreError, match=r"polls\.parquet cannot be read .*topic"):
        write_perfetto(told, tmp_path / "a.json")
    write_sheets(told, tmp_path / "sheets")
    with (tmp_path / "sheets" / "polls.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == whole.num_rows > 0
    assert {row["topic"] for row in rows} == {""}
