"""The names of a run's groups and transactional ids, computed from the plan.

Clients use these names. Faults use them to find the coordinator of a group or transactional id.
"""

from results.record.plan import Plan
from results.record.shares import OF_ONE_GROUP, has_shares

MEMBERS = 4
"""Number of members of a group. It is small, so that each member gets a few partitions."""
WATCHERS = 4
"""One of this many threads of a worker only reads."""


def watches(thread: int, *, workers: int) -> bool:
    """Return whether a thread of the workload `txn` is a reader that uses `read_uncommitted`."""
    return (thread // workers) % WATCHERS == WATCHERS - 1


def group_of(thread: int, plan: Plan, *, workers: int) -> str | None:
    """Return the group of a thread's processes, or None if they belong to no group."""
    grouped, alone = plan.is_grouped or has_shares(plan), plan.workload in OF_ONE_GROUP
    if not grouped or (thread // workers) % (MEMBERS if alone else 2):
        return None
    if has_shares(plan) and thread // workers // MEMBERS * workers + thread % workers >= MEMBERS:
        # More members would lose more records that were acquired but never returned to a client.
        return None
    # A pipeline has one group, made of every fourth thread, so each input is processed once.
    number = 0 if alone else thread // workers // 2 * workers // MEMBERS
    return f"{plan.prefix or ''}{plan.name}-{number}"


def transactional_id(thread: int, plan: Plan) -> str:
    """Return the `transactional.id` of a thread's producers."""
    return f"{plan.prefix or ''}{plan.name}-{thread}"


def groups(plan: Plan) -> tuple[str, ...]:
    """Return the groups of a run, in order; empty if the workload has none."""
    workers = min(plan.workers, plan.concurrency)
    found = (group_of(thread, plan, workers=workers) for thread in range(plan.concurrency))
    return tuple(dict.fromkeys(group for group in found if group is not None))


def transactional_ids(plan: Plan) -> tuple[str, ...]:
    """Return the transactional ids of a run, in order; empty if the run uses none."""
    workers = min(plan.workers, plan.concurrency)
    writers = [each for each in range(plan.concurrency) if not watches(each, workers=workers)]
    return tuple(transactional_id(each, plan) for each in writers if plan.transactional)
