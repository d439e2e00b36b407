"""Which of many observations are worth a row. Pure.

Brokers are asked several times a second, and mostly say what they said before. What decides
verdicts, a leader, an epoch, an ISR, or a number that went back, is written whenever it changed;
numbers that only grow, at most twice a second.
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
    """Remembers the last row of each key.

    Attributes:
        repeat_ns: After so long a row is due though nothing changed; None: never.
    """

    repeat_ns: int | None = None
    _rows: dict[Hashable, _Row] = field(default_factory=dict)

    def is_due(
        self, key: Hashable, *, at_ns: int, deciding: Hashable, growing: tuple[int, ...] = ()
    ) -> bool:
        """Tell whether to write a row, and if so remember it as the last one.

        Args:
            key: What the row is about: a partition and a source.
            at_ns: When it was observed.
            deciding: Written whenever it differs.
            growing: Numbers that usually only grow; written at once when one of them went back.
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
