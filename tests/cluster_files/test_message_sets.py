"""Message sets of magic 0 and 1: against Kafka's own dump, and against an encoder of our own."""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh32_intdigest

from cluster.files.batches import Record, read_segment, records
from cluster.files.damage import DamagedFileError
from results.record.values import decode_payload

DATA = Path(__file__).parent / "data"
REAL = {
    "magic-0": DATA / "old" / "magic-0.log",
    "zookeeper-codecs-0": DATA / "zookeeper/n1/data/codecs-0/00000000000000000000.log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A message to be encoded."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = 0


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(plain: Plain, *, offset: int, magic: int, attributes: int = 0) -> bytes:
    time = struct.pack(">q", plain.timestamp) if magic else b""
    summed = struct.pack(">bb", magic, attributes) + time + sized(plain.key) + sized(plain.value)
    rest = struct.pack(">I", crc32(summed)) + summed
    return struct.pack(">qi", offset, len(rest)) + rest


def broken_lz4(data: bytes) -> bytes:
    """As Kafka wrote it before 0.10: the header's checksum counts the frame's magic in."""
    frame = bytearray(cramjam.lz4.compress(data))
    end = 6 + (8 if frame[4] & 8 else 0)
    frame[end] = xxh32_intdigest(bytes(frame[:end])) >> 8 & 0xFF
    return bytes(frame)


COMPRESSORS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, lambda data: bytes(cramjam.gzip.compress(data))),
    "snappy": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (3, lambda data: bytes(cramjam.lz4.compress(data))),
}


def wrapper(
    plain: Sequence[Plain], *, last: int, magic: int, compression: str, append_time: int = 0
) -> bytes:
    codec, compress = COMPRESSORS[compression]
    if magic == 0 and compression == "lz4":
        compress = broken_lz4
    first = 0 if magic else last - len(plain) + 1
    inner = b"".join(message(each, offset=first + at, magic=magic) for at, each in enumerate(plain))
    outer = Plain(value=compress(inner), timestamp=append_time)
    attributes = codec | (8 if append_time else 0)
    return message(outer, offset=last, magic=magic, attributes=attributes)


def found(data: bytes) -> list[Record]:
    segment = read_segment(data)
    assert segment.damage == ()
    return [record for batch in segment.batches for record in records(batch)]


@pytest.mark.parametrize("name", REAL)
def test_records_are_what_kafka_says(name: str) -> None:
    lines = (DATA / "witness" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    told = [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines if line.startswith("| ")]
    ours = found(REAL[name].read_bytes())
    assert len(ours) == len(told) == 23
    for record, line in zip(ours, told, strict=True):
        assert record.offset == int(line["offset"])
        assert record.timestamp == int(line.get("CreateTime") or line["NoTimestampType"])
        assert (-1 if record.key is None else len(record.key)) == int(line["keySize"])
        assert (-1 if record.value is None else len(record.value)) == int(line["valueSize"])


@pytest.mark.parametrize("name", REAL)
def test_every_codec_of_a_real_broker(name: str) -> None:
    batches = read_segment(REAL[name].read_bytes()).batches
    assert {batch.attributes & 7 for batch in batches} == {0, 1, 2, 3}
    assert {batch.magic for batch in batches} == {0 if name == "magic-0" else 1}
    assert {(batch.leader_epoch, batch.producer_id, batch.control) for batch in batches} == {
        (-1, -1, False)
    }
    assert batches[-1].end_offset == 23


def test_values_come_out_as_they_were_sent() -> None:
    ours = found(REAL["magic-0"].read_bytes())
    assert [decode_payload(record.value) for record in ours] == [
        *((1 << 32 | number) for _ in range(4) for number in range(5)), None, None, None,
    ]  # fmt: skip
    assert [record.key for record in ours[:5]] == [None, b"key1", None, b"key3", None]


byte_strings = st.none() | st.binary(max_size=40)
plain_messages = st.builds(
    Plain, key=byte_strings, value=byte_strings, timestamp=st.integers(0, 2**41)
)


@given(
    plain=st.lists(plain_messages, min_size=1, max_size=6),
    magic=st.sampled_from([0, 1]),
    compression=st.sampled_from(["none", *COMPRESSORS]),
    first=st.integers(0, 2**40),
)
def test_what_is_encoded_is_read(
    plain: list[Plain], magic: int, compression: str, first: int
) -> None:
    last = first + len(plain) - 1
    if compression == "none":
        data = b"".join(
            message(each, offset=first + at, magic=magic) for at, each in enumerate(plain)
        )
    else:
        data = wrapper(plain, last=last, magic=magic, compression=compression)
    ours = found(data)
    assert [(each.key, each.value) for each in ours] == [(each.key, each.value) for each in plain]
    assert [each.offset for each in ours] == list(range(first, last + 1))
    expected = [each.timestamp if magic else -1 for each in plain]
    assert [each.timestamp for each in ours] == expected
    assert read_segment(data).batches[-1].end_offset == last + 1


def test_a_wrapper_that_the_broker_stamped_stamps_what_is_inside() -> None:
    data = wrapper(
        [Plain(timestamp=1), Plain(timestamp=2)],
        last=8, magic=1, compression="gzip", append_time=77,
    )  # fmt: skip
    assert [(each.offset, each.timestamp) for each in found(data)] == [(7, 77), (8, 77)]


def test_what_compaction_left_of_a_wrapper_keeps_its_offsets() -> None:
    kept = message(Plain(value=b"a"), offset=1, magic=1) + message(
        Plain(value=b"b"), offset=4, magic=1
    )
    outer = Plain(value=bytes(cramjam.gzip.compress(kept)))
    data = message(outer, offset=14, magic=1, attributes=1)
    assert [each.offset for each in found(data)] == [11, 14]


def test_a_message_has_one_hash_in_every_format() -> None:
    """A message that was down-converted is the same message; magic 0 has lost its time stamp."""
    newest = (DATA / "n2/data/codecs-0/00000000000000000000.log").read_bytes()
    bare = [each for batch in read_segment(newest).batches[3:] for each in records(batch)]
    (record,) = [each for each in bare if each.offset == 38]  # A tombstone without headers.
    down = Plain(key=record.key, value=record.value, timestamp=record.timestamp)
    (old,) = found(message(down, offset=3, magic=1))
    (packed,) = found(wrapper([down], last=9, magic=1, compression="snappy"))
    (oldest,) = found(message(down, offset=3, magic=0))
    assert old.record_hash == packed.record_hash == record.record_hash
    assert oldest.record_hash != record.record_hash


def test_old_messages_and_batches_in_one_segment() -> None:
    old = REAL["zookeeper-codecs-0"].read_bytes()
    batches = (DATA / "n2/data/txn-0/00000000000000000000.log").read_bytes()
    segment = read_segment(old + batches)
    assert segment.damage == ()
    assert [batch.magic for batch in segment.batches] == [1] * 11 + [2] * 6
    assert len([each for batch in segment.batches for each in records(batch)]) == 23 + 15


@pytest.mark.parametrize("name", REAL)
def test_a_segment_torn_anywhere_gives_its_whole_messages(name: str) -> None:
    data = REAL[name].read_bytes()
    whole = read_segment(data).batches
    ends = [batch.position + len(batch.body) for batch in whole]
    for cut in range(len(data)):
        segment = read_segment(data[:cut])
        kept = sum(end <= cut for end in ends)
        assert [b.base_offset for b in segment.batches] == [b.base_offset for b in whole[:kept]]
        zeros_only = not any(data[max((0, *ends[:kept])) : cut])
        assert segment.torn == bool(segment.damage) == (not zeros_only)


@given(data=st.data())
def test_a_flipped_bit_costs_one_message_and_is_told(data: st.DataObject) -> None:
    parts = [message(Plain(value=bytes([n]) * 20), offset=n, magic=1) for n in range(3)]
    at = data.draw(st.integers(17, len(parts[1]) - 1), label="byte of the second message")
    damaged = bytearray(b"".join(parts))
    damaged[len(parts[0]) + at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    segment = read_segment(bytes(damaged))
    assert [batch.base_offset for batch in segment.batches] == [0, 2]
    assert len(segment.damage) == 1
    assert "CRC" in segment.damage[0]


@given(body=st.binary(max_size=60), codec=st.sampled_from([1, 2, 3]), magic=st.sampled_from([0, 1]))
def test_a_wrapper_of_nonsense_raises_one_kind_of_error(
    body: bytes, codec: int, magic: int
) -> None:
    data = message(Plain(value=body), offset=5, magic=magic, attributes=codec)
    (batch,) = read_segment(data).batches
    outcome: list[Record] | str
    try:
        outcome = list(records(batch))
    except DamagedFileError as damage:
        outcome = str(damage)
    assert outcome == [] or "offset 5" in outcome


@pytest.mark.parametrize("magic", [1, 2, 77])
def test_a_message_that_is_too_short_for_its_magic_is_damage_inside_of_a_wrapper_too(
    magic: int,
) -> None:
    summed = struct.pack(">bb", magic, 0) + sized(None) + sized(None)
    rest = struct.pack(">I", crc32(summed)) + summed
    inner = struct.pack(">qi", 0, len(rest)) + rest
    outer = Plain(value=bytes(cramjam.gzip.compress(inner)))
    (batch,) = read_segment(message(outer, offset=5, magic=1, attributes=1)).batches
    with pytest.raises(DamagedFileError, match=f"offset 5 .*magic {magic}"):
        list(records(batch))
