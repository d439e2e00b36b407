"""How tables are stored, and that every way to read them gives the same verdict."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import compaction, examine, groups, shelf
from checkers.columns import (
    coded,
    codes,
    distinct,
    first_match,
    joined,
    order_of,
    shared,
    texts,
    unique_pairs,
    within,
)
from checkers.group import Group
from checkers.layout import RUN, DamagedError, TableFile, split, write_table
from checkers.ordering import ordered
from checkers.run import judge_runs
from checkers.spark.direct import Work, shared_out
from checkers.stored import load_facts
from checkers.transitions.tables import reached
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.terms import Validity
from tests.checkers.faithful import FaithfulRun
from tests.checkers.unsealed import unsealed

NUMBERS = st.lists(st.integers(0, 9) | st.integers(-(2**62), 2**62), max_size=12)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = FaithfulRun(5, steps=120).write(tmp_path_factory.mktemp("store") / "t" / "run")
    judge_runs([root], engine="local")
    return root


def tables(root: Path) -> dict[str, pa.Table]:
    return {name: pq.read_table(RunPaths(root).table(name)) for name in TABLES}


def test_no_row_group_holds_two_places_and_all_rows_of_a_place_follow_each_other(
    judged: Path,
) -> None:
    for name, path in ((name, RunPaths(judged).table(name)) for name in TABLES):
        file = TableFile(name, path)
        assert not file.mixed
        named = [place for place in file.row_groups if place is not None]
        assert sorted(named) == named
        assert {place: rows.num_rows for place, rows in split(file.read()) if rows.num_rows} == (
            file.rows_by_place()
        )
    assert len(TableFile("sends", RunPaths(judged).table("sends")).row_groups) == 2
    assert TableFile("ops", RunPaths(judged).table("ops")).row_groups == (RUN,)


def test_a_table_of_polls_that_are_as_regular_as_can_be_is_within_bounds(tmp_path: Path) -> None:
    count, path = 1_000_000, RunPaths(tmp_path / "t" / "run").table("polls")
    at = np.arange(count)
    once = np.zeros(count, dtype=np.int32)
    numbers: dict[str, Any] = {"op_id": at // 10_000, "pos": at % 10_000, "offset": at, "value": at}
    columns = [
        pa.DictionaryArray.from_arrays(once, pa.array(["log-0"]))
        if pa.types.is_string(field.type)
        else pa.array(numbers.get(field.name, once)).cast(field.type)
        for field in TABLES["polls"]
    ]
    write_table(path, "polls", [pa.table(columns, names=TABLES["polls"].names)])
    assert path.stat().st_size < count / 8
    assert TableFile("polls", path).rows == count


def test_a_big_run_is_put_together_from_parts_and_has_the_same_tables(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    monkeypatch.setattr(compaction, "SMALL_BYTES", 0)
    (verdict,) = judge_runs([root], engine="local", reingest=True)
    assert verdict.valid is Validity.VALID
    assert tables(root) == tables(judged)
    assert not (RunPaths(root).record / "parts").exists()


def test_a_part_that_cannot_be_read_of_a_big_run_is_told(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    stream = RunPaths(root).live / "polled.worker-0.arrows"
    stream.write_bytes(stream.read_bytes()[:-100])
    monkeypatch.setattr(compaction, "SMALL_BYTES", 0)
    (verdict,) = judge_runs([root], engine="local", reingest=True)
    assert verdict.valid is Validity.UNKNOWN
    assert any("polled.worker-0.arrows is cut" in each for each in verdict.unknown_because)


@pytest.mark.parametrize("whole_rows", [0, 10**9])
def test_tables_that_mix_places_are_judged_as_those_that_do_not(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_rows: int
) -> None:
    monkeypatch.setattr(groups, "WHOLE_ROWS", whole_rows)
    (before,) = judge_runs([judged], engine="local")
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    for name, table in tables(judged).items():
        shuffled = table.take(np.random.default_rng(7).permutation(table.num_rows))
        pq.write_table(shuffled, RunPaths(root).table(name), write_page_checksum=True)
    unsealed(RunPaths(root).record)
    (after,) = judge_runs([root], engine="local")
    assert replace(after, run_id=before.run_id) == before
    assert before.valid is Validity.VALID


@pytest.mark.parametrize("shelved_rows", [0, 10**9])
@pytest.mark.parametrize("column", ["polls.value", "ops.invoke_ns", "replica_records.sequence"])
def test_a_flipped_bit_is_found_by_whoever_reads_just_its_row_group(
    judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, column: str, shelved_rows: int
) -> None:
    monkeypatch.setattr(groups, "WHOLE_ROWS", 0)
    monkeypatch.setattr(groups, "SHELVED_ROWS", shelved_rows)
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    name, hurt = column.split(".")
    path = RunPaths(root).table(name)
    metadata = pq.read_metadata(path)
    chunk = metadata.row_group(metadata.num_row_groups - 1).column(TABLES[name].names.index(hurt))
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert f"the table {name} cannot be read" in verdict.unknown_because


@pytest.mark.parametrize("room", [0, 10**9])
@pytest.mark.parametrize("lost", [False, True])
def test_tables_whose_columns_are_read_when_asked_for_are_judged_as_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, room: int, lost: bool
) -> None:
    run = FaithfulRun(5, steps=120)
    if lost:  # So that evidence is looked for, too.
        run.rows["replica_records"] = [
            row for row in run.rows["replica_records"] if row["offset"] != 3
        ]
    root = run.write(tmp_path / "t" / "run")
    (before,) = judge_runs([root], engine="local")
    monkeypatch.setattr(groups, "WHOLE_ROWS", 0)
    monkeypatch.setattr(groups, "SHELVED_ROWS", 0)
    monkeypatch.setattr(shelf, "ROOM_BYTES", room)
    (after,) = judge_runs([root], engine="local")
    assert after == before
    assert bool(before.anomalies) is lost


def test_columns_are_let_go_before_and_after_what_was_reached_is_worked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = FaithfulRun(5, steps=20).write(tmp_path / "t" / "run")
    judge_runs([root], engine="local")
    monkeypatch.setattr(groups, "WHOLE_ROWS", 0)
    monkeypatch.setattr(groups, "SHELVED_ROWS", 0)
    monkeypatch.setattr(shelf, "ROOM_BYTES", 0)
    homes, full = list[shelf.Shelf](), list[bool]()

    def watched(group: Group) -> dict[str, pa.Table]:
        home = shelf.shelf_of(group.tables.values())
        assert home is not None
        homes.append(home)
        full.append(home.full)
        found = reached(group)
        full.append(home.full)
        return found

    monkeypatch.setattr(examine, "reached", watched)
    facts = load_facts(root)
    examine.examine(facts, groups.reader_of(root, facts).tables(RUN), RUN)
    assert full == [False, True]
    assert [each.full for each in homes] == [False]


@pytest.mark.parametrize("shelved", [False, True])
def test_rows_that_lie_at_a_place_that_is_not_theirs_are_damage(
    judged: Path, monkeypatch: pytest.MonkeyPatch, *, shelved: bool
) -> None:
    file = TableFile("sends", RunPaths(judged).table("sends"))
    monkeypatch.setattr(groups, "SHELVED_ROWS", 0 if shelved else 10**9)
    one, other = (place for place in file.row_groups if place is not None)
    # As a file would have it whose end tells the partitions the other way round.
    monkeypatch.setitem(vars(file), "row_groups", (other, one))
    with pytest.raises(DamagedError):
        groups.rows_of(file, one, shelf.Shelf())


def test_columns_are_read_once_until_their_shelf_is_cleared() -> None:
    read: list[str] = []

    def reader(name: str) -> "pa.Array[Any]":
        read.append(name)
        return pa.array([3, 1, 2])

    home = shelf.Shelf()
    table = shelf.ShelvedTable(["a", "b"], 3, reader, shelf=home)
    assert table.filter(pa.array([True, False, True]))["a"].to_pylist() == [3, 2]
    assert table.slice(1)["a"].to_pylist() == [1, 2]
    assert (table.slice(1).num_rows, table.slice(2, 9).num_rows, table.slice(9).num_rows) == (
        2, 1, 0,
    )  # fmt: skip
    assert table.take(pa.array([2, 0]))["a"].to_pylist() == [2, 3]
    assert table.sort_by("a")["a"].to_pylist() == [1, 2, 3]
    assert (read, home.full) == (["a"], False)
    home.clear()
    assert table.select(["a", "b"]).to_pydict() == {"a": [3, 1, 2], "b": [3, 1, 2]}
    assert read == ["a", "a", "b"]
    with pytest.raises(KeyError):
        table["c"]


@settings(max_examples=40, deadline=None)
@given(one=NUMBERS, other=NUMBERS)
def test_set_operations_agree_with_plain_python(one: list[int], other: list[int]) -> None:
    first, second = (np.array(each, dtype=np.int64) for each in (one, other))
    assert within(first, second).tolist() == [each in other for each in one]
    assert distinct(first).tolist() == sorted(set(one))
    length = min(len(one), len(other))
    rows = sorted(range(length), key=lambda row: (one[row], other[row]))
    assert order_of(first[:length], second[:length]).tolist() == rows
    matches = [other.index(each) if each in other else -1 for each in one]
    assert first_match(first, second).tolist() == matches
    ranked = [np.array(sorted(set(each)), dtype=np.int64) for each in (one, other)]
    left, right = shared(*ranked)
    assert ranked[0][left].tolist() == ranked[1][right].tolist() == sorted({*one} & {*other})
    assert shared(ranked[0], ranked[0]) == (slice(None), slice(None))
    length = min(len(one), len(other))
    pairs = unique_pairs(first[:length], second[:length])
    found = list(zip(*(each.tolist() for each in pairs), strict=True))
    assert found == sorted(set(zip(one[:length], other[:length], strict=True)))


WORDS = st.lists(st.none() | st.sampled_from(["", "a", "b", "ä", "zz"]), max_size=9)


@settings(max_examples=40, deadline=None)
@given(one=WORDS, other=WORDS)
def test_coded_strings_say_what_plain_ones_say(
    one: list[str | None], other: list[str | None]
) -> None:
    plain = pa.table({"word": pa.array(one, pa.string())})
    packed = pa.table({"word": coded(pa.array(other, pa.string()))})
    both = joined([plain, packed])
    assert both["word"].to_pylist() == one + other
    assert texts(both, "word") == [word or "" for word in one + other]
    numbers, words = codes(both, "word")
    assert words == sorted(set(words))
    assert [words[at] if at >= 0 else None for at in numbers] == one + other


ROW = st.tuples(
    st.sampled_from(["t", "u", None]), st.integers(0, 2), st.none() | st.integers(0, 3),
    st.integers(0, 2),
)  # fmt: skip
ROWS = st.lists(ROW, max_size=12)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS)
def test_rows_are_ordered_by_place_and_then_as_arrow_orders_them(
    rows: list[tuple[str | None, int, int | None, int]],
) -> None:
    names = ("topic", "partition", "op_id", "mop")
    columns = zip(*rows, strict=True) if rows else ([],) * 4
    types = (pa.string(), pa.int32(), pa.int64(), pa.int32())
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, types, strict=True)]
    table = pa.table(arrays, names=list(names))
    expected = table.sort_by([(name, "ascending") for name in names])
    assert ordered("sends", table).to_pylist() == expected.to_pylist()
    again = ordered("sends", expected)
    assert again is expected


def test_work_is_shared_out_evenly_and_small_runs_stay_whole() -> None:
    facts = object()

    def work(run: str, partition: int, rows: int) -> Work:
        place = ("t", "id", partition)
        return Work(root=Path(run), facts=facts, places=(place,), rows=rows)  # type: ignore[arg-type]  # It is only passed on.

    works = [work("big", number, 100) for number in range(4)]
    works += [work(f"small-{run}", number, 5) for run in range(10) for number in range(2)]
    shares = shared_out(works, 4)
    assert sorted(sum(each.rows for each in share) for share in shares) == [120, 120, 130, 130]
    held = [each for share in shares for each in share]
    assert len([each for each in held if each.root == Path("big")]) == 4
    small = [each for each in held if each.root != Path("big")]
    assert len(small) == 10
    assert all(len(each.places) == 2 for each in small)
    huge = [work("huge", number, 25_000_000) for number in range(3)]
    assert shared_out([*works, *huge], 4) == [huge, *shares]
    assert shared_out(huge, 4) == [huge]


def test_the_end_of_a_file_is_sealed(judged: Path, tmp_path: Path) -> None:
    """One bit of it flipped makes another partition's values those of this one."""
    root = shutil.copytree(judged, tmp_path / "t" / "run")
    for path in RunPaths(root).live.iterdir():
        path.unlink()
    (before,) = judge_runs([root], engine="local")
    assert before.valid is Validity.VALID
    path = RunPaths(root).table("polls")
    polls = pq.read_table(path)
    pq.write_table(polls.slice(0, polls.num_rows - 1), path, write_page_checksum=True)
    (after,) = judge_runs([root], engine="local")
    assert after.valid is Validity.UNKNOWN
    assert "the table polls cannot be read" in after.unknown_because
