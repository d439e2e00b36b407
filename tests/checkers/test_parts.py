"""A big run read in parts has the same tables, problems and verdict as one that is read whole."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers import compaction
from checkers.compaction import Step
from checkers.folder import ingest_notes
from checkers.ingest import Problem, Tables, Unit, combined, ingest, live_units
from checkers.layout import write_table
from checkers.ordering import PLACE, ordered
from checkers.parts import node_parts, writer_parts
from checkers.run import judge_runs
from checkers.spark.nodes import read_node
from results.record import packed
from results.record.paths import RunPaths
from results.record.spans import spans
from results.record.stream import STREAM_SUFFIX, read_whole, table_of
from results.record.tables import LIVE, TABLES
from results.record.verdict import Verdict
from tests.checkers.faithful import FaithfulRun
from tests.checkers.transactional import TransactionalRun

NODE = Path(__file__).parents[1] / "cluster_files" / "data" / "zookeeper" / "n1"
RUNS = (FaithfulRun(5, steps=60), TransactionalRun(6, steps=60))
Judged = tuple[dict[str, pa.Table], Any, Verdict]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    store = tmp_path_factory.mktemp("store")
    return [run.write(store / "t" / str(at)) for at, run in enumerate(RUNS)]


def in_small_batches(root: Path, random: Random) -> None:
    """Write the live streams of a run anew, in batches of some rows each."""
    for path in sorted(RunPaths(root).live.glob(f"*{STREAM_SUFFIX}")):
        rows = pa.Table.from_batches(list(read_whole(path)), LIVE[table_of(path)]).combine_chunks()
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as stream:
            at = 0
            while at < rows.num_rows:
                count = random.choice((1, 2, 7, 30))
                for batch in rows.slice(at, count).to_batches():
                    stream.write_batch(batch)
                at += count


def packed_in_small_groups(root: Path, random: Random) -> None:
    """Pack the live streams of a run, however little they shrink, in row groups of some rows."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(packed, "_GROUP_ROWS", random.choice((7, 30)))
        for path in sorted(RunPaths(root).live.glob(f"*{STREAM_SUFFIX}")):
            with suppress(pa.ArrowException, OSError, ValueError):  # One that is cut stays.
                packed.pack(path, LIVE[table_of(path)], list(read_whole(path)), below=1 << 30)


def damaged(root: Path, random: Random) -> None:
    """Cut a stream of a run, or turn a byte of it over."""
    path = random.choice(sorted(RunPaths(root).live.glob(f"*{STREAM_SUFFIX}")))
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    if random.random() < 0.5:
        data = data[:at]
    else:
        data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def judged(root: Path) -> Judged:
    (verdict,) = judge_runs([root], engine="local", reingest=True)
    paths = RunPaths(root)
    notes = {name: told for name, told in ingest_notes(paths).items() if name != "seals"}
    return {name: pq.read_table(paths.table(name)) for name in TABLES}, notes, verdict


def in_parts(root: Path, part_bytes: int) -> Judged:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(compaction, "SMALL_BYTES", 0)
        changed.setattr(compaction, "PART_BYTES", part_bytes)
        return judged(root)


def agrees(records: list[Path], scratch: Path, seed: int) -> None:
    """See that a record, cut into batches and parts at random, is read as if it were one part."""
    random = Random(seed)
    root = shutil.copytree(random.choice(records), scratch / "t" / "run")
    in_small_batches(root, random)
    hurt = random.choice(("", "before", "after"))
    if hurt == "before":
        damaged(root, random)
    if random.random() < 0.5:
        judged(root)
        packed_in_small_groups(root, random)
    if hurt == "after":
        damaged(root, random)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(packed, "_READ_ROWS", random.choice((2, 5)))
        whole = judged(root)
        assert in_parts(root, random.choice((300, 2_000, 20_000))) == whole
    assert not (RunPaths(root).record / "parts").exists()


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_any_size_give_what_one_part_does(
    records: list[Path], tmp_path: Path, seed: int
) -> None:
    agrees(records, tmp_path, seed)


@pytest.mark.everything
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_hundred_more_records_in_parts(records: list[Path], tmp_path: Path, seed: int) -> None:
    agrees(records, tmp_path, seed)


def test_an_op_is_in_one_part_with_all_that_came_of_it(records: list[Path]) -> None:
    for root in records:
        for unit in live_units("t/run", RunPaths(root).live):
            parts, broken = writer_parts(unit, 2_000)
            assert not broken
            ops = [part.part.ops for part in parts if part.part]
            assert [low for low, _ in ops[1:]] == [high + 1 for _, high in ops[:-1]]
            read = [ingest(part, read_node) for part in parts]
            assert not any(problems for _, problems in read)
            known = [set(tables["ops"]["op_id"].to_pylist()) for tables, _ in read]
            assert sum(map(len, known)) == len(set().union(*known))
            for (tables, _), mine in zip(read, known, strict=True):
                assert set(tables["sends"]["op_id"].to_pylist()) <= mine


def test_spans_tell_where_each_message_lies_and_of_which_ops_it_is(
    records: list[Path], tmp_path: Path
) -> None:
    root = shutil.copytree(records[0], tmp_path / "t" / "run")
    in_small_batches(root, Random(3))
    path = RunPaths(root).live / "send_completions.worker-0.arrows"
    batches = list(read_whole(path))
    found = list(spans(path))
    assert len(found) == len(batches) > 3
    for span, batch in zip(found, batches, strict=True):
        ids = [int(each) for each in batch["op_id"].to_numpy()]
        assert (span.low, span.high) == (min(ids), max(ids))
    assert sum(span.size for span in found) < path.stat().st_size
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(pa.ArrowInvalid, match="no end mark"):
        list(spans(path))


def shares(unit: Unit, count: int) -> Iterator[tuple[Tables, list[Problem]]]:
    parts = node_parts(unit, [1] * count, 1)
    assert len(parts) == count
    yield from (ingest(part, read_node) for part in parts)


@pytest.mark.parametrize("count", [2, 3, 50])
@pytest.mark.parametrize("snapshot", ["final", "step-01"])
def test_the_shares_of_a_nodes_replicas_have_what_the_node_has(count: int, snapshot: str) -> None:
    unit = Unit(run_id="t/run", name="n1", folder=NODE, snapshot=snapshot)
    tables, problems = ingest(unit, read_node)
    read = list(shares(unit, count))
    whole, together = combined([tables]), combined([each for each, _ in read])
    for name in TABLES:
        assert ordered(name, together[name]).equals(ordered(name, whole[name]))
    assert list(dict.fromkeys(each for _, found in read for each in found)) == problems
    assert whole["replica_records"].num_rows > 0
    assert replace(unit, part=None) == unit


def test_rows_without_a_place_stand_where_they_do_in_a_table_of_one_step(tmp_path: Path) -> None:
    """Whether their topic has no id, or they have no partition, and whoever wrote them."""
    rows = [
        [("a", "i", None, 1), ("b", "i", None, 1), ("b", None, 0, 3), (None, "i", 0, 1)],
        [("a", "i", None, 2), ("b", "i", None, 2), ("b", "i", 0, 2), ("a", None, 1, 1)],
        [("a", "i", 7, 5), ("b", None, 0, 2), ("c", "i", 0, 0), ("b", "i", None, 1)],
    ]
    schema = TABLES["assignments"]
    parts = [
        pa.Table.from_pylist(
            [dict(zip((*PLACE, "op_id"), row, strict=True)) | {"process": at} for row in part],
            schema,
        )
        for at, part in enumerate(rows)
    ]
    paths = RunPaths(tmp_path)
    folder = paths.record / "parts"
    folder.mkdir(parents=True)
    for at, part in enumerate(parts):
        write_table(
            folder / f"{at:06}.assignments.parquet", "assignments", [ordered("assignments", part)]
        )
    whole = ordered("assignments", pa.concat_tables(parts))
    compaction.take(Step(root=tmp_path, table="assignments"), read_node)
    assert pq.read_table(paths.table("assignments")).to_pylist() == whole.to_pylist()
