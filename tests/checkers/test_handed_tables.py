"""What is handed to tasks is what they get, place by place."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from checkers.examine import Piece
from checkers.facts import RunFacts
from checkers.groups import StoredGroups, examine_places, reader_of
from checkers.handed import HandedGroups, hand_over
from checkers.histories.judging import Mode, judge_histories, judge_with
from checkers.histories.reading import read_histories
from checkers.layout import RUN, split, write_table
from checkers.spark.local import LocalEngine
from results.record.paths import RunPaths
from results.record.tables import TABLES
from tests.checkers.partition_rows import facts

CORPUS = Path(__file__).parents[1] / "histories" / "histories.jsonl.gz"


class Far(LocalEngine):
    """An engine whose tasks see no files of this machine, but records only."""

    here = False

    def examine(self, runs: Mapping[Path, RunFacts]) -> Iterator[Piece]:
        for root, about in runs.items():
            reader = StoredGroups(root, about)
            yield from examine_places(about, reader, *sorted(reader.rows()))


def test_whichever_way_tables_go_the_verdicts_are_the_same() -> None:
    some = [each for at, each in enumerate(read_histories(CORPUS)) if at % 80 == 0]
    direct = judge_histories(some, Mode())
    assert judge_with(LocalEngine(), some, Mode()) == direct
    assert judge_with(Far(), some, Mode()) == direct
    assert len({each.valid for each in direct}) > 1


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """The tables of a history of several topics, which has all that a history may have."""
    return next(
        each.tables
        for each in read_histories(CORPUS)
        if len(each.places) > 1 and all(table.num_rows for table in each.tables.values())
    )


def test_each_place_gets_its_rows_and_all_columns_of_the_record(
    tmp_path: Path, tables: dict[str, pa.Table]
) -> None:
    hand_over(tmp_path, tables)
    reader = HandedGroups(tmp_path)
    asked: dict[str, int] = dict.fromkeys(tables, 0)
    for place, rows in reader.rows().items():
        got = reader.tables(place)
        assert sum(table.num_rows for table in got.values()) == rows
        for name, table in got.items():
            asked[name] += 1
            wanted = next(each for at, each in split(tables[name]) if at == place)
            assert table.cast(TABLES[name]).equals(wanted.cast(TABLES[name]))
    assert asked == {name: len(list(split(table))) for name, table in tables.items()}
    assert len(reader.rows()) > 2
    assert RUN in reader.rows()


def test_rows_that_are_mixed_are_brought_together_and_no_rows_are_no_file(tmp_path: Path) -> None:
    sends = TABLES["sends"].empty_table().to_pylist()
    sends += [{"run_id": "r", "op_id": op, "topic": "t", "topic_id": "x", "partition": op % 2}
              for op in range(5)]  # fmt: skip
    mixed = pa.Table.from_pylist(sends, schema=TABLES["sends"])
    hand_over(tmp_path, {"sends": mixed, "polls": TABLES["polls"].empty_table()})
    reader = HandedGroups(tmp_path)
    assert reader.rows() == {("t", "x", 0): 3, ("t", "x", 1): 2}
    (table,) = reader.tables(("t", "x", 1)).values()
    assert table["op_id"].to_pylist() == [1, 3]
    assert table["value"].null_count == 2
    assert reader.tables(("t", "x", 7)) == {}


def test_a_record_is_read_as_a_record(tmp_path: Path, tables: dict[str, pa.Table]) -> None:
    """What lies beside its tables is none of them, whoever put it there."""
    hand_over(tmp_path, tables)
    assert reader_of(tmp_path, facts(history=True)).rows()
    for name, table in tables.items():
        write_table(RunPaths(tmp_path).table(name), name, [table.slice(0, 0)])
    stored = reader_of(tmp_path, facts(unread=frozenset(TABLES) - frozenset(tables)))
    assert isinstance(stored, StoredGroups)
    assert stored.rows() == {}
