"""What Jepsen says beside a kind of cycle: that a cycle exists which an isolation level forbids.

`PL-1-cycle-exists` comes with `G0`, `PL-2-cycle-exists` with `G1c`, the `strong-` ones with those
that real time closes. They say nothing new, and are told only where our verdicts are printed to be
compared with Jepsen's.
"""

from collections.abc import Mapping

LEVELS: Mapping[str, str] = {
    "G0": "PL-1-cycle-exists",
    "G1c": "PL-2-cycle-exists",
    "G0-realtime": "strong-PL-1-cycle-exists",
    "G1c-realtime": "strong-PL-2-cycle-exists",
}
"""By the kind that each comes with."""


def with_levels(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many there are of each kind, with the names that Jepsen tells beside."""
    beside = {LEVELS[name]: count for name, count in counts.items() if name in LEVELS and count}
    return {**counts, **beside}
