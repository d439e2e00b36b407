"""unavailable: after the last heal, a partition accepted no send for longer than the budget.

Definition: after the last heal, no send to the partition succeeded for at least `[budgets]
unavailable_s` seconds. The check counts only whole seconds with an open send. It does not count the
first and the last second, because a send may be open for only a moment of such a second. A send is
open from its invocation to its completion. A send succeeded if it was acknowledged or ended ok,
even in a transaction that was aborted on purpose.

Why it proves something: a fault-tolerant system must work again after the faults, and the plan
defines how soon. After the last heal, no fault cuts Logquake's clients off. In each second that
counts, a client was sending.

What would not prove it:

- Seconds without a send: no process was free, the rate was low, or the clients had stopped.
- A send that librdkafka itself refused, because its queue was full or its producer was dead. No
  broker received such a send.
- A send with an unknown end counts only in the second of its invocation.
- A machine that hung: a period in which the clients and the observers recorded nothing.
- An incomplete record of the run. Successful sends may be missing.
- A period after the run's last milestone.

Clients may be stopped before the budget is over. If no send to the partition succeeded between the
last heal and that stop, the result is missing input (`gaps`). A partition that accepted a message
counts as checked, because otherwise the run would have continued until the budget was over.

The check does not apply to scenario scripts, because these send only when the scenario needs it.
The check also does not apply to acks=0, because such sends always succeed.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from checkers.acknowledger import led_between, looks_at
from checkers.calm import silent_ns
from checkers.columns import NONE, Ints, Mask, codes, equal, ints, present, select, texts
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
from checkers.group_reasons import followers_serve, served_by, took_elsewhere
from checkers.protocol import Chapter, Checker, During, Findings, Labels, Premise, Promise, Waits
from checkers.replica_reasons import listed
from results.record.clock import NS_PER_S
from results.record.terms import AnomalyClass, Outcome, Source
from results.record.verdict import Anomaly, Words

NAME = "unavailable"
_EDGES = 2
"""The first and the last second of a span are not counted: a send may be open there only
briefly."""
_NEVER = 1 << 62
_REFUSED = frozenset({"_QUEUE_FULL", "_FATAL", "_STATE"})
"""librdkafka's error names for a message that the client refused at once."""
_TOLD = 5
_OF_LEADERS = frozenset({
    "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "KAFKA_STORAGE_ERROR", "INVALID_MSG", "NotEnoughReplicasException",
    "NotEnoughReplicasAfterAppendException", "KafkaStorageException",
})  # fmt: skip
"""The errors that only a partition's leader returns, as librdkafka and Java call them. Any broker
may return any other error."""
_OF_JAVA = frozenset({
    *(each for each in _OF_LEADERS if each.endswith("Exception")),
    "ClusterAuthorizationException", "InvalidProducerEpochException", "LeaderNotAvailableException",
    "NotLeaderForPartitionException", "NotLeaderOrFollowerException", "TopicAuthorizationException",
    "TransactionalIdAuthorizationException", "UnknownTopicOrPartitionException",
})  # fmt: skip
"""The errors of Java's client that show an answer of a broker. The client itself may make any
other error, for example `NetworkException`."""
_OF_BOTH = "MSG_SIZE_TOO_LARGE"
"""An error that librdkafka may make, or a broker."""
_ERROR = re.compile(r"[A-Z]\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A period after the last heal without a successful send.

    Attributes:
        first, last: The first and last second with an open send, counted from the last heal.
        tried_s: The number of seconds with an open send.
        sends, processes: The number of sends, and the number of processes that sent.
        errors: The errors of these sends with their counts, most frequent first.
    """

    first: int
    last: int
    tried_s: int
    sends: int
    processes: int
    errors: tuple[tuple[str, int], ...]


def _last_known_ns(facts: RunFacts) -> int:
    return max((each.at_ns for each in facts.played), default=_NEVER)


def _second(times: Ints, calm_ns: int, facts: RunFacts) -> Ints:
    """Return, for each time, the number of full seconds since the last heal; -1 before the heal."""
    inside = np.minimum(times, _last_known_ns(facts))
    return np.asarray(np.maximum((inside - calm_ns) // NS_PER_S, NONE), dtype=np.int64)


def _union(first: Ints, last: Ints) -> int:
    """Return the number of seconds that the given spans cover, including first and last seconds."""
    order = np.argsort(first, kind="stable")
    begin, end = first[order], last[order]
    reach = np.maximum.accumulate(end)
    covered = np.append(NONE, reach[:-1])
    return int(np.maximum(end - np.maximum(begin, covered + 1) + 1, 0).sum())


def _lasting_until(sends: pa.Table, time_ns: int) -> pa.Table:
    """Return the sends that began or ended since a time, except sends that the client refused."""
    late = (ints(sends, "invoke_ns") >= time_ns) | (ints(sends, "complete_ns") >= time_ns)
    late &= present(sends, "invoke_ns") & ~_refused(sends)
    needed = ["process", "invoke_ns", "complete_ns", "acked", "outcome", "error"]
    return select(sends.select(needed), late)


def _refused(sends: pa.Table) -> Mask:
    """Return a mask of the sends that librdkafka itself refused."""
    numbers, words = codes(sends, "error")
    refused = [word.partition(":")[0] in _REFUSED for word in words]
    return np.asarray(np.array([*refused, False])[numbers], dtype=np.bool_)


def error_of_broker(error: str) -> str:
    """Return the name of an error that a broker returned; "" if the client may have made it.

    Args:
        error: A send's error. A name comes first, perhaps with a text after a colon. librdkafka's
            own errors begin with `_`. A text without a name means that no report came.
    """
    name = error.partition(":")[0]
    unclear = name == _OF_BOTH or (name.endswith("Exception") and name not in _OF_JAVA)
    return name if _ERROR.fullmatch(name) and not unclear else ""


def outages(group: Group) -> list[Outage]:
    """Return the periods without a successful send that are longer than the budget."""
    calm_ns = group.facts.calm_from_ns
    if calm_ns is None:
        return []
    sends = _lasting_until(group.table("sends"), calm_ns)
    begun, ended = (
        _second(ints(sends, name), calm_ns, group.facts) for name in ("invoke_ns", "complete_ns")
    )
    known = ended >= begun
    last = np.where(known, ended, begun)
    taken = _taken(sends)
    ends = np.concatenate([[NONE], np.unique(last[known & taken]), [_NEVER]])
    found = []
    for at in np.flatnonzero(np.diff(ends) > _EDGES).tolist():
        before, after = int(ends[at]), int(ends[at + 1])
        inside = (last > before) & (begun < after)
        first, until = np.maximum(begun[inside], before + 1), np.minimum(last[inside], after - 1)
        tried = _union(first, until)
        if tried - _EDGES >= group.facts.plan.budgets.unavailable_s:
            found.append(
                Outage(
                    first=int(first.min()),
                    last=int(until.max()),
                    tried_s=tried,
                    sends=len(first),
                    processes=len(np.unique(ints(sends, "process")[inside])),
                    errors=_counted(texts(select(sends, inside), "error")),
                )
            )
    return found


def _counted(errors: list[str]) -> tuple[tuple[str, int], ...]:
    told = Counter(error for error in errors if error)
    return tuple(sorted(told.items(), key=lambda each: (-each[1], each[0])))


def _check(group: Group) -> Findings:
    sends, calm_ns = group.table("sends"), group.facts.calm_from_ns
    if calm_ns is None:
        return Findings(rows=0)
    found, taken = outages(group), _took_any(sends, calm_ns)
    gaps = () if found or taken else (_unproven(group, calm_ns),)
    compared = findings(
        1 if found or taken else 0,
        found,
        lambda outage: with_stacks(group, _describe(group, outage)),
        lambda outage: _labels(group, outage),
        gaps=gaps,
    )
    budget_s = group.facts.plan.budgets.unavailable_s
    short = ended_early(group.facts, budget_s, "an outage") if taken and not found else ()
    return replace(compared, unshown=short)


def ended_early(facts: RunFacts, budget_s: float, what: str) -> tuple[str, ...]:
    """Return a sentence if clients stopped too early to detect a late breach of a recovery promise.

    Args:
        facts: The run's facts.
        budget_s: The budget of the promise, in seconds.
        what: A phrase for the anomaly that could not be detected, such as "an outage".

    Returns:
        One sentence. Empty if clients continued for longer than the budget.
    """
    ended_ns, calm_ns = facts.clients_end_ns, facts.calm_from_ns
    if ended_ns is None or calm_ns is None:
        return ()
    lasted_s = max(0, ended_ns - calm_ns) / NS_PER_S
    if lasted_s > budget_s:
        return ()
    lasted = f"clients continued for {lasted_s:.1f} s after the last heal"
    return (
        (
            f"{lasted}, and the budget is {budget_s:g} s, so {what} that began later could not be"
            " detected"
        ),
    )


def _taken(sends: pa.Table) -> Mask:
    """Return a mask of the sends that the partition accepted."""
    return equal(sends, "acked", True) | equal(sends, "outcome", Outcome.OK.value)  # noqa: FBT003 - a value


def _took_any(sends: pa.Table, calm_ns: int) -> bool:
    return bool((_taken(sends) & (ints(sends, "complete_ns") >= calm_ns)).any())


def _unproven(group: Group, calm_ns: int) -> str:
    ended_ns = group.facts.clients_end_ns
    if ended_ns is None:
        ended_ns = min(_last_known_ns(group.facts), _NEVER)
    return (
        f"{group.place} accepted no message after the last heal, and clients continued for"
        f" {max(0, ended_ns - calm_ns) / NS_PER_S:.3f} s; the budget is"
        f" {group.facts.plan.budgets.unavailable_s:g} s"
    )


def _labels(group: Group, outage: Outage) -> Labels:
    facts, calm_ns = group.facts, group.facts.calm_from_ns or 0
    span = (calm_ns + at * NS_PER_S for at in (outage.first, outage.last + 1))
    proven_s = outage.tried_s - _EDGES - silent_ns(facts.silences, *span) / NS_PER_S
    broken = (
        (Premise.WHOLE_RECORD, facts.cut_streams),
        (Premise.AWAKE, proven_s < facts.plan.budgets.unavailable_s),
    )
    return (), tuple(premise.value for premise, fails in broken if fails)


def _describe(group: Group, outage: Outage) -> Anomaly:
    calm_ns, budget = group.facts.calm_from_ns or 0, group.facts.plan.budgets.unavailable_s
    from_ns, to_ns = (calm_ns + at * NS_PER_S for at in (outage.first, outage.last + 1))
    mostly = f", mostly with {outage.errors[0][0]}" if outage.errors else ""
    by = "one process" if outage.processes == 1 else f"{outage.processes} processes"
    return anomaly_at(
        group,
        NAME,
        sentence=f"no send to {group.place} succeeded from {seconds(from_ns)} to"
        f" {seconds(to_ns)}, although {by} tried {outage.sends} sends in"
        f" {outage.tried_s} seconds of this time{mostly}; the budget is {budget:g} s"
        f" from the last heal, at {seconds(calm_ns)}",
        evidence={
            "from_ns": from_ns,
            "to_ns": to_ns,
            "tried_s": outage.tried_s,
            "sends": outage.sends,
            "processes": outage.processes,
            "errors": [f"{times} x {error}" for error, times in outage.errors[:_TOLD]],
            "budget_s": budget,
            "calm_from_ns": calm_ns,
        },
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.workload != "script" and not facts.no_acks


def _why(group: Group, found: Anomaly) -> str:
    span = (number_in(found, "from_ns"), number_in(found, "to_ns"))
    errors = texts_in(found, "errors")
    worst = errors[0].partition(" x ")[2] if errors else ""
    refusal = error_of_broker(worst)
    leader = served_by(group, span)
    alive = _alive(group, span, leader.partition(",")[0])
    locked = _locked(found, leader)
    if not alive:
        nobody = "no broker is known to have answered as the partition's leader in that time"
        if refusal:
            return f"brokers refused the sends with {refusal}, and {nobody}{locked}"
        return f"{nobody}, and clients gave up{f' ({worst})' if worst else ''}{locked}"
    who = f"{leader}," if leader else _leaders(group, span)
    if refusal in _OF_LEADERS:
        isr = _isr(group, refusal, span)
        return f"{who} refused the sends with {refusal}{isr}, although it {alive} meanwhile{locked}"
    if refusal:
        none = _no_authorizer(group, refusal)
        return f"brokers refused the sends with {refusal}{none}; {who} {alive} meanwhile{locked}"
    did = _appended(group, leader.partition(",")[0], span)
    last = _last_taken(group, span[0])
    missing = f"; clients recorded no answer, only {worst}" if worst else ""
    return f"{who} {did}, although it {alive} meanwhile{last}{locked}{missing}"


def _leaders(group: Group, span: tuple[int, int]) -> str:
    """Return a phrase with the possible leaders of a time span, without brokers that were down."""
    away = {
        each.node for each in group.facts.absences
        if each.from_ns <= span[0] and span[1] <= each.until_ns
    }  # fmt: skip
    left = [each for each in led_between(group, *span) if each.node not in away]
    named = any(each.broker >= 0 for each in left)
    return f"its leader ({', or '.join(each.text for each in left)})," if named else "its leader"


def _no_authorizer(group: Group, error: str) -> str:
    """Return a phrase if brokers denied access to clients although the plan sets no authorizer."""
    given = any("authorizer.class.name" in each for each in group.facts.plan.settings)
    unset = group.facts.plan_known and "AUTHORIZATION_FAILED" in error and not given
    return ", though the plan sets no authorizer" * unset


def _alive(group: Group, span: tuple[int, int], node: str) -> str:
    """Return a phrase with leader-only actions in a time span; "" if there were no such actions.

    Args:
        group: The run's rows of one partition.
        span: Start and end of the time span.
        node: The leader's node. Empty if unknown.
    """
    rows, polls = group.table("leadership"), group.table("polls")
    times = ints(rows, "observed_ns")
    told = equal(rows, "source", Source.LIST_OFFSETS) & (ints(rows, "leader") >= 0)
    told &= equal(rows, "observer", node) | (node == "")
    answered = told & (times >= span[0]) & (times <= span[1])
    by = "" if node else f" (by {listed(sorted({*texts(select(rows, answered), 'observer')}))})"
    sends, ended = group.table("sends"), ints(polls, "complete_ns")
    read = (ended >= span[0]) & (ended <= span[1]) & present(polls, "offset")
    # A client may fetch a record before its poll begins, but not before the record's send.
    new = ints(sends, "value")[ints(sends, "invoke_ns") >= span[0]]
    read &= np.isin(ints(polls, "value"), new) & (not followers_serve(group))
    given = len(np.unique(ints(polls, "offset")[read]))
    records = "a record" if given == 1 else f"{given} records"
    said = [
        f"answered ListOffsets{by}" if answered.any() else "",
        f"returned {records} of it to readers" if given else "",
    ]
    if any(said) and node and (elsewhere := took_elsewhere(group, node, span)):
        said.append(f"accepted records for {elsewhere}")
    *most, last = [each for each in said if each] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _appended(group: Group, node: str, span: tuple[int, int]) -> str:
    """Return a phrase that says whether a leader's log grew while clients sent to this leader."""
    ends = [end for at_ns, end in looks_at(group, node) if span[0] <= at_ns <= span[1]]
    if len(ends) > 1 and ends[0] == ends[-1]:
        return f"appended nothing (its log end offset stayed at {ends[0]})"
    if len(ends) > 1 and ends[0] < ends[-1]:
        return f"appended records (its log grew from {ends[0]} to {ends[-1]}) and acknowledged none"
    return "acknowledged nothing"


def _isr(group: Group, error: str, span: tuple[int, int]) -> str:
    """If the error means too few in-sync replicas, return a phrase with the last reported ISR.

    The function uses only reports of the newest epoch. The function prefers the leader's own
    report, because other brokers may not know the change yet.
    """
    if not error.startswith(("NOT_ENOUGH_REPLICAS", "NotEnoughReplicas")):
        return ""
    rows = group.table("leadership")
    times = ints(rows, "observed_ns")
    told = select(rows, present(rows, "isr") & (times >= span[0]) & (times <= span[1]))
    epochs = ints(told, "leader_epoch")
    told = select(told, epochs == epochs.max(initial=NONE))
    leaders = [f"n{broker}" for broker in ints(told, "leader").tolist()]
    own = np.array(leaders, dtype=object) == np.array(texts(told, "observer"), dtype=object)
    told = select(told, own) if np.any(own) else told
    if not told.num_rows:
        return ""
    isr = told["isr"][int(np.argmax(ints(told, "observed_ns")))].as_py()
    nodes = ", ".join(f"n{broker}" for broker in sorted(isr)) or "empty"
    least = group.facts.plan.min_insync
    return f": its ISR was {nodes}, and min.insync.replicas is {least}"


def _last_taken(group: Group, until_ns: int) -> str:
    """Return a phrase with the time at which the partition last accepted a message."""
    sends = group.table("sends")
    ended = ints(sends, "complete_ns")[_taken(sends)]
    last_ns = int(ended[ended <= until_ns].max(initial=NONE))
    return f"; the partition accepted its last message at {seconds(last_ns)}" * (last_ns >= 0)


def _locked(found: Anomaly, leader: str) -> str:
    """Return a phrase if a JVM reported threads that wait for each other (a deadlock)."""
    nodes = [each.partition(":")[0] for each in texts_in(found, "stacks")]
    if not nodes:
        return ""
    what = "threads that wait for each other"
    if leader.partition(",")[0] in nodes:
        return f"; its JVM reports {what}"
    return f"; the JVM of {', '.join(nodes)} reports {what}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="period in which a partition accepted no messages was too long",
        many="periods in which a partition accepted no messages were too long",
        means=(
            "After all faults were healed, no send to the partition succeeded for longer than the"
            " plan's budget."
        ),
        promise="After the last heal every partition accepts messages within the budget.",
        uncounted="a partition accepted no messages for too long",
        explains={
            "isr-not-restored": "the cause that keeps a partition from accepting messages may"
            " also keep its followers out of the ISR"
        },
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=(
        "sends",
        "polls",
        "leadership",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    check=_check,
    applies=_applies,
    promise=Promise.RECOVERY,
    compares=(
        "partitions that accepted a message, or to which clients sent for longer than the budget"
    ),
    chapter=Chapter.LIVENESS,
    looks_for="no send to the partition succeeds for longer than `unavailable_s`, though sends"
    " were in progress for that many seconds. A good sign: a send that was acknowledged"
    " or ended ok",
    waits=Waits.BUDGET,
    during=During.AFTER_HEAL,
)
