"""broker-ended and broker-hit-from-outside: a broker that ended, and who was to blame.

Definition: a process of the cluster ended though no fault stopped or killed it: with an exit code
of its own, or by a signal that a crash raises (SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP,
SIGSYS): broker-ended. So is one that was told to stop (SIGTERM), and ended with a code that says
that it failed: neither 0 nor 143. By any other signal, or in a way that nobody saw, or it stood
still (SIGSTOP) though no fault paused it: broker-hit-from-outside, the harness's surroundings.

Why it proves something: a server that was started goes on until it is told to stop. One that exits,
halts, runs out of memory (its JVM is told to exit then) or crashes takes its part of the cluster
along, whatever that costs; Kafka halts where it finds itself unable to go on. No promise on records
is broken by that alone, so it is a liveness anomaly. The kernel's OOM killer and people send
signals that no program sends itself by accident: those say nothing of the broker.

What would not prove it: an end after a fault that took something of the node's disk (wipe,
bit-flip, power-loss, the family lost-flushes), or while one kept it from writing or broke what it
asked of its disk (disk-full, read-only, the family disk-errors) or shortly after: to halt is then
the broker's right, and nobody need have seen how. A page of a mapped file that cannot be read ends
a JVM by SIGBUS. A short write explains nothing: write(2) allows it. A signal from outside is not
explained by it. An end of a broker below whose data the harness's own file system had failed before
is none of the broker's doing. Nor, of the very life of a broker that a confirmed fault hit, is an
exit while the fault left it no file handle, or shortly after, if its last words say that it had too
many files open; nor a SIGKILL while one left it hardly any memory, if the kernel counted a kill in
the node's control group. The next life has the limits of before, and no excuse. Nor is an exit of a
broker that a fault had ended, and that was to start again while another fault had gone on for so
long that Kafka gives up: it found no controller, or its disk or a controller's was late. If it left
last words, they must be those of giving up. A stall must have been confirmed, of links to its
controllers.
"""

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.changes import HANDLES, MEMORY, PROCESSOR, deeds, takes_keeper
from checkers.columns import Mask, equal, ints, texts
from checkers.disk_losses import LYING, is_of_family, json_object, was_begun
from checkers.facts import NOTED, RunFacts
from checkers.findings import anomaly_at, findings, number_in, seconds, texts_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Promise, Proof, Scope
from checkers.reigns import between
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.milestones import ENDED
from results.record.terms import NO_HANDLE, UNMEASURED, AnomalyClass
from results.record.verdict import Anomaly, Words

NAME, OUTSIDE = "broker-ended", "broker-hit-from-outside"
_TAKING = ("wipe", "bit-flip", "power-loss")
_HINDERING = ("disk-full", "read-only")
_BREAKING = "disk-errors"
"""The family of faults that break what a broker asks of its disk."""
_SHORT = "short"
"""Of the effect of such a fault: how a write is broken that says how much of it was stored."""
_LATE = "slow-disks"
"""The family of faults that hold up whatever is asked of a real disk."""
_GOES_DOWN_NS = 30 * NS_PER_S
"""A broker that could not write may take so long to go down in order, and be seen to be gone."""
_STARTING = ("kill", "stop", "rolling-restart")
"""Faults that are over when the broker they ended has started and registered."""
_SHUTTING_OUT = (
    *_STARTING, *_TAKING, "pause", "isolate", "halves", "one-way-in", "one-way-out", "ring",
    "bridge", "flapping", HANDLES, PROCESSOR, MEMORY,
)  # fmt: skip
"""Faults that may keep a broker from its controllers: they are gone, or out of its reach."""
_STALLS = "stall"
"""The family of those that do so by their links: each question and its answer may take a stall, and
a start has many of them."""
_GIVES_UP_NS = 30 * NS_PER_S
"""A broker that starts waits so long for ZooKeeper, and twice as long for a controller."""
_GIVING_UP = re.compile(
    r"unable to register with the controller quorum|Timed out while waiting for"
    r"|fatal error while waiting for the controller to acknowledge|ZooKeeperClientTimeoutException"
    r"|Fatal error during KafkaServer startup"
)
"""What Kafka logs then: BrokerLifecycleManager, FutureUtils.waitWithLogging, ZooKeeperClient, and
KafkaServer, the last words that records of old have of a broker with ZooKeeper."""
_ENDING = frozenset({HANDLES, MEMORY})
"""Faults that may end a broker, in one way each."""
_CRASHES = frozenset(
    getattr(signal, name)
    for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
)
GONE = "gone"
"""Of an end's detail: the file system that the harness keeps below the node's data had failed."""
_HEAP = "OutOfMemoryError: Java heap space"
_BY_KERNEL = f"was ended by {signal.SIGKILL.name}"
_MISSED_NS = NS_PER_S
"""That a process is gone is found out so late, and elections come about as late."""
_NAMED = 3
_BY_SIGNAL = 128
"""Shells, Docker and Java's own shutdown say so much more than the signal's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a process ended, or stood still.

    Attributes:
        node: Whose.
        incarnation: Which of its starts, as the record has it.
        seen_ns: When it was found out.
        how: For people: `with exit code 1`.
        outside: Whether somebody else may have done that.
        signalled: Whether a signal did it for certain.
        said: Its last words of errors.
    """

    node: str
    incarnation: str
    seen_ns: int
    how: str
    outside: bool
    signalled: bool
    said: tuple[str, ...]


def _lives(facts: RunFacts) -> int:
    """Return how many processes were watched; 0 in records of before anybody did."""
    noted = facts.milestone(NOTED)
    lives = noted.detail.get("lives", "") if noted else ""
    return int(lives) if lives.isascii() and lives.isdigit() else 0


def _applies(facts: RunFacts) -> bool:
    watched = _lives(facts) > 0 or any(each.name == ENDED for each in facts.milestones)
    return watched or not facts.shows(Sight.ENDS)  # Records of before anybody watched have neither.


def _ends(group: Group) -> list[End]:
    found = []
    for each in group.facts.milestones:
        if each.name == ENDED:
            how, outside, signalled = _how(each.detail.get("code", ""))
            if each.detail.get("disk") == GONE:
                how = f"{how} after Logquake's file system below its data had failed"
                outside = True
            how += " when it was told to stop" if "told" in each.detail else ""
            said = tuple(line for line in each.detail.get("said", "").split("\n") if line)
            node = each.detail.get("node", "")
            found.append(
                End(
                    node=node,
                    incarnation=each.detail.get("incarnation", ""),
                    seen_ns=each.at_ns,
                    how=how,
                    outside=outside,
                    signalled=signalled,
                    said=said,
                )
            )
    return found


def _how(code: str) -> tuple[str, bool, bool]:
    """Return how a process ended by its noted code, whether from outside, and by a signal."""
    if code == "stopped":
        return "was stopped (SIGSTOP)", True, True
    try:
        number = int(code)
    except ValueError:
        return "ended, and nobody saw how", True, False
    number = _BY_SIGNAL - number if number > _BY_SIGNAL else number
    if number >= 0:
        return f"ended with exit code {number}", False, False
    try:
        by = signal.Signals(-number)
    except ValueError:
        return f"ended with exit code {_BY_SIGNAL - number}", False, False
    return f"was ended by {by.name}", by not in _CRASHES, True


def _check(group: Group, *, outside: bool) -> Findings:
    return findings(
        _lives(group.facts),
        [
            each
            for each in _ends(group)
            if each.outside is outside
            and not (_explained(group, each) and not (outside and each.signalled))
            and not _shut_out(group, each)
            and not _starved(group, each)
        ],
        lambda end: _describe(group, end, OUTSIDE if outside else NAME),
    )


def _explained(group: Group, end: End) -> bool:
    """Tell whether a fault of the node's disk was why, for all that is known."""
    faults = group.table("faults")
    begun = was_begun(faults) & (ints(faults, "requested_ns") <= end.seen_ns) & _hits(faults, end)
    healed_ns = ints(faults, "healed_ns")
    over = (healed_ns >= 0) & (healed_ns < end.seen_ns - _GOES_DOWN_NS)
    taking = equal(faults, "kind", *_TAKING) | is_of_family(faults, LYING)
    broke = is_of_family(faults, _BREAKING) & _may_end(faults, end.node)
    hindering = equal(faults, "kind", *_HINDERING) | broke
    why = taking | (hindering & ~over)
    return bool((begun & why).any())


def _may_end(faults: pa.Table, node: str) -> Mask:
    """Tell which faults of a disk that breaks requests give a broker a reason to end.

    A write that stores its first half and says so does not: write(2) may, and who asked goes on
    behind that. Nor does one whose effect was looked for and not found, or that no request of the
    broker's had met when it was seen to be gone.
    """
    effects = [json_object(effect) for effect in texts(faults, "effect")]
    return np.array([_gives_reason(effect, node) for effect in effects], dtype=np.bool_)


def _gives_reason(effect: Mapping[str, object], node: str) -> bool:
    ended, met = effect.get("ended"), effect.get("met")
    unmet = isinstance(met, dict) and met.get(node) == 0
    idle = unmet and isinstance(ended, list) and node in ended
    return not (idle or effect.get("how") == _SHORT or effect.get("without_effect") == UNMEASURED)


def _starved(group: Group, end: End) -> bool:
    """Tell whether a confirmed fault that left its node too little of a resource was why."""
    faults = group.table("faults")
    asked_ns, healed_ns = ints(faults, "requested_ns"), ints(faults, "healed_ns")
    over = (healed_ns >= 0) & (healed_ns < end.seen_ns - _GOES_DOWN_NS)
    felt = (ints(faults, "confirmed_ns") >= 0) & (asked_ns <= end.seen_ns) & ~over
    rows = zip(
        deeds(faults), texts(faults, "effect"), texts(faults, "heal_effect"),
        (healed_ns < 0).tolist(), (felt & _hits(faults, end)).tolist(), strict=True,
    )  # fmt: skip
    mine = [
        (deed, {} if lasts else json_object(heal))
        for deed, effect, heal, lasts, hit in rows
        if hit and _was_hit(end, effect)
    ]
    return any(
        (deed == HANDLES and _lacked_handles(end, heal))
        or (deed == MEMORY and _killed_by_kernel(end, heal))
        for deed, heal in mine
    )


def _was_hit(end: End, effect: str) -> bool:
    """Tell whether it is the life that a fault hit: the next one has the limits of before."""
    lives = json_object(effect).get("incarnations")
    return isinstance(lives, dict) and str(lives.get(end.node)) == end.incarnation


def _lacked_handles(end: End, heal: Mapping[str, object]) -> bool:
    """Tell whether a broker's last words say what it lacked.

    Where none were noted at its end, those count that its heal noted. As long as the fault is not
    healed they are not known: empty.
    """
    if end.signalled or not (heal or end.said):
        return not end.signalled
    said = heal.get("said")
    noted = said.get(end.node) if isinstance(said, dict) else None
    words = end.said or (noted if isinstance(noted, list) else ())
    return any(NO_HANDLE in str(line) for line in words)


def _killed_by_kernel(end: End, heal: Mapping[str, object]) -> bool:
    """Tell whether the kernel killed a broker for memory.

    Its count is not known as long as the fault is not healed: empty.
    """
    if end.how != _BY_KERNEL or not heal:
        return end.how == _BY_KERNEL
    kills = heal.get("kills")
    counted = kills.get(end.node) if isinstance(kills, dict) else None
    return isinstance(counted, int) and counted > 0


def _hits(faults: pa.Table, end: End) -> Mask:
    """Tell which faults were aimed at the node of an end."""
    targets = faults["targets"].to_pylist()
    return np.array([end.node in (each or ()) for each in targets], dtype=np.bool_)


def _shut_out(group: Group, end: End) -> bool:
    """Tell whether a broker gave up its start, while a fault kept controllers from it for long."""
    if end.outside or end.signalled or (end.said and not _gave_up(end)):
        return False
    faults, at_ns = group.table("faults"), end.seen_ns
    asked_ns, healed_ns = ints(faults, "requested_ns"), ints(faults, "healed_ns")
    lasting = was_begun(faults) & ~((healed_ns >= 0) & (healed_ns < at_ns))
    mine = lasting & (asked_ns <= at_ns) & _hits(faults, end)
    did = deeds(faults)
    starting = np.flatnonzero(mine & np.isin(did, _STARTING))
    long = lasting & (asked_ns <= at_ns - _GIVES_UP_NS)
    away = np.isin(did, _SHUTTING_OUT) | np.array(takes_keeper(faults), dtype=np.bool_)
    late = is_of_family(faults, _LATE) & (_hits(faults, end) | _hits_controllers(group, faults))
    stalls = np.array(
        [_stalls(json_object(spec), end.node, group.facts) for spec in texts(faults, "spec")],
        dtype=np.bool_,
    )
    confirmed_ns = ints(faults, "confirmed_ns")
    stalls &= (confirmed_ns >= 0) & (confirmed_ns <= at_ns)
    others = np.flatnonzero(long & (away | stalls | late))
    return any((others != each).any() for each in starting)


def _hits_controllers(group: Group, faults: pa.Table) -> Mask:
    """Tell which faults were aimed at a node that may be the controller."""
    brokers = set() if group.facts.plan.brokers_vote else {f"n{at}" for at in group.facts.brokers}
    targets = faults["targets"].to_pylist()
    return np.array([bool({*(each or ())} - brokers) for each in targets], dtype=np.bool_)


def _gave_up(end: End) -> bool:
    return any(_GIVING_UP.search(line) for line in end.said)


def _stalls(spec: Mapping[str, Any], node: str, facts: RunFacts) -> bool:
    """Tell whether a fault has links of a node stall that lead to who may be its controller."""
    links = spec.get("links")
    ends = [each for each in links if isinstance(each, list)] if isinstance(links, list) else []
    brokers = {f"n{number}" for number in facts.brokers}
    others = {other for each in ends if node in each for other in each} - {node}
    keepers = others if facts.plan.brokers_vote else others - brokers
    return spec.get("family") == _STALLS and bool(keepers)


def _describe(group: Group, end: End, name: str) -> Anomaly:
    bad = [line for line in end.said if " INFO " not in line] or end.said
    last = f"; it said: {bad[-1]}" if bad else ""
    return anomaly_at(
        group,
        name,
        sentence=f"{end.node} {end.how}, and no fault had done that (found at"
        f" {seconds(end.seen_ns)}){last}",
        evidence={"node": end.node, "how": end.how, "seen_ns": end.seen_ns, "said": list(end.said)},
    )


def _by_itself(group: Group) -> Findings:
    return _check(group, outside=False)


def _from_outside(group: Group) -> Findings:
    return _check(group, outside=True)


def _why(group: Group, found: Anomaly) -> str:
    said, how = " ".join(texts_in(found, "said")), str(found.evidence.get("how"))
    node, seen_ns = str(found.evidence.get("node")), number_in(found, "seen_ns")
    plan = group.facts.plan
    if _HEAP in said:
        what = f"its Java heap, {plan.heap_mb} MB by the plan, was full, and its JVM exits then"
    elif "OutOfMemoryError" in said:
        what = "its JVM could get no more memory of the kind that it names, and exits then"
    elif "was ended by" in how:
        what = "a crash raises that signal: its JVM failed, or native code in it did"
    elif "alting" in said:
        what = (
            "it halted itself: Kafka does where it cannot go on, and its last words give the reason"
        )
    elif said:
        what = "it exited by itself; its last words are all that is recorded of the reason"
    else:
        what = "it exited by itself and left no last words: its own log would have the reason"
    return f"{what}; {_last_fault(group, node, seen_ns)}{_led(group.facts, node, seen_ns)}"


def _led(facts: RunFacts, node: str, at_ns: int) -> str:
    """Say which partitions of the run a broker led when it ended, where the record is certain."""
    span = (at_ns - _MISSED_NS, at_ns - _MISSED_NS)
    then = {place: between(facts.reigns, place, span) for place in sorted(facts.numbers)}
    unsure = [each for each in then.values() if not each or len({one.node for one in each}) > 1]
    if not then or any(not each or node in {one.node for one in each} for each in unsure):
        return ""
    led = [f"{topic}-{at}" for (topic, at), each in then.items() if each[0].node == node]
    more = " and more" if len(led) > _NAMED else ""
    return f"; it led {', '.join(led[:_NAMED]) or 'no partition of the run'}{more} then"


def _last_fault(group: Group, node: str, seen_ns: int) -> str:
    """Return which fault had hit a broker last before it was found to have ended."""
    hits = [
        each
        for each in group.facts.disturbances
        if node in each.nodes and 0 <= each.confirmed_ns <= seen_ns
    ]
    if not hits:
        return f"no fault had hit {node} before"
    last = max(hits, key=lambda each: each.confirmed_ns)
    if last.ended_ns >= seen_ns:
        what = "does not explain that" if last.kind in _ENDING else "a broker is to survive"
        return f"{last.kind} of {node} was in force, which {what}"
    return f"the last fault that hit {node}, {last.kind}, was over at {seconds(last.ended_ns)}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="broker ended by itself",
        many="brokers ended by themselves",
        means=(
            "It exited or crashed, though nothing had told it to stop and no fault of its "
            "disk or its resources explains that."
        ),
        promise="A broker runs until it is told to stop.",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("faults",),
    sees=frozenset({Sight.ENDS}),
    check=_by_itself,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    promise=Promise.SERVERS,
    compares="server processes watched",
    chapter=Chapter.LIVENESS,
    looks_for="at any time a server exits by itself, or a crash ends it (SIGSEGV, SIGABRT …),"
    " though nothing had told it to stop; its last words of errors are in the evidence",
    meanwhile=Proof.OBSERVED,
)


def _why_outside(group: Group, found: Anomaly) -> str:
    how, node = str(found.evidence.get("how")), str(found.evidence.get("node"))
    fault = _last_fault(group, node, number_in(found, "seen_ns"))
    if "SIGSTOP" in how:
        return (
            "neither the kernel nor a broker stops a process so: something outside of the run sent"
            f" SIGSTOP, as job control or a debugger does; {fault}"
        )
    if "SIGKILL" in how:
        return (
            "no program sends itself SIGKILL by accident: the kernel's OOM killer did (its log on"
            f" the host tells), or something outside of the run; {fault}"
        )
    if "was ended by" in how:
        return (
            "no broker and no OOM killer sends that signal: something outside of the run did;"
            f" {fault}"
        )
    return f"its exit code was not seen, so the record does not show what ended it; {fault}"


OUTSIDE_CHECKER = Checker(
    name=OUTSIDE,
    why=_why_outside,
    words=Words(
        one="broker was hit by somebody else",
        many="brokers were hit by somebody else",
        means="Something beside the run ended or stopped it, or nobody saw how it ended.",
        promise="Nobody but the run ends or stops its brokers.",
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=(),
    sees=frozenset({Sight.ENDS}),
    check=_from_outside,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    compares="server processes watched",
    chapter=Chapter.HARNESS,
    looks_for="a process of the cluster ended by a signal that no fault of the plan sent and no"
    " crash raises (SIGKILL of the kernel's OOM killer, SIGTERM), or stood still"
    " (SIGSTOP), or nobody saw how it ended",
)
