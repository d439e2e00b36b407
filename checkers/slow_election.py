"""slow-election: a partition was without a leader for longer than the plan's budget.

Definition: after the last heal, there was no sign of a leader for longer than `[budgets]
election_s`. A sign is a broker's response as the partition's leader, an acknowledged send to the
partition, or a poll that returned a record of the partition. The period without a leader begins
with the last heal or with the last sign. The period ends with the next sign, or with the last
response of any broker about the partition.

Why it proves something: a leader answers ListOffsets, and each broker was asked several times a
second. If no broker answered, no broker led. Before Kafka 2.1, answers contain no leader epoch.
With ZooKeeper, the leader that ZooKeeper names is also a sign, until ZooKeeper reports a change.

What would not prove it:

- A gap of seconds between two answers of a leader. An answer without news is recorded only every
  two seconds. Two answers of one leader in one epoch may be up to three seconds apart.
- Metadata in which the leader is missing or dead, although a broker leads. Metadata appear in the
  evidence, but are no sign of a leader.
- A period after the last answer of any broker.
- A period in which the clients and the observers recorded nothing, for example because the machine
  hung.
- An incomplete record of the run.

The observation may end before the budget is over. If there was no sign of a leader from the last
heal until then, the result is missing input (`gaps`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from checkers.calm import silent_ns
from checkers.columns import (
    NEVER,
    Ints,
    Mask,
    distinct,
    equal,
    ints,
    present,
    select,
    texts,
    words_of,
)
from checkers.controllers_log import undisputed
from checkers.facts import RunFacts
from checkers.findings import (
    anomaly_at,
    findings,
    number_in,
    seconds,
    texts_in,
    with_stacks,
)
from checkers.group import Group
from checkers.group_reasons import took_elsewhere
from checkers.protocol import (
    Chapter,
    Checker,
    During,
    Findings,
    Labels,
    Premise,
    Promise,
    Proved,
    Waits,
)
from checkers.reigns import between
from checkers.replica_reasons import verb
from checkers.unavailable import ended_early, error_of_broker
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.terms import AnomalyClass, Source
from results.record.verdict import Anomaly, Words

NAME = "slow-election"
_LOOKED = (Source.LIST_OFFSETS, Source.METADATA, Source.ZOOKEEPER)
"""The sources whose rows in `leadership` contain times of the run."""
_REPEATED_NS = 3 * NS_PER_S
"""If two answers of a leader are at most this far apart, the broker led in between. Repeated
answers are recorded only every two seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacancy:
    """A period without any sign of a leader.

    Attributes:
        from_ns, to_ns: Nanoseconds since the run's start.
        believed: For each broker, a sentence with the leader that the broker's metadata named.
    """

    from_ns: int
    to_ns: int
    believed: tuple[str, ...]


def _observed(group: Group, *sources: str) -> Mask:
    rows = group.table("leadership")
    return equal(rows, "source", *sources) & present(rows, "observed_ns")


def _claims(group: Group) -> tuple[Ints, Ints]:
    """Return the start and end of each period in which a broker answered as leader of one epoch."""
    rows = group.table("leadership")
    claims = select(rows, _observed(group, Source.LIST_OFFSETS) & (ints(rows, "leader") >= 0))
    epochs, leaders = ints(claims, "leader_epoch"), ints(claims, "leader")
    asked, observed = ints(claims, "asked_ns"), ints(claims, "observed_ns")
    asked = np.where(asked >= 0, asked, observed)
    order = np.lexsort((observed, leaders, epochs))
    begin, end = asked[order], observed[order]
    again = (np.diff(epochs[order]) == 0) & (np.diff(leaders[order]) == 0)
    again &= begin[1:] - end[:-1] <= _REPEATED_NS
    return begin, np.append(np.where(again, begin[1:], end[:-1]), end[-1:])


def _named(group: Group, dead: frozenset[str]) -> tuple[Ints, Ints]:
    """Return the start and end of each period in which ZooKeeper named a live leader.

    An answer of ZooKeeper is recorded only if it differs from the answer before.
    """
    rows = select(group.table("leadership"), _observed(group, Source.ZOOKEEPER))
    order = np.argsort(ints(rows, "observed_ns"), kind="stable")
    times, leaders = (ints(rows, name)[order] for name in ("observed_ns", "leader"))
    gone = [broker for broker in group.facts.brokers if f"n{broker}" in dead]
    led = (leaders >= 0) & ~np.isin(leaders, gone)
    return times[led], np.append(times[1:], times[-1:])[led]


def _served(group: Group, since_ns: int) -> Ints:
    """Return the times of acknowledged sends and of reads, from `since_ns` on."""
    sends, polls = group.table("sends"), group.table("polls")
    ended, returned = ints(sends, "complete_ns"), ints(polls, "complete_ns")
    acked = ended[(ended >= since_ns) & equal(sends, "acked", True)]  # noqa: FBT003 - a value
    read = returned[(returned >= since_ns) & present(polls, "offset")]
    return distinct(np.concatenate([acked, read]))


def vacancies(group: Group) -> list[Vacancy]:
    """Return the periods after the last heal that exceed the budget without a sign of a leader."""
    calm_ns = group.facts.calm_from_ns
    budget_s = group.facts.plan.budgets.election_s
    return [] if calm_ns is None else vacancies_between(group, calm_ns, NEVER, budget_s)


def vacancies_between(
    group: Group,
    from_ns: int,
    until_ns: int,
    budget_s: float,
    *,
    dead: frozenset[str] = frozenset(),
) -> list[Vacancy]:
    """Return the periods in a time span that exceed a budget without a sign of a leader.

    Args:
        group: The run's rows of one partition.
        from_ns: When the span begins.
        until_ns: The end of the span. If the last answer about the partition is earlier, the span
            ends with that answer.
        budget_s: The budget in seconds.
        dead: Nodes that were certainly down. If ZooKeeper names such a node, this is not a sign of
            a leader.
    """
    looks = ints(group.table("leadership"), "observed_ns")[_observed(group, *_LOOKED)]
    last_ns = min(until_ns, int(looks.max(initial=-1)))
    if last_ns <= from_ns:
        return []
    served = _served(group, from_ns)
    spans = [_claims(group), _named(group, dead), (served, served)]
    begin, end = (np.concatenate([span[side] for span in spans]) for side in (0, 1))
    order = np.argsort(begin, kind="stable")
    # An answer with a time after the end is not a sign yet.
    begin = np.append(np.minimum(begin[order], last_ns), last_ns)
    reach = np.maximum.accumulate(np.concatenate([[from_ns], end[order]]))
    long = begin - reach > budget_s * NS_PER_S
    return [
        Vacancy(
            from_ns=int(reach[at]),
            to_ns=int(begin[at]),
            believed=_believed(group, int(begin[at])),
        )
        for at in np.flatnonzero(long).tolist()
    ]


def _believed(group: Group, to_ns: int) -> tuple[str, ...]:
    """Return a phrase for each broker: the last leader in the broker's metadata up to a time."""
    rows = group.table("leadership")
    told = select(rows, _observed(group, Source.METADATA) & (ints(rows, "observed_ns") <= to_ns))
    times, leaders = ints(told, "observed_ns"), ints(told, "leader")
    said = []
    for node in words_of(told, "observer"):
        mine = equal(told, "observer", node)
        leader = int(leaders[mine][np.argmax(times[mine])])
        said.append(f"{node} named {f'broker {leader}' if leader >= 0 else 'no leader'}")
    return tuple(said)


def _check(group: Group) -> Findings:
    calm_ns = group.facts.calm_from_ns
    if calm_ns is None:
        return Findings(rows=0)
    looks = ints(group.table("leadership"), "observed_ns")[_observed(group, *_LOOKED)]
    found, led = vacancies(group), _led(group, calm_ns)
    gaps = () if found or led else (_unproven(group, calm_ns, looks),)
    compared = findings(
        1 if found or led else 0,
        found,
        lambda vacancy: with_stacks(group, _describe(group, vacancy)),
        lambda vacancy: labels(
            group.facts, vacancy.from_ns, vacancy.to_ns, group.facts.plan.budgets.election_s
        ),
        gaps=gaps,
    )
    budget_s = group.facts.plan.budgets.election_s
    short = ended_early(group.facts, budget_s, "a vacancy") if led and not found else ()
    return replace(compared, unshown=short)


def _led(group: Group, calm_ns: int) -> bool:
    """Return whether there was any sign of a leader since the last heal."""
    spans = (_claims(group), _named(group, frozenset()))
    return bool(len(_served(group, calm_ns))) or any((end >= calm_ns).any() for _, end in spans)


def _unproven(group: Group, calm_ns: int, looks: Ints) -> str:
    looked_s = max(0, int(looks.max(initial=calm_ns)) - calm_ns) / NS_PER_S
    return (
        f"no leader of {group.place} was observed after the last heal, and the observation lasted"
        f" {looked_s:.3f} s; the budget is {group.facts.plan.budgets.election_s:g} s"
    )


def labels(facts: RunFacts, from_ns: int, to_ns: int, budget_s: float) -> Labels:
    """Return the broken premises that make the finding untrusted.

    Possible premises: the record of the run is incomplete, or the machine hung for some time.
    """
    watched_ns = to_ns - from_ns - silent_ns(facts.silences, from_ns, to_ns)
    broken = (
        (Premise.WHOLE_RECORD, facts.cut_streams),
        (Premise.AWAKE, watched_ns <= budget_s * NS_PER_S),
    )
    return (), tuple(premise.value for premise, fails in broken if fails)


def _describe(group: Group, vacancy: Vacancy) -> Anomaly:
    calm_ns, budget = group.facts.calm_from_ns or 0, group.facts.plan.budgets.election_s
    believed = (
        f"; according to their metadata, {', '.join(vacancy.believed)}" if vacancy.believed else ""
    )
    return anomaly_at(
        group,
        NAME,
        sentence=f"{group.place} had no leader from {seconds(vacancy.from_ns)} to"
        f" {seconds(vacancy.to_ns)}: no broker answered as its leader, and no client was"
        f" served{believed}; the budget is {budget:g} s from the last heal, at"
        f" {seconds(calm_ns)}",
        evidence={
            "from_ns": vacancy.from_ns,
            "to_ns": vacancy.to_ns,
            "believed": list(vacancy.believed),
            "budget_s": budget,
            "calm_from_ns": calm_ns,
        },
    )


def _why(group: Group, found: Anomaly) -> str:
    span = (number_in(found, "from_ns"), number_in(found, "to_ns"))
    named = sorted({each.rpartition(" ")[2] for each in texts_in(found, "believed")})
    brokers = [f"n{each}" for each in named if each.isdecimal()]
    midst_ns = sum(span) // 2
    decided = between(group.facts.reigns, (group.topic, group.partition), (midst_ns, midst_ns))
    reign = decided[0] if len(decided) == 1 else None
    locked = [each.partition(":")[0] for each in texts_in(found, "stacks")]
    threads = "reports threads that wait for each other"
    more = f"; the JVM of {', '.join(locked)} {threads}" if locked else ""
    down = [
        node
        for node in brokers
        if any(
            each.node == node and each.from_ns <= span[0] and span[1] <= each.until_ns
            for each in group.facts.absences
        )
    ]
    if reign and reign.leader < 0:
        candidates, sure = _candidates(group, reign.epoch, span)
        said = (
            f"according to their log, the controllers{_led_by(group)} had ended epoch"
            f" {reign.epoch - 1} and had not elected a leader since{candidates}{more}"
        )
        return Proved(said) if sure else said
    chosen = reign.node if reign else ""
    by_log = (
        f"according to their log, the controllers had elected {chosen} in epoch {reign.epoch}"
        if reign
        else ""
    )
    if not brokers and chosen:
        return (
            f"{by_log}, but brokers reported no leader{_last_named(group, span[1])}, and {chosen}"
            " did not answer as the leader: brokers did not adopt this decision, or did not"
            f" report it{more}"
        )
    if not brokers:
        return (
            "no broker reported a leader; the run's record does not show whether the controllers"
            f" had elected one{more}"
        )
    who = " or ".join(brokers)
    agree = f"{by_log}, and " if brokers == [chosen] else f"{by_log}, but " if chosen else ""
    if down == brokers:
        return (
            f"{agree}brokers reported {who} as the leader, but {who} was down during the"
            f" whole time{more}"
        )
    return (
        f"{agree}brokers reported {who} as the leader, but {who} did not answer as the"
        f" leader{_answered(group, brokers, span)}{_refused(group, span)}{more}"
    )


def _led_by(group: Group) -> str:
    """Return a clause that names the controllers' leader, if the run had only one such leader."""
    led = {node for nodes in group.facts.quorum.leaders.values() for node in nodes}
    return f", led by {led.pop()}," if len(led) == 1 else ""


def _candidates(group: Group, epoch: int, span: tuple[int, int]) -> tuple[str, bool]:
    """Return a phrase that names the running members of the partition's last ISR.

    A broker that answers Metadata may be fenced. An eligible leader replica (KIP-966) may be
    elected from outside of the ISR. So a missing candidate is not a complete explanation.

    Returns:
        The phrase, and whether this phrase fully explains the anomaly. With a full explanation, the
        report names no faults.
    """
    left = [each for each in undisputed(group) if each.epoch == epoch]
    if not left:
        return "", True
    isr = sorted(f"n{broker}" for broker in left[-1].isr)
    if not isr:
        return ": no broker was in the ISR", False
    if up := [node for node in isr if _was_up_to_the_end(group, node, span)]:
        who = verb(up, "was", "were")
        return f", although {who} in the ISR and answered Metadata requests until the end", True
    late = " until the end" * any(_was_up(group, node, span) for node in isr)
    return f": no broker of the ISR ({', '.join(isr)}) answered Metadata requests{late}", False


def _was_up_to_the_end(group: Group, node: str, span: tuple[int, int]) -> bool:
    """Return whether a broker certainly answered Metadata until the end of a time span."""
    away = any(
        each.node == node and each.from_ns <= span[1] and span[0] <= each.until_ns
        for each in group.facts.absences
    )
    return not away and _was_up(group, node, (max(span[0], span[1] - _REPEATED_NS), span[1]))


def _was_up(group: Group, node: str, span: tuple[int, int]) -> bool:
    """Return whether a broker answered Metadata in a time span."""
    rows = group.table("leadership")
    times = ints(rows, "observed_ns")
    during = _observed(group, Source.METADATA) & (times >= span[0]) & (times <= span[1])
    return bool((during & equal(rows, "observer", node)).any())


def _last_named(group: Group, until_ns: int) -> str:
    """Return a phrase with the last time at which a broker's metadata named a leader."""
    rows = group.table("leadership")
    told = _observed(group, Source.METADATA) & (ints(rows, "leader") >= 0)
    times = ints(rows, "observed_ns")[told]
    last_ns = int(times[times <= until_ns].max(initial=-1))
    return f" (last at {seconds(last_ns)})" if last_ns >= 0 else ""


def _answered(group: Group, nodes: Sequence[str], span: tuple[int, int]) -> str:
    """Return a phrase if the brokers that should have been leader still answered other requests."""
    up = [node for node in nodes if _was_up(group, node, span)]
    if up != [*nodes]:
        return ""
    elsewhere = took_elsewhere(group, up[0], span) if len(up) == 1 else ""
    did = f"answered Metadata requests and accepted records for {elsewhere}" if elsewhere else ""
    return f", although {' and '.join(up)} {did or 'was up and answered Metadata requests'}"


def _refused(group: Group, span: tuple[int, int]) -> str:
    """Return a phrase with the most frequent broker error of the sends in a time span."""
    sends = group.table("sends")
    ended = ints(sends, "complete_ns")
    failed = texts(select(sends, (ended >= span[0]) & (ended <= span[1])), "error")
    told = Counter(filter(None, map(error_of_broker, failed)))
    if not told:
        return ""
    error, count = max(told.items(), key=lambda each: (each[1], each[0]))
    return f"; {count} sends got {error}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="period in which a partition had no leader was too long",
        many="periods in which a partition had no leader were too long",
        means=(
            "After all faults were healed, the partition had no leader for longer than the"
            " plan's budget."
        ),
        promise="After the last heal every partition has a leader within the budget.",
        uncounted="a partition had no leader for too long",
        explains={
            "unavailable": "a partition without a leader accepts no messages",
            "isr-not-restored": "without a leader the ISR cannot grow",
        },
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("leadership", "sends", "polls"),
    sees=frozenset({Sight.LEADER_EPOCHS}),
    check=_check,
    premises=(),
    promise=Promise.RECOVERY,
    compares="partitions that had a leader, or that were observed for longer than the budget",
    chapter=Chapter.LIVENESS,
    looks_for="no sign of a leader for longer than `election_s`. Good signs: a broker that"
    " answered ListOffsets as leader (with ZooKeeper: a broker that it named as"
    " leader), an acknowledged send, a polled record",
    waits=Waits.BUDGET,
    during=During.AFTER_HEAL,
)
