"""isr-not-restored: a partition's replicas were not all in sync again within the plan's time limit.

Definition: from the last heal until `[budgets] isr_s` later, the reported ISR never had all members
of the plan. The last report before the heal counts, too, if observations went on after the heal. It
is also an anomaly if the ISR was full, became smaller after the heal, and then was not full for
longer than `isr_s`. A report does not count if an earlier report had a higher leader epoch. The
source is ZooKeeper, if the cluster keeps the ISR there. Otherwise, the source is the metadata of
the leader's own broker. If no leader reported its metadata, any broker's metadata counts. If the
observations ended too early, the result is a gap, not an anomaly. With ZooKeeper, only observations
of ZooKeeper count.

Why it proves something: if every broker is back and no fault is in force, followers must catch up.
If a replica stays out of the ISR, there are fewer copies than the plan asks for. The next fault may
then make the partition unavailable.

What would not prove it: a broker's outdated metadata of an earlier epoch does not count. A broker
that is cut off from the controllers may still report the earlier full ISR in the newest epoch. So
the leader's own report counts, because a leader that is cut off loses its epoch. An ISR that
shrinks after the heal proves nothing by itself: a leader notices late that a follower lags. If the
machine hung, no broker could catch up, so that time does not count. Only `broker-ended` checks a
broker that ended by itself in that time. A scenario may end while a
broker is down, and the scenario's script itself waits for the ISR. So this check does not apply to
scenarios.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.acknowledger import KNOWN_NS, LOOK_NS, looks_at
from checkers.broker_ended import ends
from checkers.changes import FOUND_LATE_NS
from checkers.columns import NEVER, NONE, Ints, Mask, array_of, equal, ints, present, select, texts
from checkers.controllers_log import entries, undisputed
from checkers.disk_losses import replicas_of
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, findings, number_in, numbers_in, seconds, with_stacks
from checkers.group import Group
from checkers.keeper import keeper_lost
from checkers.protocol import (
    Chapter,
    Checker,
    During,
    Findings,
    Labels,
    Promise,
    Proved,
    Scope,
    Waits,
)
from checkers.reigns import UNENDED_NS
from checkers.replica_reasons import leader_of, listed
from checkers.slow_election import labels
from checkers.told_isrs import told_by_leaders
from results.record.clock import NS_PER_S
from results.record.declared import Sight
from results.record.terms import AnomalyClass, Source
from results.record.verdict import Anomaly, Words

NAME = "isr-not-restored"
_FRESH_NS = 2 * NS_PER_S
"""A log end of at most this age is current, because logs are observed once a second."""
_BEFORE_NS = LOOK_NS + KNOWN_NS
"""The maximum age of a log end when it is recorded, plus half a second for a follower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """An ISR that was not full in time.

    Attributes:
        from_ns: The last heal, or the first report of a small ISR after a full one. The budget
            begins then.
        full_ns: The time at which the ISR was full again; -1 if it never was.
        seen_ns: The time of the last report within the budget.
        since_ns: The time from which on all reports until `seen_ns` had the same ISR.
        looked_ns: The time of the last report about the partition's leader or ISR.
        isr: The broker ids in the last report within the limit.
        by: The broker that gave both the report at `seen_ns` and the report at `full_ns`. Empty if
            two brokers, or ZooKeeper, gave these reports.
    """

    from_ns: int
    full_ns: int
    seen_ns: int
    since_ns: int
    looked_ns: int
    isr: tuple[int, ...]
    by: str


def _sizes(told: pa.Table) -> Ints:
    return np.asarray(pc.list_value_length(array_of(told, "isr")).to_numpy(zero_copy_only=False))


def _check(group: Group) -> Findings:
    calm_ns, plan = group.facts.calm_from_ns, group.facts.plan
    told = told_by_leaders(group)
    if calm_ns is None or not told.num_rows:
        untold = (f"no broker reported the ISR of {group.place}",)
        return Findings(rows=0, gaps=untold if calm_ns is not None and group.remade else ())
    full, times = _sizes(told) >= group.members, ints(told, "observed_ns")
    budget_ns, last_ns = int(plan.budgets.isr_s * NS_PER_S), _last_ns(group, told)
    standing = int(np.flatnonzero(times <= calm_ns).max(initial=0))
    small = list(_small(full, standing))
    late = (
        _shrunk(group, told, rows, calm_ns if rows.start == standing else int(times[rows.start]),
                budget_ns=budget_ns, last_ns=last_ns)
        for rows in small
    )  # fmt: skip
    shrunk = [each for each in late if each][:1]
    in_time = full[standing:] & (times[standing:] <= calm_ns + budget_ns)
    # A full ISR counts only if reports went on: it may become small later.
    lost = _is_keepers(told) and keeper_lost(group.table("leadership"))
    ended = last_ns < calm_ns + budget_ns * lost
    unproven = not shrunk and (ended or not in_time.any())
    gaps = (_unproven(group, last_ns, ended=ended),) if unproven else ()
    found = findings(
        0 if gaps else 1,
        shrunk,
        lambda each: with_stacks(group, _describe(group, each)),
        lambda each: _labels(group, each),
        gaps=gaps,
    )
    if shrunk or gaps or not small or small[-1].stop < len(times):
        return found
    return replace(found, unshown=(_small_at_the_end(group, told),))


def _small(full: Mask, first: int) -> Iterator[range]:
    """Yield the longest ranges of consecutive reports without a full ISR, from a report on."""
    ends = [*np.flatnonzero(full[first:]) + first, len(full)]
    begins = [first, *(end + 1 for end in ends)]
    yield from (range(begin, end) for begin, end in zip(begins, ends, strict=False) if begin < end)


def _shrunk(
    group: Group, told: pa.Table, rows: range, from_ns: int, *, budget_ns: int, last_ns: int
) -> Shrunk | None:
    """Return a small ISR that was not full again in time; None if it was, or if this is unknown.

    After the first report of a higher leader epoch, the ISR is unknown until the new leader reports
    it. If the missing replicas' brokers ended within the time limit, only `broker-ended` checks
    that.

    Args:
        group: The run's rows of one partition.
        told: The reports.
        rows: Consecutive reports of a small ISR.
        from_ns: When the time limit begins.
        budget_ns: The time limit.
        last_ns: The time of the last observation.
    """
    times = ints(told, "observed_ns")
    full_ns = int(times[rows.stop]) if rows.stop < len(times) else NONE
    in_time = [row for row in rows if times[row] <= from_ns + budget_ns]
    until_ns = min(full_ns if full_ns >= 0 else last_ns, _outdated_ns(group, told, rows[-1]))
    if until_ns - from_ns <= budget_ns or not in_time:
        return None
    last = in_time[-1]
    if _away(group, told, last) <= _ended(group, from_ns + budget_ns + 2 * FOUND_LATE_NS):
        return None
    return Shrunk(
        from_ns=from_ns,
        full_ns=full_ns,
        seen_ns=int(times[last]),
        since_ns=int(times[_begin(told, last)]),
        looked_ns=last_ns,
        isr=tuple(told["isr"][last].as_py()),
        by=_teller(told, [last, *([rows.stop] if full_ns >= 0 else [])]),
    )


def _outdated_ns(group: Group, told: pa.Table, row: int) -> int:
    """Return the time of the first report with a higher leader epoch than a report's."""
    rows, epoch = group.table("leadership"), int(ints(told, "leader_epoch")[row])
    later = present(rows, "observed_ns") & (ints(rows, "leader_epoch") > epoch)
    later &= equal(rows, "source", *texts(told.slice(row, 1), "source"))
    return int(ints(rows, "observed_ns")[later].min(initial=NEVER))


def _away(group: Group, told: pa.Table, row: int) -> set[str]:
    """Return the nodes of the replicas that a report's ISR lacks."""
    return set(replicas_of(group)) - {f"n{broker}" for broker in told["isr"][row].as_py()}


def _ended(group: Group, until_ns: int) -> set[str]:
    """Return the nodes whose brokers may have ended by themselves from the last heal to a time.

    An end that was noticed only after the final reads always counts. In older runs, Logquake did
    not look for ends between the heal and that time.
    """
    calm_ns, read = group.facts.calm_from_ns or 0, group.facts.milestone("final-reads")
    return {
        each.node
        for each in ends(group.facts)
        if each.seen_ns > calm_ns and not each.told
        and (each.seen_ns <= until_ns or (read and each.seen_ns >= read.at_ns))
    }  # fmt: skip


def _small_at_the_end(group: Group, told: pa.Table) -> str:
    """Return a sentence on an ISR that was small when the observations ended."""
    away = _away(group, told, told.num_rows - 1)
    why = f"not for longer than the budget of {group.facts.plan.budgets.isr_s:g} s"
    if away <= _ended(group, NEVER):
        why = "whose broker had ended" if len(away) == 1 else "whose brokers had ended"
    return (
        f"in its last report, the ISR of {group.place} lacked {listed(sorted(away))}, {why}, so an"
        " ISR that is never full again could not be detected"
    )


def _last_ns(group: Group, told: pa.Table) -> int:
    """Return the time of the last report; with ZooKeeper's ISRs, of ZooKeeper's last report.

    Each report is repeated every two seconds. So if ZooKeeper's reports end, it did not answer.
    """
    rows = group.table("leadership")
    if _is_keepers(told):
        rows = select(rows, equal(rows, "source", Source.ZOOKEEPER))
    return int(ints(rows, "observed_ns").max())


def _is_keepers(told: pa.Table) -> bool:
    """Return whether the reports come from ZooKeeper."""
    return bool(equal(told, "source", Source.ZOOKEEPER).any())


def _begin(told: pa.Table, last: int) -> int:
    """Return the row from which on all reports up to a given row have the same ISR."""
    isrs = [sorted(each or ()) for each in told["isr"].slice(0, last + 1).to_pylist()]
    others = [at for at, isr in enumerate(isrs) if isr != isrs[last]]
    return others[-1] + 1 if others else 0


def _teller(told: pa.Table, rows: Sequence[int]) -> str:
    """Return the broker that gave the reports; "" if several brokers gave them, or none."""
    told_by = {texts(told, "observer")[row] for row in rows}
    return told_by.pop() if len(told_by) == 1 and told_by <= _brokers(told) else ""


def _brokers(told: pa.Table) -> set[str]:
    return {f"n{broker}" for broker in ints(told, "leader").tolist()}


def _unproven(group: Group, last_ns: int, *, ended: bool) -> str:
    calm_ns = group.facts.calm_from_ns or 0
    if ended:
        return (
            f"the observations of the ISR of {group.place} ended too early, at {seconds(last_ns)};"
            f" the last heal was at {seconds(calm_ns)}"
        )
    return (
        f"the ISR of {group.place} was not full in any observation within the budget of"
        f" {group.facts.plan.budgets.isr_s:g} s; the last observation was"
        f" {(last_ns - calm_ns) / NS_PER_S:.3f} s after the last heal"
    )


def _labels(group: Group, shrunk: Shrunk) -> Labels:
    until_ns = shrunk.full_ns if shrunk.full_ns >= 0 else shrunk.looked_ns
    return labels(group.facts, shrunk.from_ns, until_ns, group.facts.plan.budgets.isr_s)


def _describe(group: Group, shrunk: Shrunk) -> Anomaly:
    calm_ns, plan = group.facts.calm_from_ns or 0, group.facts.plan
    as_told = f"as {shrunk.by} reported, " if shrunk.by else ""
    at_last = f"full again at {seconds(shrunk.full_ns)}"
    never = f"not yet full at the last observation, at {seconds(shrunk.looked_ns)}"
    begins = f"the last heal, at {seconds(calm_ns)}"
    if shrunk.from_ns != calm_ns:
        begins = f"{seconds(shrunk.from_ns)} on (after {begins}, it had been full)"
    return anomaly_at(
        group,
        NAME,
        sentence=f"the ISR of {group.place} did not have its {group.members} members again within"
        f" the budget of {plan.budgets.isr_s:g} s from {begins}: {as_told}it was {list(shrunk.isr)}"
        f" from {seconds(shrunk.since_ns)} on, and {at_last if shrunk.full_ns >= 0 else never}",
        evidence={
            "isr": list(shrunk.isr),
            "from_ns": shrunk.from_ns,
            "seen_ns": shrunk.seen_ns,
            "since_ns": shrunk.since_ns,
            "full_ns": shrunk.full_ns if shrunk.full_ns >= 0 else None,
            "members": group.members,
            "budget_s": plan.budgets.isr_s,
            "calm_from_ns": calm_ns,
        },
    )


def _applies(facts: RunFacts) -> bool:
    return facts.plan.workload != "script" and facts.plan.replication > 1


def _why(group: Group, found: Anomaly) -> str:
    isr, told = numbers_in(found, "isr"), told_by_leaders(group)
    leader = leader_of(group, int(ints(told, "leader_epoch").max(initial=NONE)))
    away = [f"n{each}" for each in group.facts.brokers if each not in isr]
    away = [each for each in away if looks_at(group, each)]
    texts = [_lag(group, each, leader, found) for each in away if leader]
    texts = [each for each in (*texts, _written_again(group, told, leader)) if each]
    if texts:
        return Proved("; ".join(texts))
    return (
        f"the leader counted only {listed(f'n{each}' for each in isr)} as in sync; the run's"
        " record does not show how far the others had caught up"
    )


def _written_again(group: Group, told: pa.Table, leader: str) -> str:
    """Return a clause if the controllers wrote a full ISR again, but brokers never reported it."""
    written, full = entries(group), group.members
    isrs = [sorted(each or ()) for each in told["isr"].to_pylist()]
    for small, whole in reversed(list(pairwise(written))):
        grown = len(small.isr) < full == len(whole.isr) and f"n{whole.leader}" == leader
        if grown and sorted(small.isr) in isrs:
            since = isrs[isrs.index(sorted(small.isr)) :]
            if all(len(each) < full for each in since):
                return (
                    f"the controllers' log has the ISR {sorted(whole.isr)} (offset"
                    f" {whole.offset}) after {sorted(small.isr)}, but {leader} never reported it"
                )
    return ""


def _lag(group: Group, node: str, leader: str, found: Anomaly) -> str:
    """Return a clause: whether a replica outside of the ISR had caught up with its leader."""
    from_ns, full_ns = number_in(found, "from_ns"), number_in(found, "full_ns")
    until_ns = full_ns if full_ns >= 0 else NEVER
    looks = [each for each in looks_at(group, node) if from_ns <= each[0] <= until_ns]
    compared = [
        (at, end, had)
        for at, end in looks
        for had in [_had(group, leader, (from_ns, at - _BEFORE_NS, at))]
        if end < had or end >= _at_most(group, leader, from_ns, at)
    ]
    level = [at for at, end, had in compared if end >= had]
    if not compared:
        return ""
    if not level:
        at, end, had = compared[-1]
        few = f"{len(compared)} of {len(looks)} observations"
        every = "every observation" if len(compared) == len(looks) else few
        return (
            f"{node}'s log was behind in {every}: it ended at {end} at {seconds(at)}, but"
            f" {seconds(_BEFORE_NS)} earlier the log of {leader}, its leader, had reached {had}"
        )
    return (
        f"{node} had caught up with {leader}, its leader, at {seconds(level[0])} and in"
        f" {len(level)} of {len(compared)} observations: {_kept_out(group, node, leader, found)}"
    )


def _acked(group: Group, from_ns: int, until_ns: int) -> int:
    """Return the offset after all records that were acknowledged between two times."""
    sends = group.table("sends")
    ended_ns, offsets = ints(sends, "complete_ns"), ints(sends, "offset")
    acked = equal(sends, "acked", True)  # noqa: FBT003 - a value
    acked &= (ended_ns >= from_ns) & (ended_ns <= until_ns)
    return int(offsets[acked].max(initial=NONE)) + 1


def _had(group: Group, leader: str, times: tuple[int, int, int]) -> int:
    """Return an offset that a leader's log had reached by a time, and did not lose afterwards.

    Records that were acknowledged since the first time also count, because no rows are recorded for
    a log that does not grow.

    Args:
        group: The run's rows of one partition.
        leader: The leader's node.
        times: The time from which acknowledgements count, the time to check, and the time until
            which the log did not become shorter.
    """
    from_ns, by_ns, until_ns = times
    looks = looks_at(group, leader)
    last = [end for at, end in looks if at <= by_ns][-1:]
    since = [end for at, end in looks if by_ns < at <= until_ns] if last else []
    return max(min([*last, *since], default=0), _acked(group, from_ns, by_ns))


def _at_most(group: Group, leader: str, from_ns: int, at_ns: int) -> int:
    """Return the highest end that a leader's log may have had at a time; `NEVER` if unknown."""
    looks, acked = looks_at(group, leader), _acked(group, from_ns, at_ns)
    seen = [each for each in looks if each[0] <= at_ns][-1:]
    later = [end for at, end in looks if at > at_ns][:1]
    if seen and at_ns - seen[0][0] <= _FRESH_NS:
        return max(seen[0][1], acked)
    return max(seen[0][1], acked, later[0]) if seen and later else NEVER


def _kept_out(group: Group, node: str, leader: str, found: Anomaly) -> str:
    """Explain, from the controllers' log, why a replica that caught up stayed out of the ISR."""
    written, quorum = undisputed(group), group.facts.quorum
    isr, seen_ns = sorted(numbers_in(found, "isr")), number_in(found, "seen_ns")
    # The stop at the run's end also causes small ISRs.
    small = [
        (at, quorum.committed(each.offset)[1])
        for at, each in enumerate(written)
        if sorted(each.isr) == isr and quorum.committed(each.offset)[0] <= seen_ns
    ]
    if not small or (len(small) > 1 and small[-1][1] > seen_ns):
        return f"{leader} did not add it to the ISR again, or brokers still reported an old ISR"
    later = written[small[-1][0] :]
    again = next((each for each in later if int(node[1:]) in each.isr), None)
    if again is None:
        return (
            f"the controllers' log has no ISR with it from offset {later[0].offset} on, so"
            f" {leader} did not request such an ISR, or the controllers refused it"
        )
    from_ns, by_ns = quorum.committed(again.offset)
    due_ns = number_in(found, "from_ns") + group.facts.plan.budgets.isr_s * NS_PER_S
    has = f"the controllers' log has it again from offset {again.offset} on"
    if from_ns > due_ns and by_ns < UNENDED_NS:
        return (
            f"{has}, committed between {seconds(from_ns)} and {seconds(by_ns)}: {leader}"
            " requested this ISR late, or the controllers approved it late"
        )
    return (
        f"{has}, but the time is not recorded: {leader} requested this ISR late, or brokers"
        " reported it late"
    )


def _why_remade(group: Group, found: Anomaly) -> str:
    """Explain a small ISR of a recreated topic, from the log ends after the brokers had stopped.

    The run has no earlier observations of such a topic's logs.
    """
    isr, logs = numbers_in(found, "isr"), group.logs.get(FINAL, {})
    ends = {f"n{each}": logs[f"n{each}"].end for each in isr if f"n{each}" in logs}
    made = f"a fault recreated {group.topic} (topic id {group.topic_id}) while a broker was down"
    if not ends:
        return (
            f"{made}; no log of the new topic was read, so the run's record does not show what"
            " the others lack"
        )
    most = max(ends, key=lambda node: ends[node])
    away = [each for each in replicas_of(group) if int(each[1:]) not in isr]
    had = [
        f"{node}'s log of the new topic ended at {logs[node].end}" for node in away if node in logs
    ]
    had += [f"{node} had no log of the new topic" for node in away if node not in logs]
    stopped = f"when the brokers had stopped, {' and '.join(had)}"
    return f"{made}; {stopped}, and {most}'s at {ends[most]}"


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="partition's replicas were not in sync again in time",
        many="partitions' replicas were not in sync again in time",
        means=(
            "After all faults were healed, the partition's ISR was not full within the plan's"
            " budget, or it became small again for longer than that."
        ),
        promise="After the last heal every replica is in sync again within the budget.",
        uncounted="a partition's replicas were not in sync again in time",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=("sends", "leadership", "replica_states", "replica_records"),
    sees=frozenset({Sight.LEADER_EPOCHS}),
    check=_check,
    premises=(),
    applies=_applies,
    promise=Promise.RECOVERY,
    compares="partitions whose ISR was full, or that were observed for longer than the budget",
    chapter=Chapter.LIVENESS,
    looks_for="the ISR does not have all replicas within `isr_s`, counted from the last heal, or"
    " from a later report of a smaller ISR. An ISR that ZooKeeper or"
    " metadata reported does not count if a higher leader epoch was reported before",
    waits=Waits.BUDGET,
    during=During.AFTER_HEAL,
)
REMADE_CHECKER = replace(
    CHECKER,
    why=_why_remade,
    scope=Scope.REMADE,
    applies=lambda facts: bool(facts.remade),
    looks_for="the same for a topic that a fault recreated while one of its brokers was down",
)
