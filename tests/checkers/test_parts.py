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
from checkers.layout import DamagedError, TableFile, write_table
from checkers.ordering import PLACE, ordered
from checkers.parts import node_parts, writer_parts
from checkers.run import judge_runs
from checkers.spark.nodes import read_node, replica_bytes
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
    roots = [run.write(store / "t" / str(at)) for at, run in enumerate(RUNS)]
    for root in roots:
        shutil.copytree(NODE, RunPaths(root).node("n1"), dirs_exist_ok=True)
    return roots


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
        changed.setattr(compaction, "GROUP_ROWS", 3)
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


@pytest.mark.night
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
    sizes = replica_bytes(unit)
    parts = node_parts(unit, sizes, sum(sizes.values()) // count)
    assert len(parts) > 1
    told = [part.part for part in parts if part.part]
    assert [name for each in told for name in each.folders] == sorted(sizes)
    assert [each.bytes for each in told] == [
        sum(sizes[name] for name in each.folders) for each in told
    ]
    yield from (ingest(part, read_node) for part in parts)


def test_a_replica_that_cannot_be_read_costs_no_other_one(tmp_path: Path) -> None:
    """Whether it is read with the others, or in a share of its own."""
    sound = Unit(run_id="t/run", name="n1", folder=NODE, snapshot="final")
    root = shutil.copytree(NODE, tmp_path / "t" / "nodes" / "n1")
    (root / "data" / "aaa-4294967296").mkdir()
    unit = replace(sound, folder=root)
    tables, problems = ingest(unit, read_node)
    (problem,) = [each for each in problems if "aaa-4294967296:" in each.sentence]
    assert "the replica cannot be read" in problem.sentence
    expected, _ = ingest(sound, read_node)
    read = list(shares(unit, 3))
    together = combined([each for each, _ in read])
    assert set(dict.fromkeys(each for _, found in read for each in found)) == set(problems)
    for name, table in expected.items():
        assert ordered(name, tables[name]).equals(ordered(name, table))
        assert ordered(name, together[name]).equals(ordered(name, table))


def test_copies_of_a_partition_on_nodes_follow_one_another_unsorted(tmp_path: Path) -> None:
    """Each node's copy is held alone: whatever writes them, by snapshot, node and offset."""
    schema = TABLES["replica_records"]
    place = {"run_id": "t/run", "topic": "a", "topic_id": "i", "partition": 0}
    folder = RunPaths(tmp_path).record / "parts"
    copies = [("final", "n2"), ("final", "n10"), ("step-01", "n1"), ("final", "n1")]
    tables = [
        pa.Table.from_pylist(
            [place | {"snapshot": snapshot, "node": node, "offset": offset} for offset in range(4)],
            schema,
        )
        for snapshot, node in copies
    ]
    folder.mkdir(parents=True)
    files = [
        TableFile("replica_records", folder / f"{at:06}.replica_records.parquet")
        for at in range(len(tables))
    ]
    for file, table in zip(files, tables, strict=True):
        write_table(file.path, file.name, [table])
    whole = ordered("replica_records", pa.concat_tables(tables))
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(compaction, "GROUP_ROWS", 5)
        pieces = list(compaction._by_place("replica_records", files))
    assert [piece.num_rows for piece in pieces] == [8, 8]
    assert pa.concat_tables(pieces, promote_options="permissive").to_pylist() == whole.to_pylist()


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
    rows: list[list[tuple[str | int | None, ...]]] = [
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
    files = tuple(f"{at:06}.assignments.parquet" for at in range(len(parts)))
    for file, part in zip(files, parts, strict=True):
        write_table(folder / file, "assignments", [ordered("assignments", part)])
    whole = ordered("assignments", pa.concat_tables(parts))
    step = Step(root=tmp_path, table="assignments", files=files)
    compaction.take(step, read_node, replica_bytes)
    assert pq.read_table(paths.table("assignments")).to_pylist() == whole.to_pylist()
    (folder / files[1]).unlink()
    with pytest.raises(DamagedError):
        compaction.take(step, read_node, replica_bytes)
