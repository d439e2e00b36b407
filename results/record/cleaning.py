"""Compacted topics: how many keys they have, and the brokers' settings that make a cleaner work.

By default a cleaner looks every 15 s for logs half of whose records are dirty, in segments of 1 GiB
or a week. A run takes a minute. So segments are closed after seconds here, and the cleaner looks
several times a second. The seed decides what is not the same in each run: a later run meets other
moments.

Not more often: a broker that makes segments of all its logs is busy with nothing else.

`log.roll.ms` closes segments, because `log.segment.bytes` is 1 MiB at least since Kafka 4.0
(KIP-1030). A broker without one of these settings says so in its log, and goes on.
"""

from random import Random
from typing import Protocol

POLICY, COMPACT = "log.cleanup.policy", "compact"
_BUFFER_BYTES = 2 << 20
"""Of the cleaner's map of keys; one MiB a thread at least."""
_ENTRY_BYTES = 24
"""Of the map: a hash of a key, and an offset."""
_USUAL_FACTOR = "0.9"
_KEEPS_SHARE, _KEPT_MS = 0.2, 120_000
"""In so many runs tombstones are there until all was read; in the others most of them go before."""


class Asked(Protocol):
    """What of a plan decides whether messages may have few keys."""

    @property
    def workload(self) -> str:
        """Its name."""

    @property
    def keys(self) -> int:
        """Of each partition; 0: each message has its own."""

    @property
    def settings(self) -> tuple[dict[str, str], ...]:
        """The brokers', of all and of each."""

    @property
    def keeps_headers(self) -> bool:
        """Whether the message format has headers."""

    @property
    def is_kafka(self) -> bool:
        """Whether Logquake starts and configures Apache Kafka."""


def keys_refusal(plan: Asked) -> str | None:
    """Return why messages cannot have few keys, None if they can, or have each its own."""
    if plan.workload != "keyed":
        return "keys: only the workload keyed has few keys; leave it out" if plan.keys else None
    if not plan.keys:
        return "keys: the workload keyed has one at least; leave it out"
    if not plan.is_kafka:
        return (
            "workload: keyed needs brokers that compact, so a Kafka that Logquake configures;"
            " take a release, as --system kafka:4.3.1"
        )
    if any(each.get(POLICY, COMPACT) != COMPACT for each in plan.settings):
        return f"workload: keyed is about compaction alone; leave {POLICY} out"
    if not plan.keeps_headers:
        return "workload: a tombstone's value is in a header; keyed needs message format v2"
    return None


def keys_of(seed: int) -> int:
    """Return how many keys each partition of a run has."""
    return Random(f"{seed}/keys").randint(8, 32)


def compaction(seed: int, keys: int) -> dict[str, str]:
    """Return the brokers' settings of a run whose topics are compacted.

    In every second run the cleaner's map holds fewer keys than a partition has, as where keys are
    many: then each cleaning ends in the middle of a log, and often of a segment.

    Args:
        seed: Of the run.
        keys: How many a partition has.

    Returns:
        By name. The topics of the brokers themselves have a policy of their own, and follow the
        rest.
    """
    random = Random(f"{seed}/cleaner")
    roll_ms = random.choice((2000, 4000, 8000))
    backoff_ms = random.choice((200, 500, 1000))
    retention_ms = random.choice((0, 500, 2000, 10_000))
    # A stream of its own: what else a seed draws is what it was before there was this.
    if Random(f"{seed}/keeps tombstones").random() < _KEEPS_SHARE:
        retention_ms = _KEPT_MS
    factor = _USUAL_FACTOR
    if random.random() < 1 / 2 and keys > 1:
        held = random.randint(max(1, keys // 4), keys - 1)
        # A little more, so that rounding down gives that many.
        factor = f"{(held + 0.5) * _ENTRY_BYTES / _BUFFER_BYTES:.9f}"
    return {
        POLICY: COMPACT,
        "log.roll.ms": str(roll_ms),
        "log.segment.bytes": str(1 << 20),
        "log.segment.delete.delay.ms": "2000",
        "log.cleaner.backoff.ms": str(backoff_ms),
        "log.cleaner.threads": "1",
        "log.cleaner.dedupe.buffer.size": str(_BUFFER_BYTES),
        "log.cleaner.io.buffer.load.factor": factor,
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.min.compaction.lag.ms": "0",
        "log.cleaner.max.compaction.lag.ms": str(2 * roll_ms),
        "log.cleaner.delete.retention.ms": str(retention_ms),
    }
