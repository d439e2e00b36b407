"""The version order of a partition: which value stands at which offset, as far as anybody knows.

Shared by all checks that ask what lies between two records. Under the contract it holds what is
certainly committed, what readers were given, and the leader's final log, without the values of
transactions that did not certainly commit: a read_uncommitted reader may see those, and nobody has
to. Jepsen's has what any reader was given, aborted or not, and no log of a replica.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import NONE, Ints, Mask, equal, ints, present, select, stack
from checkers.group import Group
from results.record.terms import Judge, Outcome

_PICKED, _LOGGED, _READ, _SENT = range(-1, 3)
"""Who puts a value at an offset, the one that is believed first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays have no one answer to ==.
class VersionOrder:
    """The values of a partition in the order of their offsets.

    Attributes:
        offsets: Ascending, each once: those of which a value is known.
        values: The value that stands at each; where several were seen there, one is picked.
    """

    offsets: Ints
    values: Ints

    def between(self, after: Ints, before: Ints) -> Ints:
        """Return how many offsets of the order lie strictly between, pair by pair."""
        low = np.searchsorted(self.offsets, after, side="right")
        high = np.searchsorted(self.offsets, before, side="left")
        return np.maximum(np.asarray(high - low, dtype=np.int64), 0)

    def without(self, values: Ints) -> "VersionOrder":
        """Return the order as if some values stood nowhere."""
        kept = ~np.isin(self.values, values)
        return VersionOrder(offsets=self.offsets[kept], values=self.values[kept])

    def last_index(self, values: Ints) -> Ints:
        """Return the index of each value's last place in the order, -1 if it has none."""
        return self._index(values, side="right", shift=-1)

    def first_index(self, values: Ints) -> Ints:
        """Return the index of each value's first place in the order, -1 if it has none."""
        return self._index(values, side="left", shift=0)

    def _index(self, values: Ints, *, side: str, shift: int) -> Ints:
        if not len(self.values):
            return np.full(len(values), NONE, dtype=np.int64)
        by_value = np.argsort(self.values, kind="stable")
        ranked = self.values[by_value]
        at = np.searchsorted(ranked, values, side="right" if side == "right" else "left") + shift
        at = np.clip(at, 0, len(ranked) - 1)
        return np.where(ranked[at] == values, by_value[at], NONE)


def version_order(group: Group) -> VersionOrder:
    """Return the version order of a partition, by the definitions of the run's judge.

    Args:
        group: A partition's. Where an offset has several values, the one that stands there is that
            which the facts pick, else that of the leader's final log, else the smallest one that
            was read, else the smallest one.
    """
    jepsen = group.facts.judge is Judge.JEPSEN
    picked = group.facts.picked.get((group.topic, group.partition))
    read_at, read = _read(group, everything=jepsen)
    sent_at, sent = (ints(group.committed, name) for name in ("offset", "value"))
    log_at, logged = (np.empty(0, np.int64),) * 2 if jepsen else _logged(group)
    offsets, values = stack([log_at, read_at, sent_at]), stack([logged, read, sent])
    source = np.repeat([_LOGGED, _READ, _SENT], [len(log_at), len(read_at), len(sent_at)])
    real = (offsets >= 0) & (values >= 0)
    offsets, values, source = offsets[real], values[real], source[real]
    if picked:
        chosen = np.array([picked.get(at, NONE) for at in offsets.tolist()], dtype=np.int64)
        source = np.where(chosen == values, _PICKED, source)
    order = np.lexsort((values, source, offsets))
    offsets, values, source = offsets[order], values[order], source[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = offsets[1:] != offsets[:-1]
    if not jepsen:
        first &= ~_misplaced(values, source, first)
    return VersionOrder(offsets=offsets[first], values=values[first])


def _misplaced(values: Ints, source: Ints, first: Mask) -> Mask:
    """Tell what only an acknowledgement puts where it stands, while others put it elsewhere.

    That is a wrong acknowledgement (`ack-mismatch`), and no record that a reader could leave out.
    """
    sent_only = np.flatnonzero(first & (source == _SENT))
    mask = np.zeros(len(values), dtype=np.bool_)
    if len(sent_only):
        mask[sent_only] = np.isin(values[sent_only], values[source != _SENT])
    return mask


def _read(group: Group, *, everything: bool) -> tuple[Ints, Ints]:
    polls = group.table("polls")
    offsets, values = ints(polls, "offset"), ints(polls, "value")
    if everything:
        return offsets, values
    kept = ~np.isin(values, _never_there(group))
    return offsets[kept], values[kept]


def _logged(group: Group) -> tuple[Ints, Ints]:
    log = group.final_log
    if log is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    kept = (log.controls != 1) & ~np.isin(log.values, _never_there(group))
    return log.offsets[kept], log.values[kept]


def _never_there(group: Group) -> Ints:
    """Return the values that no reader has to be given: of doubtful transactions, or failed."""
    sends = group.table("sends")
    failed = select(sends, equal(sends, "outcome", Outcome.FAIL.value) & present(sends, "value"))
    return stack([ints(group.doubtful, "value"), ints(failed, "value")])
