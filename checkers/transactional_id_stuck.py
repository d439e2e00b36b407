"""transactional-id-stuck: after the last heal, no producer could begin to use a transactional id.

Definition: after the last heal, new producers asked for the producer id of a transactional id
(`InitProducerId`), and none of them got it. The time of these attempts, in sum, is longer than a
coordinator may need to end a transaction (`Plan.hanging_after_s`). It counts from the recovery of
all partitions on. Only attempts after the last other operation with this id count, until clients
were stopped. One attempt counts for at most the transaction's timeout, which is the client's own
limit for the call.

Why it proves something: a producer begins with `InitProducerId`, which aborts an open transaction
of the id (KIP-98). Until the abort or the commit is complete, the coordinator answers
CONCURRENT_TRANSACTIONS. It must complete the end when the markers are written. After the timeout it
must abort by itself. So after this time no earlier transaction can be in the way. If the
coordinator keeps the id in such a state, a client with this id waits forever. Known causes are
KAFKA-9777 (up to 2.5) and KAFKA-19999.

What would not prove it:

- An operation that failed later, for example because a send or a group's coordinator did not
  answer. The producer of such an operation had its id. So the time begins again.
- A call of which the client's error does not name its kind.
- Few or short attempts. A thread that only reads, has ended, or hangs makes none.
- A partition that has not recovered: then the markers cannot be written. The anomaly is not
  trusted. It is not trusted, either, if too many attempts were made while partitions had no leader:
  the coordinator's, or one other partition of the log of groups or of the clients' topics. Attempts
  count as such if their middle is in such a time, according to the controllers' log. If this log
  does not name the coordinator's leaders, as with ZooKeeper, attempts within `unavailable_s` count
  as such that got the answer COORDINATOR_NOT_AVAILABLE.
- A slow client, whose time for the call is too short. So the attempts that a broker refused by name
  must alone exceed the limit. Or new producers with other ids must have begun meanwhile, and more
  often than not. Otherwise the anomaly is not trusted.
- A suspended machine, and an incomplete record.

The anomaly is allowed if an unclean election may have lost records of the coordinator's log. It is
also allowed if the disks of all replicas lost records of this log or of the log of groups. If only
some replicas lost such records, the anomaly is not trusted (`state_losses`).

If the attempts took less time, and no transaction with this id ended after the recovery, the run
does not show whether the id is stuck. This is a gap. It is also a gap if the attempts lasted long
enough, but the client tried too little meanwhile.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from checkers.calm import Span, silent_ns
from checkers.columns import equal, ints, select, texts
from checkers.excuses import TAKES_RECORDS
from checkers.facts import RunFacts
from checkers.findings import (
    anomaly_at,
    could_not_show,
    findings,
    number_in,
    seconds,
    texts_in,
    with_stacks,
)
from checkers.group import Group
from checkers.group_reasons import as_leaders, coordinators
from checkers.protocol import (
    Chapter,
    Checker,
    During,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
    Proved,
    Scope,
    Waits,
)
from checkers.reigns import GROUPS, SHARES, TRANSACTIONS, between, partition_of
from checkers.state_losses import disk_reasons, unclean_by
from results.record.clock import NS_PER_S
from results.record.identities import transactional_id
from results.record.terms import AnomalyClass, Decision, F, TransactionOutcome
from results.record.verdict import Anomaly, Words

NAME = "transactional-id-stuck"
_OF_INIT = re.compile(
    "Failed to initialize Producer ID|Failed to acquire transactional PID"
    "|Timed out waiting for operation to finish, retry call"
    "|InitProducerId|initializing transactional state"
)
"""Parts of the errors of `init_transactions`. The first three are librdkafka's. Its third text also
belongs to a commit, but a commit has another decision."""
_REFUSED = re.compile("[A-Z][A-Z_]+(?=: Failed to initialize Producer ID)")
"""The name of a broker's error, from librdkafka. The client's own errors begin with `_`. Kafka's
Java client does not tell a broker's error if its own time is over."""
_NONE = "COORDINATOR_NOT_AVAILABLE:"
"""The answer of a broker that knows no leader of the coordinator's partition."""
_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """A transaction of a client.

    Attributes:
        begun_ns, ended_ns: When the operation began and ended.
        decision, end: The client's decision, and the coordinator's answer; empty if not recorded.
        error: The operation's error; empty if it has none.
    """

    begun_ns: int
    ended_ns: int
    decision: str
    end: str
    error: str

    @property
    def ended(self) -> bool:
        """Whether the coordinator confirmed the commit or the abort."""
        return self.end in {TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED}

    @property
    def dropped(self) -> bool:
        """Whether the client discarded its producer, so that a new producer came next."""
        return self.decision == Decision.ABORT and self.end == TransactionOutcome.UNKNOWN

    @property
    def refused(self) -> bool:
        """Whether the new producer did not get its producer id."""
        return self.dropped and _OF_INIT.search(self.error) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Id:
    """A transactional id with which clients tried transactions after the recovery.

    Attributes:
        name: The transactional id.
        spans: The last attempts, if all of them were refused: the times that count of each.
        errors: The errors of these attempts.
        served: Whether any transaction ended.
        refused_ns: When an operation ended of which the new producer did not get its id.
        begun_ns: When an operation with a new producer ended a transaction.
    """

    name: str
    spans: tuple[Span, ...]
    errors: tuple[str, ...]
    served: bool
    refused_ns: tuple[int, ...]
    begun_ns: tuple[int, ...]

    @property
    def since_ns(self) -> int:
        """When the first of the attempts began; -1 without an attempt."""
        return self.spans[0][0] if self.spans else -1

    @property
    def until_ns(self) -> int:
        """When the last of the attempts ended; -1 without an attempt."""
        return self.spans[-1][1] if self.spans else -1

    @property
    def tried_s(self) -> float:
        """How long the attempts took in sum."""
        return self.tried_without_s(())

    @property
    def named_s(self) -> float:
        """How long the attempts took that a broker refused by name."""
        named = zip(self.spans, map(_REFUSED.match, self.errors), strict=True)
        return sum(end - begin for (begin, end), name in named if name) / NS_PER_S

    def tried_without_s(self, spans: Sequence[Span]) -> float:
        """Return how long the attempts took in sum, without the given times."""
        took_ns = sum(end - begin - silent_ns(spans, begin, end) for begin, end in self.spans)
        return took_ns / NS_PER_S


def _check(group: Group) -> Findings:
    facts, span = group.facts, _span(group.facts)
    if span is None:
        return Findings(rows=0)
    ids, budget_s = group.view(_ids), facts.plan.hanging_after_s
    stuck = [each for each in ids if each.tried_s > budget_s]
    unsure = [each for each in ids if each not in stuck and _is_open(facts, each)]
    served = sum(each.served for each in ids if each not in stuck and each not in unsure)
    found = findings(
        served + len(stuck),
        stuck,
        lambda each: with_stacks(group, _describe(group, each)),
        lambda each: _labels(group, each),
        gaps=tuple(_unproven(group, each) for each in unsure),
    )
    return found if unsure else could_not_show(
        found,
        "no transaction ended after the last heal, and no client was refused its transactional id,"
        " so an id that stays blocked could not be detected",
    )  # fmt: skip


def _span(facts: RunFacts) -> Span | None:
    """Return the time that counts: from the recovery until clients were stopped."""
    calm_ns, until_ns = facts.calm_from_ns, facts.clients_end_ns
    if calm_ns is None or until_ns is None:
        return None
    recovered = facts.milestone("recovered")
    whole_ns = recovered.at_ns if recovered is not None and facts.recovered else calm_ns
    return max(calm_ns, whole_ns), until_ns


def _ids(group: Group) -> list[_Id]:
    """Return the ids with which clients tried transactions in the time that counts."""
    span, plan = _span(group.facts), group.facts.plan
    if span is None:
        return []
    tries: dict[int, list[_Try]] = {}
    for thread, each in _tries(group, span[0]):
        tries.setdefault(thread, []).append(each)
    limit_ns = round(plan.transaction_timeout_s * NS_PER_S)
    return [
        _id(transactional_id(thread, plan), mine, span, limit_ns)
        for thread, mine in sorted(tries.items())
    ]


def _tries(group: Group, from_ns: int) -> Iterator[tuple[int, _Try]]:
    """Yield each thread's transactions that ended after a time, in order."""
    ops, rows = group.table("ops"), group.table("transactions")
    late = equal(ops, "f", F.TXN.value) & (ints(ops, "complete_ns") >= from_ns)
    ops = select(ops, late & (ints(ops, "process") >= 0)).sort_by("invoke_ns")
    names = ("op_id", "process", "invoke_ns", "complete_ns")
    ends = zip(texts(rows, "decision"), texts(rows, "outcome"), strict=True)
    told = dict(zip(ints(rows, "op_id").tolist(), ends, strict=True))
    step = group.facts.plan.concurrency
    for op_id, process, begun_ns, ended_ns, error in zip(
        *(ints(ops, name).tolist() for name in names), texts(ops, "error"), strict=True
    ):
        decision, end = told.get(op_id, ("", ""))
        yield (
            process % step,
            _Try(
                begun_ns=begun_ns, ended_ns=ended_ns, decision=decision, end=end, error=error or ""
            ),
        )


def _id(name: str, tries: Sequence[_Try], span: Span, limit_ns: int) -> _Id:
    """Return the attempts with an id."""
    others = [at for at, each in enumerate(tries) if not each.refused]
    last = tries[others[-1] + 1 if others else 0 :]
    cut = [
        (max(each.begun_ns, span[0]), min(each.ended_ns, each.begun_ns + limit_ns, span[1]), each)
        for each in last
    ]
    kept = [(begin, end, each) for begin, end, each in cut if begin < end]
    return _Id(
        name=name,
        spans=tuple((begin, end) for begin, end, _ in kept),
        errors=tuple(each.error for *_, each in kept),
        served=any(each.ended for each in tries),
        refused_ns=tuple(each.ended_ns for each in tries if each.refused),
        begun_ns=tuple(
            each.ended_ns for before, each in pairwise(tries) if before.dropped and each.ended
        ),
    )


def _is_open(facts: RunFacts, each: _Id) -> bool:
    """Return whether the run does not show if an id, which is not proved to be stuck, is stuck."""
    asleep_ns = silent_ns(facts.silences, each.since_ns, each.until_ns)
    lasted_s = (each.until_ns - each.since_ns - asleep_ns) / NS_PER_S
    return bool(each.spans) and (not each.served or lasted_s > facts.plan.hanging_after_s)


def _unproven(group: Group, each: _Id) -> str:
    return (
        f"no new producer with the transactional id {each.name} could begin from"
        f" {seconds(each.since_ns)} to {seconds(each.until_ns)}, but its attempts took only"
        f" {each.tried_s:.3f} s in sum; the limit is {group.facts.plan.hanging_after_s:g} s"
    )


def _labels(group: Group, stuck: _Id) -> Labels:
    facts = group.facts
    # Without a leader of the groups' log, the markers of committed offsets cannot be written.
    excuses = disk_reasons(facts, TRANSACTIONS, GROUPS)
    until_ns, limit_s = stuck.until_ns, facts.plan.hanging_after_s
    if facts.plan.unclean_elections and unclean_by(facts, TRANSACTIONS, by_ns=until_ns):
        excuses.add(Excuse.UNCLEAN.value)
    broken = {
        Premise.WHOLE_RECORD: facts.cut_streams,
        Premise.RECOVERED: not facts.recovered
        or any(stuck.tried_without_s(spans) <= limit_s for spans in _leaderless(facts, stuck)),
        Premise.AWAKE: stuck.tried_without_s(facts.silences) <= limit_s,
        Premise.SHOWN_CAUSE: not (stuck.named_s > limit_s or _others_begin(group, stuck)),
    }
    return tuple(sorted(excuses)), tuple(each.value for each, fails in broken.items() if fails)


def _leaderless(facts: RunFacts, stuck: _Id) -> Iterator[Sequence[Span]]:
    """Yield, for each partition that may get markers, the attempts that could not succeed.

    In their middle, according to the controllers' log, that partition or the coordinator's
    partition certainly had no leader.
    """
    own = (TRANSACTIONS, partition_of(facts.reigns, TRANSACTIONS, stuck.name))
    if own[1] < 0:
        yield _without_coordinator(facts, stuck)
    places = {(each.topic, each.partition) for each in facts.reigns if each.leader < 0}
    for place in {own, *(each for each in places if each[0] not in {TRANSACTIONS, SHARES})}:
        yield [
            span
            for span in stuck.spans
            if any(_is_led_by_none(facts, each, sum(span) // 2) for each in (own, place))
        ]


def _without_coordinator(facts: RunFacts, stuck: _Id) -> Sequence[Span]:
    """Return the attempts within the budget to which brokers answered that there is none."""
    until_ns = (facts.calm_from_ns or 0) + facts.plan.budgets.unavailable_s * NS_PER_S
    told = zip(stuck.spans, stuck.errors, strict=True)
    return [span for span, error in told if error.startswith(_NONE) and span[1] <= until_ns]


def _is_led_by_none(facts: RunFacts, place: tuple[str, int], at_ns: int) -> bool:
    led = between(facts.reigns, place, (at_ns, at_ns))
    return bool(led) and all(each.leader < 0 for each in led)


def _answers(errors: Sequence[str]) -> Mapping[str, int]:
    """Return the errors with which brokers refused attempts, most frequent first."""
    return dict(
        Counter(found[0] for error in errors if (found := _REFUSED.match(error))).most_common()
    )


def _others(group: Group, stuck: _Id) -> int:
    """Return how many other ids ended a transaction with a new producer after the recovery."""
    return sum(
        any(at_ns >= stuck.since_ns for at_ns in each.begun_ns)
        for each in group.view(_ids)
        if each.name != stuck.name
    )


def _others_begin(group: Group, stuck: _Id) -> bool:
    """Return whether meanwhile most new producers with other ids, which are not stuck, began."""
    limit_s = group.facts.plan.hanging_after_s
    others = [each for each in group.view(_ids) if each.tried_s <= limit_s]
    begun, refused = (
        sum(at_ns >= stuck.since_ns for times_ns in of_each for at_ns in times_ns)
        for of_each in ([each.begun_ns for each in others], [each.refused_ns for each in others])
    )
    return begun > refused


def _describe(group: Group, stuck: _Id) -> Anomaly:
    budget_s, calm_ns = group.facts.plan.hanging_after_s, group.facts.calm_from_ns or 0
    kinds = Counter(stuck.errors).most_common(_TOLD)
    return anomaly_at(
        group,
        NAME,
        sentence=f"no producer with the transactional id {stuck.name} could begin from"
        f" {seconds(stuck.since_ns)} to {seconds(stuck.until_ns)}: {len(stuck.spans)} attempts"
        f" took {stuck.tried_s:.3f} s in sum, mostly with {kinds[0][0].partition(':')[0]}; a"
        f" coordinator must end a transaction in {budget_s:g} s; the last heal was at"
        f" {seconds(calm_ns)}",
        evidence={
            "transactional_id": stuck.name,
            "asked_from_ns": stuck.since_ns,
            "asked_to_ns": stuck.until_ns,
            "attempts": len(stuck.spans),
            "attempts_s": stuck.tried_s,
            "errors": [f"{times} x {error}" for error, times in kinds],
            "refusals": [f"{times} x {name}" for name, times in _answers(stuck.errors).items()],
            "other_ids": _others(group, stuck),
            "may_be_open_s": budget_s,
            "calm_from_ns": calm_ns,
        },
    )


def _why(group: Group, found: Anomaly) -> str:
    name = str(found.evidence.get("transactional_id"))
    span = (number_in(found, "asked_from_ns"), number_in(found, "asked_to_ns"))
    by = coordinators(group.facts, TRANSACTIONS, name, span)
    who = f"its coordinator, {as_leaders(by, joint=', then ')}," if by else "its coordinator"
    others = number_in(found, "other_ids")
    beside = f"; new producers with {others} other ids could begin meanwhile" * (others > 0)
    refusals = texts_in(found, "refusals")
    if not refusals:
        return f"{who} did not answer the new producers in their time{beside}"
    times, _, error = refusals[0].partition(" x ")
    said = f"{who} refused {times} of {number_in(found, 'attempts')} attempts with {error}{beside}"
    return Proved(said) if len(by) == 1 and error == "CONCURRENT_TRANSACTIONS" else said


def _applies(facts: RunFacts) -> bool:
    return facts.plan.transactional and facts.plan.workload != "script"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="transactional id could not be used any more",
        many="transactional ids could not be used any more",
        means=(
            "No new producer with the id could begin, for longer than a coordinator may need to"
            " end a transaction."
        ),
        promise="After the last heal a coordinator ends each transaction, and its transactional id"
        " can be used again.",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("ops", "transactions"),
    check=_check,
    scope=Scope.RUN,
    applies=_applies,
    promise=Promise.TRANSACTIONS,
    compares="transactional ids with an ended transaction, or refused for longer than the limit",
    chapter=Chapter.LIVENESS,
    looks_for="after the last heal and the recovery of the partitions, no new producer with a"
    " transactional id gets its producer id. The attempts take longer, in sum, than a transaction"
    " may be open. A good sign: any other result of a transaction with the id",
    waits=Waits.BUDGET,
    during=During.AFTER_HEAL,
    excuses=TAKES_RECORDS,
    follows={
        "hanging-transaction": "until all markers of a transaction are written, its id is refused",
        "unavailable": "a partition without a leader gets no marker, so the transaction cannot end",
        "broker-ended": "the id's coordinator, or a leader that needs a marker, may have ended",
    },
)
