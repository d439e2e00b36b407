"""Find truncations of replicas, by reason and length.

The source is `truncations`: brokers' own logs name the replica, the truncation offset, and in most
cases the reason. These lines have no time on the run's clock. If a row has a time, that time
counts. Otherwise, there are three ways to find a time:

- A follower truncates its log when it begins to follow a leader. If the named leader led only once
  since the epoch that the line names, the truncation happened while this leader led. The first
  answer in this period that shows a shorter log gives the time. If there is no such answer, the
  replica's first answer in this period gives the time. Without any answer, the first report of the
  leader gives the time.
- Otherwise, if exactly one answer shows that the log end fell to the truncation offset or below,
  the time of this answer counts.
- If a log was truncated only once, and exactly one answer shows a shorter log, the time of this
  answer counts. The log may have grown again before this answer.

If a row has the old log end, the length comes from the row. Otherwise, it comes from
`replica_states`: the log end in the last answer before the truncation. If that log end is not
beyond the truncation offset, the length is `unseen`.

What would not prove it: a truncation that removed nothing. Log lines do not show whether a
truncation removed records.
"""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from checkers.columns import NEVER, equal, ints, present, select, texts, words_of
from checkers.group import Group
from checkers.transitions.events import UNTIMED, Events, bucket
from checkers.transitions.reigned import begins_of
from results.record.transitions import LENGTHS

_REASONS = (
    (re.compile(r"below its high watermark"), "below-high-watermark"),
    (re.compile(r"local high watermark"), "high-watermark"),
    (re.compile(r"the leader's log ends at offset"), "leader-log-end"),
    (re.compile(r"follower of broker"), "leader-epoch"),
    (re.compile(r"Corruption found"), "recovery"),
)
"""Each text in logs (`cluster.files.logs`), with the kind of reason. More specific texts come
first."""
_STARTS_OVER = re.compile(r"Truncate and start at offset")
_FOLLOWS = re.compile(r"follower of broker (?P<leader>\d{1,9})\b")
_ENDED = re.compile(r"epoch (?P<epoch>\d{1,9}) ends at offset")


def find(group: Group, events: Events) -> None:
    """Add the truncations of a partition's replicas to the transitions in `events`."""
    rows = group.table("truncations")
    if group.of_quorum:
        events.add_all("quorum/log-parted", ints(rows, "observed_ns"))
        return
    columns = (ints(rows, name).tolist() for name in ("observed_ns", "from_offset", "to_offset"))
    looks = {node: _Looks(group, node) for node in words_of(rows, "node")}
    cuts = Counter(texts(rows, "node"))
    for node, reason, observed_ns, start, end in zip(
        texts(rows, "node"), texts(rows, "reason"), *columns, strict=True
    ):
        seen = looks.get(node)
        reign = _reign(group, reason)
        at_ns, reached = seen.cut(start, reign, once=cuts[node] == 1) if seen else (UNTIMED, start)
        at_ns = observed_ns if observed_ns >= 0 else at_ns
        if _STARTS_OVER.search(reason):
            events.add("truncation/started-over", at_ns)
            continue
        took = (end if end > start else reached) - start
        length = bucket(took, *LENGTHS[:-1]) if took > 0 and start >= 0 else LENGTHS[-1]
        events.add(f"truncation/{_kind(reason)}-{length}", at_ns)


def _kind(reason: str) -> str:
    return next((kind for words, kind in _REASONS if words.search(reason)), "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reign:
    """A leader's period. It began between the first two times, and ended before `until_ns`."""

    not_before_ns: int
    by_ns: int
    until_ns: int


def _reign(group: Group, reason: str) -> _Reign | None:
    """Return the period of the leader that a follower names, if exactly one period fits."""
    leader, ended = _FOLLOWS.search(reason), _ENDED.search(reason)
    if leader is None:
        return None
    least = int(ended["epoch"]) + 1 if ended else 0
    begins = begins_of(group)
    ends = [*(each.by_ns for each in begins[1:]), NEVER]
    fitting = [
        _Reign(not_before_ns=each.not_before_ns, by_ns=each.by_ns, until_ns=until_ns)
        for each, until_ns in zip(begins, ends, strict=False)
        if each.leader == int(leader["leader"]) and each.epoch >= least
    ]
    return fitting[0] if len(fitting) == 1 else None


class _Looks:
    """The recorded log ends of one replica, with their times.

    Args:
        group: The run's rows of one partition.
        node: The node of the replica.
    """

    def __init__(self, group: Group, node: str) -> None:
        states = group.table("replica_states")
        told = equal(states, "node", node) & present(states, "log_end_offset")
        told &= ~present(states, "snapshot") & (ints(states, "observed_ns") >= 0)
        mine = select(states, told)
        self._times, self._ends = ints(mine, "observed_ns"), ints(mine, "log_end_offset")

    def cut(self, start: int, reign: _Reign | None, *, once: bool) -> tuple[int, int]:
        """Return the time of the truncation, and the log end before it.

        Args:
            start: The truncation offset.
            reign: The period of the leader that the replica began to follow. None if unknown.
            once: Whether this is the log's only truncation.

        Returns:
            The time, which may be `UNTIMED`. The log end before the truncation, or `start` if no
            answer shows it.
        """
        times, ends = self._times, self._ends
        fell = (ends[:-1] > start) & (ends[1:] < ends[:-1])
        if reign is None:
            falls = np.flatnonzero(fell & (ends[1:] <= start))
            falls = np.flatnonzero(fell) if once and fell.sum() == 1 else falls
            at_ns = int(times[falls[0] + 1]) if len(falls) == 1 else UNTIMED
            return at_ns, int(ends[falls[-1]]) if len(falls) else start
        lasts = (times[1:] >= reign.not_before_ns) & (times[1:] < reign.until_ns)
        falls = np.flatnonzero(lasts & fell)
        if len(falls):
            return int(times[falls[0] + 1]), int(ends[falls[0]])
        after = int(np.searchsorted(times, reign.by_ns, side="right"))
        seen = after < len(times) and int(times[after]) < reign.until_ns
        at_ns = int(times[after]) if seen else reign.by_ns
        return at_ns, int(ends[after - 1]) if after else start
