"""Phrases about replicas and leaders, with which several checks state an anomaly's cause.

A phrase states only facts that the run's rows prove. If the rows allow several explanations, the
phrase names all of them, or it is empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.acknowledger import LOOK_NS, looks_at, read_whole
from checkers.changes import TOLD_LATE_NS
from checkers.client_reasons import written_by
from checkers.columns import NEVER, NONE, equal, ints, present, select
from checkers.controllers_log import elected, isr_before, undisputed
from checkers.facts import FINAL, NOTED
from checkers.findings import seconds
from checkers.group import Group, ReplicaLog
from checkers.witnesses import Truncation, not_earlier, truncations_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The replicas that hold the same content at an offset.

    Attributes:
        nodes: The nodes of these replicas.
        epoch, value: The record's leader epoch and value. -1 if the record has none.
        lacks: Whether the replicas have no record at this offset, although their logs end beyond
            it.
    """

    nodes: tuple[str, ...]
    epoch: int
    value: int
    lacks: bool


def listed(names: Iterable[str]) -> str:
    """Return names as a phrase: `n1, n2 and n3`."""
    *most, last = [*names] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def verb(names: Sequence[str], one: str, many: str) -> str:
    """Return names as a subject with its verb: `n1 holds`, `n1 and n2 hold`."""
    return f"{listed(names)} {one if len(names) == 1 else many}"


def leaders_of(group: Group, epoch: int) -> tuple[str, ...]:
    """Return each node that a row names as leader of the partition (or quorum) in an epoch."""
    if group.of_quorum:
        return group.facts.quorum.leaders.get(epoch, ())
    rows = group.table("leadership")
    epochs, leaders = ints(rows, "leader_epoch"), ints(rows, "leader")
    named = np.unique(leaders[(epochs == epoch) & (leaders >= 0)]).tolist()
    return tuple(f"n{broker}" for broker in named)


def leader_of(group: Group, epoch: int) -> str:
    """Return the leader of an epoch; "" if the rows name no leader or several leaders."""
    leaders = leaders_of(group, epoch)
    return leaders[0] if len(leaders) == 1 else ""


def leader_text(group: Group, epoch: int) -> str:
    """Return a leader as a phrase: `n2, leader of epoch 3 by an unclean election,`."""
    leader, begun = leader_of(group, epoch), elected(group, epoch)
    if not leader:
        return f"the leader of epoch {epoch}"
    how = " by an unclean election" if begun is not None and begun.unclean else ""
    of = "the quorum's leader" if group.of_quorum else "leader"
    return f"{leader}, {of} of epoch {epoch}{how},"


def told_ns(group: Group, epoch: int) -> int:
    """Return the time of the first report of an epoch, or of a later epoch; `NEVER` if none."""
    rows = group.table("leadership")
    times = ints(rows, "observed_ns")
    return int(times[(ints(rows, "leader_epoch") >= epoch) & (times >= 0)].min(initial=NEVER))


def begun_by_ns(group: Group, epoch: int) -> int:
    """Return a time by which the leader of an epoch had its log's start; `NEVER` if unknown.

    With ZooKeeper, an epoch may continue after a power loss of all brokers with a shorter log. No
    controller is left that sees the restart, so the next controller keeps leader and epoch.
    """
    return told_ns(group, epoch) if group.facts.plan.has_quorum else NEVER


def named_ns(group: Group, node: str, epoch: int) -> int:
    """Return the time at which a broker first named an epoch, or a later one; else `NEVER`."""
    rows = group.table("leadership")
    own = equal(rows, "observer", node) & (ints(rows, "leader_epoch") >= epoch)
    times = ints(select(rows, own), "observed_ns")
    return int(times[times >= 0].min(initial=NEVER))


def not_yet_ns(group: Group, node: str, epoch: int) -> int:
    """Return a time until which a broker certainly did not lead in an epoch; -1 if unknown.

    A broker learns an epoch before it leads in that epoch. Until then, the broker names an older
    epoch. With ZooKeeper, a broker may lead before it names the epoch, so the result is -1.
    """
    if not group.facts.plan.has_quorum:
        return NONE
    rows = group.table("leadership")
    epochs = ints(rows, "leader_epoch")
    own = equal(rows, "observer", node) & (epochs >= 0) & (epochs < epoch)
    return int(ints(select(rows, own), "asked_ns").max(initial=NONE))


def calm_until(group: Group, until_ns: int) -> bool:
    """Return whether all faults of the run began after a time."""
    return until_ns < NEVER and all(each.begun_ns > until_ns for each in group.facts.disturbances)


def last_beyond(group: Group, node: str, offset: int) -> tuple[int, int] | None:
    """Return time and log end of the last probe that saw a replica's log go beyond an offset."""
    return next((each for each in reversed(looks_at(group, node)) if each[1] > offset), None)


def later_cuts(group: Group, node: str, offset: int) -> list[Truncation]:
    """Return the truncations that may have removed an offset after the log last contained it.

    Truncations without a time count, unless they certainly came before.
    """
    had = last_beyond(group, node, offset)
    cuts = [each for each in truncations_of(group, offset) if each.node == node]
    return not_earlier(group, cuts, had[0] if had is not None else NONE)


def cut_text(cut: Truncation) -> str:
    """Return a truncation as a sentence."""
    why = f" ({cut.reason})" if cut.reason else ""
    return f"{cut.node} truncated its log from offset {cut.from_offset} on{why}"


def holders(group: Group, low: int, high: int, epoch: int) -> tuple[str, ...]:
    """Return the nodes whose final logs fill an offset range with records of epochs up to `epoch`.

    Args:
        group: The run's rows of one partition.
        low: The first offset of the range.
        high: The end of the range, exclusive.
        epoch: The last leader epoch whose records count. In later epochs, other records may have
            been written at these offsets.

    Returns:
        The nodes. Empty if the records of two nodes differ.
    """
    found, contents = [], set[bytes]()
    for node, log in sorted(group.logs.get(FINAL, {}).items()):
        at = slice(*np.searchsorted(log.offsets, [low, high]).tolist())
        old = bool(((log.epochs[at] >= 0) & (log.epochs[at] <= epoch)).all())
        if len(log.offsets[at]) == high - low and old:
            found.append(node)
            contents.add(log.hashes[at].tobytes())
    return tuple(found) if len(contents) == 1 else ()


def at_the_stop(group: Group, node: str, offset: int) -> tuple[int, bool] | None:
    """Return the last time at which a log had an offset that is missing from the log's final files.

    Returns:
        The time, and whether the probe just before the stop saw the log at that time. If an earlier
        probe saw the log, the log's end may have been lost before the stop. None if no probe saw
        the offset, if a later probe saw a shorter log, or if the final files go beyond the offset.
    """
    had, log = last_beyond(group, node, offset), group.logs.get(FINAL, {}).get(node)
    looks, states = looks_at(group, node), group.table("replica_states")
    if had is None or had != looks[-1] or log is None or log.read_end > offset:
        return None
    noted = equal(states, "node", node) & equal(states, "snapshot", NOTED)
    return had[0], bool((ints(states, "observed_ns")[noted] == had[0]).any())


def stop_text(group: Group, node: str, end: int) -> str:
    """Return a phrase that names the phase of a node's stop in which the log became shorter.

    In a clean stop, a broker writes its high watermarks to disk. A high watermark goes back only if
    the log becomes shorter. Suppose that the broker knew a high watermark beyond the log's end, but
    wrote one that is not beyond this end. Then the log became shorter before the write.
    """
    if node not in group.facts.clean_nodes:
        return "stop, or afterwards"
    states = group.table("replica_states")
    mine = equal(states, "node", node) & present(states, "high_watermark")
    final = select(states, mine & equal(states, "snapshot", FINAL))
    mark = int(ints(final, "high_watermark").max(initial=NONE))
    if mark > end:
        return f"clean stop after it had written its high watermark {mark} to disk, or afterwards"
    if mark < 0 or not _knew_beyond(group, node, end):
        return "clean stop, or afterwards"
    return f"clean stop, before it wrote its high watermark {mark} to disk"


def _knew_beyond(group: Group, node: str, end: int) -> bool:
    """Return whether a broker's last incarnation knew a high watermark beyond an offset.

    Either the broker itself reported such a high watermark, or the broker's log grew while all
    reported high watermarks were beyond the offset. A fetch response contains both the records and
    the high watermark.
    """
    states = group.table("replica_states")
    times, ends = ints(states, "observed_ns"), ints(states, "log_end_offset")
    marks, lives = ints(states, "high_watermark"), ints(states, "incarnation")
    told = (times >= 0) & (marks >= 0)
    beyond = told & (marks > end) & (times > int(times[told & (marks <= end)].max(initial=NONE)))
    mine = (times >= 0) & equal(states, "node", node)
    mine &= lives == int(lives[mine].max(initial=NONE))
    first_ns = int(times[beyond].min(initial=NEVER - TOLD_LATE_NS))
    later = mine & (ends >= 0) & (times > first_ns + TOLD_LATE_NS)
    grew = (np.diff(ends[later][np.argsort(times[later], kind="stable")]) > 0).any()
    return bool((mine & beyond).any() or grew)


def stood_still(group: Group, node: str, end: int) -> tuple[int, int] | None:
    """Return the first and last time at which probes saw a log end; None if only one probe did."""
    there = [at for at, seen in looks_at(group, node) if seen == end]
    return (there[0], there[-1]) if len(there) > 1 else None


def fate(group: Group, node: str, offset: int) -> str:
    """Explain why a replica's final log lacks a record, from the reports of the replica's broker.

    The result is "" if no probe saw the log beyond the offset, and no truncation there is recorded.
    It is also "" if the last probe saw the log beyond the offset, and the final log is missing or
    goes beyond it.
    """
    had, log = last_beyond(group, node, offset), group.logs.get(FINAL, {}).get(node)
    later = [each for each in looks_at(group, node) if had is not None and each[0] > had[0]]
    since_ns = had[0] if had is not None else NONE
    cuts = [
        each for each in later_cuts(group, node, offset) if not 0 <= each.observed_ns < since_ns
    ]
    if later:  # The log may have become shorter than a log line says.
        cuts = [each for each in cuts if each.observed_ns >= 0 or each.from_offset <= later[0][1]]
    if had is not None and not later:
        if log is None or log.read_end > offset:
            return ""
        none = ", and no truncation of it was recorded since" if not cuts else ""
        return (
            f"{node}'s log end offset was still {had[1]} at {seconds(had[0])}{none}: {node} lost"
            " the end of its log in its"
            f" {stop_text(group, node, log.read_end if log is not None else offset)}"
        )
    if cuts:
        return ", or ".join(cut_text(each) for each in cuts)
    if had is None:
        return ""
    return (
        f"{node}'s log end offset was {had[1]} at {seconds(had[0])}, then {later[0][1]} at"
        f" {seconds(later[0][0])}, but no truncation was recorded"
    )


def sides(logs: Mapping[str, ReplicaLog], offset: int) -> tuple[Side, ...]:
    """Return the replicas whose logs cover an offset, grouped by the record at that offset."""
    found: dict[tuple[int, int, int, int], list[str]] = {}
    for node, log in sorted(logs.items()):
        at = log.at(offset)
        if at is None and not log.start <= offset < log.read_end:
            continue
        columns = (log.epochs, log.values, log.hashes, log.controls)
        key = (NONE,) * 4 if at is None else tuple(int(each[at]) for each in columns)
        found.setdefault((key[0], key[1], key[2], key[3]), []).append(node)
    return tuple(
        Side(nodes=tuple(nodes), epoch=key[0], value=key[1], lacks=key == (NONE,) * 4)
        for key, nodes in found.items()
    )


def acknowledged_at(group: Group, offset: int) -> frozenset[int]:
    """Return the values whose sends were acknowledged at an offset."""
    sends = group.table("sends")
    there = select(sends, ints(sends, "offset") == offset)
    return frozenset(ints(select(there, equal(there, "acked", True)), "value").tolist())  # noqa: FBT003 - a value


def wrong_copy(
    group: Group, logs: Mapping[str, ReplicaLog], offset: int, nodes: Sequence[str]
) -> str:
    """Return a sentence that explains which of two different records of one epoch is wrong.

    Args:
        group: The partition, or the quorum.
        logs: The logs of one snapshot, by node.
        offset: The offset at which the two records differ.
        nodes: The two nodes.
    """
    found = sides(logs, offset)
    pair = [side for side in found if not side.lacks and set(nodes) & set(side.nodes)]
    if len(pair) != len(nodes) or len({side.epoch for side in pair}) != 1:
        return ""
    epoch, leaders = pair[0].epoch, leaders_of(group, pair[0].epoch)
    if len(leaders) > 1:
        return (
            f"{listed(leaders)} were both reported as leader of epoch {epoch}, so each may have"
            " written its own record"
        )
    led = f"only {leaders[0]} led in epoch {epoch}" if leaders else ""
    led = led or f"the run's record does not show the leader of epoch {epoch}"
    sent = acknowledged_at(group, offset)
    pair.sort(key=lambda side: (side.value in sent, len(side.nodes)), reverse=True)
    good, bad = pair
    if good.value != bad.value and bad.value in sent:
        who = leaders[0] if leaders else "its leader"
        return (
            f"{led}, and both records were acknowledged there: {who} assigned one offset to two"
            " messages, or another broker accepted one without being the leader"
        )
    by_sender = good.value in sent and bad.value not in sent
    if not by_sender and len(good.nodes) == len(bad.nodes):
        return f"{led}, so one of the copies was changed; no third copy shows which one"
    numbers = {written_by(logs[node], at) for node in (*good.nodes, *bad.nodes)
               if (at := logs[node].at(offset)) is not None}  # fmt: skip
    alike = len(numbers) == 1 and good.value != bad.value  # A retry has the same value.
    number = numbers.pop() if alike else (NONE, NONE, NONE)
    agree = [*good.nodes, *(["the acknowledged send"] if by_sender else [])]
    return led + _changed_copy(good, bad, leaders, agree=listed(agree), number=number)


def _changed_copy(
    good: Side, bad: Side, leaders: Sequence[str], *, agree: str, number: tuple[int, int, int]
) -> str:
    """Return a phrase that names the replica with the changed copy and states the evidence.

    Args:
        good: The replicas with the right record.
        bad: The replicas with the changed record.
        leaders: The leaders of the records' epoch. Empty if unknown.
        agree: A phrase for all logs and clients with the right record.
        number: Producer id, producer epoch and sequence of both records. -1 if they differ.
    """
    whose = listed(bad.nodes)
    if leaders and leaders[0] in bad.nodes:
        return (
            f", and {verb(good.nodes, 'holds', 'hold')} the record that {leaders[0]} had written:"
            f" {leaders[0]}'s own copy was changed afterwards"
        )
    if number[0] >= 0 <= number[2]:
        return (
            f"; {agree} agree, and the copy of {whose} has the same producer and sequence"
            f" ({number[0]}, {number[2]}): the record was copied, and then changed on {whose}"
        )
    wrote = f", or {whose} wrote it without being the leader" if leaders else ""
    return f"; {agree} agree, so the copy of {whose} was changed{wrote}"


def had_not_got(group: Group, node: str, mark: int, *, since_ns: int, by: int, epoch: int) -> str:
    """Return a phrase if a log ended below an announced high watermark; otherwise "".

    Within one incarnation, only a truncation makes a log shorter, and the broker logs each
    truncation. The time of a probe is the time of the node's last response. So the log end in the
    probe may be older (`LOOK_NS`).

    Args:
        group: The run's rows of one partition.
        node: The node with the log.
        mark: The high watermark that was announced.
        since_ns: When the high watermark was announced. -1 if unknown.
        by: The broker that announced the high watermark.
        epoch: The leader epoch of that broker.
    """
    states = group.table("replica_states")
    mine = equal(states, "node", node) & present(states, "observed_ns")
    mine &= present(states, "log_end_offset")
    names = ("observed_ns", "log_end_offset", "incarnation")
    times, ends, lives = (ints(select(states, mine), name) for name in names)
    short, cuts = ends < mark, truncations_of(group, mark - 1)
    early = np.unique(lives[short & (times <= since_ns)])
    late = np.flatnonzero(short & (times > since_ns + LOOK_NS) & np.isin(lives, early))
    if (
        since_ns < 0
        or not len(late)
        or not read_whole(group, node)
        or any(each.node == node for each in cuts)
    ):
        return ""
    at = late[np.argmin(times[late])]
    if (~short & (lives == lives[at]) & (times <= times[at])).any():
        return ""
    isrs = [each.isr for each in undisputed(group) if each.epoch == epoch]
    in_isr = bool(isrs) and all(int(node[1:]) in isr for isr in isrs)
    return (
        f"its log end offset was {ends[at]} at {seconds(int(times[at]))}, after that"
        " announcement, and no truncation of its log is recorded: it did not yet have these"
        f" records{f', so n{by} announced them although a replica of its ISR lacked them' * in_isr}"
    )


def began_short(group: Group, epoch: int, mark: int, announced: tuple[int, int, int]) -> str:
    """Explain how a leader without the announced records was elected, and where its log ended.

    Args:
        group: The run's rows of one partition.
        epoch: The epoch of the new leader.
        mark: The high watermark that had been announced.
        announced: The broker that announced the high watermark, the epoch of that broker, and the
            time. -1 if unknown.

    Returns:
        Clauses for the report, each after a semicolon. "" if nothing is known.
    """
    node, (by, before, since_ns) = leader_of(group, epoch), announced
    begun, isr = elected(group, epoch), isr_before(group, epoch) or frozenset()
    clean = begun is not None and not begun.unclean and begun.leader in isr
    told = [f"{node} was in the ISR and elected cleanly"] * bool(clean and node)
    first_ns = told_ns(group, epoch)
    seen = [each for each in looks_at(group, node) if 0 <= since_ns < each[0] < first_ns]
    if not_got := had_not_got(group, node, mark, since_ns=since_ns, by=by, epoch=before):
        told.append(not_got)
    elif seen and seen[-1][1] < mark:
        told.append(f"its log end offset was {seen[-1][1]} at {seconds(seen[-1][0])}")
    return "".join(f"; {each}" for each in told)
