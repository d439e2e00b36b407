"""Return recorded observations of one offset, for the evidence of an anomaly."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from checkers.acknowledger import looks_at
from checkers.columns import equal, ints, select, texts
from checkers.findings import seconds
from checkers.group import LEADER_SOURCES, Group, ReplicaLog, once
from checkers.positions import ok_inner_poll_steps, poll_steps
from results.record.terms import Source

_BROKER = re.compile(r"\bbroker (\d+)\b")
_AROUND_NS = 1_000_000_000
_TOLD = 3
"""The maximum number of truncations that a phrase lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLeader:
    """A leader at some time, as an observer recorded it."""

    broker: int
    epoch: int
    source: str
    observed_ns: int

    @property
    def text(self) -> str:
        """The leader as a phrase: `broker 1, epoch 4`. Old brokers report no epochs."""
        epoch = f", epoch {self.epoch}" if self.epoch >= 0 else ""
        return f"broker {self.broker}{epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A recorded truncation of a replica's log."""

    node: str
    from_offset: int
    to_offset: int
    observed_ns: int
    reason: str
    led_last: bool

    def text(self, offset: int) -> str:
        """Return a phrase that says how the truncation removed an offset."""
        # A broker's clock may be faked, so truncations from its log lines have no time of the run.
        when = f" at {seconds(self.observed_ns)}" if self.observed_ns >= 0 else ""
        what = f"{self.node} truncated offset {offset}{when}"
        if self.from_offset != offset and self.to_offset >= 0:
            what += f" together with all offsets from {self.from_offset} on"
        elif self.from_offset != offset:  # The old log end is unknown.
            what = f"{self.node} truncated all that it had from offset {self.from_offset} on{when}"
        return f"{what} ({nodes_in(self.reason)})" if self.reason else what


def nodes_in(reason: str) -> str:
    """Replace each broker id in a broker's log text by a node name: `follower of n2`."""
    return _BROKER.sub(r"n\1", reason)


def observed_leaders(group: Group) -> list[ObservedLeader]:
    """Return the observed leaders from the best available source.

    Only a leader answers ListOffsets, so this source is used first. ZooKeeper has the controller's
    decision. Metadata shows only the view of one broker, so this source is used last.
    """
    rows = group.table("leadership")
    for source in (*LEADER_SOURCES, Source.METADATA):
        led = select(rows, equal(rows, "source", source) & (ints(rows, "leader") >= 0))
        if led.num_rows:
            columns = [ints(led, name).tolist() for name in ("leader", "leader_epoch")]
            times = ints(led, "observed_ns").tolist()
            seen = sorted(zip(times, *columns, strict=True))
            return [
                ObservedLeader(broker=broker, epoch=epoch, source=source, observed_ns=time_ns)
                for time_ns, broker, epoch in seen
            ]
    return []


def claims_around(group: Group, time_ns: int) -> list[str]:
    """Return the leaders that were observed within a second of a time, without repetitions."""
    return sorted(
        {
            f"{each.text} ({each.source})"
            for each in group.view(observed_leaders)
            if abs(each.observed_ns - time_ns) <= _AROUND_NS
        }
    )


@once
def truncations_of(group: Group, offset: int, *, since_ns: int = -1) -> list[Truncation]:
    """Return the recorded truncations that removed an offset; the last leader's truncations first.

    The last leader's truncation matters most. If only followers truncated their logs, nothing is
    lost.

    Args:
        group: The run's rows of one partition.
        offset: The offset.
        since_ns: Earlier truncations are ignored, because they removed another record. Truncations
            from brokers' logs are never ignored, because their times are unknown.
    """
    cuts = group.table("truncations")
    start, end = ints(cuts, "from_offset"), ints(cuts, "to_offset")
    at_ns = ints(cuts, "observed_ns")
    late = (at_ns < 0) | (at_ns >= since_ns)
    hit = select(cuts, late & (start <= offset) & ((offset < end) | (end < 0)))
    last = group.leader.node if group.leader else None
    found = [
        Truncation(
            node=node, from_offset=begin, to_offset=stop, observed_ns=time_ns, reason=reason,
            led_last=node == last,
        )
        for node, begin, stop, time_ns, reason in zip(
            texts(hit, "node"),
            ints(hit, "from_offset").tolist(),
            ints(hit, "to_offset").tolist(),
            ints(hit, "observed_ns").tolist(),
            texts(hit, "reason"),
            strict=True,
        )
    ]  # fmt: skip
    return sorted(found, key=lambda cut: not cut.led_last)


def not_earlier(group: Group, cuts: Sequence[Truncation], since_ns: int) -> list[Truncation]:
    """Return the given truncations, except those that certainly happened before a time.

    Suppose that the log became shorter before that time, and then ended exactly at the offset of a
    truncation without a time. Then the function omits this truncation.
    """
    left = list(cuts)
    for node in {cut.node for cut in cuts}:
        ends = [
            after
            for (_, before), (at_ns, after) in pairwise(looks_at(group, node))
            if after < before and at_ns <= since_ns
        ]
        for end in ends:
            same = [
                cut
                for cut in left
                if cut.node == node and cut.from_offset == end and cut.observed_ns < 0
            ]
            if same:
                left.remove(same[0])
    return left


def which_cut(cuts: Sequence[Truncation], offset: int) -> str:
    """Return a phrase with the replicas that truncated an offset; "" if none did.

    A truncated log grows again. So each truncation may have removed the record. The nearest
    truncation of each node comes first.
    """
    nodes = list(dict.fromkeys(cut.node for cut in cuts))
    near = sorted(cuts, key=lambda cut: (nodes.index(cut.node), -cut.from_offset))
    told = [cut.text(offset) for cut in near]
    more = len(told) - _TOLD
    return ", or ".join([*told[:_TOLD], *([f"{more} more truncations"] if more > 0 else [])])


def cut_alike(group: Group, offset: int, since_ns: int) -> str:
    """Return a phrase with the nodes that removed an offset, if all cut from the same offset on."""
    cuts = truncations_of(group, offset, since_ns=since_ns)
    nodes, starts = sorted({each.node for each in cuts}), {each.from_offset for each in cuts}
    return f"; {' and '.join(nodes)} truncated from {min(starts)} on" if len(starts) == 1 else ""


def by_node(cuts: Sequence[Truncation], offset: int) -> list[str]:
    """Return a phrase for each of the first two nodes that truncated an offset."""
    nodes = list(dict.fromkeys(cut.node for cut in cuts))[:2]
    return [which_cut([cut for cut in cuts if cut.node == node], offset) for node in nodes]


def holds(group: Group, log: ReplicaLog, offset: int) -> str:
    """Return a phrase for the content of a replica's log at an offset."""
    index = log.at(offset)
    if index is None:
        return f"{log.node}: no record (log from {log.start} to {log.end})"
    epoch, value = int(log.epochs[index]), int(log.values[index])
    written = f"of epoch {epoch}" if epoch >= 0 else "without an epoch"
    if log.controls[index]:
        return f"{log.node}: a control record {written}"
    if value < 0:
        return f"{log.node}: a record without a value, {written}"
    return f"{log.node}: {group.facts.name_of(value)} {written}"


@once
def vanished(group: Group, value: int) -> list[str]:
    """Return a phrase for each replica that lost a message between two steps of a scenario.

    A copy that could not be read shows nothing. A step without a copy shows nothing either.
    """
    found = []
    for node in sorted({node for logs in group.logs.values() for node in logs}):
        copies = [
            (step, group.logs.get(step, {}).get(node))
            for step in group.facts.step_isrs
            if f"{step}/{node}" not in group.facts.unreadable_nodes
        ]
        had = [(step, log.has(value)) for step, log in copies if log is not None]
        found += [
            f"{node} had it at the end of {before}, and no longer at the end of {after}"
            for (before, held), (after, holds_still) in pairwise(had)
            if held and not holds_still
        ]
    return found


def skipped_by(group: Group, offset: int) -> list[int]:
    """Return the ops that skipped an offset. If a record is lost, readers skip its offset."""
    polls = group.table("polls")
    offsets, op_ids = ints(polls, "offset"), ints(polls, "op_id")
    ops: set[int] = set()
    for steps in (group.view(poll_steps), group.view(ok_inner_poll_steps)):
        over = (steps.after < offset) & (offset < offsets[steps.at])
        ops.update(op_ids[steps.at[over]].tolist())
    return sorted(ops)


def nodes_with(logs: list[ReplicaLog], value: int) -> list[str]:
    """Return the nodes whose log contains a message (value) at any offset."""
    return [log.node for log in logs if log.has(value)]
