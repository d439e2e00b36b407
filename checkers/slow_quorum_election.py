"""slow-quorum-election: the controllers' quorum had no leader, although a majority was available.

Definition: for longer than `[budgets] election_s`, no controller reported that it leads the quorum,
and no new high watermark was reported. Reports of an isolated controller do not count. The session,
fetch and election timeouts of the plan are added to this limit. Meanwhile, faults stopped or
isolated at most a minority of the voters (kill, stop, power-loss, wipe, pause, isolate,
controller-failover). No fault separated the voters. No fault disturbed the links or the disks of
the voters.

Why it proves something: a voter becomes a candidate if it gets no message from the leader within
the fetch timeout. A majority elects one of the candidates (KIP-595). Without a leader of the
quorum, no partition gets another leader, no ISR changes, and no topic is created.

What would not prove it:

- A period that begins before the first leader was seen, or ends after the last answer.
- A time with a fault under which a majority may be unable to communicate. The limit counts anew
  from the end of the fault. After a fault of clocks, timers may stand still for a long time, so the
  rest of the period does not count.
- A period in which another server ended by itself, or had ended and did not answer again.
- A period in which the clients and the observers recorded nothing.

Observers ask about the leader once a second.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.changes import ended_meanwhile
from checkers.columns import NEVER, NONE, Mask, equal, ints, present, select, texts
from checkers.facts import Disturbance, RunFacts
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds, texts_in
from checkers.group import Group
from checkers.protocol import (
    Chapter,
    Checker,
    Findings,
    Labels,
    Promise,
    Proved,
    Scope,
    Waits,
)
from checkers.reigns import ENDING
from checkers.replica_reasons import listed, verb
from checkers.slow_election import labels
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "slow-quorum-election"
_ISOLATE = "isolate"
_AWAY = ENDING | {"pause", _ISOLATE, "controller-failover"}
"""The faults that remove their targets from the quorum, but leave the other voters connected."""
_ELSEWHERE = frozenset({"preferred-election", "reassignment", "topic-churn"})
"""The faults that do not affect the quorum."""
_CLOCK = "clock-"
_OBSERVER = "observer"
_WHY = (
    "no controller was observed to lead the quorum, so a time without a leader could not be"
    " detected"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacancy:
    """A period in which no controller reported that it leads the quorum.

    Attributes:
        from_ns, to_ns: Nanoseconds since the run's start.
        away: The voters that faults stopped or isolated meanwhile.
        left: The other voters.
        said: For each of the other voters, a sentence with the leader that this voter last named.
    """

    from_ns: int
    to_ns: int
    away: tuple[str, ...]
    left: tuple[str, ...]
    said: tuple[str, ...]


def _signs(group: Group) -> list[int]:
    """Return the times at which the quorum certainly had a leader, and the time of the last answer.

    Two kinds of answer prove a leader: a controller reports that it leads, or any node reports a
    new high watermark. Only a leader can advance the high watermark. A leader that is cut off from
    the other voters does not count: up to Kafka 3.6 it never resigns (KAFKA-15489).
    """
    states = group.table("quorum_states")
    seen = states.filter(pa.array(present(states, "observed_ns"))).sort_by("observed_ns")
    times, marks = ints(seen, "observed_ns"), ints(seen, "high_watermark")
    before = np.maximum.accumulate(np.append(NONE, marks))[:-1]
    claims = equal(seen, "role", "leader") & ~_alone(group, seen)
    led = times[claims | (marks > before)]
    return [*led.tolist(), int(times[-1])] if len(led) else []


def _alone(group: Group, seen: pa.Table) -> Mask:
    """Return a mask of the answers of nodes that a confirmed fault had isolated."""
    times, alone = ints(seen, "observed_ns"), np.zeros(seen.num_rows, dtype=np.bool_)
    for each in group.facts.disturbances:
        if each.kind == _ISOLATE and each.confirmed_ns >= 0:
            until_ns = each.healing_ns if each.healing_ns >= 0 else each.ended_ns
            inside = (times >= each.confirmed_ns) & (times <= until_ns)
            alone |= inside & equal(seen, "node", *each.nodes)
    return alone


def _vacancies(group: Group) -> Iterator[Vacancy]:
    """Yield, for each period without a leader, the first part; if possible with all premises."""
    for from_ns, to_ns in pairwise(_signs(group)):
        parts = [*_parts(group, from_ns, to_ns)]
        if parts:
            yield min(parts, key=lambda part: len(_labels(group, part)[1]))


def _parts(group: Group, from_ns: int, to_ns: int) -> Iterator[Vacancy]:
    """Yield the parts of a period in which the same majority was free for longer than the budget.

    A part begins with the period, or when a fault has ended.
    """
    facts, voters = group.facts, _voters(group)
    states = group.table("quorum_states")
    asked = select(states, equal(states, "node", *voters))
    met = sorted(
        (each for each in facts.disturbances if _meets(each, from_ns, to_ns)),
        key=lambda each: each.begun_ns,
    )
    starts_ns = {from_ns, *(_over_ns(each) for each in met if from_ns < _over_ns(each) < to_ns)}
    for start_ns in sorted(starts_ns):
        away, until_ns = frozenset[str](), to_ns
        for each in (each for each in met if _over_ns(each) > start_ns):
            left = voters - away - each.nodes
            if each.kind not in _AWAY or not each.nodes or 2 * len(left) <= facts.plan.voters:
                until_ns = each.begun_ns
                break
            away |= each.nodes & voters
        left = voters - away
        span = (start_ns, until_ns)
        if (
            until_ns - start_ns > facts.plan.takeover_s * NS_PER_S
            and 2 * len(left) > facts.plan.voters
            and not ended_meanwhile(facts, asked, away, span)
        ):
            yield Vacancy(
                from_ns=start_ns,
                to_ns=until_ns,
                away=tuple(sorted(away)),
                left=tuple(sorted(left)),
                said=tuple(filter(None, (_said(group, each, *span) for each in sorted(left)))),
            )


def _meets(fault: Disturbance, from_ns: int, to_ns: int) -> bool:
    there = fault.begun_ns <= to_ns and from_ns <= fault.ended_ns
    return there and fault.kind not in _ELSEWHERE


def _over_ns(fault: Disturbance) -> int:
    return NEVER if fault.kind.startswith(_CLOCK) else fault.ended_ns


def _labels(group: Group, vacancy: Vacancy) -> Labels:
    return labels(group.facts, vacancy.from_ns, vacancy.to_ns, group.facts.plan.takeover_s)


def _voters(group: Group) -> frozenset[str]:
    """Return the nodes that at some time had a role in the quorum other than observer."""
    states = group.table("quorum_states")
    roles = present(states, "role") & ~equal(states, "role", _OBSERVER)
    brokers = {f"n{broker}" for broker in group.facts.brokers}
    seen = frozenset(texts(select(states, roles), "node"))
    # Brokers' own files call these brokers followers, too.
    return seen & brokers if group.facts.plan.brokers_vote else seen - brokers


def _said(group: Group, node: str, from_ns: int, to_ns: int) -> str:
    states = group.table("quorum_states")
    times = ints(states, "observed_ns")
    mine = equal(states, "node", node) & present(states, "role") & (ints(states, "leader") >= 0)
    told = select(states, mine & (times >= from_ns) & (times < to_ns))
    if not told.num_rows:
        return ""
    leader, epoch, at_ns = (
        int(ints(told, name)[-1]) for name in ("leader", "epoch", "observed_ns")
    )
    return f"{node} reported n{leader} as leader in epoch {epoch} at {seconds(at_ns)}"


def _check(group: Group) -> Findings:
    looks = len(_signs(group)) - 1
    found = findings(
        max(0, looks),
        list(_vacancies(group)),
        lambda each: _describe(group, each),
        lambda each: _labels(group, each),
    )
    return could_not_show(found, _WHY, given=True)


def _describe(group: Group, vacancy: Vacancy) -> Anomaly:
    budget = group.facts.plan.takeover_s
    away = "no fault was in force"
    if vacancy.away:
        away = f"faults had disabled {listed(vacancy.away)}"
    return anomaly_at(
        group,
        NAME,
        sentence=f"the controllers' quorum had no leader from {seconds(vacancy.from_ns)} to"
        f" {seconds(vacancy.to_ns)}: {away}, and {verb(vacancy.left, 'was', 'were')} a"
        f" majority; the budget is {budget:g} s",
        evidence={
            "from_ns": vacancy.from_ns,
            "to_ns": vacancy.to_ns,
            "away": list(vacancy.away),
            "left": list(vacancy.left),
            "said": list(vacancy.said),
            "budget_s": budget,
        },
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.has_quorum and facts.plan.voters > 1 and facts.plan.scenario is None


def _why(group: Group, found: Anomaly) -> str:  # noqa: ARG001 - as the protocol has it
    said = texts_in(found, "said")
    if not said:
        return "the run's record does not show the states of the other quorum members in that time"
    last_ns = number_in(found, "from_ns")
    heard = ", and ".join(said)
    return Proved(f"{heard}: no other controller was elected after {seconds(last_ns)}")


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="period in which the controllers' quorum had no leader was too long",
        many="periods in which the controllers' quorum had no leader were too long",
        means="A majority of the controllers was free of faults, but elected no leader.",
        promise="While a majority of the controllers is free of faults, one of them leads.",
        uncounted="the controllers' quorum had no leader for too long",
        explains={"slow-election": "without a leading controller no leader is elected"},
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("quorum_states",),
    sees=frozenset({Sight.QUORUM}),
    check=_check,
    premises=(),
    scope=Scope.RUN,
    applies=_applies,
    promise=Promise.RECOVERY,
    compares="times from one answer of the quorum's leader to the next",
    chapter=Chapter.LIVENESS,
    looks_for="no controller reported that it leads for longer than `election_s`, while faults"
    " disabled at most a minority of them",
    waits=Waits.BUDGET,
)
