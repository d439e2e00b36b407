"""client-ended: a client process crashed.

Definition: a crash signal ended a worker process: SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP
or SIGSYS.

Why it proves something: a client library must report every broker answer and every failure. If the
library crashes, its program cannot continue. No fault of a run hits a worker. So the cause is in
the worker, never in the brokers. Only native code crashes this way: librdkafka, or another library
that the worker uses. The worker's last output, such as a failed assertion, may name the file.

What would not prove it: an end with an exit code, or by another signal, for example by the SIGKILL
of the kernel's OOM killer. Such an end prevents a verdict on the run, but shows nothing about the
client library.
"""

from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, seconds, texts_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Promise, Scope
from results.record.milestones import WORKER_ENDED, Milestone
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "client-ended"
_LIBRARY = "rdkafka"


def _crashes(facts: RunFacts) -> list[Milestone]:
    return [each for each in facts.milestones if each.name == WORKER_ENDED]


def _applies(facts: RunFacts) -> bool:
    return facts.workers_watched > 0


def _check(group: Group) -> Findings:
    crashes, watched = _crashes(group.facts), group.facts.workers_watched
    return findings(watched, crashes, lambda crash: _describe(group, crash))


def _describe(group: Group, crash: Milestone) -> Anomaly:
    who = f"worker {crash.detail.get('worker', '')}"
    how = f"was ended by {crash.detail.get('signal', '')}"
    said = [line for line in crash.detail.get("said", "").split("\n") if line]
    last = f"; its last output: {said[-1]}" if said else ""
    return anomaly_at(
        group,
        NAME,
        sentence=f"{who}, a process of {_clients(group.facts)}, {how} (detected at"
        f" {seconds(crash.at_ns)}){last}",
        evidence={"node": who, "how": how, "seen_ns": crash.at_ns, "said": said},
    )


def _clients(facts: RunFacts) -> str:
    plan = facts.plan
    if plan.wants_java:
        return "Kafka's Java clients"
    return f"librdkafka {plan.client_version} clients" if plan.client_version else "clients"


def _why(group: Group, found: Anomaly) -> str:
    if _LIBRARY in " ".join(texts_in(found, "said")):
        return "its last output comes from librdkafka: the client library failed, not a broker"
    java = group.facts.plan.wants_java
    code = "native code in it" if java else "librdkafka, or other native code in it,"
    return (
        f"such a signal comes from a crash: {code} failed, not a broker; the worker's log"
        " shows nothing more"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="process of clients crashed",
        many="processes of clients crashed",
        means="Native code in the process failed. The clients are to blame, not the brokers.",
        promise="A client library reports what goes wrong. It does not end its program.",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=(),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    promise=Promise.CLIENTS,
    compares="processes of clients",
    chapter=Chapter.LIVENESS,
    looks_for="at any time a crash ends a worker (SIGSEGV, SIGABRT …). The evidence has its last"
    " output. Native code in the clients' process is to blame, never a broker",
    waits="clients are watched until they have stopped",
)
