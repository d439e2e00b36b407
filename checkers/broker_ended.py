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
bit-flip, power-loss, the family lost-flushes), or while one kept it from writing (disk-full,
read-only) or shortly after, or of the very life whose requests a disk broke (disk-errors): to halt
is then the broker's right, and nobody need have seen how. A page of a mapped file that cannot be
read ends a JVM by SIGBUS. A short write explains nothing: write(2) allows it. Nor do broken
requests explain an end of the next life: a mended disk with half a batch on it is to be recovered.
A signal from outside is not explained by it. An end of a broker below whose data the harness's own
file system had failed before is none of the broker's doing. Nor, of the very life of a broker that
a fault hit, is an exit while the fault left it no file handle, or shortly after, if its last
complaint is that it had too many files open, or its log folders failed for that; nor a SIGKILL
while one left it hardly any memory, if the kernel counted a kill in the node's control group. The
next life has the limits of before, and no excuse. Nor is an exit of a broker that a fault had
ended, and that was to start again while another fault had gone on for so long that Kafka gives up:
it found no controller, or one that was late. If it left last words, they must be those of giving
up. A stall must have been confirmed, of links to its controllers; a late disk or want of a
resource, on its own node or a controller's.
"""

import signal

from checkers.facts import NOTED, RunFacts
from checkers.findings import anomaly_at, findings, number_in, seconds, texts_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Promise, Proof, Scope
from checkers.reasons_to_end import STARVING, End, explains
from checkers.reigns import between
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.milestones import ENDED
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME, OUTSIDE = "broker-ended", "broker-hit-from-outside"
_CRASHES = frozenset(
    getattr(signal, name)
    for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS")
)
GONE = "gone"
"""Of an end's detail: the file system that the harness keeps below the node's data had failed."""
_HEAP = "OutOfMemoryError: Java heap space"
_MISSED_NS = NS_PER_S
"""That a process is gone is found out so late, and elections come about as late."""
_NAMED = 3
_BY_SIGNAL = 128
"""Shells, Docker and Java's own shutdown say so much more than the signal's number."""


def _lives(facts: RunFacts) -> int:
    """Return how many processes were watched; 0 in records of before anybody did."""
    noted = facts.milestone(NOTED)
    lives = noted.detail.get("lives", "") if noted else ""
    return int(lives) if lives.isascii() and lives.isdigit() else 0


def _applies(facts: RunFacts) -> bool:
    watched = _lives(facts) > 0 or any(each.name == ENDED for each in facts.milestones)
    return watched or not facts.shows(Sight.ENDS)  # Records of before anybody watched have neither.


def ends(facts: RunFacts) -> list[End]:
    """Return how processes of the cluster ended that no fault ended, in the order of the record."""
    found = []
    for each in facts.milestones:
        if each.name == ENDED:
            how, outside, signalled = _how(each.detail.get("code", ""))
            if disk_failed := each.detail.get("disk") == GONE:
                how = f"{how} after Logquake's file system below its data had failed"
                outside = True
            told = "told" in each.detail
            how += " when it was told to stop" if told else ""
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
                    disk_failed=disk_failed,
                    told=told,
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
            for each in ends(group.facts)
            if each.outside is outside and not explains(group, each)
        ],
        lambda end: _describe(group, end, OUTSIDE if outside else NAME),
    )


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
        what = "does not explain that" if last.kind in STARVING else "a broker is to survive"
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
