"""Records of before messages had contents to compare: their tables lack a column, or have nulls."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.layout import DamagedError, TableFile
from checkers.run import judge_runs
from checkers.stored import load_facts, units_of
from results.record.paths import RunPaths
from results.record.stream import read_stream
from results.record.tables import DAMAGE, LIVE, TABLES
from results.record.terms import Validity
from tests.checkers.faithful import FaithfulRun
from tests.checkers.unsealed import unsealed

NAME = DAMAGE[0]
WITH_IT = ("polls", "replica_records")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return FaithfulRun(5, steps=40).write(tmp_path / "t" / "run")


def without_column(stream: Path) -> None:
    """Write a live stream as it was before its last column was there."""
    batches = list(read_stream(stream))
    schema = pa.schema([field for field in LIVE["polled"] if field.name != NAME])
    with pa.OSFile(str(stream), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(
                [batch[name] for name in schema.names], schema=schema,
            ))  # fmt: skip


def test_tables_without_the_column_are_read_and_not_judged_by_it(root: Path) -> None:
    (new,) = judge_runs([root], engine="local")
    assert new.checked["corrupt-record"]
    paths = RunPaths(root)
    shutil.rmtree(paths.live)
    for name in WITH_IT:
        table = pq.read_table(paths.table(name), partitioning=None)
        pq.write_table(table.drop_columns([NAME]), paths.table(name))
    unsealed(paths.record)
    facts = load_facts(root)
    assert (facts.contents_known, facts.problems, facts.unread) == (False, (), frozenset())
    (old,) = judge_runs([root], engine="local")
    assert (old.valid, old.checked["corrupt-record"]) == (Validity.VALID, None)
    for name in WITH_IT:
        file = TableFile(name, paths.table(name))
        assert file.sound
        assert not file.has(NAME)
        assert file.read().schema.names == TABLES[name].names
        assert file.read()[NAME].null_count == file.rows


def test_other_columns_may_not_be_missing(root: Path) -> None:
    judge_runs([root], engine="local")
    path = RunPaths(root).table("polls")
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["value"]), path)
    file = TableFile("polls", path)
    assert not file.sound
    with pytest.raises(DamagedError):
        file.read()


def test_streams_of_before_are_ingested_and_copies_are_not_judged_by_today(root: Path) -> None:
    paths = RunPaths(root)
    assert not any(unit.old for unit in units_of(paths))
    for stream in paths.live.glob("polled.*"):
        without_column(stream)
    assert all(unit.old for unit in units_of(paths) if unit.snapshot)
    for stream in paths.live.glob("replica_records.*"):
        stream.unlink()
    (verdict,) = judge_runs([root], engine="local", reingest=True)
    assert verdict.checked["corrupt-record"] is None
    polls = pq.read_table(paths.table("polls"), partitioning=None)
    assert 0 < polls.num_rows == polls[NAME].null_count
