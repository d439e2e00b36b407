"""Truncations of replicas, by their reason and length.

From `truncations`: brokers' own logs name the replica, the offset from which it was cut, and mostly
the reason. Such lines tell no time of the run. A follower cuts its log when it begins to follow: so
the first step of the partition under that leader, in an epoch later than the one that ended there,
gives the time. Other truncations have none.

The length is what a look at the replica shows: its log had reached at least that far before
(`replica_states`). Where no look shows more than what was left, the length is `unseen`.

What would not prove it: a truncation without effect, which no line of a log calls one.
"""

import re

import numpy as np

from checkers.columns import Ints, equal, ints, present, select, texts
from checkers.group import Group
from checkers.transitions.events import UNTIMED, Events, bucket
from checkers.transitions.reigned import steps_of
from results.record.clock import NS_PER_S
from results.record.transitions import LENGTHS

_REASONS = (
    (re.compile(r"below its high watermark"), "below-high-watermark"),
    (re.compile(r"local high watermark"), "high-watermark"),
    (re.compile(r"the leader's log ends at offset"), "leader-log-end"),
    (re.compile(r"follower of broker"), "leader-epoch"),
    (re.compile(r"Corruption found"), "recovery"),
)
"""Kinds of reasons by their words (`cluster.files.logs`), those that say more first."""
_STARTS_OVER = re.compile(r"Truncate and start at offset")
_FOLLOWS = re.compile(r"follower of broker (?P<leader>\d{1,9})\b")
_ENDED = re.compile(r"epoch (?P<epoch>\d{1,9}) ends at offset")
_LATE_NS = 2 * NS_PER_S
"""A look so much later than a step may still have been before the truncation."""


def find(group: Group, events: Events) -> None:
    """Add the truncations of a partition's replicas; of the quorum's log, one name for all."""
    rows = group.table("truncations")
    columns = (ints(rows, name).tolist() for name in ("observed_ns", "from_offset", "to_offset"))
    for node, reason, observed_ns, start, end in zip(
        texts(rows, "node"), texts(rows, "reason"), *columns, strict=True
    ):
        if group.of_quorum:
            events.add("quorum/log-parted", observed_ns)
            continue
        at_ns = observed_ns if observed_ns >= 0 else _when(group, reason)
        if _STARTS_OVER.search(reason):
            events.add("truncation/started-over", at_ns)
            continue
        took = end - start if end > start >= 0 else _seen_end(group, node, start, at_ns) - start
        length = bucket(took, *LENGTHS[:-1]) if took > 0 and start >= 0 else LENGTHS[-1]
        events.add(f"truncation/{_kind(reason)}-{length}", at_ns)


def _kind(reason: str) -> str:
    return next((kind for words, kind in _REASONS if words.search(reason)), "other")


def _when(group: Group, reason: str) -> int:
    """Return when a follower began to follow the leader that it names."""
    leader, ended = _FOLLOWS.search(reason), _ENDED.search(reason)
    if leader is None:
        return UNTIMED
    least = int(ended["epoch"]) + 1 if ended else 0
    return next(
        (
            each.by_ns
            for each in steps_of(group)
            if each.leader == int(leader["leader"]) and each.epoch >= least
        ),
        UNTIMED,
    )


def _seen_end(group: Group, node: str, start: int, at_ns: int) -> int:
    """Return how far a replica's log had reached, by the last look that shows what was cut.

    Of a truncation at an unknown time: by the last look before one that shows the log end fall to
    the offset or below it.
    """
    times, ends = _looks(group, node)
    if at_ns >= 0:
        before = ends[times <= at_ns + _LATE_NS]
        return int(before.max(initial=start))
    falls = np.flatnonzero((ends[:-1] > start) & (ends[1:] < ends[:-1]))
    return int(ends[falls[-1]]) if len(falls) else start


def _looks(group: Group, node: str) -> tuple[Ints, Ints]:
    """Return when a replica's log end was told, in order, and what it was."""
    states = group.table("replica_states")
    told = equal(states, "node", node) & present(states, "log_end_offset")
    told &= ~present(states, "snapshot") & (ints(states, "observed_ns") >= 0)
    mine = select(states, told)
    return ints(mine, "observed_ns"), ints(mine, "log_end_offset")
