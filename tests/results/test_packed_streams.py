"""Live streams once they are packed: the same rows, in a smaller file of the same name."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from results.record.packed import pack
from results.record.stream import (
    StreamWriter,
    pack_stream,
    read_stream,
    read_whole,
    stream_bytes,
)
from results.record.tables import LIVE
from results.site.tallies import Tallies

ROWS = 3000
WORDS = (None, "ok", "a longer word, as errors are", "log-0")


def value_of(kind: pa.DataType, at: int) -> object:
    """Return a value of a column: numbers near and far, words, lists, and nulls."""
    if pa.types.is_string(kind):
        return WORDS[at // 7 % len(WORDS)]
    if pa.types.is_boolean(kind):
        return at % 3 == 0
    if pa.types.is_struct(kind):
        return {"epoch": at % 5, "start_offset": at}
    if pa.types.is_list(kind):
        return None if at % 11 == 0 else [value_of(kind.value_type, each) for each in range(at % 4)]
    most = 2 ** (kind.bit_width - 1) - 1
    return (None, -1, most, -most - 1)[at % 4] if at % 13 == 0 else at % (most + 1)


def write(folder: Path, table: str) -> Path:
    """Write a stream in many small batches, as a run does."""
    writer = StreamWriter(folder, table, "w")
    for at in range(ROWS):
        writer.append([value_of(field.type, at + place) for place, field in enumerate(LIVE[table])])
        if at % 50 == 0:
            writer.flush()
    writer.close()
    return folder / f"{table}.w.arrows"


def rows_of(path: Path) -> pa.Table:
    return pa.Table.from_batches(read_whole(path)).combine_chunks()


@pytest.mark.parametrize("table", LIVE)
def test_a_packed_stream_has_the_same_rows_in_fewer_bytes(tmp_path: Path, table: str) -> None:
    path = write(tmp_path, table)
    size, rows, counted = path.stat().st_size, rows_of(path), Tallies().rows(tmp_path, table)
    assert pack_stream(path)
    assert path.stat().st_size < size / 2
    assert rows_of(path).equals(rows)
    assert rows_of(path).schema == LIVE[table]
    assert Tallies().rows(tmp_path, table) == counted == ROWS
    assert stream_bytes(path) == 100 * ROWS
    assert not pack_stream(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_who_counts_a_stream_that_is_packed_meanwhile_counts_each_row_once(tmp_path: Path) -> None:
    path, tallies = write(tmp_path, "op_completions"), Tallies()
    before = tallies.words(tmp_path, "op_completions", column="outcome")
    assert pack_stream(path)
    for _ in range(2):
        assert tallies.words(tmp_path, "op_completions", column="outcome") == before
        assert tallies.rows(tmp_path, "op_completions") == ROWS


def test_a_stream_that_was_cut_stays_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, "polled")
    path.write_bytes(cut := path.read_bytes()[:-8])
    with pytest.raises(pa.ArrowInvalid, match="no end mark"):
        pack_stream(path)
    assert path.read_bytes() == cut
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_what_ends_a_packing_leaves_the_stream_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, "polled")
    whole = path.read_bytes()

    def some() -> Iterator[pa.RecordBatch]:
        yield next(read_stream(path))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(path, LIVE["polled"], some(), below=1 << 30)
    assert path.read_bytes() == whole
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_packing_that_saves_nothing_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "reservations")
    whole = path.read_bytes()
    assert not pack(path, LIVE["reservations"], read_stream(path), below=100)
    assert path.read_bytes() == whole


def test_a_flipped_bit_in_a_packed_stream_is_damage_and_no_other_value(tmp_path: Path) -> None:
    path = write(tmp_path, "send_completions")
    assert pack_stream(path)
    data = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(0).column(2).data_page_offset
    data[place + 200] ^= 1
    path.write_bytes(data)
    with pytest.raises((OSError, pa.ArrowException)):
        rows_of(path)
    assert list(read_stream(path)) == []
