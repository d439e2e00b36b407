"""The payload size of each message of a run, and whether its headers are mixed."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from results.record.hashing import ALL, mix, mixed
from results.record.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The payload sizes and headers of a run's messages.

    Attributes:
        size_bytes: Usual size of a payload, at least 8.
        headers: Whether the message format has headers.
        others: (size, N) for each other size: one message in N has this size.
        mixed: Whether headers are mixed.
        salt: A number from which the messages with the other sizes are chosen.
        keys: Number of keys per partition (`keys`); 0 means each message has its own key.
    """

    size_bytes: int
    headers: bool = True
    others: Sequence[tuple[int, int]] = ()
    mixed: bool = False
    salt: int = 0
    keys: int = 0

    def size_of(self, value: int) -> int:
        """Return the size in bytes of the payload that carries a value."""
        if not self.others:
            return self.size_bytes
        at = bisect_right(self._limits(), mix(value ^ self.salt & ALL))
        return self._sizes()[at]

    def longer(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the indexes of the values whose payloads do not have the usual size."""
        if not self.others:
            return np.empty(0, np.intp)
        drawn = mixed(values.astype(np.uint64) ^ np.uint64(self.salt & ALL))
        return np.flatnonzero(drawn < np.uint64(self._limits()[-1]))

    def _limits(self) -> list[int]:
        """Return the limits between the hashes of values that have different payload sizes."""
        shares = (ALL // one_in for _, one_in in self.others)
        return list(accumulate(shares))

    def _sizes(self) -> list[int]:
        return [*(size for size, _ in self.others), self.size_bytes]


def shape_of(plan: Plan) -> Shape:
    """Return the payload sizes and headers of a plan's messages."""
    return Shape(
        size_bytes=plan.payload_bytes,
        headers=plan.keeps_headers,
        others=plan.contents.sizes,
        mixed=plan.contents.headers == "mixed",
        salt=mix(plan.seed),
        keys=plan.keys,
    )
