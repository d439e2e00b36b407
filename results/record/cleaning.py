"""Compacted topics: the number of keys, and broker settings that make the log cleaner work.

By default, the cleaner checks every 15 s for logs that are half dirty. Segments close at 1 GiB or
after a week. A run takes only a minute. So here segments close after seconds, and the cleaner
checks several times per second. The seed varies the settings, so that runs reach different moments
of cleaning. If the times were even shorter, brokers would spend most of their time on new segments.

`log.roll.ms` closes segments, because `log.segment.bytes` is at least 1 MiB since Kafka 4.0
(KIP-1030). A broker without one of these settings logs a warning and continues.
"""

from random import Random
from typing import Protocol

POLICY, COMPACT = "log.cleanup.policy", "compact"
_BUFFER_BYTES = 2 << 20
"""Size of the cleaner's map of keys; at least one MiB per thread."""
_ENTRY_BYTES = 24
"""Size of a map entry: a hash of a key, and an offset."""
_USUAL_FACTOR = "0.9"
_KEEPS_SHARE, _KEPT_MS = 0.2, 120_000
"""In this share of runs, tombstones stay until everything was read. In the other runs, most
tombstones are removed before that."""


class Asked(Protocol):
    """The fields of a plan that decide whether many messages may share a few keys."""

    @property
    def workload(self) -> str:
        """Name of the workload."""

    @property
    def keys(self) -> int:
        """Number of keys per partition; 0 means each message has its own key."""

    @property
    def settings(self) -> tuple[dict[str, str], ...]:
        """The settings that all brokers share, and the settings of each broker."""

    @property
    def keeps_headers(self) -> bool:
        """Whether the message format has headers."""

    @property
    def is_kafka(self) -> bool:
        """Whether Logquake starts and configures Apache Kafka."""


def keys_refusal(plan: Asked) -> str | None:
    """Return why the plan's number of keys is impossible; None if it is possible."""
    if plan.workload != "keyed":
        return (
            "keys: only the workload keyed has few keys; remove keys, or use --workload keyed"
            if plan.keys
            else None
        )
    if not plan.keys:
        return "keys: the workload keyed needs at least one key; remove keys from the plan"
    if not plan.is_kafka:
        return (
            "workload: keyed needs compaction, so it needs a Kafka that Logquake configures; use"
            " a release, such as --system kafka:4.3.1"
        )
    if any(each.get(POLICY, COMPACT) != COMPACT for each in plan.settings):
        return f"workload: keyed tests only compaction; remove {POLICY}"
    if not plan.keeps_headers:
        return (
            "workload: keyed needs message format v2, because the value of a tombstone is in a"
            " header"
        )
    return None


def keys_of(seed: int) -> int:
    """Return the number of keys per partition, chosen from the seed."""
    return Random(f"{seed}/keys").randint(8, 32)


def compaction(seed: int, keys: int) -> dict[str, str]:
    """Return the broker settings of a run with compacted topics.

    In every second run, the cleaner's map holds fewer keys than a partition has. Each cleaning then
    ends in the middle of a log, and often in the middle of a segment.

    Args:
        seed: Seed of the run.
        keys: Number of keys per partition.

    Returns:
        Settings by name. The brokers' internal topics keep their own cleanup policy, but use the
        other settings.
    """
    random = Random(f"{seed}/cleaner")
    roll_ms = random.choice((2000, 4000, 8000))
    backoff_ms = random.choice((200, 500, 1000))
    retention_ms = random.choice((0, 500, 2000, 10_000))
    # A separate random stream, so that the other choices from a seed stay as in older versions.
    if Random(f"{seed}/keeps tombstones").random() < _KEEPS_SHARE:
        retention_ms = _KEPT_MS
    factor = _USUAL_FACTOR
    if random.random() < 1 / 2 and keys > 1:
        held = random.randint(max(1, keys // 4), keys - 1)
        # Half an entry more, so that rounding down gives the wanted number.
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
