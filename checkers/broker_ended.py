"""broker-ended and broker-hit-from-outside: a broker that ended or stopped without a fault.

Definition: a broker process ended although no fault stopped or killed it. The anomaly is
`broker-ended` if the process ended with its own exit code, or by a crash signal: SIGABRT, SIGSEGV,
SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS. The anomaly is also `broker-ended` if a normal stop
(SIGTERM) ends a broker with a failure code. All codes except 0 and 143 are failure codes. The
anomaly is `broker-hit-from-outside` if another signal or an unseen cause ended the process. A pause
(SIGSTOP) without a fault is `broker-hit-from-outside`, too. So is the end of a process after the
harness's own file system below the broker's data had failed: the broker is not to blame for it.

Why it proves something: a server runs until it is stopped. A server that exits, halts, crashes or
runs out of memory makes its share of the cluster unavailable. Kafka halts itself if it cannot
continue. Such an end alone breaks no promise on records, so `broker-ended` is a liveness anomaly.
The other signals come from outside, for example from the kernel's OOM killer or from a person. Such
a signal shows nothing about the broker.

What would not prove it: each of the following facts explains an end.

- The end follows a fault that damaged the node's disk: wipe, bit-flip, power-loss, or the family
  lost-flushes. Such a fault explains ends until 60 s after its heal. An end after that is not
  trusted if the process was hit, or was the next one, or if the process before it ended by itself.
- The end comes during a fault that stopped writes (disk-full, read-only), or shortly after it.
- The process itself got errors from its disk (disk-errors). An unreadable page of a mapped file
  ends a JVM by SIGBUS. Such a fault does not explain why the next process ends: a broker must
  recover from half a batch on its disk. A short write explains nothing, because write(2) allows it.
- Faults that stop writes or cause disk errors do not explain the exit of a JVM that lacked memory.
- The process exits during a fault that takes its file handles, or shortly after such a fault. The
  last error of the process must be "too many open files", or must be that log folders failed
  because of too many open files.
- The process gets SIGKILL during a fault that limits its memory, and the kernel counted a kill in
  the node's control group. The fault does not explain why the next process ends, because that
  process has its normal limits again.
- A fault ended the broker, and other faults were in force while the broker restarted. So the new
  process found a controller too late, or never. These faults must last as long as Kafka waits: 60 s
  for a controller, 30 s for ZooKeeper, or the time that the plan sets. The faults must last until
  Kafka gave up. If the last lines of the process's log are recorded, they must show that Kafka gave
  up. Then the faults may end 10 s earlier. A stall must be confirmed on links between the broker
  and its controllers. A slow disk or a lack of a resource must be confirmed on the broker's own
  node or on a controller's node.

A disk fault does not explain a signal from outside.
"""

import signal

from checkers.facts import NOTED, RunFacts
from checkers.findings import anomaly_at, findings, number_in, seconds, texts_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Labels, Premise, Promise, Proof, Scope
from checkers.reasons_to_end import STARVING, End, explains, may_explain
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
"""The value of the detail `disk` if Logquake's file system below the broker's data had failed."""
_HEAP = "OutOfMemoryError: Java heap space"
_MISSED_NS = NS_PER_S
"""`_led` assumes that a process ended this long before its end was noticed.

An election takes about as long.
"""
_NAMED = 3
_BY_SIGNAL = 128
"""Shells, Docker and Java's shutdown report a signal as this number plus the signal's number."""


def _lives(facts: RunFacts) -> int:
    """Return the number of processes that were watched; 0 for an old run without this number."""
    noted = facts.milestone(NOTED)
    lives = noted.detail.get("lives", "") if noted else ""
    return int(lives) if lives.isascii() and lives.isdigit() else 0


def _applies(facts: RunFacts) -> bool:
    watched = _lives(facts) > 0 or any(each.name == ENDED for each in facts.milestones)
    # Old records, from before processes were watched, have neither.
    return watched or not facts.shows(Sight.ENDS)


def ends(facts: RunFacts) -> list[End]:
    """Return the ends of cluster processes that no fault caused, in recorded order."""
    found = []
    for each in facts.milestones:
        if each.name == ENDED:
            how, outside, signalled = _how(each.detail.get("code", ""))
            if disk_failed := each.detail.get("disk") == GONE:
                how = f"{how} after Logquake's file system under its data directory had failed"
                outside = True
            told = "told" in each.detail
            how += " when it was asked to stop" if told else ""
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
    """Return how a process ended, whether something outside ended it, and whether a signal did."""
    if code == "stopped":
        return "was stopped (SIGSTOP)", True, True
    try:
        number = int(code)
    except ValueError:
        return "ended in a way that was not observed", True, False
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
        lambda end: _labels(group, end),
    )


def _labels(group: Group, end: End) -> Labels:
    return (), (Premise.SHOWN_CAUSE.value,) if may_explain(group, end) else ()


def _describe(group: Group, end: End, name: str) -> Anomaly:
    bad = [line for line in end.said if " INFO " not in line] or end.said
    last = f"; its last output: {bad[-1]}" if bad else ""
    old = may_explain(group, end)
    why = "long after a fault had taken its data" if old else "and no fault had caused this"
    return anomaly_at(
        group,
        name,
        sentence=f"{end.node} {end.how}, {why} (detected at {seconds(end.seen_ns)}){last}",
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
        what = f"its Java heap ({plan.heap_mb} MB by the plan) was full, so its JVM exited"
    elif "OutOfMemoryError" in said:
        what = "its JVM ran out of the kind of memory that its error names, and exited"
    elif "was ended by" in how:
        what = "such a signal comes from a crash: its JVM, or native code in the JVM, failed"
    elif "alting" in said:
        what = (
            "it halted itself, as Kafka does when it cannot continue; its last output has the"
            " reason"
        )
    elif said:
        what = "it exited by itself; only its last output shows the reason"
    else:
        what = "it exited by itself and without any output: its own log would show the reason"
    return f"{what}; {_last_fault(group, node, seen_ns)}{_led(group.facts, node, seen_ns)}"


def _led(facts: RunFacts, node: str, at_ns: int) -> str:
    """Return a clause that lists the partitions a broker led when it ended; "" if unsure."""
    span = (at_ns - _MISSED_NS, at_ns - _MISSED_NS)
    then = {place: between(facts.reigns, place, span) for place in sorted(facts.numbers)}
    unsure = [each for each in then.values() if not each or len({one.node for one in each}) > 1]
    if not then or any(not each or node in {one.node for one in each} for each in unsure):
        return ""
    led = [f"{topic}-{at}" for (topic, at), each in then.items() if each[0].node == node]
    more = " and more" if len(led) > _NAMED else ""
    return f"; at that time it led {', '.join(led[:_NAMED]) or 'no partition of the run'}{more}"


def _last_fault(group: Group, node: str, seen_ns: int) -> str:
    """Return a sentence about the last fault on a broker before the broker's end was noticed."""
    hits = [
        each
        for each in group.facts.disturbances
        if node in each.nodes and 0 <= each.confirmed_ns <= seen_ns
    ]
    if not hits:
        return f"no fault had hit {node} before"
    last = max(hits, key=lambda each: each.confirmed_ns)
    if last.ended_ns >= seen_ns:
        what = "does not explain the end" if last.kind in STARVING else "a broker must survive"
        return f"{last.kind} of {node} was in force, which {what}"
    return f"the last fault that hit {node}, {last.kind}, ended at {seconds(last.ended_ns)}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="broker ended by itself",
        many="brokers ended by themselves",
        means=(
            "It exited or crashed without being asked to stop, or failed while it was stopping, and"
            " no fault explains the end."
        ),
        promise="A broker runs until it is asked to stop.",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("faults",),
    sees=frozenset({Sight.ENDS}),
    check=_by_itself,
    premises=(Premise.KNOWN_EVENTS,),
    scope=Scope.RUN,
    applies=_applies,
    promise=Promise.SERVERS,
    compares="server processes watched",
    chapter=Chapter.LIVENESS,
    looks_for="at any time a server exits by itself, or a crash ends it (SIGSEGV, SIGABRT …),"
    " although nothing had asked it to stop; or a normal stop ends it with a failure code. The"
    " evidence has the last errors that it logged",
    meanwhile=Proof.OBSERVED,
)


def _why_outside(group: Group, found: Anomaly) -> str:
    how, node = str(found.evidence.get("how")), str(found.evidence.get("node"))
    fault = _last_fault(group, node, number_in(found, "seen_ns"))
    if "SIGSTOP" in how:
        return (
            "neither the kernel nor a broker sends SIGSTOP: something outside of the run did,"
            f" such as job control or a debugger; {fault}"
        )
    if "SIGKILL" in how:
        return (
            "no program sends SIGKILL to itself by accident: the kernel's OOM killer did (see the"
            f" kernel's log on the host), or something outside of the run did; {fault}"
        )
    if "was ended by" in how:
        return (
            "neither a broker nor the OOM killer sends this signal: something outside of the run"
            f" did; {fault}"
        )
    return (
        f"its exit code was not observed, so the run's record does not show what ended it; {fault}"
    )


OUTSIDE_CHECKER = Checker(
    name=OUTSIDE,
    why=_why_outside,
    words=Words(
        one="broker was hit from outside of the run",
        many="brokers were hit from outside of the run",
        means=(
            "Something outside of the run ended or paused the broker, the end of the broker was"
            " not observed, or Logquake's file system under its data directory had failed."
        ),
        promise="Nothing except the run stops or pauses the run's brokers.",
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
    looks_for="a process of the cluster was ended by a signal that no fault of the plan sent and"
    " no crash raises (SIGKILL of the kernel's OOM killer, SIGTERM). Or the process was"
    " paused (SIGSTOP), or its end was not observed, or Logquake's file system under its data"
    " directory had failed before the end",
)
