"""Compare the committed offsets that members fetched with the offsets that their group committed.

A group's committed offset is a register. Members write it, and read it when a partition is assigned
to them. Requests overlap, get lost and are retried. So several answers may be correct. Each correct
answer is between two bounds. Both bounds follow only from what clients observed.

- The lower bound needs a commit that was acknowledged before the fetch. The register may hold the
  last such commit. It may also hold another commit that may be newer, because that commit
  overlapped the last one, or got no answer.
- The upper bound is the highest offset that any member had tried to commit before the answer.

A commit without an answer may still arrive while its process runs, because the client retries. When
the next process of the same thread has begun, the old process is dead. The group then accepts no
commit from the old process, because its generation or member epoch is over.

During a fault that delays packets, a client may send a commit twice. The first copy may arrive
after the fault, because coordinators accept any commit of the current generation.

A replaced coordinator that does not know of its replacement answers from its old state. So a commit
counts only if no later coordinator than the answering one can have acknowledged it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.changes import was_quiet
from checkers.columns import NEVER, Ints, Mask, equal, ints, select, take
from checkers.facts import RunFacts
from checkers.group import Group
from checkers.group_reasons import coordinators
from checkers.positions import SUBSCRIBE
from checkers.protocol import Excuse, Labels, Premise
from checkers.reigns import ENDING, GROUPS, LATE_NS
from checkers.state_losses import disk_reasons, unclean_by
from results.record.clock import NS_PER_S
from results.record.identities import group_of
from results.record.plan import Plan
from results.record.terms import GroupAct, Outcome

TABLES = ("commits", "assignments", "kept_commits", "leadership", "replica_states")
"""The tables that the checks on groups read."""
_NONE = -1
"""The number for "no commit". It is lower than every committed offset."""
_KILLS = "kill"
_RETRIES_NS = NS_PER_S
"""The minimum time until a client retries. It is the shortest timeout that a swarm chooses."""
_ON_ITS_WAY_NS = 5 * NS_PER_S
"""The time that a delayed request needs to arrive after a fault, in addition to TCP's own wait.

TCP's wait doubles with each retry, so it may last as long as the fault.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer that a member got when it fetched its group's committed offset.

    Attributes:
        group_id: The group.
        op_id, process: The op that fetched the offset, and the process of the member.
        asked_ns, told_ns: The times of the request and of the answer.
        offset: The fetched offset; -1 if nothing is committed.
        committed_by: The op that the commit's metadata names; -1 if unknown.
        least: The lowest correct answer; -1 if no commit was acknowledged before the request.
        most: The highest correct answer; -1 if no member had tried to commit.
        last_op_id, last_ns: The op of the last commit that was acknowledged before the request, and
            the time of that acknowledgement; -1 if there was none.
        last_asked_ns: The time of that commit's request; -1 if there was none.
        most_op_id: The op that tried to commit the highest offset.
    """

    group_id: str
    op_id: int
    process: int
    asked_ns: int
    told_ns: int
    offset: int
    committed_by: int
    least: int
    most: int
    last_op_id: int
    last_ns: int
    last_asked_ns: int
    most_op_id: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Commits:
    """The commits of one group in a partition, sorted by the time of the request.

    Attributes:
        sure: Whether each commit was acknowledged.
        done_ns: The time at which each commit was acknowledged. For any other commit, the time at
            which the member's process was certainly dead.
        over_ns: The time after which no copy of each commit can arrive.
    """

    op_id: Ints
    offset: Ints
    asked_ns: Ints
    done_ns: Ints
    over_ns: Ints
    sure: Mask


def group_id_of(plan: Plan, process: int) -> str | None:
    """Return the group of a process, or None if the process is in no group."""
    workers = min(plan.workers, plan.concurrency)
    return group_of(process % plan.concurrency, plan, workers=workers) if process >= 0 else None


def answers(group: Group) -> list[Answer]:
    """Return the answers that members got when they fetched committed offsets of a partition."""
    return group.view(_worked_out)


def _worked_out(group: Group) -> list[Answer]:
    table, plan = group.table("commits"), group.facts.plan
    processes = ints(table, "process").tolist()
    names = np.array([group_id_of(plan, each) or "" for each in processes], dtype=np.str_)
    return [
        answer
        for group_id in sorted(set(names.tolist()))
        for answer in _of_group(group, group_id, select(table, np.asarray(names == group_id)))
    ]


def _of_group(group: Group, group_id: str, rows: pa.Table) -> Iterator[Answer]:
    commits = _commits(group, rows)
    told = equal(rows, "act", GroupAct.FETCH.value) & equal(rows, "outcome", Outcome.OK.value)
    columns = ("op_id", "process", "asked_ns", "told_ns", "offset", "committed_by")
    fetches = zip(*(ints(select(rows, told), name).tolist() for name in columns), strict=True)
    for op_id, process, asked_ns, told_ns, offset, committed_by in fetches:
        named = commits.sure & (commits.op_id == committed_by)
        named_ns = int(commits.asked_ns[named].max(initial=_NONE))
        replaced_ns = _replaced_ns(group.facts, group_id, (asked_ns, told_ns), named_ns)
        before = commits.sure & (commits.done_ns < min(asked_ns, replaced_ns))
        tried = np.flatnonzero(commits.asked_ns < told_ns)
        highest = tried[np.argmax(commits.offset[tried])] if len(tried) else _NONE
        last = np.flatnonzero(before)[-1] if before.any() else _NONE
        # The last acknowledged commit overwrites every commit that was over before its request.
        may = tried[commits.over_ns[tried] >= commits.asked_ns[last]] if last >= 0 else tried
        yield Answer(
            group_id=group_id,
            op_id=op_id,
            process=process,
            asked_ns=asked_ns,
            told_ns=told_ns,
            offset=offset,
            committed_by=committed_by,
            least=int(commits.offset[may].min()) if last >= 0 else _NONE,
            most=int(commits.offset[highest]) if highest >= 0 else _NONE,
            last_op_id=int(commits.op_id[last]) if last >= 0 else _NONE,
            last_ns=int(commits.done_ns[last]) if last >= 0 else _NONE,
            last_asked_ns=int(commits.asked_ns[last]) if last >= 0 else _NONE,
            most_op_id=int(commits.op_id[highest]) if highest >= 0 else _NONE,
        )


def _replaced_ns(facts: RunFacts, group_id: str, span: tuple[int, int], named_ns: int) -> int:
    """Return the time from which the coordinator that answered may already have been replaced.

    Without the leaders of the offsets topic, the coordinator may have been replaced since the start
    of each fault that ends no broker.

    Args:
        facts: The run's context.
        group_id: The group.
        span: The times of the request and of the answer.
        named_ns: When the acknowledged commit that the answer names was asked for; -1 if unknown. A
            coordinator that had been replaced by then does not know this commit.
    """
    led = coordinators(facts, GROUPS, group_id, span)
    if not led:
        faults = (
            each.begun_ns
            for each in facts.disturbances
            if each.kind not in ENDING and span[0] <= each.ended_ns + LATE_NS
        )
        return min(faults, default=NEVER)
    last = led[-1]
    knew = (each.epoch for each in led if named_ns <= each.replaced_ns + LATE_NS)
    oldest = min(knew, default=last.epoch)
    later = (
        each.from_ns
        for each in facts.reigns
        if (each.topic, each.partition) == (last.topic, last.partition) and each.epoch > oldest
    )
    return min(later, default=NEVER)


def _commits(group: Group, rows: pa.Table) -> _Commits:
    ours = select(rows, equal(rows, "act", GroupAct.COMMIT.value))
    ours = take(ours, np.argsort(ints(ours, "asked_ns"), kind="stable"))
    sure = equal(ours, "outcome", Outcome.OK.value)
    asked_ns, dead_ns = ints(ours, "asked_ns"), _dead_ns(group, ints(ours, "process"))
    done_ns = np.where(sure, ints(ours, "told_ns"), dead_ns)
    held_ns = np.minimum(_held_ns(group.facts, asked_ns, done_ns), dead_ns)
    return _Commits(
        op_id=ints(ours, "op_id"),
        offset=ints(ours, "offset"),
        asked_ns=asked_ns,
        done_ns=done_ns,
        over_ns=np.maximum(done_ns, held_ns),
        sure=sure,
    )


def _held_ns(facts: RunFacts, asked_ns: Ints, done_ns: Ints) -> Ints:
    """Return the time until which a delayed copy of each commit may arrive; -1 if no copy can."""
    held_ns = np.full(len(asked_ns), _NONE, dtype=np.int64)
    again = done_ns - asked_ns >= _RETRIES_NS
    for fault in facts.disturbances:
        if fault.kind != _KILLS:  # A process that ends loses its connections at once.
            lasted_ns = min(fault.ended_ns, NEVER // 2) - fault.begun_ns
            met = again & (asked_ns <= fault.ended_ns) & (done_ns >= fault.begun_ns)
            held_ns[met] = np.maximum(held_ns[met], fault.begun_ns + 2 * lasted_ns + _ON_ITS_WAY_NS)
    return held_ns


def _dead_ns(group: Group, processes: Ints) -> Ints:
    """Return, for each process, the time at which the next process of its thread had begun."""
    moves, step = group.table("assignments"), group.facts.plan.concurrency
    joins = select(moves, equal(moves, "kind", SUBSCRIBE))
    begun: dict[int, list[tuple[int, int]]] = {}
    for process, time_ns in zip(
        ints(joins, "process").tolist(), ints(joins, "time_ns").tolist(), strict=True
    ):
        begun.setdefault(process % step, []).append((process, time_ns))
    dead = {
        process: min(
            (at for later, at in begun.get(process % step, []) if later > process), default=NEVER
        )
        for process in set(processes.tolist())
    }
    return np.array([dead[process] for process in processes.tolist()], dtype=np.int64)


def labels(group: Group, known_ns: int, missed_ns: int) -> Labels:
    """Return the excuses for a forgotten committed offset, and the broken premises.

    A group's commits are records of `__consumer_offsets`. An unclean election may lose the last
    records of this topic. A loss on the disks of all replicas may remove these records, too. The
    function does not know which partition of the topic has the group's commits. So any partition
    that was hit may be the partition with these commits.

    Args:
        group: The partition of the committed offset.
        known_ns: The time at which the commit was acknowledged.
        missed_ns: The time at which the commit was missing.
    """
    facts = group.facts
    excuses = disk_reasons(facts, GROUPS, known_ns=known_ns, needed_ns=missed_ns)
    unclean = facts.plan.unclean_elections and unclean_by(facts, GROUPS, by_ns=missed_ns)
    if unclean and not was_quiet(group, known_ns, missed_ns):
        excuses.add(Excuse.UNCLEAN.value)
    broken = (Premise.WHOLE_RECORD.value,) if facts.cut_streams else ()
    return tuple(sorted(excuses)), broken
