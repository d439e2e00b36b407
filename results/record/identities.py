"""How a run's clients call themselves to brokers: groups and transactional ids, from the plan.

Clients use these names, and faults find by them who coordinates what.
"""

from results.record.plan import Plan
from results.record.shares import OF_ONE_GROUP, has_shares

MEMBERS = 4
"""Of a group, so that a few partitions are left for each."""
WATCHERS = 4
"""Each fourth thread of a worker watches."""


def watches(thread: int, *, workers: int) -> bool:
    """Tell whether a thread of the workload txn only reads, and read_uncommitted."""
    return (thread // workers) % WATCHERS == WATCHERS - 1


def group_of(thread: int, plan: Plan, *, workers: int) -> str | None:
    """Return the group of a thread's processes, None if it has none."""
    grouped, alone = plan.is_grouped or has_shares(plan), plan.workload in OF_ONE_GROUP
    if not grouped or (thread // workers) % (MEMBERS if alone else 2):
        return None
    if has_shares(plan) and thread // workers // MEMBERS * workers + thread % workers >= MEMBERS:
        return None  # Each member more is one that may lose what was never handed over.
    # A pipeline has one group, of each fourth thread: each input takes effect once.
    number = 0 if alone else thread // workers // 2 * workers // MEMBERS
    return f"{plan.prefix or ''}{plan.name}-{number}"


def transactional_id(thread: int, plan: Plan) -> str:
    """Return the `transactional.id` of a thread's producers."""
    return f"{plan.prefix or ''}{plan.name}-{thread}"


def groups(plan: Plan) -> tuple[str, ...]:
    """Return the groups of a run, in order; none if the workload has none."""
    workers = min(plan.workers, plan.concurrency)
    found = (group_of(thread, plan, workers=workers) for thread in range(plan.concurrency))
    return tuple(dict.fromkeys(group for group in found if group is not None))


def transactional_ids(plan: Plan) -> tuple[str, ...]:
    """Return the transactional ids of a run, in order; none if it writes in no transactions."""
    workers = min(plan.workers, plan.concurrency)
    writers = [each for each in range(plan.concurrency) if not watches(each, workers=workers)]
    return tuple(transactional_id(each, plan) for each in writers if plan.transactional)
