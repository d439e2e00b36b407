"""Records that an earlier ingest made: worked out again where that is possible, else told."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from checkers.jepsen.order import CHECKERS
from checkers.positions import LEFT_OUT
from checkers.run import judge_runs
from checkers.runner import run_checkers
from checkers.stored import load_facts, needs_ingest
from results.record.paths import RunPaths
from results.record.terms import Judge
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import ack, facts, group, read
from tests.checkers.unsealed import unsealed

NEVER_NOTED = ("ingest", "reads")


@pytest.fixture
def ingested(tmp_path: Path) -> RunPaths:
    root = FaithfulRun(5, steps=40).write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    return RunPaths(root)


def notes_of(paths: RunPaths) -> Path:
    return paths.record / "ingest.json"


def note(paths: RunPaths, **values: object) -> None:
    """Note versions of ingest, and nothing of any other."""
    now: dict[str, Any] = json.loads(notes_of(paths).read_text())
    rest = {name: each for name, each in now.items() if name not in NEVER_NOTED}
    notes_of(paths).write_text(json.dumps({**rest, **values}))


def without_rows_of_what_is_left_out(paths: RunPaths) -> None:
    path = paths.table("assignments")
    rows = pq.read_table(path)
    kept = rows.filter(pc.field("kind") != LEFT_OUT)
    assert 0 < kept.num_rows < rows.num_rows
    pq.write_table(kept, path)
    unsealed(paths.record)


@pytest.mark.parametrize("noted", [{}, {"reads": 0}, {"ingest": 2}, {"ingest": 0, "reads": 1}])
def test_what_an_earlier_version_made_is_worked_out_again(ingested: RunPaths, noted: Row) -> None:
    note(ingested, **noted)
    without_rows_of_what_is_left_out(ingested)
    assert needs_ingest(ingested)
    judge_runs([ingested.root], engine="local")
    kinds = pq.read_table(ingested.table("assignments"))["kind"].to_pylist()
    assert LEFT_OUT in kinds
    assert not needs_ingest(ingested)


@pytest.mark.parametrize("noted", [{"ingest": 3}, {"reads": 3}])
def test_what_this_version_made_is_left_alone(ingested: RunPaths, noted: Row) -> None:
    note(ingested, **noted)
    assert not needs_ingest(ingested)


@pytest.mark.parametrize("text", ["[]", "{", '{"ingest": "x"}'])
def test_broken_notes_are_not_written_over(ingested: RunPaths, text: str) -> None:
    notes_of(ingested).write_text(text)
    assert not needs_ingest(ingested)


def test_what_could_not_be_read_any_more_is_not_written_over(ingested: RunPaths) -> None:
    note(ingested)
    assert needs_ingest(ingested)
    one = next(ingested.live.glob("polled.worker-0.*"))
    one.rename(ingested.root / "elsewhere")
    assert not needs_ingest(ingested), "a stream of a worker is gone"
    (ingested.root / "elsewhere").rename(one)
    for stream in ingested.live.glob("replica_records.*"):
        stream.unlink()
    assert not needs_ingest(ingested), "nobody knows any more what replicas' logs held"
    log = ingested.nodes / "n1" / "data" / "log-0-0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.touch()
    assert needs_ingest(ingested)
    shutil.rmtree(ingested.nodes)
    table = pq.read_table(ingested.table("replica_records"))
    pq.write_table(table.slice(0, 0), ingested.table("replica_records"))
    unsealed(ingested.record)
    assert needs_ingest(ingested), "none was ever read"
    ingested.table("replica_records").write_bytes(b"damaged")
    assert not needs_ingest(ingested)


def test_without_streams_the_tables_speak_for_themselves(ingested: RunPaths) -> None:
    shutil.rmtree(ingested.live)
    note(ingested)
    assert load_facts(ingested.root).moves_known, "there are rows of what is left out"
    without_rows_of_what_is_left_out(ingested)
    assert not load_facts(ingested.root).moves_known
    for noted in ({"reads": 1}, {"ingest": 1}):
        note(ingested, **noted)
        assert load_facts(ingested.root).moves_known
    notes_of(ingested).write_text("{")
    assert not load_facts(ingested.root).moves_known


def polled(offset: int, *, op: int) -> Row:
    return {**read(offset + 1, offset, op=op, phase="main"), "process": 1}


def sent(*places: tuple[int, int], op: int) -> list[Row]:
    return [{**ack(value, offset, op=op), "mop": mop, "process": 1}
            for mop, (value, offset) in enumerate(places)]  # fmt: skip


@pytest.mark.parametrize(
    ("context", "apart"),
    [
        ({}, ()),
        ({"moves_known": False}, ("known-moves",)),
        ({"cut_streams": True}, ("whole-record",)),
        ({"cut_streams": True, "moves_known": False}, ("whole-record", "known-moves")),
    ],
)
def test_steps_across_unknown_assignments_prove_nothing_but_those_inside_of_ops_do(
    context: Row, apart: tuple[str, ...]
) -> None:
    rows: dict[str, list[Row]] = {
        "polls": [*(polled(at, op=op) for at, op in ((0, 1), (2, 2), (0, 3), (1, 4))),
                  {**polled(2, op=5), "pos": 0}, {**polled(0, op=5), "pos": 1},
                  {**polled(2, op=5), "pos": 2}],
        "sends": [*sent((6, 10), (5, 9), (7, 12), op=11), *sent((8, 8), op=12),
                  *sent((9, 11), op=13)],
    }  # fmt: skip
    on = group(facts(judge=Judge.JEPSEN, **context), **rows)
    found = {each.name: {one.broken_premises for one in each.anomalies}
             for each in run_checkers(on, CHECKERS)}  # fmt: skip
    assert found == {
        "poll-skip": {apart}, "nonmonotonic-poll": {apart}, "nonmonotonic-send": {apart},
        "int-poll-skip": {()}, "int-nonmonotonic-poll": {()}, "int-nonmonotonic-send": {()},
        "int-send-skip": {()},
    }  # fmt: skip
