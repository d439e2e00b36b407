"""slow-failover: a broker was down, and no replica took over, although a replica could do so.

Definition: a fault ended a minority of the brokers, and no other fault was in force. In all reports
since five seconds before the fault, another broker was in the partition's ISR. While the brokers
were down, there was no sign of a leader for longer than `[budgets] election_s`. The session, fetch
and election timeouts of the plan are added to this limit. `slow_election` lists the signs of a
leader.

Why it proves something: a controller learns that a broker ended, or gets no heartbeat from the
broker for a session timeout. The controller then elects another member of the ISR (KIP-631). A
majority of the controllers elects one controller as their leader (KIP-595). If a cluster waits for
the broker to return, replication has no benefit.

What would not prove it:

- A partition whose ISR had no other member.
- A time in which half of the brokers or more were down, or in which other servers ended. A server
  that had ended earlier, and did not answer again, counts, too.
- A broker that is paused or cut off. Such a broker may continue as leader for some clients.
- A period shorter than the budget.
- A machine that hung.

If a fault of a random schedule ends brokers, its heal waits until there is another leader, or until
the budget is over (`nemesis.life`). An earlier heal would hide that no replica took over. Very
short faults, and faults that a plan lists, do not wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from checkers.changes import ended_meanwhile
from checkers.columns import NEVER
from checkers.facts import Disturbance, RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds, texts_in
from checkers.group import Group
from checkers.protocol import Chapter, Checker, Findings, Promise, Proved, Waits
from checkers.reigns import ENDING, between
from checkers.replica_reasons import verb
from checkers.slow_election import Vacancy, labels, vacancies_between
from checkers.told_isrs import told_isrs
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "slow-failover"
_BEFORE_NS = 5 * NS_PER_S
"""The maximum age of the reported ISRs, counted back from the fault's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A period in which a minority of the brokers was down and could have been replaced.

    Attributes:
        fault: The fault that ended the brokers.
        left: The other members of the ISR just before the fault.
        from_ns, until_ns: When the brokers' end was confirmed, and when their restart began.
    """

    fault: Disturbance
    left: tuple[str, ...]
    from_ns: int
    until_ns: int


def _outages(group: Group) -> Iterator[Outage]:
    facts = group.facts
    for fault in facts.disturbances:
        minority = 2 * len(fault.nodes) < facts.plan.nodes
        if fault.kind not in ENDING or fault.confirmed_ns < 0 or not minority:
            continue
        until_ns = fault.healing_ns if fault.healing_ns >= 0 else fault.ended_ns
        if any(_meets(each, fault, until_ns) for each in facts.disturbances if each is not fault):
            continue
        answers = group.table("leadership")
        if ended_meanwhile(facts, answers, fault.nodes, (fault.begun_ns, until_ns)):
            continue
        if left := _left(group, fault, fault.confirmed_ns):
            yield Outage(
                fault=fault,
                left=left,
                from_ns=fault.confirmed_ns,
                until_ns=until_ns,
            )


def _meets(other: Disturbance, fault: Disturbance, until_ns: int) -> bool:
    return other.begun_ns <= until_ns and fault.begun_ns <= other.ended_ns


def _left(group: Group, fault: Disturbance, until_ns: int) -> tuple[str, ...]:
    """Return the other nodes that were in every reported ISR since shortly before the fault."""
    since_ns = fault.begun_ns - _BEFORE_NS
    told = [each for each in told_isrs(group) if since_ns <= each.seen_ns <= until_ns]
    isrs = [each.nodes for each in told]
    return tuple(sorted(frozenset.intersection(*isrs) - fault.nodes)) if isrs else ()


def _check(group: Group) -> Findings:
    outages, budget_s = list(_outages(group)), group.facts.plan.takeover_s
    empty = [
        (outage, vacancy)
        for outage in outages
        for vacancy in vacancies_between(
            group, outage.from_ns, outage.until_ns, budget_s, dead=outage.fault.nodes
        )
        if _left(group, outage.fault, vacancy.to_ns)
    ]
    found = findings(
        len(outages),
        empty,
        lambda each: _describe(group, *each),
        lambda each: labels(group.facts, each[1].from_ns, each[1].to_ns, budget_s),
    )
    why = (
        "without other disturbances, no fault ended brokers that other members of an ISR could"
        " replace, so a missing takeover could not be detected"
    )
    return could_not_show(found, why, given=True)


def _describe(group: Group, outage: Outage, vacancy: Vacancy) -> Anomaly:
    budget, nodes = group.facts.plan.takeover_s, sorted(outage.fault.nodes)
    down = verb(nodes, "was down", "were down")
    left = verb(outage.left, "was", "were")
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.place} had no leader from {seconds(vacancy.from_ns)} to"
        f" {seconds(vacancy.to_ns)}, while {down} ({outage.fault.kind}) and {left} left"
        f" in the ISR; the budget is {budget:g} s",
        evidence={
            "from_ns": vacancy.from_ns,
            "to_ns": vacancy.to_ns,
            "fault": outage.fault.kind,
            "down": nodes,
            "left": list(outage.left),
            "believed": list(vacancy.believed),
            "budget_s": budget,
        },
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.replication > 1 and facts.plan.scenario is None


def _why(group: Group, found: Anomaly) -> str:
    span = (number_in(found, "from_ns"), number_in(found, "to_ns"))
    decided = between(group.facts.reigns, (group.topic, group.partition), span)
    down, named = texts_in(found, "down"), "; ".join(texts_in(found, "believed"))
    believed = f" ({named})" if named else ""
    chosen = [each for each in decided if each.leader >= 0 and each.node not in down]
    if chosen:
        last = chosen[-1]
        return (
            f"according to their log, the controllers elected {last.node} in epoch {last.epoch},"
            f" but it did not answer as the leader until the end of that time{believed}"
        )
    if not decided or span[1] >= NEVER:
        return f"the elected leader is not recorded{believed}"
    return Proved(f"according to their log, the controllers elected no other broker{believed}")


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="time no broker took over from a broker that was down",
        many="times no broker took over from a broker that was down",
        means=(
            "A broker was down and other brokers had its records, but its partitions had no leader."
        ),
        promise="While a minority is down, a partition gets another leader within the budget.",
        uncounted="no broker took over from a broker that was down",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("leadership", "sends", "polls"),
    sees=frozenset({Sight.LEADER_EPOCHS}),
    check=_check,
    applies=_applies,
    premises=(),
    promise=Promise.RECOVERY,
    compares="times in which a minority of the brokers was down and others could replace it",
    chapter=Chapter.LIVENESS,
    looks_for="no sign of a leader for longer than `election_s` while a fault holds a minority of"
    " the brokers down, and others are in the ISR",
    waits=Waits.BUDGET,
)
