"""Find the leaders of each partition and the times of their epochs, from the controllers' log.

The coordinator of a group or transaction is the leader of one partition of an internal topic. The
hash of the group's name or of the transactional id selects that partition. The run has no other
record of the coordinators.

The controllers' log names leaders in order, but without times. About once a second, observers asked
the quorum's members for the high watermark of the log. An entry was certainly committed when a
response first reported a high watermark above the entry. The entry was not yet committed when the
same quorum leader last reported a lower high watermark.

A broker that is cut off may continue as coordinator. Then the broker's period as coordinator ends
with the fault.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.columns import NEVER, equal, ints, present, select, texts
from results.record.terms import Source

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SHARES = "__share_group_state"
"""The internal topics. The leaders of the partitions of these topics coordinate groups,
transactions, and the state of share groups."""
LATE_NS = 2_000_000_000
"""Both the maximum age of a response, and the maximum delay until a broker learns its role."""
ENDING = frozenset({"kill", "stop", "power-loss", "wipe"})
"""The faults that stop the target brokers. Under any other fault a leader may continue."""
UNENDED_NS = NEVER - LATE_NS
_LEADER = "leader"
_SMALLEST = -(2**31)
"""The smallest 32-bit integer of Java. Java cannot represent the absolute value of this integer."""
Span = tuple[str, int, int]
"""A node, a start time and an end time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """One leader epoch of a partition, from the controllers' log.

    Attributes:
        topic, partition: The partition.
        leader: The broker that leads. -1 if there is none.
        epoch: The leader epoch.
        from_ns: The epoch did not begin before this time, in nanoseconds since the run's start.
        until_ns: The epoch did not end after this time.
        replaced_ns: The next epoch did not begin after this time. A leader that is cut off may not
            know this.
        unclean: Whether some copy of the log says that the leader was outside of the ISR.
    """

    topic: str
    partition: int
    leader: int
    epoch: int
    from_ns: int
    until_ns: int
    replaced_ns: int = UNENDED_NS
    unclean: bool = False

    @property
    def node(self) -> str:
        """The node's name. Broker 2 is n2."""
        return f"n{self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A recorded truncation of a replica of an internal topic's partition.

    Attributes:
        topic, partition, node: The replica.
        from_offset: The offset from which the log was truncated.
    """

    topic: str
    partition: int
    node: str
    from_offset: int


def reigns(leadership: pa.Table, quorum_states: pa.Table) -> tuple[Reign, ...]:
    """Return the leader epochs of all partitions, sorted by partition and epoch.

    If copies of the controllers' log name different leaders for one epoch, the partition is left
    out.

    Args:
        leadership: Rows of `leadership`.
        quorum_states: Rows of `quorum_states`.
    """
    entries, unclean = _entries(leadership), _unclean(leadership)
    spans = _Spans(quorum_states)
    found: list[Reign] = []
    for (topic, partition), epochs in sorted(entries.items()):
        if any(len(leaders) > 1 for leaders, _ in epochs.values()):
            continue
        each = sorted((epoch, min(leaders), at) for epoch, (leaders, at) in epochs.items())
        for (epoch, leader, at), (_, _, following) in pairwise([*each, (0, 0, -1)]):
            replaced_ns = spans.by(following) if following >= 0 else UNENDED_NS
            found.append(
                Reign(
                    topic=topic,
                    partition=partition,
                    leader=leader,
                    epoch=epoch,
                    from_ns=spans.not_before(at),
                    until_ns=replaced_ns,
                    replaced_ns=replaced_ns,
                    unclean=(topic, partition, epoch) in unclean,
                )
            )
    return tuple(found)


CUT_COLUMNS = ("topic", "partition", "node", "from_offset")


def cuts(truncations: pa.Table) -> tuple[Cut, ...]:
    """Return the truncations of the internal topics' replicas, from rows of `truncations`."""
    inner = select(truncations, equal(truncations, "topic", GROUPS, TRANSACTIONS, SHARES))
    numbers = (ints(inner, name).tolist() for name in ("partition", "from_offset"))
    rows = zip(texts(inner, "topic"), texts(inner, "node"), *numbers, strict=True)
    return tuple(
        Cut(topic=topic, partition=partition, node=node, from_offset=start)
        for topic, node, partition, start in rows
    )


_Entries = dict[tuple[str, int], dict[int, tuple[set[int], int]]]
"""For each partition and epoch: the leaders that the copies of the controllers' log name, and the
offset of the epoch's first entry in that log."""


def _entries(leadership: pa.Table) -> _Entries:
    told = equal(leadership, "source", Source.METADATA_LOG) & present(leadership, "log_offset")
    rows = select(leadership, told & (ints(leadership, "leader_epoch") >= 0))
    names = ("partition", "leader", "leader_epoch", "log_offset")
    found: _Entries = {}
    for topic, partition, leader, epoch, at in zip(
        texts(rows, "topic"), *(ints(rows, name).tolist() for name in names), strict=True
    ):
        epochs = found.setdefault((topic, partition), {})
        leaders, first = epochs.get(epoch, (set(), at))
        epochs[epoch] = ({*leaders, leader}, min(first, at))
    return found


def _unclean(leadership: pa.Table) -> set[tuple[str, int, int]]:
    """Return topic, partition and epoch of each unclean election in the controllers' log."""
    told = equal(leadership, "source", Source.METADATA_LOG)
    rows = select(leadership, told & equal(leadership, "unclean", True))  # noqa: FBT003 - a value
    numbers = (ints(rows, name).tolist() for name in ("partition", "leader_epoch"))
    return {*zip(texts(rows, "topic"), *numbers, strict=True)}


class _Spans:
    """Bounds for the times at which entries of the controllers' log were committed."""

    def __init__(self, states: pa.Table) -> None:
        # A new leader of the quorum reports -1 until it knows the high watermark.
        known = (ints(states, "high_watermark") >= 0) & present(states, "observed_ns")
        told = select(states, known).sort_by("observed_ns")
        names = ("observed_ns", "high_watermark", "epoch")
        self._times, self._marks, self._epochs = (ints(told, name) for name in names)
        self._leading = equal(told, "role", _LEADER)
        self._reached = np.maximum.accumulate(self._marks)

    def by(self, at: int) -> int:
        """Return a time by which an entry was certainly committed; `UNENDED_NS` if unknown."""
        row = int(np.searchsorted(self._reached, at, side="right"))
        return int(self._times[row]) if row < len(self._times) else UNENDED_NS

    def not_before(self, at: int) -> int:
        """Return a time before which an entry was certainly not committed; 0 if unknown."""
        row = int(np.searchsorted(self._reached, at, side="right"))
        epoch = self._epochs[row] if row < len(self._times) else self._epochs.max(initial=-1)
        same = self._leading[:row] & (self._epochs[:row] == epoch)
        before = self._times[:row][same]
        return max(0, int(before.max(initial=0)) - LATE_NS)

    def marks(self) -> Iterator[int]:
        """Yield each high watermark that exceeds all earlier ones. Yield `UNENDED_NS` last."""
        yield from np.unique(self._reached).tolist()
        yield UNENDED_NS


def commits(quorum_states: pa.Table) -> tuple[tuple[int, int, int], ...]:
    """Return, for each high watermark of the quorum, bounds for the commit time of the entry below.

    Args:
        quorum_states: Rows of `quorum_states`.

    Returns:
        The high watermarks in ascending order, each with two times. The entry was committed after
        the first time, and not later than the second time.
    """
    spans = _Spans(quorum_states)
    return tuple((mark, spans.not_before(mark - 1), spans.by(mark - 1)) for mark in spans.marks())


def partition_of(known: Sequence[Reign], topic: str, key: str) -> int:
    """Return the internal topic's partition for a group or transactional id; -1 if unknown.

    Args:
        known: All leader epochs of the run. These epochs show how many partitions the topic has.
        topic: `GROUPS`, `TRANSACTIONS` or `SHARES`.
        key: The group's name, the transactional id, or `GROUP:TOPIC-ID:PARTITION`.
    """
    partitions = {each.partition for each in known if each.topic == topic}
    if not partitions or partitions != set(range(len(partitions))):
        return -1
    found = _java_hash(key)
    return 0 if found == _SMALLEST else abs(found) % len(partitions)  # Kafka's `Utils.abs`.


def _java_hash(text: str) -> int:
    """Return the value of Java's `String.hashCode`, a signed 32-bit integer."""
    units = np.frombuffer(text.encode("utf-16-be"), dtype=">u2").tolist()
    found = 0
    for unit in units:
        found = (31 * found + unit) & 0xFFFFFFFF
    return found + 2 * _SMALLEST if found >= -_SMALLEST else found


def between(
    known: Sequence[Reign], place: tuple[str, int], span: tuple[int, int]
) -> tuple[Reign, ...]:
    """Return the leader epochs of a partition that may overlap a time span.

    Args:
        known: The leader epochs of the run, as `lasting` returns them.
        place: Topic and partition.
        span: Start and end of the time span.
    """
    return tuple(
        each
        for each in known
        if (each.topic, each.partition) == place
        and each.from_ns <= span[1]
        and span[0] <= each.until_ns + LATE_NS
    )


def lasting(known: Iterable[Reign], cut_off: Iterable[Span]) -> tuple[Reign, ...]:
    """Extend each leader epoch by the time in which the leader was cut off but may have continued.

    Args:
        known: Leader epochs.
        cut_off: For each fault that does not stop the broker: the node, and the fault's start and
            end.
    """
    ends: dict[str, list[tuple[int, int]]] = {}
    for node, begun_ns, ended_ns in sorted(cut_off):
        ends.setdefault(node, []).append((begun_ns, min(ended_ns, UNENDED_NS)))
    return tuple(_extended(each, ends.get(each.node, ())) for each in known)


def _extended(reign: Reign, faults: Iterable[tuple[int, int]]) -> Reign:
    """Return a leader epoch with its end after the faults, which are sorted by their starts.

    A fault may begin while an earlier fault is in force: a broker that is cut off is paused, too.
    """
    until_ns = reign.until_ns
    for begun_ns, ended_ns in faults:
        if begun_ns <= until_ns + LATE_NS and reign.from_ns <= ended_ns:
            until_ns = max(until_ns, ended_ns)
    return replace(reign, until_ns=until_ns)
