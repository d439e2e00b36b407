"""Explain in one sentence why an acknowledged record is missing.

The sentence names the broker that had the record, the fault that hit that broker, and the next
leader. Each clause needs its own evidence. Without the evidence, the clause is left out.

- "Only n2 had it" needs three facts. No other replica's copy has the record. No other replica lost
  anything at that offset. No other replica gave the record to a reader.
- "Without it" is a clause about a leader. The clause needs one of three facts. The leader never had
  the record. Or, in its own epoch, the leader wrote another record at the offset, or a later record
  at a lower offset. Or no leader came after this leader, and the log of this leader only grew.
- A fault is named as the reason of an election only if the fault was confirmed before the election.

The sentence also lists the facts that the run did not record.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from checkers.acknowledger import (
    Acked,
    Acknowledger,
    cut_at,
    moved,
    overwritten_in,
    read_whole,
)
from checkers.cleaner_losses import removed_by_cleaner
from checkers.client_reasons import sent
from checkers.columns import NEVER, NONE, equal, ints
from checkers.controllers_log import isr_before
from checkers.disk_losses import lost_on_disks, replicas_of
from checkers.facts import FINAL, Disturbance
from checkers.findings import seconds
from checkers.group import Group, Leader
from checkers.log_start_moved import who_moved_first
from checkers.protocol import Excuse
from checkers.replica_reasons import at_the_stop, listed
from checkers.successors import (
    Next,
    elected,
    gave_on,
    grew_between,
    had,
    leaders_of,
    never_had,
    next_leader,
    reached,
    readers_of,
    reported_isrs,
    was_spared,
)
from checkers.taken_epochs import taken
from checkers.witnesses import truncations_of

_NS_PER_S = 1_000_000_000
BEFELL = {
    "kill": "was killed", "stop": "was stopped", "pause": "was paused",
    "power-loss": "lost power", "wipe": "lost its disk", "disk-full": "ran out of disk space",
    "read-only": "could no longer write",
    "isolate": "was cut off", "halves": "was cut off",
    "one-way-in": "could not receive from the others",
    "one-way-out": "could not send to the others",
    "stall": "had connections stall",
    "connections": "had connections reset or blocked",
}  # fmt: skip
"""Phrases for faults after which a leader may lose its leadership, by fault kind or family.

A fault is listed only if it hits all its targets at once.
"""
_DOUBTFUL = {
    Excuse.UNCONFIRMED.value: "an unconfirmed fault may have removed it",
    Excuse.LAST_COPIES.value: "a fault may have removed its only copies",
}
"""Phrases for disk losses that are possible but not proven."""
_MEANWHILE = {
    "isolate": "while it was cut off", "halves": "while it was cut off",
    "one-way-in": "while it could not receive from the others",
    "one-way-out": "while it could not send to the others",
    "stall": "while its connections stalled",
    "connections": "while its connections were reset or blocked",
}  # fmt: skip
"""Phrases for faults during which a leader can still acknowledge records."""
_FOLLOWED = re.compile(r"follower of broker (\d+)\b")
"""The pattern of a follower's logged reason for a truncation; it finds the leader's id."""
_AWAY = frozenset({"kill", "stop", "pause", "power-loss", "isolate"})
"""The faults during which a broker follows no leader."""
_ALIVE = frozenset({"pause", "isolate"})
"""The faults in `_AWAY` that do not end the broker's process."""


def cause_of_loss(
    group: Group, record: Acked, by: Sequence[Acknowledger], *, what: str = "it"
) -> str:
    """Return why an acknowledged record is missing from all logs, or from the last leader's log.

    Args:
        group: The run's rows of one partition.
        record: The missing record.
        by: The leaders that may have acknowledged the record.
        what: How the sentence names the record at the first mention.
    """
    acks = "acks=1" if record.weak else "acks=all"
    nodes = list(dict.fromkeys(each.node for each in sorted(by, key=lambda one: one.broker < 0)))
    if not nodes:
        return (
            "no leader was observed, so the run's record does not show which broker"
            f" {record.took} {what}"
        )
    told = f"{' or '.join(nodes)} {record.took} {what} ({acks})"
    if len(nodes) > 1 or by[0].broker < 0:
        return (
            f"{told}; the run's record does not show which broker it was, so the reason for"
            " the loss is unknown"
        )
    if by[0].epoch < 0:
        return f"{told}; these brokers report no epochs, so the reason for the loss is unknown"
    if (
        how := _on_disks(group, record)
        or _below_the_starts(group, record)
        or _dropped(group, record, by)
        or _at_stop(group, record, by)
        or removed_by_cleaner(group, record, by)
    ):
        return told + how
    return _by_election(group, record, by, what=what, acks=acks)


def _on_disks(group: Group, record: Acked) -> str:
    """Return a clause if disk faults removed, or may have removed, every copy; else "".

    The result is also "" if another record had the offset before the first of these faults.
    """
    since_ns = max(record.sent_ns, record.acked_ns)
    disks = lost_on_disks(group, record.offset, since_ns)
    if disks and _replaced_ns(group, record) < _first_loss_ns(group, record, since_ns):
        return ""
    doubtful = [_DOUBTFUL[each] for each in disks if each in _DOUBTFUL]
    if doubtful:
        return f"; {doubtful[0]}, but the run's record does not show whether it did"
    return f", and faults removed it from each replica's log ({', '.join(disks)})" * bool(disks)


def _below_the_starts(group: Group, record: Acked) -> str:
    """Return a clause if every log starts above the record although the plan has no retention.

    The clause names the first log that was observed with such a start. Without such an observation,
    the result is "".
    """
    logs = group.logs.get(FINAL, {}).values()
    below = bool(logs) and not group.facts.forgets
    below &= all(0 <= record.offset < log.start for log in logs)
    moved_it = who_moved_first(group, record.offset) if below else ""
    return f"; {moved_it}" if moved_it else ""


def _first_loss_ns(group: Group, record: Acked, since_ns: int) -> int:
    """Return the start of the first fault that may have removed a record from a disk, or -1."""
    begun = [
        each.began_ns
        for each in group.facts.disk_losses
        if each.concerns(group.topic, group.partition)
        and each.first_taken <= record.offset
        and each.until_ns >= since_ns
    ]
    return min(begun, default=NONE)


def _replaced_ns(group: Group, record: Acked) -> int:
    """Return the time at which a send or a read first showed another value at the offset."""
    known = [NEVER]
    for name in ("sends", "polls"):
        rows = group.table(name)
        ended = ints(rows, "complete_ns")
        other = (ints(rows, "offset") == record.offset) & (ints(rows, "value") != record.value)
        other &= (record.offset >= 0) & (ended >= record.sent_ns)
        other &= equal(rows, "acked", True) if name == "sends" else other  # noqa: FBT003 - a value
        known.append(int(ended[other].min(initial=NEVER)))
    return min(known)


def _dropped(group: Group, record: Acked, by: Sequence[Acknowledger]) -> str:
    """Return a clause if the acknowledging leader itself wrote another record at the offset.

    A record of the leader's epoch at the offset, in any final log, proves this, provided that the
    leader's own log lost nothing at the offset. Otherwise the leader may have copied the other
    record later, as a follower.
    """
    epoch, node = by[0].epoch, by[0].node
    if cut_at(group, record, node) is not None or moved(group) or not read_whole(group, node):
        return ""
    # With ZooKeeper, an epoch can continue although its leader was down and lost data on disk.
    sure = was_spared(group) or group.facts.plan.has_quorum
    alone = sure and len(by) == 1 and leaders_of(group, epoch) == (by[0].broker,)
    if not alone or record.offset < 0 or not overwritten_in(group, record, epoch):
        return ""
    shown = taken(group, record.value)
    return (
        f" as the leader of epoch {epoch}, and another record of that epoch is at its offset: the"
        " leader dropped the message during that epoch, or never wrote"
        f" it{f'; {shown.text}' if shown and shown.epoch == epoch else ''}"
    )


def _at_stop(group: Group, record: Acked, by: Sequence[Acknowledger]) -> str:
    """Return a clause if the last leader lost the record after its log was last observed."""
    last, logs = group.leader, group.logs.get(FINAL, {})
    if last is None or record.offset < 0 or moved(group):
        return ""
    sure = {(each.broker, each.epoch) for each in by} == {(last.broker, last.epoch)}
    op_id = readers_of(group, record).get(Leader(broker=last.broker, epoch=last.epoch))
    if not sure and op_id is None:
        return ""
    lost = {
        node: found
        for node in sorted(logs)
        if not had(group, record, node)
        and (found := at_the_stop(group, node, record.offset)) is not None
    }
    seen_ns = min((at_ns for at_ns, _ in lost.values()), default=NONE)
    hit = any(
        each.concerns(group.topic, group.partition) and each.until_ns >= seen_ns
        for each in group.facts.disk_losses
    )
    if last.node not in lost or hit or not all(read_whole(group, node) for node in lost):
        return ""
    noted = all(just_before for _, just_before in lost.values())
    clean = noted and set(lost) <= group.facts.clean_nodes
    stop = ("its clean stop" if len(lost) == 1 else "their clean stops") if clean else "the stop"
    ends = sorted({logs[node].read_end for node in lost})
    led = (
        " and led last"
        if sure
        else (f"; {last.node} was the last leader, and still returned it to op {op_id}")
    )
    return (
        f"{led}; {listed(lost)} still had a log end offset above it in the last observation, at"
        f" {seconds(seen_ns)}, but {' or '.join(map(str, ends))} after {stop}: the end of the log"
        " was lost in between"
    )


def _by_election(
    group: Group, record: Acked, by: Sequence[Acknowledger], *, what: str, acks: str
) -> str:
    first, then = by[0], next_leader(group, record, by)
    epochs = " or ".join(str(each.epoch) for each in by)
    passed = gave_on(group, record, first, then)
    fault = _Befell() if then is None or passed else _befell(group, record, first, then)
    only = f"only {first.node} had {what}: " if _only(group, record, first) else ""
    isr = _isr_around(group, record, first) if len(by) == 1 else set()
    alone = " alone" if isr == {first.broker} else ""
    lacked = _lacked(isr - {first.broker}) if only and not record.weak else ""
    clauses = [
        f"{first.node} led{alone} in epoch {epochs}",
        f"{record.took} {'it' if only else what} ({acks}){fault.meanwhile}{lacked}",
        *fault.clauses,
    ]
    notes = [*fault.notes]
    if passed:
        giver, op_id = passed
        clauses.append(f"{giver.text}, still returned it to op {op_id}")
    if then is not None:
        led = elected(group, record, passed[0] if passed else first, then)
        again = passed is not None and then.broker == passed[0].broker
        clauses.append((f"{then.node} {led}" if again else led) + fault.then)
        notes += [*_holders(group, record, first, then)]
        known_ns = fault.away_until_ns
        notes += [*_truncated(group, record, first, then, until_ns=known_ns)]
    elif len(by) > 1 and any(next_leader(group, record, [each]) for each in by):
        notes.append(
            "the run's record does not show in which epoch, so the election that lost it is unknown"
        )
    else:
        lacks = _goes_on_without(group, record)
        later = _later_led(group, passed[0].epoch if passed else max(each.epoch for each in by))
        none = "no later leader is known to lack it" if later else "no later leader was observed"
        notes.append(f"{none}{lacks}, so the reason for the loss is unknown")
    *most, last = clauses
    return "; ".join([f"{only}{', '.join(most)}, and {last}", *notes])


def _later_led(group: Group, epoch: int) -> bool:
    """Return whether any source named a leader of a later epoch."""
    rows = group.table("leadership")
    return bool(((ints(rows, "leader_epoch") > epoch) & (ints(rows, "leader") >= 0)).any())


def _goes_on_without(group: Group, record: Acked) -> str:
    """Return a clause if the last leader's log has a gap at the record's offset."""
    log = group.final_log
    hole = (
        log is not None and log.start <= record.offset < log.end and log.at(record.offset) is None
    )
    return f", and {log.node}'s log has a gap at this offset" if log and hole else ""


def _isr_around(group: Group, record: Acked, leader: Acknowledger) -> set[int]:
    """Return the ISR around a send if the ISR did not change; otherwise an empty set.

    The last ISR that was reported before the send must be equal to the first ISR after the send. No
    other ISR may be reported in between. If the ISR has only the leader, the controllers must not
    have added a replica in that period.
    """
    told = reported_isrs(group, leader, range(leader.epoch, leader.epoch + 1))
    before = [each for each in told if each[1] <= record.sent_ns][-1:]
    after = [each for each in told if each[0] >= record.acked_ns >= 0][:1]
    if not before or not after:
        return set()
    (_, from_ns, isr), (until_ns, _, _) = before[0], after[0]
    between = [of for asked_ns, seen_ns, of in told if seen_ns >= from_ns and asked_ns <= until_ns]
    if any(of != isr for of in between):
        return set()
    grew = isr == {leader.broker} and grew_between(group, leader, from_ns, until_ns)
    return set() if grew else isr


def _lacked(brokers: set[int]) -> str:
    """Return a clause if followers in the ISR lacked a record of an acknowledged acks=all send."""
    *most, last = (f"n{each}" for each in sorted(brokers)) if brokers else ("",)
    names = f"{', '.join(most)} and {last} were" if most else f"{last} was"
    return f" though {names} in the ISR and did not have it" if brokers else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Befell:
    """Clauses about the fault on the leader that acknowledged the record.

    Attributes:
        meanwhile: The clause if the fault was in force while the leader acknowledged the record.
        clauses: The clauses if the fault was still in force after the acknowledgement. If the
            election may have come before the fault, `notes` says so.
        then: The clause if only this is known: the fault was in force at the next election, or just
            before it.
        notes: The clauses if the order is unknown, or if the fault was over before the election.
        away_until_ns: The time until which the leader could not truncate its log; -1 if unknown.
    """

    meanwhile: str = ""
    clauses: tuple[str, ...] = ()
    then: str = ""
    notes: tuple[str, ...] = ()
    away_until_ns: int = -1


def _befell(group: Group, record: Acked, leader: Acknowledger, then: Next) -> _Befell:
    """Return clauses about the last fault that hit the leader before the next leader was elected.

    Only a confirmed fault counts, from its confirmation on. The next leader may have been reported
    even before the op began.
    """
    if then.told_ns == NEVER or min(record.sent_ns, record.acked_ns) < 0:
        return _Befell()
    hits = [
        each
        for each in group.facts.disturbances
        if leader.node in each.nodes
        and _word(each) in BEFELL
        and 0 <= each.confirmed_ns <= then.told_ns
        and each.ended_ns >= record.acked_ns
    ]
    sure = [each for each in hits if each.confirmed_ns <= then.not_before_ns]
    if not hits:
        return _Befell()
    fault = max(sure or hits, key=lambda each: each.confirmed_ns)
    until_ns = fault.healing_ns if fault.healing_ns >= 0 else fault.begun_ns
    words = _when(group, record, fault)
    away_until_ns = until_ns if sure and fault.kind in _AWAY else -1
    if fault.confirmed_ns <= record.sent_ns:
        under = _word(fault) in _MEANWHILE and record.acked_ns <= until_ns
        return _Befell(meanwhile=f" {_MEANWHILE[_word(fault)]}" if under else "",
                       away_until_ns=away_until_ns if under else -1)  # fmt: skip
    if not words:
        held = sure and until_ns >= then.not_before_ns and fault.kind in _AWAY
        state = BEFELL[fault.kind] if fault.kind in _ALIVE else "was down"
        order = "while" if until_ns >= then.told_ns else "after"
        return _Befell(then=f" {order} {leader.node} {state}" if held else "")
    if not sure:
        early = f"that election may have come before {leader.node} {BEFELL[_word(fault)]}"
        return _Befell(clauses=(words,), notes=(early,))
    over = fault.ended_ns <= then.not_before_ns
    notes = (
        ("that fault was over before the next election; the reason for that election is unknown"),
    )
    return _Befell(clauses=(words,), notes=notes if over else (), away_until_ns=away_until_ns)


def _word(fault: Disturbance) -> str:
    """Return the key of a fault in `BEFELL`: its kind, or otherwise its family."""
    return fault.kind if fault.kind in BEFELL else fault.family


def _when(group: Group, record: Acked, fault: Disturbance) -> str:
    """Return a phrase that says when a fault hit, relative to an acknowledgement.

    The phrase is "" if the fault may have been over before the acknowledgement. An op with several
    sends ends with its last send. A transaction ends with its commit.
    """
    if fault.begun_ns > record.acked_ns:
        send = sent(group, record.value)
        alone = send is None or (
            not send.in_txn and int((ints(group.table("sends"), "op_id") == send.op_id).sum()) == 1
        )
        after_ns = fault.confirmed_ns - (record.acked_ns if alone else record.sent_ns)
        within = f"within {ceil(after_ns / _NS_PER_S * 10) / 10:.1f} s"
        return f"{BEFELL[_word(fault)]} {within}{'' if alone else ' of the send'}"
    if fault.confirmed_ns <= record.acked_ns and fault.healing_ns <= record.acked_ns:
        return ""
    asked = "before" if fault.begun_ns <= record.sent_ns else "during"
    words = BEFELL[_word(fault)]
    by = "by" if words.startswith("was ") else "in"
    return f"{words} {by} a fault that was requested {asked} the send"


def _only(group: Group, record: Acked, leader: Acknowledger) -> bool:
    """Return whether only the acknowledging leader's replica ever had the record."""
    replicas = set(replicas_of(group)) - {leader.node}
    return bool(replicas) and all(never_had(group, record, node) for node in replicas)


def _holders(group: Group, record: Acked, leader: Acknowledger, then: Next) -> Iterator[str]:
    """Yield, for each other replica with the record, why that replica was not elected."""
    if then.rivals:
        return
    isr = isr_before(group, then.epoch)
    for node in sorted(set(replicas_of(group)) - {leader.node, then.node}):
        if had(group, record, node) and not _later(group, record, node, then):
            too = f"{node} had it too"
        elif not never_had(group, record, node) and reached(
            group, record, node, then.not_before_ns
        ):
            too = f"{node}'s log had reached its offset too"
        else:
            continue
        if isr is not None and int(node[1:]) not in isr:
            yield f"{too}, but was not in the ISR before that election"
        elif _was_down(group, node, then):
            yield f"{too}, but was down at that election"
        elif isr is not None and then.broker in isr:
            yield f"{too}, and it was in the ISR as well: either could be elected"
        else:
            yield f"{too}, and the run's record does not show why {then.node} led instead"


def _later(group: Group, record: Acked, node: str, then: Next) -> bool:
    """Return whether a replica can have got the record only from the next leader."""
    return not never_had(group, record, then.node) and not reached(
        group, record, node, then.not_before_ns
    )


def _was_down(group: Group, node: str, then: Next) -> bool:
    """Return whether a broker was down during the whole time in which an election is possible."""
    return then.not_before_ns >= 0 and any(
        each.node == node and each.from_ns <= then.not_before_ns and then.told_ns <= each.until_ns
        for each in group.facts.absences
    )


def _truncated(
    group: Group, record: Acked, leader: Acknowledger, then: Next, *, until_ns: int
) -> Iterator[str]:
    """Yield a note if the acknowledging leader truncated the record only after `then.epoch`."""
    node, log = leader.node, group.logs.get(FINAL, {}).get(leader.node)
    sure = log is not None and was_spared(group) and not moved(group)
    if not sure or had(group, record, node) or cut_at(group, record, node) is None:
        return
    rows = group.table("leadership")
    times, epochs = ints(rows, "observed_ns"), ints(rows, "leader_epoch")
    known = int(epochs[(times >= 0) & (times <= until_ns)].max(initial=NONE))
    epoch = max(known, _epoch_followed(group, record, leader))
    if epoch > then.epoch and len(leaders := leaders_of(group, epoch)) == 1:
        yield f"{node} truncated it only after n{leaders[0]} was elected in epoch {epoch}"


def _epoch_followed(group: Group, record: Acked, leader: Acknowledger) -> int:
    """Return the first epoch in which the acknowledging leader may have truncated its log.

    The log lines of this leader name the broker that it followed. The result is -1 if the lines
    name no broker, or several brokers.
    """
    cuts = truncations_of(group, record.offset, since_ns=record.sent_ns)
    named = [_FOLLOWED.match(each.reason) for each in cuts if each.node == leader.node]
    brokers = {int(each[1]) if each else NONE for each in named}
    if len(brokers) != 1 or not read_whole(group, leader.node):
        return NONE
    rows = group.table("leadership")
    led = (ints(rows, "leader") == brokers.pop()) & (ints(rows, "leader_epoch") > leader.epoch)
    epochs = ints(rows, "leader_epoch")[led]
    return int(epochs.min()) if len(epochs) else NONE
