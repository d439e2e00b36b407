"""A verdict comes of every record, however damaged, and damage alone makes no valid run invalid."""

import json
import warnings
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from benchmarks.fuzz import Outcome, judged
from checkers.run import judge_runs
from checkers.statistics import availability
from checkers.stored import _INGEST
from results.record.paths import RunPaths
from results.record.terms import Validity
from tests.checkers.faithful import FaithfulRun
from tests.checkers.fuzzed import DAMAGES, Bases, Damage, write_bases
from tests.checkers.partition_rows import A, B, S, ack, group

RECORDS = 25
"""CI's share; `python -m benchmarks.fuzz` judges thousands."""
SEEDS = range(4)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return write_bases(tmp_path_factory.mktemp("bases"), seeds=SEEDS)


@pytest.mark.night
def test_every_damaged_record_gets_a_verdict(bases: Bases, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Wild numbers overflow: that is their point.
        outcomes = [judged(seed, bases, tmp_path) for seed in range(RECORDS)]
    assert [told(each) for each in outcomes if each.wrong] == []
    assert {each.verdict for each in outcomes} == {"valid", "unknown", "invalid"}


def told(outcome: Outcome) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    return outcome.seed, outcome.record.damages, outcome.crashes or outcome.sentences


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_each_damage_changes_something(damage: Damage, tmp_path: Path) -> None:
    """Otherwise a record that survives it proves nothing."""
    root = FaithfulRun(5).write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    if damage.name.endswith("Parquet"):
        for path in RunPaths(root).live.iterdir():
            path.unlink()
    before = contents(root)
    for seed in range(24):
        damage.act(Random(seed), root)
    assert contents(root) != before


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("text", [
    f'{{"ingest": {_INGEST}, "run_id": "x", "problems": [{{"unit": 1, "sentence": null}}]}}',
    f'{{"ingest": {_INGEST}, "run_id": "x", "problems": 3}}', "[]", "null",
])  # fmt: skip
def test_notes_of_ingest_that_say_something_else_are_told(text: str, tmp_path: Path) -> None:
    root = FaithfulRun(5).write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    (RunPaths(root).record / "ingest.json").write_text(text)
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert any("the notes of ingest cannot be read" in each for each in verdict.unknown_because)


def test_a_send_whose_times_are_wild_is_counted_once() -> None:
    """A row for each of its seconds would fill the memory."""
    wild = {**ack(A, 0), "invoke_ns": 5 * S, "complete_ns": 2**62}
    table = availability(group(sends=[wild, ack(B, 1, at=7 * S)]))
    assert table["window_ns"].to_pylist() == [5 * S, 6 * S, 7 * S, 2**62 // S * S]
    assert table["attempted"].to_pylist() == [1, 1, 0, 0]


@pytest.mark.parametrize("change", [{"at_ns": None}, {"at_ns": "7"}, {"detail": 3}, {"name": None}])
def test_milestones_that_say_something_else_end_there(
    change: dict[str, object], tmp_path: Path
) -> None:
    root = FaithfulRun(5).write(tmp_path / "t" / "run")
    path = RunPaths(root).milestones
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], json.dumps({**json.loads(lines[4]), **change})]))
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert not any("crashed" in each for each in verdict.unknown_because)


def test_a_stream_with_a_column_of_another_type_is_not_believed(tmp_path: Path) -> None:
    """Values that are gone would look like messages that were lost."""
    root = FaithfulRun(5).write(tmp_path / "t" / "run")
    path = RunPaths(root).live / "polled.worker-0.arrows"
    with pa.ipc.open_stream(path.read_bytes()) as reader:
        polled = reader.read_all()
    assert polled.num_rows
    at = polled.column_names.index("value")
    gone = polled.set_column(at, "value", pa.nulls(polled.num_rows, pa.int8()))
    with path.open("wb") as file, pa.ipc.new_stream(file, gone.schema) as writer:
        writer.write_table(gone)
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert any(
        "the stream does not have the columns of polled" in each for each in verdict.unknown_because
    )
