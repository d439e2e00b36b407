"""Batches that no producer makes: what is refused, and that what is taken can be read."""

import struct
from random import Random

import cramjam
import pytest
from crc32c import crc32c

from cluster.files.batches import read_segment, records
from cluster.reference.partition.produced import RefusedError, accepted
from tests.reference.batch_maker import produced

HEADER_BYTES = 61
VALUES = (b"abc", b"", b"x" * 200)
PLAIN = produced(*VALUES, producer=(5, 0, 3))
BODY = PLAIN[HEADER_BYTES:]
SOUND = {
    "plain": PLAIN,
    "gzip": produced(*VALUES, attributes=1, packed=bytes(cramjam.gzip.compress(BODY))),
    "snappy": produced(*VALUES, attributes=2, packed=bytes(cramjam.snappy.compress_raw(BODY))),
    "framed": produced(
        *VALUES,
        attributes=2,
        packed=b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
        + b"".join(
            len(chunk).to_bytes(4, "big") + chunk
            for chunk in (bytes(cramjam.snappy.compress_raw(part)) for part in (BODY[:9], BODY[9:]))
        ),
    ),
    "lz4": produced(*VALUES, attributes=3, packed=bytes(cramjam.lz4.compress(BODY))),
    "zstd": produced(*VALUES, attributes=4, packed=bytes(cramjam.zstd.compress(BODY))),
}
TRIES = 1500


def damaged(data: bytes, random: Random) -> bytes:
    """Change some bytes of a batch, and mostly have size and sum agree with what it is then."""
    hostile = bytearray(data)
    for _ in range(random.randint(1, 3)):
        hostile[random.randrange(len(hostile))] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    if random.random() < 0.2:
        del hostile[random.randrange(len(hostile)) :]
    if random.random() < 0.9 and len(hostile) > HEADER_BYTES:
        hostile[8:12] = struct.pack(">i", len(hostile) - 12)
        hostile[16] = 2
        hostile[17:21] = struct.pack(">I", crc32c(bytes(hostile[21:])))
    return bytes(hostile)


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_batch_is_taken(kind: str) -> None:
    assert accepted(SOUND[kind], max_bytes=1 << 20).count == len(VALUES)


@pytest.mark.parametrize("kind", SOUND)
def test_what_is_taken_can_be_read(kind: str) -> None:
    """With a true sum around it, nothing but the walk over the records tells rubbish apart."""
    random, taken, refused = Random(1), 0, 0
    for _ in range(TRIES):
        hostile = damaged(SOUND[kind], random)
        try:
            batch = accepted(hostile, max_bytes=1 << 20)
        except RefusedError:
            refused += 1
            continue
        taken += 1
        (read,) = read_segment(batch.data).batches
        assert len(list(records(read))) == batch.count
    assert taken > TRIES // 50
    assert refused > TRIES // 5


BOMBS = {
    "snappy that announces 4 GiB": (2, b"\xff\xff\xff\xff\x0f\0a"),
    "zstd of 1 GiB": (4, bytes(cramjam.zstd.compress(bytes(1 << 24))) * 64),
    "gzip of 80 MiB": (1, bytes(cramjam.gzip.compress(bytes(80 << 20)))),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_would_fill_the_memory_is_refused(kind: str) -> None:
    """Python's process is aborted where an allocation of the codec's fails."""
    codec, packed = BOMBS[kind]
    with pytest.raises(RefusedError, match="cannot be decompressed"):
        accepted(produced(b"1", attributes=codec, packed=packed), max_bytes=1 << 20)


def test_what_compresses_well_is_taken() -> None:
    for codec, compress in ((1, cramjam.gzip.compress), (4, cramjam.zstd.compress)):
        plain = produced(b"x" * (8 << 20))[HEADER_BYTES:]
        batch = produced(b"1", attributes=codec, packed=bytes(compress(plain)))
        assert accepted(batch, max_bytes=1 << 20).count == 1
