"""hanging-transaction: a transaction stayed open although its coordinator should have ended it.

Definition: after the last heal, the last leader's last stable offset did not move, and stayed below
the high watermark. That lasted until the last observation, and longer than a transaction may stay
open (`Plan.hanging_after_s`). The limit is the transaction's timeout, plus the interval of the
coordinator's checks, plus time to write the markers.

Why it proves something: the last stable offset is the start of the first open transaction. The
client ends the transaction, or the coordinator aborts it after the timeout (KIP-98). A transaction
that stays open blocks every read_committed reader of the partition. Only an operator can then end
it (KIP-664). Known causes are KAFKA-14402 (before 3.6), KAFKA-9144 and KAFKA-12671.

What would not prove it: an open transaction proves nothing if it is still too young at the last
observation. Such a transaction is a gap. The anomaly is not trusted if a partition of the run has
not recovered. It is not trusted, either, if the time does not exceed the limit without the periods
in which the machine may have been suspended. In a compacted topic, a leader that was out of sync
for longer than `delete.retention.ms` may lack the marker (`cleaned_markers`). Then the anomaly is
not trusted.

The anomaly is allowed if a marker may have been lost, or if records of the coordinator's own log
may have been lost. An unclean election, or a loss on the disks of all replicas, may cause such a
loss. If only some replicas lost such records, the anomaly is not trusted (`state_losses`). A loss
that was over before the transaction sent its first record explains nothing.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from checkers.calm import silent_ns
from checkers.changes import was_quiet
from checkers.cleaned_markers import may_lack_marker
from checkers.client_reasons import marker_doubt
from checkers.columns import NONE, equal, ints, present, select
from checkers.excuses import TAKES_RECORDS
from checkers.facts import NOTED, RunFacts
from checkers.findings import (
    anomaly_at,
    could_not_show,
    findings,
    number_in,
    seconds,
    with_stacks,
)
from checkers.group import Group, ReplicaLog
from checkers.group_reasons import as_leaders, coordinators, ends_of, kept_open
from checkers.protocol import (
    Chapter,
    Checker,
    Excuse,
    Findings,
    Labels,
    Premise,
    Promise,
    Proved,
    Waits,
)
from checkers.reigns import TRANSACTIONS
from checkers.state_losses import disk_reasons
from checkers.unclean_elections import unclean_elections
from results.record.declared import Sight
from results.record.milestones import OPEN
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly, Words

NAME = "hanging-transaction"
_NS_PER_S = 1_000_000_000
_ALL_ENDED = (
    "clients ended all of their transactions, so a transaction that its coordinator does not"
    " abort could not be detected"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A last stable offset that did not move until the last observation.

    Attributes:
        stable, mark: The last stable offset and the high watermark in the last report.
        since_ns: The first time at which this last stable offset was reported, or the last heal if
            that was later.
        seen_ns: The last time at which it was reported.
    """

    stable: int
    mark: int
    since_ns: int
    seen_ns: int

    @property
    def lasted_s(self) -> float:
        """How long the offset did not move, in seconds."""
        return (self.seen_ns - self.since_ns) / _NS_PER_S


def _looks(group: Group) -> pa.Table:
    """Return the last leader's reports about its replica, sorted by time."""
    states = group.table("replica_states")
    if group.leader is None:
        return states.slice(0, 0)
    told = ~present(states, "snapshot") | equal(states, "snapshot", NOTED)
    told &= equal(states, "node", group.leader.node) & present(states, "observed_ns")
    told &= present(states, "last_stable_offset") & present(states, "high_watermark")
    return select(states, told).sort_by("observed_ns")


def _stuck(looks: pa.Table, calm_ns: int) -> Stuck | None:
    """Return the last stable offset that did not move; None if no transaction is open.

    Observers record only changes. So the last report from before the heal also counts, from the
    heal on.
    """
    stable, marks = (ints(looks, name) for name in ("last_stable_offset", "high_watermark"))
    times = ints(looks, "observed_ns")
    same = (stable == stable[-1]) & (marks > stable)
    first = int(np.flatnonzero(~same).max(initial=-1)) + 1
    if first == len(times):
        return None
    return Stuck(
        stable=int(stable[-1]),
        mark=int(marks[-1]),
        since_ns=max(int(times[first]), calm_ns),
        seen_ns=int(times[-1]),
    )


def _check(group: Group) -> Findings:
    calm_ns, looks = group.facts.calm_from_ns, _looks(group)
    if calm_ns is None or not looks.num_rows or int(ints(looks, "observed_ns")[-1]) < calm_ns:
        return Findings(rows=0)
    stuck = _stuck(looks, calm_ns)
    proven = stuck is not None and stuck.lasted_s > group.facts.plan.hanging_after_s
    found = findings(
        max(_begun(group), int(proven)) if proven or stuck is None else 0,
        [stuck] if stuck is not None and proven else [],
        lambda each: with_stacks(group, _describe(group, each)),
        lambda each: _labels(group, each),
        gaps=(_unproven(group, stuck),) if stuck is not None and not proven else (),
    )
    if stuck is not None:
        return found
    none = could_not_show(
        found, ("no transaction wrote anything, so a hanging transaction could not be detected")
    )
    return none if _left_open(group) else replace(none, unshown=none.unshown or (_ALL_ENDED,))


def _begun(group: Group) -> int:
    """Return the number of transactions that sent a record to the partition."""
    sends = group.table("sends")
    return len(np.unique(ints(select(sends, present(sends, "txn_id")), "op_id")))


def _left_open(group: Group) -> bool:
    """Return whether a transaction of unknown outcome exists.

    Its coordinator may have to end it.
    """
    sends = group.table("sends")
    unknown = equal(sends, "outcome", Outcome.INFO.value)
    return bool((present(sends, "txn_id") & unknown).any())


def _unproven(group: Group, stuck: Stuck) -> str:
    return (
        f"a transaction was still open in {group.place} at the last observation: the last stable"
        f" offset was {stuck.stable} and the high watermark {stuck.mark} for {stuck.lasted_s:.3f}"
        f" s after the last heal; the limit is {group.facts.plan.hanging_after_s:g} s"
    )


def _labels(group: Group, stuck: Stuck) -> Labels:
    facts, (sent_ns, epoch) = group.facts, _written(group, stuck.stable)
    places = {"partition": group.partition, "known_ns": sent_ns}
    excuses = disk_reasons(facts, group.topic, TRANSACTIONS, **places)
    # Elections of the coordinators' own partitions are not recorded.
    elsewhere = facts.plan.unclean_elections and not was_quiet(group, sent_ns, stuck.seen_ns)
    if elsewhere or unclean_elections(group).took_after(NONE, epoch, sent_ns):
        excuses.add(Excuse.UNCLEAN.value)
    broken = []
    if group.facts.cut_streams:
        broken.append(Premise.WHOLE_RECORD.value)
    if not group.facts.recovered:
        broken.append(Premise.RECOVERED.value)
    if may_lack_marker(group, stuck.stable):
        broken.append(Premise.SHOWN_CAUSE.value)
    asleep_ns = silent_ns(group.facts.silences, stuck.since_ns, stuck.seen_ns)
    if stuck.lasted_s - asleep_ns / _NS_PER_S <= group.facts.plan.hanging_after_s:
        broken.append(Premise.AWAKE.value)
    return tuple(sorted(excuses)), tuple(broken)


def _written(group: Group, stable: int) -> tuple[int, int]:
    """Return when the open transaction's first record was sent, and its leader epoch; -1: unknown.

    Nothing that was over by then can have taken the transaction's marker.
    """
    log = group.final_log
    index = log.at(stable) if log is not None else None
    if log is None or index is None:
        return NONE, NONE
    return _opened(group, log, stable).sent_ns, int(log.epochs[index])


def _describe(group: Group, stuck: Stuck) -> Anomaly:
    told = group.facts.milestone(OPEN)
    witness = (told.detail if told else {}).get(group.place, "")
    return anomaly_at(
        group,
        NAME,
        sentence=f"a transaction stayed open in {group.place}: from {seconds(stuck.since_ns)} to"
        f" {seconds(stuck.seen_ns)} its last stable offset was {stuck.stable}, below the"
        f" high watermark {stuck.mark}{f' ({witness})' if witness else ''}",
        evidence={
            "last_stable_offset": stuck.stable,
            "high_watermark": stuck.mark,
            "since_ns": stuck.since_ns,
            "seen_ns": stuck.seen_ns,
            "may_be_open_s": group.facts.plan.hanging_after_s,
            "producers": witness or None,
        },
        offset=stuck.stable,
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.transactional


def _why(group: Group, found: Anomaly) -> str:
    stable, mark = number_in(found, "last_stable_offset"), number_in(found, "high_watermark")
    logs = group.logs.get(group.facts.snapshot, {})
    held = {node: log for node, log in logs.items() if log.at(stable) is not None}
    if not held:
        told = found.evidence.get("producers")
        return (
            f"{f'{told}: ' if told else ''}no log that was read has the record at offset"
            f" {stable}, so the run's record does not show whether a marker ends its transaction"
        )
    ends = {node: ends_of(log, np.array([stable])) for node, log in held.items()}
    behind = {node: int(each.markers[0]) for node, each in ends.items()}
    producer = int(next(iter(ends.values())).producers[0])
    opened = _opened(group, next(iter(held.values())), stable)
    transaction = f"the transaction of {opened.name}producer {producer}"
    marked = {node: at for node, at in behind.items() if stable < at < mark}
    leader = group.leader.node if group.leader else ""
    if len(set(marked.values())) == 1 and leader in marked:
        at = next(iter(marked.values()))
        who = kept_open(group, stable, at) or f"{leader}, the last leader,"
        return Proved(
            f"{transaction} has ended: its marker is at offset {at} in the logs of"
            f" {', '.join(sorted(marked))}, below the high watermark, but {who} reported the last"
            f" stable offset {stable}"
        )
    lacking = sorted(n for n, log in held.items() if behind[n] < 0 and log.read_end >= mark)
    if leader not in lacking or marked:
        return (
            f"{transaction} is open for the leader; the logs that were read do not show whether"
            " its marker was written"
        )
    seen_ns = number_in(found, "seen_ns")
    span = (min(max(opened.since_ns, 0), seen_ns), seen_ns)
    by = coordinators(group.facts, TRANSACTIONS, opened.transactional_id, span)
    who = f", {as_leaders(by, joint=', then ')}," if by else ""
    said = (
        f"{opened.ended}no marker for {transaction} is in the logs of {', '.join(lacking)}: its"
        f" coordinator{who} did not write one"
    )
    if lost := marker_doubt(group, stable, opened.sent_ns):
        return f"{said}, or the marker was lost: {lost}"
    return (
        Proved(said)
        if who
        else (f"{said}; the leader of {TRANSACTIONS} at that time is not certain")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """The open transaction, as its client recorded it.

    Attributes:
        name: A phrase for reports: `op 120 (base-txn-0), `. It is empty if no client of this run
            sent the transaction.
        transactional_id: The transactional id, empty if unknown.
        ended: A phrase that says what the client knows about the transaction's end.
        sent_ns: The time of the transaction's first send; -1 if unknown.
        since_ns: The earliest time at which the coordinator may have had to end the transaction. It
            is the end of its op, or otherwise its first send; -1 if unknown.
    """

    name: str = ""
    transactional_id: str = ""
    ended: str = ""
    sent_ns: int = NONE
    since_ns: int = NONE


def _opened(group: Group, log: ReplicaLog, offset: int) -> _Opened:
    index, sends = log.at(offset), group.table("sends")
    value = NONE if index is None else int(log.values[index])
    rows = select(sends, equal(sends, "value", value) & present(sends, "txn_id"))
    if value < 0 or not rows.num_rows:
        return _Opened()
    row = rows.slice(0, 1).to_pylist()[0]
    at = "" if row["complete_ns"] is None else f" at {seconds(row['complete_ns'])}"
    timeout_s = group.facts.plan.transaction_timeout_s
    ended = {
        Outcome.OK.value: f"its client got the answer{at} that it had committed, but ",
        Outcome.FAIL.value: f"its client aborted or abandoned it{at}, but ",
    }.get(
        row["outcome"],
        (
            "its client got no answer about its end, so the coordinator had to abort it after"
            f" {timeout_s:g} s, but "
        ),
    )
    name = row["transactional_id"] or ""
    since_ns = row["invoke_ns"] if row["complete_ns"] is None else row["complete_ns"]
    return _Opened(
        name=f"op {row['op_id']}{f' ({name})' if name else ''}, ",
        transactional_id=name,
        ended=ended,
        sent_ns=NONE if row["invoke_ns"] is None else row["invoke_ns"],
        since_ns=NONE if since_ns is None else since_ns,
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="transaction was never ended",
        many="transactions were never ended",
        means=(
            "The transaction stayed open for longer than its coordinator may allow, and readers"
            " cannot read further."
        ),
        promise="A transaction ends: its client ends it, or it is aborted after its timeout.",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("sends", "leadership", "replica_records", "replica_states", "truncations"),
    sees=frozenset({Sight.LEADER_EPOCHS, Sight.HIGH_WATERMARKS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.TRANSACTIONS,
    compares="transactions that wrote to a partition whose end was observed",
    chapter=Chapter.LIVENESS,
    looks_for="until the last observation, the last leader's last stable offset stays at one value"
    " below the high watermark, for longer than a transaction may be open. That limit is the sum of"
    " the transaction's timeout, the interval of the coordinator's checks, and ten seconds for the"
    " markers. Only the time after the last heal counts",
    waits=Waits.BUDGET,
    excuses=TAKES_RECORDS,
)
