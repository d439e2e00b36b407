"""Batches that no producer makes: what is refused, and that what is taken can be read."""

from random import Random

import cramjam
import pytest

from cluster.files.batches import read_segment, records
from cluster.reference.partition.produced import RefusedError, accepted
from tests.reference.batch_maker import produced
from tests.reference.hostile_frames import BOMBS, HEADER_BYTES, damaged
from tests.reference.hostile_frames import SOUND_BATCHES as SOUND

TRIES = 1500


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_batch_is_taken(kind: str) -> None:
    assert accepted(SOUND[kind], max_bytes=1 << 20).count == 3


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
