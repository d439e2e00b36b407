"""under-replicated: an acknowledged record is on fewer replicas than promised.

Definition: one of two cases.

1. A record was acknowledged with acks=all and is in the last leader's final log, but in fewer final
   logs than `min.insync.replicas`.
2. After the recovery, the final log of an ISR member is too short: it ends below an announced high
   watermark, or below an acknowledged record. The announcement or acknowledgement came at least two
   seconds before the last ISR report. Every broker's last ISR report must contain this member.

Why it proves something: with acks=all, a leader acknowledges only when every in-sync replica has
the record. There must be at least `min.insync.replicas` in-sync replicas. An in-sync replica never
drops such a record later (KIP-101). So the record survives as long as one of these replicas
survives. Readers do not notice a missing copy. A comparison of two logs finds no difference if one
log only ends earlier than the other.

What would not prove it:

- A replica outside of the ISR, which may lag without limit.
- A copy that a power loss, a wipe or a flipped bit removed, and that was not fetched again.
- A record that an unclean leader lacked, so that this leader's followers truncated the record.
- A log that is missing, or could not be read to its recorded end.
- An announcement within two seconds of the last ISR report, because a broker may report the ISR
  late. An announcement or acknowledgement that came before the recovery, and before an unclean
  election or a loss of a disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.acknowledger import Acked, Acknowledger, cut_at, led_between, looks_at, moved
from checkers.announcements import announcements
from checkers.client_reasons import in_words
from checkers.columns import NONE, Ints, Mask, equal, first_match, ints, select
from checkers.disk_losses import TOLD_LATE_NS, taken_from
from checkers.excuses import TAKES_RECORDS
from checkers.facts import FINAL, RunFacts
from checkers.findings import (
    anomaly_at,
    could_not_show,
    findings,
    known,
    number_in,
    seconds,
    texts_in,
)
from checkers.group import Group, ReplicaLog
from checkers.protocol import (
    Chapter,
    Checker,
    During,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
    Proved,
)
from checkers.replica_reasons import (
    at_the_stop,
    fate,
    last_beyond,
    listed,
    stood_still,
    stop_text,
    verb,
)
from checkers.successors import reported_isrs
from checkers.told_isrs import told_isrs
from checkers.unclean_elections import unclean_elections
from checkers.witnesses import truncations_of
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "under-replicated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scarce:
    """An acknowledged record on too few replicas.

    Attributes:
        offset, value, op_id: The record, and the op that sent it.
        acked_ns: When the send was acknowledged. The send may belong to a transaction.
        on, not_on: The nodes whose final logs have the record, and the nodes whose logs lack it.
        labels: Excuses and broken premises.
    """

    offset: int
    value: int
    op_id: int
    acked_ns: int
    on: tuple[str, ...]
    not_on: tuple[str, ...]
    labels: Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """A member of the ISR whose log ends too early.

    Attributes:
        node: The node of the log.
        end: The offset after the log's last record.
        offset: The log must contain every offset below this offset.
        labels: Excuses and broken premises.
    """

    node: str
    end: int
    offset: int
    labels: Labels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Acknowledged:
    """The records that are committed with acks=all, as columns.

    Attributes:
        offsets, values, ops: The offset, value and op of each record.
        begun_ns, acked_ns: When the send of the record began, and when the record was acknowledged.
    """

    offsets: Ints
    values: Ints
    ops: Ints
    begun_ns: Ints
    acked_ns: Ints


def _acknowledged(group: Group) -> Acknowledged:
    sends = group.committed
    strong = select(sends, ~equal(sends, "acks", "1") & (ints(sends, "offset") >= 0))
    return Acknowledged(
        offsets=ints(strong, "offset"),
        values=ints(strong, "value"),
        ops=ints(strong, "op_id"),
        begun_ns=ints(strong, "invoke_ns"),
        acked_ns=ints(strong, "complete_ns"),
    )


def _check(group: Group) -> Findings:
    logs, leader = group.logs.get(FINAL, {}), group.final_log
    if leader is None:
        return Findings(rows=0)
    sends, members = _acknowledged(group), _members(group)
    # Records that the last leader lacks are left to `lost-write`.
    kept = leader.holds(sends.offsets, sends.values)
    # Offsets beyond the leader's log are lost, or an unclean election removed them.
    due = min(_due(group), leader.read_end)
    others = [logs[node] for node in sorted(members & set(logs) - {leader.node})] if due else []
    items: list[Scarce | Short] = [
        *_scarce(group, leader, sends, kept),
        *_short(group, others, due),
    ]
    needs_copies = group.facts.plan.least_insync > 1
    found = findings(
        int(kept.sum()) * needs_copies + len(others),
        sorted(items, key=lambda each: (each.offset, isinstance(each, Short))),
        lambda each: _describe(group, each),
        lambda each: each.labels,
    )
    why = (
        "min.insync.replicas is 1 and no in-sync follower's log could be checked, so a missing"
        " copy could not be detected"
    )
    return could_not_show(found, why, given=not needs_copies)


def _scarce(group: Group, leader: ReplicaLog, sends: Acknowledged, kept: Mask) -> Iterator[Scarce]:
    logs = group.logs[FINAL]
    needed = group.facts.plan.least_insync
    held = {node: log.holds(sends.offsets, sends.values) for node, log in sorted(logs.items())}
    count = np.sum(list(held.values()), axis=0)
    few = np.flatnonzero(kept & (count < needed))
    if not len(few):
        return
    unread = np.sum([_unread(group, log, sends.offsets[few]) for log in logs.values()], axis=0)
    unread += max(0, group.facts.plan.replication - len(logs))
    written = np.append(leader.epochs, NONE)[first_match(sends.offsets[few], leader.offsets)]
    unclean = unclean_elections(group).took(sends.offsets[few], sends.begun_ns[few], written)
    members = _members(group)
    for place, row in enumerate(few.tolist()):
        there = {node for node, mask in held.items() if mask[row]}
        offset, acked_ns = int(sends.offsets[row]), int(sends.acked_ns[row])
        absent = held.keys() - there
        since_ns = {node: _whole_ns(group) if node in members else acked_ns for node in absent}
        went = {node: taken(group, node, offset, since_ns=since_ns[node]) for node in absent}
        enough = len(there) + sum(map(bool, went.values())) >= needed
        excuses = sorted(set().union(*went.values())) if enough else []
        excuses += [Excuse.UNCLEAN.value] if unclean[place] else []
        doubtful = count[row] + unread[place] >= needed
        yield Scarce(
            offset=offset,
            value=int(sends.values[row]),
            op_id=int(sends.ops[row]),
            acked_ns=acked_ns,
            on=tuple(sorted(there)),
            not_on=tuple(sorted(absent)),
            labels=(tuple(excuses), (Premise.READABLE_LOGS.value,) if doubtful else ()),
        )


def _unread(group: Group, log: ReplicaLog, offsets: Ints) -> Mask:
    """Return a mask of the offsets that may be in the unreadable end of a log."""
    if log.node in group.facts.unreadable_nodes:
        return np.ones(len(offsets), dtype=np.bool_)
    return np.asarray((offsets >= log.read_end) & (offsets < log.end), dtype=np.bool_)


def taken(
    group: Group, node: str, offset: int, *, since_ns: int, flips_since_ns: int = -1
) -> set[str]:
    """Return the excuses of the disk faults that removed an offset from a replica.

    Args:
        group: The run's rows of one partition.
        node: The node of the replica.
        offset: The offset.
        since_ns: Losses before this time do not count, because the replica had fetched the record
            again by then.
        flips_since_ns: The same limit for flipped bits. This limit may be earlier, because a
            flipped bit can stay unnoticed in a file while the replica fetches other records.
    """
    place = np.array([offset])
    took = taken_from(group, node, place, since_ns=since_ns)
    took |= {
        excuse: gone
        for excuse, gone in taken_from(group, node, place, since_ns=flips_since_ns).items()
        if excuse == Excuse.FLIP
    }
    return {excuse for excuse, gone in took.items() if gone[0]}


def _whole_ns(group: Group) -> int:
    """Return the time of the recovery: by then, the last ISR had fetched all records again."""
    recovered = group.facts.milestone("recovered")
    return recovered.at_ns if recovered else NONE


def _members(group: Group) -> frozenset[str]:
    """Return the nodes in the ISR after the recovery, according to every broker's last report."""
    recovered = group.facts.milestone("recovered")
    if recovered is None or not group.facts.recovered:
        return frozenset()
    last = {each.by: each for each in told_isrs(group) if each.asked_ns >= recovered.at_ns}
    isrs = [each.nodes for each in last.values()]
    return frozenset.intersection(*isrs) if isrs else frozenset()


def _due(group: Group) -> int:
    """Return the offset below which members of the last ISR must have all records; 0 if unknown.

    All members may have lost a record that was announced or acknowledged before an unclean
    election, or before a loss of a disk.
    """
    elections, whole_ns = unclean_elections(group), _whole_ns(group)
    place = (group.topic, group.partition)
    lost = (each for each in group.facts.disk_losses if each.first_taken < each.end_before)
    times_ns = (each.until_ns for each in lost if each.concerns(*place))
    lost_ns = min(max(times_ns, default=NONE), whole_ns)
    before_ns = max((each.asked_ns for each in told_isrs(group)), default=0) - TOLD_LATE_NS
    told = announcements(group)
    since = (told.epochs >= elections.over_from()) & (told.asked_ns > lost_ns)
    since |= told.asked_ns >= whole_ns
    marks = told.marks[since & (told.observed_ns >= 0) & (told.observed_ns <= before_ns)]
    sends = _acknowledged(group)
    kept = ~elections.took(sends.offsets, sends.begun_ns) & (sends.begun_ns > lost_ns)
    kept |= sends.begun_ns >= whole_ns
    placed = sends.offsets[kept & (sends.acked_ns >= 0) & (sends.acked_ns <= before_ns)]
    return max(int(marks.max(initial=0)), int(placed.max(initial=-1)) + 1)


def _short(group: Group, logs: list[ReplicaLog], due: int) -> Iterator[Short]:
    for log in logs:
        if log.read_end >= due:
            continue
        excuses = sorted(taken(group, log.node, log.read_end, since_ns=_whole_ns(group)))
        doubtful = bool(_unread(group, log, np.array([log.read_end]))[0])
        broken = (Premise.READABLE_LOGS.value,) if doubtful else ()
        yield Short(node=log.node, end=log.read_end, offset=due, labels=(tuple(excuses), broken))


def _describe(group: Group, item: Scarce | Short) -> Anomaly:
    return (
        _describe_short(group, item) if isinstance(item, Short) else _describe_scarce(group, item)
    )


def _describe_scarce(group: Group, item: Scarce) -> Anomaly:
    needed = group.facts.plan.least_insync
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.facts.name_of(item.value)}, acknowledged with acks=all to op"
        f" {item.op_id} at offset {item.offset} of {group.place} at"
        f" {seconds(item.acked_ns)}, is only in the log of {', '.join(item.on)}, not in"
        f" the log of {', '.join(item.not_on)}: min.insync.replicas is {needed}",
        evidence={
            "value": item.value,
            "offset": item.offset,
            "op_id": item.op_id,
            "acknowledged_ns": known(item.acked_ns),
            "on": list(item.on),
            "not_on": list(item.not_on),
            "min_insync_replicas": needed,
        },
        offset=item.offset,
    )


def _describe_short(group: Group, item: Short) -> Anomaly:
    return anomaly_at(
        group,
        NAME,
        sentence=f"the log of {group.place} on {item.node} ends at offset {item.end}, although it"
        f" was in the ISR until the end and all records below offset {item.offset} had"
        " been committed",
        evidence={"node": item.node, "log_end": item.end, "committed_up_to": item.offset},
        offset=item.end,
    )


def _applies(facts: RunFacts) -> bool:
    return not facts.compacted and not facts.forgets and facts.plan.replication > 1


def _what_went(group: Group, nodes: Sequence[str]) -> str:
    logs = group.logs.get(FINAL, {})
    empty = all(each in logs and not len(logs[each].offsets) for each in nodes)
    return "the whole log" if empty else "the record"


def _why(group: Group, found: Anomaly) -> str:
    absent = texts_in(found, "not_on")
    if Premise.READABLE_LOGS.value in found.broken_premises:
        return "a log that could not be read to its end may hold the record"
    if not absent:
        return _why_short(group, found, str(found.evidence.get("node")))
    offset = number_in(found, "offset")
    stopped = [each for each in absent if at_the_stop(group, each, offset) is not None]
    never = [each for each in absent if looks_at(group, each)
             and last_beyond(group, each, offset) is None]  # fmt: skip
    acked = _record_of(group, found)
    cut = [each for each in never if cut_at(group, acked, each) is not None]
    told = []
    if stopped:
        dropped = any(each.node in stopped for each in truncations_of(group, offset))
        none = "" if dropped else " and no truncation is recorded,"
        last = [at_the_stop(group, each, offset) or (0, False) for each in stopped]
        noted = all(each for _, each in last)
        last_ns = (max if noted else min)(at for at, _ in last)
        told.append(
            f"{listed(stopped)} reported a log end offset above it in the last observation, at"
            f" {seconds(last_ns)},{none} so {_what_went(group, stopped)} was lost"
            f" {_their_stop(group, stopped, offset) if noted else 'after that'}"
        )
    rest = [each for each in absent if each not in {*stopped, *never}]
    lacked = _acknowledged_by(group, acked, [each for each in never if each not in cut])
    fates = list(filter(None, (fate(group, each, offset) for each in rest)))
    known = bool(told or lacked or fates)
    if never:
        told.append(f"{listed(never)} never reported a log end offset above it")
        told += filter(None, (fate(group, each, offset) for each in cut))
    told += [*lacked, *fates]
    if not told:
        return f"the run's record does not show whether {listed(absent)} ever had the record"
    return Proved("; ".join(told)) if known else "; ".join(told)


def _their_stop(group: Group, nodes: Sequence[str], offset: int) -> str:
    texts = {stop_text(group, each, offset) for each in nodes}
    return f"in the {texts.pop() if len(texts) == 1 else 'stop, or afterwards'}"


def _record_of(group: Group, found: Anomaly) -> Acked:
    """Return the acknowledged record of an anomaly."""
    sends, value = group.table("sends"), number_in(found, "value")
    mine = select(sends, ints(sends, "op_id") == number_in(found, "op_id"))
    mine = select(mine, ints(mine, "value") == value)
    acked_ns = number_in(found, "acknowledged_ns")
    return Acked(
        value=value,
        offset=number_in(found, "offset"),
        sent_ns=int(ints(mine, "invoke_ns").min(initial=acked_ns)),
        acked_ns=acked_ns,
    )


def _acknowledged_by(group: Group, acked: Acked, nodes: Sequence[str]) -> list[str]:
    """Return a phrase about the leader that acknowledged the record while some replicas lacked it.

    The list is empty if the leader is unknown.
    """
    by = led_between(group, acked.sent_ns, acked.acked_ns)
    without = [each for each in nodes if _lacked(group, acked, each)]
    if not without or len(by) != 1 or by[0].broker < 0:
        return []
    leader = by[0]
    if leader.node in without:
        return [f"{in_words(by)} acknowledged it, although its own log did not have it"]
    told = reported_isrs(group, leader, range(leader.epoch, leader.epoch + 1))
    before = [isr for _, seen_ns, isr in told if seen_ns <= acked.acked_ns][-1:]
    after = [isr for asked_ns, _, isr in told if asked_ns >= acked.acked_ns][:1]
    isr = f", with the ISR {sorted(before[0])}," if before and before == after else ""
    beyond = _announced(group, leader, acked.offset)
    return [f"{in_words(by)} acknowledged it without {listed(without)}{isr}{beyond}"]


def _lacked(group: Group, acked: Acked, node: str) -> bool:
    """Return whether a log certainly lacked a record when the record was acknowledged.

    Probes before and after the acknowledgement must show the log without the record, in the same
    incarnation of the broker. A broker that is killed may lose unflushed records, but no log line
    shows that loss.
    """
    states = group.table("replica_states")
    mine = select(states, equal(states, "node", node) & (ints(states, "observed_ns") >= 0))
    times, lives = ints(mine, "observed_ns"), ints(mine, "incarnation")
    before, after = times <= acked.acked_ns, times >= acked.acked_ns + TOLD_LATE_NS
    same = set(lives[before].tolist()) & set(lives[after].tolist()) - {NONE}
    return acked.acked_ns >= 0 and bool(same) and not moved(group)


def _announced(group: Group, leader: Acknowledger, offset: int) -> str:
    """Return a phrase with the time at which a leader announced an offset as committed; or ""."""
    told = announcements(group)
    mine = (told.brokers == leader.broker) & (told.epochs == leader.epoch)
    beyond = told.where(mine & (told.marks > offset) & (told.observed_ns >= 0))
    if not len(beyond):
        return ""
    first = beyond[int(np.argmin(beyond.observed_ns))]
    return (
        f" and announced the high watermark {first.high_watermark} at {seconds(first.observed_ns)}"
    )


def _why_short(group: Group, found: Anomaly, node: str) -> str:
    end, due = number_in(found, "log_end"), number_in(found, "committed_up_to")
    whole = [log.node for log in group.logs.get(FINAL, {}).values() if log.read_end >= due]
    others = f"; {verb(whole, 'holds', 'hold')} all of it" if whole else ""
    if befell := fate(group, node, end):
        return Proved(f"{befell}{others}")
    still = stood_still(group, node, end)
    if still is not None:
        return Proved(
            f"{node}'s log end offset stayed at {end} from {seconds(still[0])} to"
            f" {seconds(still[1])}: it stopped copying, but its leader kept it in the ISR{others}"
        )
    return f"the run's record does not show whether {node} ever had the end of the log{others}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="acknowledged record is on too few replicas",
        many="acknowledged records are on too few replicas",
        means="A message acknowledged with acks=all is on fewer brokers than were promised.",
        promise="A message acknowledged with acks=all is on min.insync.replicas brokers.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.REPLICA_LOGS, Sight.LEADER_EPOCHS}),
    check=_check,
    applies=_applies,
    promise=Promise.STORED,
    compares="acknowledged records, and logs of in-sync followers, checked for enough copies",
    chapter=Chapter.REPLICAS,
    looks_for="each record acknowledged with acks=all that the last leader has, and the number of"
    " final logs that have it. After the recovery: the end of each log in the ISR,"
    " compared with the offsets that had been announced or acknowledged two seconds"
    " before",
    waits="followers may lag until the brokers stop",
    excuses=TAKES_RECORDS,
    during=During.AT_END,
)
