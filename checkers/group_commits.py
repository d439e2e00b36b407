"""What a group had committed of a partition when a member asked, and what the member was told.

A group's position is a register that its members write, and read when a partition is given to
them. Requests overlap, get lost, and are tried again; so what a member may be told lies between two
bounds, each worked out from what the clients saw alone.

- The least: some commit was acknowledged before the question was asked. What may stand there is the
  last of those, or any commit that nobody can tell to have come before it: one that was under way
  together with it, or that had no answer. One without an answer may still come, as long as its
  process lives: its client tries again. Once another process of its thread has begun it is dead,
  and the group takes nothing of it (its generation, or member epoch, is over). One that waited for
  its answer while a fault held packets may have been sent twice, and its first copy arrive after
  the fault: Kafka's coordinators store whatever a member of the present generation sends.
- The most: the highest position that anybody had tried to commit before the answer was there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.changes import NEVER_NS, was_quiet
from checkers.columns import Ints, Mask, equal, ints, select, take
from checkers.disk_losses import TOLD_LATE_NS
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.positions import SUBSCRIBE
from checkers.protocol import Excuse, Labels, Premise
from results.record.clock import NS_PER_S
from results.record.identities import group_of
from results.record.plan import Plan
from results.record.terms import GroupAct, Outcome

TABLES = ("commits", "assignments", "kept_commits", "leadership", "replica_states")
"""What the checkers of groups look at."""
_NEVER = int(np.iinfo(np.int64).max)
_NONE = -1
"""Nothing was committed: below each position."""
_ANY = -1
_KILLS = "kill"
OFFSETS = "__consumer_offsets"
_COPIES = "offsets.topic.replication.factor"
"""Three, or as many as there are nodes, unless the plan sets it."""
_RETRIES_NS = NS_PER_S
"""No client sends a request a second time sooner: the shortest time-out that a swarm draws."""
_ON_ITS_WAY_NS = 5 * NS_PER_S
"""How long a copy is under way after a fault, beside TCP's own wait. That doubles, so it may be as
long as the fault was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a member was told of its group's position.

    Attributes:
        group_id: The group.
        op_id, process: The op in which the member asked, and whose it was.
        asked_ns, told_ns: When it asked, and when it had the answer.
        offset: The answer, -1: nothing is committed.
        committed_by: The op whose commit it is, by its metadata; -1 if nobody knows.
        least, most: The bounds of it; -1 if nothing need be, or was tried to be, committed.
        last_op_id, last_ns: The last commit that was acknowledged before: its op, and when it was
            acknowledged; -1 if there was none.
        most_op_id: The op that tried to commit the most.
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
    most_op_id: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Commits:
    """The commits of one group in a partition, by the time at which they were asked for.

    Attributes:
        sure: Which were acknowledged.
        done_ns: When it was acknowledged, or its process was dead.
        over_ns: When no copy of it could come any more.
    """

    op_id: Ints
    offset: Ints
    asked_ns: Ints
    done_ns: Ints
    over_ns: Ints
    sure: Mask


def group_id_of(plan: Plan, process: int) -> str | None:
    """Return the group of a process, None if it has none."""
    workers = min(plan.workers, plan.concurrency)
    return group_of(process % plan.concurrency, plan, workers=workers) if process >= 0 else None


def answers(group: Group) -> list[Answer]:
    """Return what members were told of a partition, in the order of the record."""
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
        before = commits.sure & (commits.done_ns < asked_ns)
        tried = np.flatnonzero(commits.asked_ns < told_ns)
        highest = tried[np.argmax(commits.offset[tried])] if len(tried) else _NONE
        last = np.flatnonzero(before)[-1] if before.any() else _NONE
        # Whatever was over before the last one was asked for is written over by it.
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
            most_op_id=int(commits.op_id[highest]) if highest >= 0 else _NONE,
        )


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
    """Return until when a first copy of each commit may have been held; -1: there was only one."""
    held_ns = np.full(len(asked_ns), _NONE, dtype=np.int64)
    again = done_ns - asked_ns >= _RETRIES_NS
    for fault in facts.disturbances:
        if fault.kind != _KILLS:  # The connection of a process that ends is gone at once.
            lasted_ns = min(fault.ended_ns, NEVER_NS // 2) - fault.begun_ns
            met = again & (asked_ns <= fault.ended_ns) & (done_ns >= fault.begun_ns)
            held_ns[met] = np.maximum(held_ns[met], fault.begun_ns + 2 * lasted_ns + _ON_ITS_WAY_NS)
    return held_ns


def _dead_ns(group: Group, processes: Ints) -> Ints:
    """Return when the next process of each one's thread had begun."""
    moves, step = group.table("assignments"), group.facts.plan.concurrency
    joins = select(moves, equal(moves, "kind", SUBSCRIBE))
    begun: dict[int, list[tuple[int, int]]] = {}
    for process, time_ns in zip(
        ints(joins, "process").tolist(), ints(joins, "time_ns").tolist(), strict=True
    ):
        begun.setdefault(process % step, []).append((process, time_ns))
    dead = {
        process: min(
            (at for later, at in begun.get(process % step, []) if later > process), default=_NEVER
        )
        for process in set(processes.tolist())
    }
    return np.array([dead[process] for process in processes.tolist()], dtype=np.int64)


def labels(group: Group, known_ns: int, missed_ns: int) -> Labels:
    """Return what allows that a position was forgotten, or takes the trust of that.

    The group's positions are records of `__consumer_offsets`: an unclean election may cost its last
    ones, and so may disks that lost them on each replica. In which of its partitions they are is
    not known here: any that was hit may be the one.

    Args:
        group: The partition whose position it is.
        known_ns: When it was acknowledged.
        missed_ns: When it was not there.
    """
    facts = group.facts
    taken = _taken_by_disks(facts, known_ns)
    copies = facts.plan.internal_copies(_COPIES)
    sure = {
        loss.excuse
        for losses in taken
        if len(frozenset[str]().union(*(each.nodes for each in losses))) >= copies
        for loss in losses
    }
    excuses = sure or ({Excuse.LAST_COPIES.value} if taken else set())
    quiet = was_quiet(group, known_ns, missed_ns)
    if facts.plan.unclean_elections and not quiet:
        excuses.add(Excuse.UNCLEAN.value)
    broken = (Premise.WHOLE_RECORD.value,) if facts.cut_streams else ()
    return tuple(sorted(excuses)), broken


def _taken_by_disks(facts: RunFacts, known_ns: int) -> list[list[DiskLoss]]:
    """Return what may have cost a position that was acknowledged then, partition by partition."""
    taken: dict[int, list[DiskLoss]] = {}
    for loss in facts.disk_losses:
        cost = loss.topic in {OFFSETS, ""} and loss.end_after < loss.end_before
        if cost and known_ns <= loss.until_ns + TOLD_LATE_NS:
            taken.setdefault(loss.partition, []).append(loss)
    anywhere = taken.pop(_ANY, [])
    return [losses + anywhere for losses in taken.values()] or [anywhere] * bool(anywhere)
