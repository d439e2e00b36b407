"""Find acknowledged commits that are in no broker's log of `__consumer_offsets` after the stop.

A member writes the id of its op into the metadata of each commit, and the commit's record contains
this metadata. A log without gaps from offset 0 on was never compacted. So every record that was
appended and not truncated is still in the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.columns import equal, ints, present, select
from checkers.facts import FINAL
from checkers.group import Group
from checkers.group_commits import group_id_of
from checkers.protocol import Premise
from results.record.terms import GroupAct, Outcome

_ANY_ACKS = "offsets.commit.required.acks"
"""If this is set, a coordinator may acknowledge a commit before all in-sync replicas have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """An acknowledged commit that no broker's log has.

    Attributes:
        group_id: The group.
        op_id, process: The op that committed the offset, and its process.
        offset: The committed offset.
        asked_ns, acknowledged_ns: The times of the request and of the acknowledgement.
        looked_on: The nodes whose logs were searched.
    """

    group_id: str
    op_id: int
    process: int
    offset: int
    asked_ns: int
    acknowledged_ns: int
    looked_on: tuple[str, ...]


def looked_for(group: Group) -> tuple[int, list[Gone]]:
    """Search the logs for acknowledged commits.

    The result is the number of these commits, and the commits that are missing. The search is
    skipped if a log may have been compacted, or if no log has commits of any partition. It is also
    skipped if the plan sets `offsets.commit.required.acks`.
    """
    return group.view(_looked_for)


def unread_premises(group: Group) -> tuple[str, ...]:
    """Return the premise that is broken, for a missing commit, if some log could not be read."""
    facts = group.facts
    read = facts.collected_nodes - facts.unreadable_nodes
    whole = {f"n{broker}" for broker in facts.brokers} <= read
    return () if whole else (Premise.READABLE_LOGS.value,)


def _looked_for(group: Group) -> tuple[int, list[Gone]]:
    kept = group.table("kept_commits")
    kept = select(kept, equal(kept, "snapshot", FINAL))
    looked_on = tuple(sorted(group.facts.commits_kept_on))
    if not looked_on or any(_ANY_ACKS in each for each in group.facts.plan.settings):
        return 0, []
    rows = group.table("commits")
    sure = equal(rows, "act", GroupAct.COMMIT.value) & equal(rows, "outcome", Outcome.OK.value)
    acked = select(rows, sure & present(rows, "offset"))
    # A negative offset, such as -1001, means that the member had no position.
    acked = select(acked, ints(acked, "offset") >= 0)
    missing = ~np.isin(ints(acked, "op_id"), ints(kept, "committed_by"))
    return acked.num_rows, list(_gone(group, select(acked, missing), looked_on))


def _gone(group: Group, rows: pa.Table, looked_on: tuple[str, ...]) -> Iterator[Gone]:
    names = ("op_id", "process", "offset", "asked_ns", "told_ns")
    for op_id, process, offset, asked_ns, told_ns in zip(
        *(ints(rows, name).tolist() for name in names), strict=True
    ):
        yield Gone(
            group_id=group_id_of(group.facts.plan, process) or "",
            op_id=op_id,
            process=process,
            offset=offset,
            asked_ns=asked_ns,
            acknowledged_ns=told_ns,
            looked_on=looked_on,
        )
