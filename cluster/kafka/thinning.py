"""Decides which repeated observations are written as rows.

Brokers are asked several times a second, and most responses contain nothing new. Some values decide
verdicts, so they are written at every change: leaders, epochs, ISRs and decreasing numbers. Growing
numbers are written at most twice a second.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from results.record.clock import NS_PER_S

GROWING_NS = NS_PER_S // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    at_ns: int
    deciding: Hashable
    growing: tuple[int, ...]


@dataclass(slots=True)
class Thinning:
    """Remembers the last written row of each key.

    Attributes:
        repeat_ns: The time after which an unchanged row is written again; None means never.
    """

    repeat_ns: int | None = None
    _rows: dict[Hashable, _Row] = field(default_factory=dict)

    def is_due(
        self, key: Hashable, *, at_ns: int, deciding: Hashable, growing: tuple[int, ...] = ()
    ) -> bool:
        """Return whether to write a row. If so, remember this row as the last one of its key.

        Args:
            key: A partition and the source of the observation. The row is about this partition.
            at_ns: The time of the observation.
            deciding: Values that decide verdicts. A row is written after every change of these
                values.
            growing: Numbers that usually grow. If one decreases, the row is written at once.
        """
        last = self._rows.get(key)
        due = last is None or self._differs(last, at_ns=at_ns, deciding=deciding, growing=growing)
        if due:
            self._rows[key] = _Row(at_ns=at_ns, deciding=deciding, growing=growing)
        return due

    def _differs(
        self, last: _Row, *, at_ns: int, deciding: Hashable, growing: tuple[int, ...]
    ) -> bool:
        age_ns = at_ns - last.at_ns
        if deciding != last.deciding:
            return True
        if any(now < before for now, before in zip(growing, last.growing, strict=True)):
            return True
        if growing != last.growing and age_ns >= GROWING_NS:
            return True
        return self.repeat_ns is not None and age_ns >= self.repeat_ns
