"""Jepsen's additional names for cycles that an isolation level forbids.

Jepsen reports `PL-1-cycle-exists` together with `G0`, and `PL-2-cycle-exists` with `G1c`. The names
with `strong-` come with the real-time cycles. These names contain no new information. Logquake uses
them only to compare its verdicts with Jepsen's.
"""

from collections.abc import Mapping

LEVELS: Mapping[str, str] = {
    "G0": "PL-1-cycle-exists",
    "G1c": "PL-2-cycle-exists",
    "G0-realtime": "strong-PL-1-cycle-exists",
    "G1c-realtime": "strong-PL-2-cycle-exists",
}
"""Jepsen's additional name for each kind of cycle."""


def with_levels(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the given counts of anomalies, and the same counts under Jepsen's additional names."""
    beside = {LEVELS[name]: count for name, count in counts.items() if name in LEVELS and count}
    return {**counts, **beside}
