"""What grows, and is cut, is read bit by bit as it is read whole."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.files.batches import read_segment
from cluster.log_tail import LogTail, Parsed
from cluster.replica_rows import rows_of
from results.record.stream import StreamTail, StreamWriter, read_stream
from results.record.values import encode_payload

FIRST, SECOND = f"{0:020}.log", f"{1000:020}.log"


def batch(offset: int, value: int, *, epoch: int = 0) -> bytes:
    """One record, in a batch of its own, as Kafka writes it."""
    payload = encode_payload(value, 20)
    record = b"\0\0\0\1" + bytes([len(payload) << 1]) + payload + b"\0"
    body = bytes([len(record) << 1]) + record
    summed = struct.pack(">hiqqqhii", 0, 0, 0, 0, 1, 0, offset, 1) + body
    return struct.pack(">qiibI", offset, 9 + len(summed), epoch, 2, crc32c(summed)) + summed


SIZE = len(batch(0, 1))


class Held:
    """A replica's rows, put together from what a tail told."""

    def __init__(self, tail: LogTail) -> None:
        self.tail = tail
        self.values: dict[int, int] = {}
        self.end = 0
        self.whole = False

    def look(self, limit: int = 1 << 20) -> None:
        news = self.tail.read(0, limit)
        if news.cut is not None:
            self.values = {at: value for at, value in self.values.items() if at < news.cut}
        rows = rows_of(("t", 0), {"n1": news.batches})["n1"]
        assert rows is not None
        self.values |= dict(zip(*(rows[name].to_pylist() for name in ("offset", "value")),
                                strict=True))  # fmt: skip
        self.end, self.whole = news.end, news.whole


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("grow"), st.integers(1, 5)),
            st.tuples(st.just("cut"), st.integers(1, 8)),
            st.tuples(st.just("tear"), st.integers(1, SIZE - 1)),
            st.tuples(st.just("look"), st.integers(1, 4 * SIZE)),
        ),
        max_size=25,
    )
)
def test_a_log_that_grows_and_is_cut_is_known_as_it_stands(deeds: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        path, log, epoch, value = Path(folder) / FIRST, b"", 0, 0
        path.touch()
        held = Held(LogTail(Path(folder)))
        for deed, number in deeds:
            match deed:
                case "grow":
                    for _ in range(number):
                        value += 1
                        log += batch(len(log) // SIZE, value, epoch=epoch)
                case "cut":  # Another leader: what comes next is of a later epoch.
                    log, epoch = log[: max(0, len(log) // SIZE - number) * SIZE], epoch + 1
                case _:
                    held.look(number if deed == "look" else SIZE)
            torn = batch(len(log) // SIZE, 999)[:number] if deed == "tear" else b""
            path.write_bytes(log + torn)
        held.look()
        wanted = {each.base_offset: each for each in read_segment(log).batches}
        assert held.values.keys() == wanted.keys()
        assert held.end == len(wanted)
        assert held.whole
        assert [held.values[at] for at in sorted(wanted)] == _values(log)


def _values(log: bytes) -> list[int]:
    rows = rows_of(("t", 0), {"n1": read_segment(log).batches})["n1"]
    assert rows is not None
    return [int(value or 0) for value in rows["value"].to_pylist()]


def test_a_newest_segment_without_records_may_go_while_the_one_before_it_stays(
    tmp_path: Path,
) -> None:
    (tmp_path / FIRST).write_bytes(batch(998, 1) + batch(999, 2))
    (tmp_path / SECOND).touch()
    held = Held(LogTail(tmp_path))
    held.look()
    (tmp_path / SECOND).unlink()  # As a power loss leaves what was just begun.
    held.look()
    assert (held.values, held.whole) == ({998: 1, 999: 2}, True)


def test_a_log_goes_on_in_the_next_segment(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(batch(998, 1) + batch(999, 2))
    held = Held(LogTail(tmp_path))
    held.look()
    (tmp_path / SECOND).write_bytes(batch(1000, 3))
    held.look()
    assert held.values == {998: 1, 999: 2, 1000: 3}
    assert held.whole


def test_a_damaged_batch_is_not_taken_for_the_end(tmp_path: Path) -> None:
    damaged = bytearray(batch(1, 2))
    damaged[-3] ^= 1
    (tmp_path / FIRST).write_bytes(batch(0, 1) + damaged + batch(2, 3))
    held = Held(LogTail(tmp_path))
    held.look()
    assert (held.values, held.whole) == ({0: 1}, False)


def test_a_damaged_last_batch_is_not_taken_for_one_that_is_being_written(tmp_path: Path) -> None:
    damaged = bytearray(batch(1, 2))
    damaged[-3] ^= 1
    (tmp_path / FIRST).write_bytes(batch(0, 1) + damaged)
    held = Held(LogTail(tmp_path))
    held.look()
    assert not held.whole


def test_a_log_that_is_deleted_is_empty_and_not_whole(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, 1))
    held = Held(LogTail(tmp_path))
    held.look()
    (tmp_path / FIRST).unlink()
    held.look()
    assert (held.values, held.end, held.whole) == ({}, 0, False)


@given(
    shared=st.integers(0, 4), mine=st.integers(0, 3), others=st.integers(0, 3),
    torn=st.integers(0, SIZE - 1),
)  # fmt: skip
def test_what_was_read_of_one_replica_does_not_change_what_is_read_of_another(
    shared: int, mine: int, others: int, torn: int
) -> None:
    head = b"".join(batch(at, at + 1) for at in range(shared))
    one = head + b"".join(batch(shared + at, 50 + at) for at in range(mine))
    other = head + b"".join(batch(shared + at, 70 + at, epoch=1) for at in range(others))
    for first, second in ((one, other), (one[: len(one) - torn], other), (other, one), (b"", one)):
        parsed = Parsed()
        assert parsed.batches(first) == [*read_segment(first).batches]
        assert parsed.batches(second) == [*read_segment(second).batches]


def test_what_replicas_share_is_unpacked_as_what_each_has_alone() -> None:
    shared = [*read_segment(b"".join(batch(at, at + 1) for at in range(20))).batches]
    own = [*read_segment(batch(20, 3, epoch=1)).batches]
    news = {"n1": [*shared, *own], "n2": shared, "n3": []}
    rows = rows_of(("t", 0), news)
    alone = {node: rows_of(("t", 0), {node: batches})[node] for node, batches in news.items()}
    for node, each in alone.items():
        got = rows[node]
        assert got is not None
        assert each is not None
        assert got.to_pylist() == each.to_pylist()


@settings(max_examples=40, deadline=None)
@given(
    flushes=st.lists(st.integers(1, 4), min_size=1, max_size=10),
    cuts=st.lists(st.floats(0, 1), max_size=6),
    limit=st.integers(1, 3000),
)
def test_a_stream_that_grows_byte_by_byte_is_read_batch_by_batch(
    flushes: list[int], cuts: list[float], limit: int
) -> None:
    with TemporaryDirectory() as folder:
        whole, grows = Path(folder) / "whole", Path(folder) / "grows"
        whole.mkdir()
        grows.mkdir()
        writer, number = StreamWriter(whole, "op_completions", "w"), 0
        for rows in flushes:
            for _ in range(rows):
                number += 1
                writer.append((number, number, "ok", None))
            writer.flush()
        writer.close()
        name = "op_completions.w.arrows"
        data = (whole / name).read_bytes()
        tail, got = StreamTail(grows / name), list[pa.RecordBatch]()
        for end in [*sorted(round(cut * len(data)) for cut in cuts), len(data)]:
            (grows / name).write_bytes(data[:end])
            is_whole = False
            while not is_whole:
                batches, is_whole = tail.read(limit)
                got += batches
        assert got == [*read_stream(whole / name)]
