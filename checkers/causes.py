"""Why an acknowledged record is gone, in one sentence: who had it, what befell them, who led next.

Each clause needs its own evidence, and is left out without it: "only n2 had it" is said if no other
replica has the record in any copy, none ever lost anything there, and none gave it to a reader;
"without it" of a leader of which that is true, that wrote another record there in its epoch, or
that led last, whose log only grew as far as looks show; a fault as the reason of an election if it
was seen to work before that one can have been.
What the sentence lacks, it names.
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
from checkers.changes import NEVER_NS
from checkers.client_reasons import sent
from checkers.columns import NONE, equal, ints
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
    "power-loss": "lost power", "wipe": "lost its disk", "disk-full": "ran out of disk",
    "read-only": "could not write any more",
    "isolate": "was cut off", "halves": "was cut off",
    "one-way-in": "could not receive from the others",
    "one-way-out": "could not send to the others",
    "stall": "had connections stall",
    "connections": "had connections reset or blocked",
}  # fmt: skip
"""What a fault does to its targets that can cost a leader its place, where all of it is at once: by
its kind, or by its family."""
_DOUBTFUL = {
    Excuse.UNCONFIRMED.value: "a fault that was never confirmed may have taken it",
    Excuse.LAST_COPIES.value: "a fault may have taken its only copies",
}
"""What disks may have cost, without a proof."""
_MEANWHILE = {
    "isolate": "while it was cut off", "halves": "while it was cut off",
    "one-way-in": "while it could not receive from the others",
    "one-way-out": "while it could not send to the others",
    "stall": "while connections of its own stalled",
    "connections": "while connections of its own were reset or blocked",
}  # fmt: skip
"""Faults under which a leader goes on."""
_FOLLOWED = re.compile(r"follower of broker (\d+)\b")
"""How a broker's reason for a truncation begins (`cluster.kafka`)."""
_AWAY = frozenset({"kill", "stop", "pause", "power-loss", "isolate"})
"""Faults under which a broker follows no leader."""
_ALIVE = frozenset({"pause", "isolate"})
"""Of these, those that no broker's life ends with."""


def cause_of_loss(
    group: Group, record: Acked, by: Sequence[Acknowledger], *, what: str = "it"
) -> str:
    """Return why an acknowledged record is in no log, or not in the last leader's.

    Args:
        group: The partition.
        record: Which.
        by: Who may have acknowledged it.
        what: What it is called where it is named first.
    """
    acks = "acks=1" if record.weak else "acks=all"
    nodes = list(dict.fromkeys(each.node for each in sorted(by, key=lambda one: one.broker < 0)))
    if not nodes:
        return f"no leader was seen, so the record does not show who {record.took} {what}"
    told = f"{' or '.join(nodes)} {record.took} {what} ({acks})"
    if len(nodes) > 1 or by[0].broker < 0:
        return f"{told}; the record does not show who it was, and so not why it is gone"
    if by[0].epoch < 0:
        return f"{told}; these brokers report no epochs, so the record does not show why it is gone"
    if (
        how := _on_disks(group, record)
        or _below_the_starts(group, record)
        or _dropped(group, record, by)
        or _at_stop(group, record, by)
    ):
        return told + how
    return _by_election(group, record, by, what=what, acks=acks)


def _on_disks(group: Group, record: Acked) -> str:
    """Say so if every replica lost the record with its disk, or may have."""
    since_ns = max(record.sent_ns, record.acked_ns)
    disks = lost_on_disks(group, record.offset, since_ns)
    if disks and _replaced_ns(group, record) < _first_loss_ns(group, record, since_ns):
        return ""
    doubtful = [_DOUBTFUL[each] for each in disks if each in _DOUBTFUL]
    if doubtful:
        return f"; {doubtful[0]}, and the record does not show whether it did"
    return f", and faults cut each replica's log off below it ({', '.join(disks)})" * bool(disks)


def _below_the_starts(group: Group, record: Acked) -> str:
    """Say so if every log begins above the record, and nothing asked for retention."""
    logs = group.logs.get(FINAL, {}).values()
    below = bool(logs) and not group.facts.forgets
    below &= all(0 <= record.offset < log.start for log in logs)
    moved_it = who_moved_first(group, record.offset) if below else ""
    return f"; {moved_it}" if moved_it else ""


def _first_loss_ns(group: Group, record: Acked, since_ns: int) -> int:
    """Return when the first fault began that may have taken a record from a disk."""
    begun = [
        each.began_ns
        for each in group.facts.disk_losses
        if each.concerns(group.topic, group.partition)
        and each.first_taken <= record.offset
        and each.until_ns >= since_ns
    ]
    return min(begun, default=NONE)


def _replaced_ns(group: Group, record: Acked) -> int:
    """Return when another value was first known to stand where a record had stood."""
    known = [NEVER_NS]
    for name in ("sends", "polls"):
        rows = group.table(name)
        ended = ints(rows, "complete_ns")
        other = (ints(rows, "offset") == record.offset) & (ints(rows, "value") != record.value)
        other &= (record.offset >= 0) & (ended >= record.sent_ns)
        other &= equal(rows, "acked", True) if name == "sends" else other  # noqa: FBT003 - a value
        known.append(int(ended[other].min(initial=NEVER_NS)))
    return min(known)


def _dropped(group: Group, record: Acked, by: Sequence[Acknowledger]) -> str:
    """Say so if a leader wrote another record in the place of the one it had acknowledged.

    Its own log shows that, if it lost nothing there: otherwise it may have copied a wrong record.
    """
    epoch, node = by[0].epoch, by[0].node
    if cut_at(group, record, node) is not None or moved(group) or not read_whole(group, node):
        return ""
    # With ZooKeeper an epoch may go on though its leader was down, and its disk lost something.
    sure = was_spared(group) or group.facts.plan.has_quorum
    alone = sure and len(by) == 1 and leaders_of(group, epoch) == (by[0].broker,)
    if not alone or record.offset < 0 or not overwritten_in(group, record, epoch):
        return ""
    shown = taken(group, record.value)
    return (
        f" as the leader of epoch {epoch}, and another record of that epoch has its offset: the"
        " leader dropped it while it led, or never wrote it"
        f"{f'; {shown.text}' if shown and shown.epoch == epoch else ''}"
    )


def _at_stop(group: Group, record: Acked, by: Sequence[Acknowledger]) -> str:
    """Say so if the last leader, which had it, lost it after the last look, by its stop."""
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
    led = " and led last" if sure else f"; {last.node} led last, and still gave it to op {op_id}"
    return (
        f"{led}; {listed(lost)} still ended behind it at {seconds(seen_ns)}, at the last look, and"
        f" at {' or '.join(map(str, ends))} after {stop}: the end was lost in between"
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
        clauses.append(f"{giver.text}, still gave it to op {op_id}")
    if then is not None:
        led = elected(group, record, passed[0] if passed else first, then)
        again = passed is not None and then.broker == passed[0].broker
        clauses.append((f"{then.node} {led}" if again else led) + fault.then)
        notes += [*_holders(group, record, first, then)]
        known_ns = fault.away_until_ns
        notes += [*_truncated(group, record, first, then, until_ns=known_ns)]
    elif len(by) > 1 and any(next_leader(group, record, [each]) for each in by):
        notes.append("the record does not show in which epoch, and so not which election took it")
    else:
        lacks = _goes_on_without(group, record)
        later = _later_led(group, passed[0].epoch if passed else max(each.epoch for each in by))
        none = "no later leader is known to lack it" if later else "no later leader was seen"
        notes.append(f"{none}{lacks}, so the record does not show what took it")
    *most, last = clauses
    return "; ".join([f"{only}{', '.join(most)}, and {last}", *notes])


def _later_led(group: Group, epoch: int) -> bool:
    """Tell whether anybody named the leader of an epoch after one."""
    rows = group.table("leadership")
    return bool(((ints(rows, "leader_epoch") > epoch) & (ints(rows, "leader") >= 0)).any())


def _goes_on_without(group: Group, record: Acked) -> str:
    """Say so if the last leader's log has nothing at a record's offset, and goes on behind it."""
    log = group.final_log
    hole = (
        log is not None and log.start <= record.offset < log.end and log.at(record.offset) is None
    )
    return (
        f", and {log.node}'s log has nothing there, and goes on behind it" if log and hole else ""
    )


def _isr_around(group: Group, record: Acked, leader: Acknowledger) -> set[int]:
    """Return the ISR that was told last before the send, and first after it; empty: they differ.

    Nobody told of another one in between; and of a leader alone, the controllers wrote none down
    afterwards.
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
    """Say that followers in sync did not have what was acknowledged for all of the ISR."""
    *most, last = (f"n{each}" for each in sorted(brokers)) if brokers else ("",)
    names = f"{', '.join(most)} and {last} were" if most else f"{last} was"
    return f" though {names} in the ISR and did not have it" if brokers else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Befell:
    """What a fault did to the leader.

    Attributes:
        meanwhile: In force while the leader acknowledged.
        clauses: After that, and before the next leader's election.
        then: In force while the next leader was elected or just before, if only that is known.
        notes: Of which the order is not known; or that it was over by then.
        away_until_ns: Until when the leader could not truncate anything; -1: not known.
    """

    meanwhile: str = ""
    clauses: tuple[str, ...] = ()
    then: str = ""
    notes: tuple[str, ...] = ()
    away_until_ns: int = -1


def _befell(group: Group, record: Acked, leader: Acknowledger, then: Next) -> _Befell:
    """Return what fault hit the leader last before the next one led: meanwhile, or afterwards.

    Only what was seen to work counts, and from when it was; an answer may be older than its op.
    """
    if then.told_ns == NEVER_NS or min(record.sent_ns, record.acked_ns) < 0:
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
    notes = ("that fault was over before the next election, whose reason the record does not show",)
    return _Befell(clauses=(words,), notes=notes if over else (), away_until_ns=away_until_ns)


def _word(fault: Disturbance) -> str:
    """Return by what a fault is known here: its kind, or its family."""
    return fault.kind if fault.kind in BEFELL else fault.family


def _when(group: Group, record: Acked, fault: Disturbance) -> str:
    """Say when a fault hit, after an acknowledgement; empty if it may have been over by then.

    An op of several sends ended with the last of them, and a transaction with its commit.
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
    return f"{words} {by} a fault asked for {asked} the send"


def _only(group: Group, record: Acked, leader: Acknowledger) -> bool:
    """Tell whether no other replica ever had the record."""
    replicas = set(replicas_of(group)) - {leader.node}
    return bool(replicas) and all(never_had(group, record, node) for node in replicas)


def _holders(group: Group, record: Acked, leader: Acknowledger, then: Next) -> Iterator[str]:
    """Say which other replicas had the record, and why none of them was elected."""
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
            yield f"{too}, and the record does not show why {then.node} led instead"


def _later(group: Group, record: Acked, node: str, then: Next) -> bool:
    """Tell whether a replica may have got a record only from the leader that was elected next."""
    return not never_had(group, record, then.node) and not reached(
        group, record, node, then.not_before_ns
    )


def _was_down(group: Group, node: str, then: Next) -> bool:
    """Tell whether a broker was down all the time in which an election may have been."""
    return then.not_before_ns >= 0 and any(
        each.node == node and each.from_ns <= then.not_before_ns and then.told_ns <= each.until_ns
        for each in group.facts.absences
    )


def _truncated(
    group: Group, record: Acked, leader: Acknowledger, then: Next, *, until_ns: int
) -> Iterator[str]:
    """Say under which later leader than the next one the acknowledger truncated the record."""
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
    """Return the first epoch in which the acknowledger may have truncated, by its own log's lines.

    They name the broker that it followed; where they name several, or none, that is not known.
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
