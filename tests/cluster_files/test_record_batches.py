"""Record batches: against Kafka's own dump of real segments, and against an encoder of our own."""

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from cluster.files.batches import Record, RecordBatch, Segment, read_segment, records
from cluster.files.compression import Codec
from cluster.files.damage import DamagedFileError
from results.record.values import decode_payload, partition_number_of

DATA = Path(__file__).parent / "data"
SEGMENT = "00000000000000000000.log"
TOPICS = ("codecs-0", "txn-0", "recoded-0", "log-1-0")
HEADER_BYTES = 61

Header = tuple[str, bytes | None]


def real_segment(name: str) -> bytes:
    return (DATA / "n2" / "data" / name / SEGMENT).read_bytes()


def witness(name: str) -> list[dict[str, str]]:
    """The dump's lines, key -> value: records have an `offset`, batches a `baseOffset`."""
    lines = (DATA / "witness" / f"{name}.txt").read_text(encoding="utf-8").splitlines()[1:]
    return [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A record to be encoded; its time stamp is a delta."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_delta: int = 0


def varint(number: int) -> bytes:
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    coded = bytearray()
    while zigzag > 0x7F:
        coded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    coded.append(zigzag)
    return bytes(coded)


def nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encoded_record(plain: Plain, offset_delta: int) -> bytes:
    headers = b"".join(nullable(key.encode()) + nullable(value) for key, value in plain.headers)
    body = (
        b"\0"
        + varint(plain.timestamp_delta)
        + varint(offset_delta)
        + nullable(plain.key)
        + nullable(plain.value)
        + varint(len(plain.headers))
        + headers
    )
    return varint(len(body)) + body


def xerial(data: bytes) -> bytes:
    half = len(data) // 2
    chunks = [bytes(cramjam.snappy.compress_raw(part)) for part in (data[:half], data[half:])]
    framed = b"".join(struct.pack(">i", len(chunk)) + chunk for chunk in chunks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


COMPRESSORS: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "none": (Codec.NONE, bytes),
    "gzip": (Codec.GZIP, lambda data: bytes(cramjam.gzip.compress(data))),
    "snappy": (Codec.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "xerial": (Codec.SNAPPY, xerial),
    "lz4": (Codec.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (Codec.ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
}


def encoded_batch(
    plain: Sequence[Plain],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    compression: str = "none",
    base_timestamp: int = 0,
    base_sequence: int = -1,
    control: bool = False,
) -> bytes:
    codec, compress = COMPRESSORS[compression]
    body = compress(b"".join(encoded_record(each, delta) for delta, each in enumerate(plain)))
    summed = (
        struct.pack(
            ">hiqqqhii",
            codec | (0x20 if control else 0),
            len(plain) - 1,
            base_timestamp,
            base_timestamp + max((each.timestamp_delta for each in plain), default=0),
            7 if base_sequence >= 0 else -1,
            3 if base_sequence >= 0 else -1,
            base_sequence,
            len(plain),
        )
        + body
    )
    rest = struct.pack(">ibI", leader_epoch, 2, crc32c(summed)) + summed
    return struct.pack(">qi", base_offset, len(rest)) + rest


def only_batch(data: bytes) -> RecordBatch:
    segment = read_segment(data)
    assert segment.damage == ()
    (batch,) = segment.batches
    return batch


@pytest.mark.parametrize("name", TOPICS)
def test_batches_are_what_kafka_says(name: str) -> None:
    segment = read_segment(real_segment(name))
    told = [line for line in witness(name) if "baseOffset" in line]
    assert segment.damage == ()
    assert len(segment.batches) == len(told)
    for batch, line in zip(segment.batches, told, strict=True):
        assert batch.base_offset == int(line["baseOffset"])
        assert batch.end_offset == int(line["lastOffset"]) + 1
        assert batch.count == int(line["count"])
        assert batch.base_sequence == int(line["baseSequence"])
        assert batch.producer_id == int(line["producerId"])
        assert batch.producer_epoch == int(line["producerEpoch"])
        assert batch.leader_epoch == int(line["partitionLeaderEpoch"])
        assert batch.position == int(line["position"])
        assert len(batch.body) == int(line["size"]) - HEADER_BYTES
        assert str(batch.transactional).lower() == line["isTransactional"]
        assert str(batch.control).lower() == line["isControl"]
        assert Codec(batch.attributes & 7).name.lower() == line["compresscodec"]


@pytest.mark.parametrize("name", TOPICS)
def test_records_are_what_kafka_says(name: str) -> None:
    told = [line for line in witness(name) if "offset" in line]
    pairs = [(b, r) for b in read_segment(real_segment(name)).batches for r in records(b)]
    assert len(pairs) == len(told)
    for (batch, record), line in zip(pairs, told, strict=True):
        assert record.offset == int(line["offset"])
        assert record.timestamp == int(line.get("CreateTime") or line["LogAppendTime"])
        assert (-1 if record.key is None else len(record.key)) == int(line["keySize"])
        assert (-1 if record.value is None else len(record.value)) == int(line["valueSize"])
        assert batch.sequence_of(record.offset) == int(line["sequence"])


def test_every_compression_occurs_in_the_real_files() -> None:
    told = {line.get("compresscodec") for name in TOPICS for line in witness(name)}
    assert told >= {codec.name.lower() for codec in Codec}


def test_values_come_out_as_they_were_sent() -> None:
    batches = read_segment(real_segment("codecs-0")).batches
    values = [decode_payload(record.value) for batch in batches for record in records(batch)]
    sent = [value for value in values if value is not None]
    assert [value & 0xFFFF_FFFF for value in sent] == list(range(1, 39))
    assert {partition_number_of(value) for value in sent} == {1}
    assert values[38:] == [None, None, None]


byte_strings = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), byte_strings), max_size=3).map(tuple)
plain_records = st.builds(
    Plain,
    key=byte_strings,
    value=byte_strings,
    headers=headers,
    timestamp_delta=st.integers(-(2**40), 2**40),
)


@given(
    plain=st.lists(plain_records, min_size=1, max_size=8),
    compression=st.sampled_from(sorted(COMPRESSORS)),
    base_offset=st.integers(0, 2**50),
    leader_epoch=st.integers(0, 2**31 - 1),
    base_sequence=st.integers(-1, 2**31 - 1),
    control=st.booleans(),
)
def test_what_is_encoded_is_read(
    *,
    plain: list[Plain],
    compression: str,
    base_offset: int,
    leader_epoch: int,
    base_sequence: int,
    control: bool,
) -> None:
    batch = only_batch(
        encoded_batch(
            plain,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            compression=compression,
            base_timestamp=1_700_000_000_000,
            base_sequence=base_sequence,
            control=control,
        )
    )
    found = list(records(batch))
    assert (batch.leader_epoch, batch.control) == (leader_epoch, control)
    assert [(r.key, r.value) for r in found] == [(p.key, p.value) for p in plain]
    assert [r.offset - base_offset for r in found] == list(range(len(plain)))
    assert [r.timestamp - 1_700_000_000_000 for r in found] == [p.timestamp_delta for p in plain]
    sequences = [batch.sequence_of(r.offset) for r in found]
    expected = [(base_sequence + n) % 2**31 for n in range(len(plain))]
    assert sequences == (expected if base_sequence >= 0 else [-1] * len(plain))


def hashes(data: bytes) -> list[int]:
    return [r.record_hash for batch in read_segment(data).batches for r in records(batch)]


@pytest.mark.parametrize("compression", sorted(COMPRESSORS))
def test_a_hash_does_not_depend_on_the_batch(compression: str) -> None:
    first = Plain(key=b"k", value=b"one", headers=(("h", b"x"),), timestamp_delta=5)
    second = Plain(value=b"two", timestamp_delta=9)
    together = encoded_batch([first, second], compression=compression, base_timestamp=100)
    apart = encoded_batch(
        [Plain(key=b"k", value=b"one", headers=(("h", b"x"),))], base_timestamp=105, leader_epoch=4
    ) + encoded_batch([Plain(value=b"two", timestamp_delta=-1)], base_offset=1, base_timestamp=110)
    assert hashes(together) == hashes(apart)


@pytest.mark.parametrize(
    "other",
    [
        Plain(key=b"K", value=b"v", headers=(("h", b"x"),)),
        Plain(key=b"k", value=b"V", headers=(("h", b"x"),)),
        Plain(key=b"k", value=b"v", headers=(("h", b"y"),)),
        Plain(key=b"k", value=b"v", headers=(("h", b"x"),), timestamp_delta=1),
        Plain(key=b"kv", value=b"", headers=(("h", b"x"),)),
        Plain(key=b"k", value=None, headers=(("h", b"x"),)),
    ],
)
def test_a_hash_tells_records_apart(other: Plain) -> None:
    one = Plain(key=b"k", value=b"v", headers=(("h", b"x"),))
    assert hashes(encoded_batch([one])) != hashes(encoded_batch([other]))


@pytest.mark.parametrize("name", ["codecs-0", "txn-0"])
def test_a_segment_torn_anywhere_gives_its_whole_batches(name: str) -> None:
    data = real_segment(name)
    whole = read_segment(data).batches
    ends = [batch.position + HEADER_BYTES + len(batch.body) for batch in whole]
    for cut in range(len(data)):
        segment = read_segment(data[:cut])
        kept = sum(end <= cut for end in ends)
        assert [b.base_offset for b in segment.batches] == [b.base_offset for b in whole[:kept]]
        at_an_end = cut in (0, *ends)
        zeros_only = not any(data[max((0, *ends[:kept])) : cut])
        assert bool(segment.damage) != (at_an_end or zeros_only)


@given(data=st.data())
def test_a_flipped_bit_costs_one_batch_and_is_told(data: st.DataObject) -> None:
    plain = [Plain(key=b"k", value=bytes([n]) * 20) for n in range(3)]
    parts = [encoded_batch([each], base_offset=n) for n, each in enumerate(plain)]
    at = data.draw(st.integers(17, len(parts[1]) - 1), label="byte of the second batch")
    bit = data.draw(st.integers(0, 7), label="bit")
    damaged = bytearray(b"".join(parts))
    damaged[len(parts[0]) + at] ^= 1 << bit
    segment = read_segment(bytes(damaged))
    assert [batch.base_offset for batch in segment.batches] == [0, 2]
    assert len(segment.damage) == 1
    assert f"byte {len(parts[0])}" in segment.damage[0]
    assert "CRC" in segment.damage[0]


@pytest.mark.parametrize("tail", [1, 12, 17, 61, 5000])
def test_preallocated_zeros_are_no_damage(tail: int) -> None:
    data = real_segment("txn-0")
    assert read_segment(data + bytes(tail)).damage == ()
    assert len(read_segment(data + bytes(tail)).batches) == len(read_segment(data).batches)


@given(garbage=st.binary(max_size=300))
def test_garbage_behind_a_batch_leaves_the_batch(garbage: bytes) -> None:
    data = encoded_batch([Plain(value=b"kept")])
    segment = read_segment(data + garbage)
    assert segment.batches[0].base_offset == 0
    assert bool(segment.damage) == any(garbage)


@given(body=st.binary(max_size=100), codec=st.sampled_from(list(Codec)))
def test_a_batch_of_nonsense_raises_one_kind_of_error(body: bytes, codec: Codec) -> None:
    real = only_batch(encoded_batch([Plain(value=b"x")]))
    nonsense = RecordBatch(
        position=0,
        base_offset=real.base_offset,
        leader_epoch=0,
        attributes=codec,
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=3,
        body=memoryview(body),
    )
    outcome: list[Record] | str
    try:
        outcome = list(records(nonsense))
    except DamagedFileError as damage:
        outcome = str(damage)
    assert len(outcome) == 3 or "offset 0" in outcome


def test_an_unknown_codec_is_damage() -> None:
    data = bytearray(encoded_batch([Plain(value=b"x")]))
    data[22] |= 7
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    with pytest.raises(DamagedFileError, match="7"):
        list(records(only_batch(bytes(data))))


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    batch = only_batch(encoded_batch([], base_offset=40))
    assert list(records(batch)) == []


def test_an_empty_file_is_an_empty_segment() -> None:
    assert read_segment(b"") == Segment(batches=(), damage=())
