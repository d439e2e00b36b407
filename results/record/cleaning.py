"""Compacted topics: how many keys they have, and the brokers' settings that make a cleaner work.

By default a cleaner looks every 15 s for logs half of whose records are dirty, in segments of 1 GiB
or a week. A run takes a minute. So segments are closed after seconds here, and the cleaner looks
several times a second. The seed decides what is not the same in each run: a later run meets other
moments.

`log.roll.ms` closes segments, because `log.segment.bytes` is 1 MiB at least since Kafka 4.0
(KIP-1030). A broker without one of these settings says so in its log, and goes on.
"""

from random import Random

POLICY = "log.cleanup.policy"
_BUFFER_BYTES = 2 << 20
"""Of the cleaner's map of keys; one MiB a thread at least."""
_ENTRY_BYTES = 24
"""Of the map: a hash of a key, and an offset."""
_USUAL_FACTOR = "0.9"


def keys_of(seed: int) -> int:
    """Return how many keys each partition of a run has."""
    return _random(seed).randint(8, 32)


def compaction(seed: int) -> dict[str, str]:
    """Return the brokers' settings of a run whose topics are compacted.

    In every second run the cleaner's map holds fewer keys than a partition has, as where keys are
    many: then each cleaning ends in the middle of a log, and often of a segment.
    """
    random = _random(seed)
    keys = random.randint(8, 32)
    roll_ms = random.choice((500, 1000, 2000, 4000))
    backoff_ms = random.choice((100, 300, 1000))
    retention_ms = random.choice((0, 500, 2000, 10_000))
    factor = _USUAL_FACTOR
    if random.random() < 1 / 2:
        held = random.randint(max(2, keys // 4), keys - 1)
        # A little more, so that rounding down gives that many.
        factor = f"{(held + 0.5) * _ENTRY_BYTES / _BUFFER_BYTES:.9f}"
    return {
        POLICY: "compact",
        "log.roll.ms": str(roll_ms),
        "log.segment.bytes": str(1 << 20),
        "log.segment.delete.delay.ms": "2000",
        "log.cleaner.backoff.ms": str(backoff_ms),
        "log.cleaner.threads": "1",
        "log.cleaner.dedupe.buffer.size": str(_BUFFER_BYTES),
        "log.cleaner.io.buffer.load.factor": factor,
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.min.compaction.lag.ms": "0",
        "log.cleaner.max.compaction.lag.ms": str(4 * roll_ms),
        "log.cleaner.delete.retention.ms": str(retention_ms),
    }


def _random(seed: int) -> Random:
    return Random(f"{seed}/compaction")
