"""Sentences that name the responsible broker, for checks of groups, transactions and liveness."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.acknowledger import led_between, led_itself
from checkers.columns import NONE, Ints, equal, first_match, ints, present, select
from checkers.facts import RunFacts
from checkers.findings import seconds
from checkers.group import Group, ReplicaLog
from checkers.reigns import Reign, between, partition_of

_FETCHED_ELSEWHERE = "replica.selector.class"


def coordinators(facts: RunFacts, topic: str, key: str, span: tuple[int, int]) -> tuple[Reign, ...]:
    """Return the leaders that may have coordinated a group or a transaction in a time span.

    Args:
        facts: The run's context.
        topic: `reigns.GROUPS` or `reigns.TRANSACTIONS`.
        key: The group's name, or the transactional id.
        span: Begin and end, in nanoseconds since the run's start.

    Returns:
        The leader epochs of the partition that belongs to the key. The result is empty if these
        epochs are not recorded.
    """
    partition = partition_of(facts.reigns, topic, key)
    led = between(facts.reigns, (topic, partition), span) if key else ()
    return tuple(each for each in led if each.leader >= 0)


def as_leaders(led: Sequence[Reign], *, joint: str = ", or ") -> str:
    """Return coordinators for a report: `n3, leader of __consumer_offsets-1 in epoch 0`."""
    if not led:
        return ""
    place = f"{led[0].topic}-{led[0].partition}"
    first, *others = (f"{each.node}, leader of {place} in epoch {each.epoch}" for each in led)
    rest = [each.replace(f", leader of {place} in epoch ", " in epoch ") for each in others]
    return joint.join([first, *rest])


def served_by(group: Group, span: tuple[int, int], offset: int = NONE) -> str:
    """Return the partition's leader in a time span, for a report; "" if that is not certain.

    Args:
        group: The run's rows of one partition.
        span: The period in which clients got answers.
        offset: The offset of a record that clients got. A leader of an earlier epoch did not have
            that record.

    Returns:
        The only leader that may have answered clients then: `n1, its leader in epoch 0`.
    """
    log = group.final_log
    at = log.at(offset) if log is not None else None
    least = int(log.epochs[at]) if log is not None and at is not None else NONE
    reigns = between(group.facts.reigns, (group.topic, group.partition), span)
    decided = {(each.leader, each.epoch) for each in reigns}
    led = led_between(group, *span)
    # A broker that the controllers replaced may not know about it.
    led = tuple(
        each
        for each in led
        if (each.broker, each.epoch) in decided or led_itself(group, each, span)
    ) or led  # fmt: skip
    led = tuple(each for each in led if not 0 <= each.epoch < least)
    if len(led) != 1 or led[0].broker < 0:
        return ""
    epoch = f" in epoch {led[0].epoch}" if led[0].epoch >= 0 else ""
    return f"{led[0].node}, its leader{epoch}"


def took_elsewhere(group: Group, node: str, span: tuple[int, int]) -> str:
    """Return, for a report, another partition of the topic that grew while the given node led it.

    Args:
        group: The partition that is excluded.
        node: The leader of the other partition.
        span: Begin and end, after the last heal.

    Returns:
        `log-0-1 (high watermark 40 to 50)`; "" if there is no such partition.
    """
    others = [
        (grew, f"{each.topic}-{each.partition}")
        for each in group.facts.taking
        if each.node == node and each.topic == group.topic and each.partition != group.partition
        if (grew := each.grew(span)) is not None
    ]
    if not others:
        return ""
    (first, last), place = max(others, key=lambda each: each[0][1] - each[0][0])
    return f"{place} (high watermark {first} to {last})"


def followers_serve(group: Group) -> bool:
    """Return whether the brokers' settings let followers answer fetches."""
    return any(_FETCHED_ELSEWHERE in each for each in group.facts.plan.settings)


def fetched_from(group: Group, span: tuple[int, int], offset: int = NONE) -> str:
    """Return the broker that answered fetches in a time span, in the form of `served_by`.

    The result is "" if followers may have answered.
    """
    return "" if followers_serve(group) else served_by(group, span, offset)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """The end of the transaction of each given record of a log; -1 if the transaction has no end.

    Attributes:
        producers: The producer id of each record.
        markers: The offset of the producer's first marker after each record.
        hashes: The hash of that marker.
    """

    producers: Ints
    markers: Ints
    hashes: Ints


def ends_of(log: ReplicaLog | None, offsets: Ints) -> Ends:
    """Return the end, in a log, of the transaction of the record at each given offset."""
    nothing = np.full(len(offsets), NONE, dtype=np.int64)
    if log is None or not len(log.offsets):
        return Ends(producers=nothing, markers=nothing, hashes=nothing)
    at = np.minimum(np.searchsorted(log.offsets, offsets), len(log.offsets) - 1)
    here = log.offsets[at] == offsets
    producers = np.where(here, log.producer_ids[at], NONE)
    rows = np.flatnonzero(log.controls == 1)
    # Producer and offset become one number, so one search finds a producer's next marker.
    known, owners = np.unique(log.producer_ids[rows], return_inverse=True)
    width = int(log.offsets[-1]) + 1
    keys = owners * width + log.offsets[rows]
    order = np.argsort(keys, kind="stable")
    owner = first_match(producers, known)
    next_ = np.searchsorted(keys[order], owner * width + offsets, side="right")
    rows, keys = np.append(rows[order], NONE), np.append(keys[order], NONE)
    found = (owner >= 0) & here & (keys[next_] >= 0) & (keys[next_] // width == owner)
    row = rows[next_]
    return Ends(
        producers=producers,
        markers=np.where(found, log.offsets[row], NONE),
        hashes=np.where(found, log.hashes[row], NONE),
    )


def op_span(group: Group, table: str, op_id: int) -> tuple[int, int]:
    """Return the times at which an op began and ended; -1 for a time that is not recorded."""
    rows = select(group.table(table), equal(group.table(table), "op_id", op_id))
    begun, ended = (ints(rows, name) for name in ("invoke_ns", "complete_ns"))
    return int(begun.max(initial=-1)), int(ended.max(initial=-1))


def kept_open(group: Group, stable: int, marker: int) -> str:
    """Return the leader that kept a transaction open although the marker was committed; else "".

    Such a leader reported the last stable offset at least twice with a high watermark above the
    marker. These reports came after the first answer and before the last answer that named this
    broker as leader of the epoch. One report is not enough, because the broker is first asked for
    one of the two offsets, and then for the other.

    Args:
        group: The run's rows of one partition.
        stable: The last stable offset, where the transaction begins.
        marker: The offset of the transaction's marker.

    Returns:
        `n1, leader of epoch 0, from 23.828 s to 26.100 s`.
    """
    states, rows = group.table("replica_states"), group.table("leadership")
    kept = (ints(states, "last_stable_offset") == stable) & present(states, "observed_ns")
    told = select(states, kept & (ints(states, "high_watermark") > marker))
    named = select(rows, (ints(rows, "leader") >= 0) & present(rows, "observed_ns"))
    epochs, brokers, seen = (
        ints(named, each) for each in ("leader_epoch", "leader", "observed_ns")
    )
    found = []
    for epoch, broker in sorted({*zip(epochs.tolist(), brokers.tolist(), strict=True)}):
        reign = seen[(epochs == epoch) & (brokers == broker)]
        times = ints(select(told, equal(told, "node", f"n{broker}")), "observed_ns")
        times = times[(times >= reign.min()) & (times <= reign.max())]
        if len(times) > 1:
            span = f"from {seconds(int(times.min()))} to {seconds(int(times.max()))}"
            found.append(f"n{broker}, leader of epoch {epoch}, {span}")
    return ", then ".join(found)
