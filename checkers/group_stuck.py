"""group-stuck: after the last heal, a group got no record of a partition that accepted messages.

Definition: after the last heal, a message to the partition was acknowledged. If the message was in
a transaction, the transaction committed. Then no member of the group got any record of the
partition for longer than the plan's limit `[budgets] group_s`. The limit counts from the first such
acknowledgement. The check also reports a group that first got records, and then no more records. In
that case, the period begins at the first message that was acknowledged after the group's last read.
Messages that the group got do not count: a member may get a message before it is acknowledged.
The period ends when clients were stopped. In the second case, later joins of members divide it, and
the longest part counts.

Why it proves something: a group assigns every partition to one of its members. If a member dies,
its session expires, and its partitions go to other members. These members continue from the
committed offset. So the group must get all new messages. The run's members subscribe to all topics
(in a pipeline: to all input topics), poll all the time, and rejoin if they are removed. If a group
reads nothing from a partition, no member has the partition, or the member's offset is wrong, or the
partition's leader or the client returns empty polls.

What would not prove it: a partition that accepted no message (`unavailable` reports it). A stopped
machine does not count. An incomplete record of polls does not count either. If clients were stopped
before the limit was over, nothing is proved. If, in such a run, the group got nothing at all after
the last heal, this is a gap. It is also a gap if only joins kept each part within the limit. Times
count from the last heal until clients were stopped.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.calm import silent_ns
from checkers.columns import NONE, Mask, equal, ints, select, texts, within
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, seconds, with_stacks
from checkers.group import Group
from checkers.group_commits import group_id_of
from checkers.group_reasons import as_leaders, coordinators, fetched_from, followers_serve
from checkers.positions import DEALT, REVOKED, SUBSCRIBE
from checkers.protocol import Chapter, Checker, During, Findings, Labels, Premise, Promise, Waits
from checkers.reigns import GROUPS
from results.record.clock import NS_PER_S
from results.record.identities import groups
from results.record.terms import AnomalyClass, Outcome
from results.record.verdict import Anomaly, Evidence, Words

NAME = "group-stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A group that got nothing from the partition.

    Attributes:
        group_id: The group.
        since_ns, until_ns: The period begins with the first message after the last heal, or after
            the group's last read. It ends when clients were stopped. In the second case, it is the
            longest part of that time without a join.
        messages: The number of messages that the partition accepted after the last heal, or after
            the group's last read.
        served: Whether the group got anything after the last heal.
        awake_s: How long the group got nothing in all, without the silences, in seconds.
    """

    group_id: str
    since_ns: int
    until_ns: int
    messages: int
    served: bool
    awake_s: float

    @property
    def lasted_s(self) -> float:
        """How long the group got nothing, in seconds."""
        return (self.until_ns - self.since_ns) / NS_PER_S


def _applies(facts: RunFacts) -> bool:
    return facts.plan.is_grouped


def _taken(group: Group, calm_ns: int, until_ns: int) -> pa.Table:
    """Return the messages to the partition that were acknowledged after the heal."""
    sends = group.table("sends")
    kept = equal(sends, "acked", True) & _kept(group, sends)  # noqa: FBT003 - a value
    times = ints(sends, "complete_ns")
    return select(sends, kept & (times >= calm_ns) & (times < until_ns))


def _kept(group: Group, sends: pa.Table) -> Mask:
    """Return a mask of the sends that a group can get.

    In transactions, only committed sends count.
    """
    kept = equal(sends, "outcome", Outcome.OK.value)
    return kept if group.facts.plan.transactional else np.ones(sends.num_rows, dtype=np.bool_)


def _check(group: Group) -> Findings:
    facts, ended_ns = group.facts, group.facts.clients_end_ns
    if facts.calm_from_ns is None or ended_ns is None:
        return Findings(rows=0)
    if group.topic not in facts.plan.inputs:
        return Findings(rows=0, unshown=(f"no consumer group reads {group.place}",))
    taken = _taken(group, facts.calm_from_ns, ended_ns)
    if not taken.num_rows:  # Another check reports a partition that accepted no message.
        why = (
            "no message arrived after the last heal, so a group that reads nothing could not be"
            " detected"
        )
        return Findings(rows=0, unshown=(why,))
    last_ns = _last_reads(group, facts.calm_from_ns, ended_ns)
    without = _without(group, taken, last_ns, ended_ns)
    budget_s = facts.plan.budgets.group_s
    proven = [each for each in without if each.lasted_s > budget_s]
    open_ = [each for each in without if not each.served or each.awake_s > budget_s]
    unproven = [each for each in open_ if each not in proven]
    return findings(
        len(groups(facts.plan)) - len(unproven),
        proven,
        lambda each: with_stacks(group, _describe(group, each)),
        lambda each: _labels(group, each),
        gaps=tuple(_unproven(group, each) for each in unproven),
    )


def _last_reads(group: Group, calm_ns: int, until_ns: int) -> dict[str | None, int]:
    """Return, for each group, the time at which it last got a record after the last heal."""
    polls = group.table("polls")
    times = ints(polls, "complete_ns")
    read = equal(polls, "outcome", Outcome.OK.value) & (times >= calm_ns) & (times < until_ns)
    times_ns = _times(group, select(polls, read), "complete_ns")
    return {group_id: max(each) for group_id, each in times_ns.items()}


def _times(group: Group, rows: pa.Table, name: str) -> dict[str | None, list[int]]:
    """Return, for each group, the times in the given rows that its processes wrote."""
    times: dict[str | None, list[int]] = {}
    pairs = zip(ints(rows, "process").tolist(), ints(rows, name).tolist(), strict=True)
    for process, time_ns in pairs:
        times.setdefault(group_id_of(group.facts.plan, process), []).append(time_ns)
    return times


def _without(
    group: Group, taken: pa.Table, read_ns: dict[str | None, int], ended_ns: int
) -> list[Stuck]:
    """Return the groups that did not get the last messages."""
    facts, moves = group.facts, group.table("assignments")
    joined_ns = _times(group, select(moves, equal(moves, "kind", SUBSCRIBE)), "time_ns")
    polls, taken_ns = group.table("polls"), ints(taken, "complete_ns")
    ok = equal(polls, "outcome", Outcome.OK.value) & (ints(polls, "complete_ns") < ended_ns)
    processes, values = ints(polls, "process")[ok], ints(polls, "value")[ok]
    readers = np.unique(processes)
    ids = [group_id_of(facts.plan, each) for each in readers.tolist()]
    found = []
    for group_id in groups(facts.plan):
        served = group_id in read_ns
        # A member may get a message before its sender gets the acknowledgement.
        mine = within(processes, readers[[each == group_id for each in ids]])
        unread = ~within(ints(taken, "value"), values[mine])
        later_ns = taken_ns[unread & (taken_ns > read_ns.get(group_id, NONE))]
        if not len(later_ns):
            continue
        # A join moves partitions of all members. That takes time and is not a broker's fault.
        first_ns, joins = int(later_ns.min()), joined_ns.get(group_id, []) if served else []
        cuts = [first_ns, *sorted(each for each in joins if first_ns < each < ended_ns), ended_ns]
        since_ns, until_ns = max(pairwise(cuts), key=lambda part: _awake_ns(facts, *part))
        found.append(
            Stuck(
                group_id=group_id,
                since_ns=since_ns,
                until_ns=until_ns,
                messages=int((later_ns < until_ns).sum()),
                served=served,
                awake_s=_awake_ns(facts, first_ns, ended_ns) / NS_PER_S,
            )
        )
    return found


def _awake_ns(facts: RunFacts, since_ns: int, until_ns: int) -> int:
    return until_ns - since_ns - silent_ns(facts.silences, since_ns, until_ns)


def _unproven(group: Group, stuck: Stuck) -> str:
    if stuck.served:
        return (
            f"group {stuck.group_id} got no more records of {group.place} for"
            f" {stuck.awake_s:.3f} s, which is longer than the budget of"
            f" {group.facts.plan.budgets.group_s:g} s, but its members joined too often to blame"
            " the brokers"
        )
    return (
        f"group {stuck.group_id} got no record of {group.place} after the last heal, and clients"
        f" continued for {stuck.lasted_s:.3f} s after the partition accepted a message; the"
        f" budget is {group.facts.plan.budgets.group_s:g} s"
    )


def _labels(group: Group, stuck: Stuck) -> Labels:
    facts = group.facts
    proven_s = _awake_ns(facts, stuck.since_ns, stuck.until_ns) / NS_PER_S
    broken = (
        (Premise.WHOLE_RECORD, facts.cut_streams),
        (Premise.AWAKE, proven_s <= facts.plan.budgets.group_s),
    )
    return (), tuple(premise.value for premise, fails in broken if fails)


def _describe(group: Group, stuck: Stuck) -> Anomaly:
    budget, calm_ns = group.facts.plan.budgets.group_s, group.facts.calm_from_ns or 0
    return anomaly_at(
        group,
        NAME,
        sentence=f"no member of group {stuck.group_id} got a record of {group.place} from"
        f" {seconds(stuck.since_ns)} to {seconds(stuck.until_ns)}, although the"
        f" partition had {stuck.messages} unread messages; the budget is"
        f" {budget:g} s; the last heal was at {seconds(calm_ns)}",
        evidence={
            "group": stuck.group_id,
            "from_ns": stuck.since_ns,
            "to_ns": stuck.until_ns,
            "messages": stuck.messages,
            "budget_s": budget,
            "calm_from_ns": calm_ns,
            **_last_assigned(group, stuck),
        },
    )


def _last_assigned(group: Group, stuck: Stuck) -> Evidence:
    """Return the member that was last assigned the partition, and when."""
    moves = group.table("assignments")
    dealt = select(moves, equal(moves, "kind", DEALT))
    rows = zip(ints(dealt, "time_ns").tolist(), ints(dealt, "process").tolist(), strict=True)
    mine = [
        (time_ns, process)
        for time_ns, process in rows
        if time_ns < stuck.until_ns and group_id_of(group.facts.plan, process) == stuck.group_id
    ]
    at_ns, process = max(mine, default=(-1, -1))
    return {"assigned_to": known(process), "assigned_ns": known(at_ns)}


def _why(group: Group, found: Anomaly) -> str:
    name = str(found.evidence.get("group"))
    process, at_ns = number_in(found, "assigned_to"), number_in(found, "assigned_ns")
    span = (number_in(found, "from_ns"), number_in(found, "to_ns"))
    unanswered = _unanswered(group, name, span[1])
    midst_ns = sum(span) // 2
    left = _gone(group, name, (process, at_ns), span[1])
    if left:
        left_ns, how = left
        who = _coordinated(group, name, (left_ns, max(left_ns, midst_ns)))
        return f"{how}, and no later rebalance assigned it to a member{who}{unanswered}"
    if process < 0:
        who = _coordinated(group, name, (span[0], midst_ns))
        return f"no rebalance assigned the partition to a member{who}{unanswered}"
    held = f"process {process} has been assigned the partition since {seconds(at_ns)}"
    position = _position(group, process, at_ns)
    if position < 0:
        return f"{held}; its position is not recorded{unanswered}"
    log = group.final_log
    if log is None:
        return f"{held} and its position was offset {position}; no log shows that offset"
    if position >= log.end or position < log.start:
        return (
            f"{held} and its position was offset {position}, but the log goes from {log.start} to"
            f" {log.end}"
        )
    readers = _others(group, name, position, span)
    given = f", and other readers got {readers} from there on" if readers else ""
    leader = fetched_from(group, (midst_ns, midst_ns))
    who = f"{leader}," if leader else "a broker" if followers_serve(group) else "its leader"
    return (
        f"{held} and its position was offset {position}, where {log.node}'s log has"
        f" records{given}: so {who} or its client returned empty"
        f" polls{_last_given(group, name, span[0])}{unanswered}"
    )


def _coordinated(group: Group, name: str, span: tuple[int, int]) -> str:
    """Return a clause that lists the group's coordinators in a period, in order; "" if unknown."""
    by = coordinators(group.facts, GROUPS, name, span)
    return f"; its coordinator was {as_leaders(by, joint=', then ')}" if by else ""


def _gone(group: Group, name: str, last: tuple[int, int], until_ns: int) -> tuple[int, str] | None:
    """Return when and how the group's last member lost the partition; None if it still had it.

    Args:
        group: The run's rows of one partition.
        name: The group's name.
        last: The process to which the partition was last assigned, and the time; -1 if none.
        until_ns: The end of the time to search.
    """
    process, at_ns = last
    left = _left(group, process, at_ns, until_ns) if process >= 0 else None
    if process >= 0 and left is None:
        return None
    moves = group.table("assignments")
    revoked = select(moves, equal(moves, "kind", REVOKED))
    rows = zip(ints(revoked, "time_ns").tolist(), ints(revoked, "process").tolist(), strict=True)
    since_ns = left[0] if left else NONE
    mine = [
        (time_ns, other)
        for time_ns, other in rows
        if since_ns < time_ns < until_ns and group_id_of(group.facts.plan, other) == name
    ]
    if mine:
        time_ns, other = max(mine)
        before = f"process {process} {left[1]}, and " if left else ""
        gave = f"process {other} lost the partition at {seconds(time_ns)}"
        return time_ns, f"{before}{gave}, although no assignment to that process is recorded"
    return left and (left[0], f"process {process}, the last member with the partition, {left[1]}")


def _left(group: Group, process: int, at_ns: int, until_ns: int) -> tuple[int, str] | None:
    """Return when and how a member lost an assigned partition; None if it did not lose it."""
    moves, step = group.table("assignments"), group.facts.plan.concurrency
    names = ("time_ns", "process")
    ends = []
    for time_ns, other, kind in zip(
        *(ints(moves, name).tolist() for name in names), texts(moves, "kind"), strict=True
    ):
        if at_ns < time_ns < until_ns and kind == REVOKED and other == process:
            ends.append((time_ns, f"lost it at {seconds(time_ns)}"))
        later = kind == SUBSCRIBE and other > process and other % step == process % step
        if at_ns < time_ns < until_ns and later:
            gone = f"had ended at {seconds(time_ns)}, when process {other} replaced it"
            ends.append((time_ns, gone))
    return min(ends, default=None)


def _position(group: Group, process: int, at_ns: int) -> int:
    """Return the next offset of a member, from its assignment and its later reads."""
    moves, polls = group.table("assignments"), group.table("polls")
    mine = equal(moves, "kind", DEALT) & equal(moves, "process", process)
    dealt = ints(select(moves, mine & (ints(moves, "time_ns") == at_ns)), "offset")
    read = equal(polls, "process", process) & (ints(polls, "complete_ns") >= at_ns)
    return max(
        int(dealt.max(initial=NONE)), int(ints(select(polls, read), "offset").max(initial=-2)) + 1
    )


def _others(group: Group, name: str, position: int, span: tuple[int, int]) -> int:
    """Count the records at or above an offset that readers outside the group got in a period."""
    polls, plan = group.table("polls"), group.facts.plan
    times, offsets = ints(polls, "complete_ns"), ints(polls, "offset")
    late = select(polls, (offsets >= position) & (times >= span[0]) & (times <= span[1]))
    processes, rows = np.unique(ints(late, "process"), return_counts=True)
    return sum(
        count
        for process, count in zip(processes.tolist(), rows.tolist(), strict=True)
        if group_id_of(plan, process) != name
    )


def _last_given(group: Group, name: str, until_ns: int) -> str:
    """Return a clause on the last record of the partition that the group got before a time."""
    polls, plan = group.table("polls"), group.facts.plan
    processes, times = ints(polls, "process"), ints(polls, "complete_ns")
    mine = [each for each in np.unique(processes).tolist() if group_id_of(plan, each) == name]
    ok = equal(polls, "outcome", Outcome.OK.value) & (times <= until_ns)
    last_ns = int(times[ok & np.isin(processes, mine)].max(initial=NONE))
    return f"; the group got its last record of the partition at {seconds(last_ns)}" * (
        last_ns >= 0
    )


def _unanswered(group: Group, name: str, until_ns: int) -> str:
    """Return a clause if, after some time, none of the group's commits got an answer; else ""."""
    table, plan = group.table("commits"), group.facts.plan
    mine = np.array(
        [group_id_of(plan, each) == name for each in ints(table, "process").tolist()],
        dtype=np.bool_,
    )
    asked = ints(table, "asked_ns")
    ok = equal(table, "outcome", Outcome.OK.value)
    last_ns = int(asked[mine & ok].max(initial=NONE))
    later = mine & (asked > last_ns) & (asked < until_ns)
    missed = asked[later & equal(table, "outcome", Outcome.INFO.value)]
    if not len(missed) or len(missed) < later.sum():
        return ""
    return (
        f"; none of the group's {len(missed)} commits here was answered from"
        f" {seconds(int(missed.min()))} on"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="group got no records of a partition",
        many="groups got no records of partitions",
        means=(
            "Messages arrived in the partition, and no member got any of them for longer than"
            " the budget."
        ),
        promise="After the last heal every group reads arriving messages within the budget.",
    ),
    anomaly_class=AnomalyClass.LIVENESS,
    tables=(
        "sends",
        "polls",
        "assignments",
        "commits",
        "leadership",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    check=_check,
    applies=_applies,
    promise=Promise.RECOVERY,
    compares="groups and partitions where messages arrived",
    chapter=Chapter.LIVENESS,
    looks_for="after the last heal, the partition accepted a message, and then no member of a"
    " group got any of its records for longer than `group_s`. Or a group that got some"
    " records got no more for that long, though more messages came. In that case, the"
    " joins of members divide the time since the first of these messages, and the"
    " longest part counts. A record in an ok poll of any member ends the period",
    waits=Waits.BUDGET,
    during=During.AFTER_HEAL,
)
