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
