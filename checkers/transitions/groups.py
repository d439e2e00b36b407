"""Find the group members that got a partition, and the offsets where these members began.

One source is `assignments`: a rebalance gave the partition to a member, or revoked it. The other
source is `commits`: offsets that members committed, or fetched after an assignment. A member is a
process. The plan assigns processes to groups.

A fetched offset is compared with the last commit that was acknowledged before the fetch. If the
fetched offset is higher, it comes from a commit that was not yet acknowledged.

What would not prove it: a member that left without a leave request, because no row shows that the
member left. So a partition may be assigned again although no row shows that the last member lost
the partition.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import distinct, equal, ints, order_of, select, take, texts
from checkers.group import Group
from checkers.group_commits import group_id_of
from checkers.transitions.events import Events
from results.record.terms import AssignmentKind, GroupAct, Outcome


def find(group: Group, events: Events) -> None:
    """Add the moves and offsets of consumer groups to the transitions in `events`."""
    moves = group.table("assignments")
    given = equal(
        moves, "kind", AssignmentKind.REBALANCE_ASSIGNED, AssignmentKind.REBALANCE_REVOKED
    )
    for of, rows in _by_group(group, select(moves, given)):
        _add_moves(of, rows, events)
    for of, rows in _by_group(group, group.table("commits")):
        _add_positions(of, rows, events)


def _by_group(group: Group, rows: pa.Table) -> list[tuple[str, pa.Table]]:
    """Return, for each group, the group's name and rows."""
    processes, plan = ints(rows, "process"), group.facts.plan
    names = {each: group_id_of(plan, each) or "" for each in distinct(processes).tolist()}
    members = {name: [each for each in names if names[each] == name] for name in names.values()}
    return [
        (name, select(rows, np.isin(processes, np.array(members[name], dtype=np.int64))))
        for name in sorted(members)
    ]


def _add_moves(of: str, rows: pa.Table, events: Events) -> None:
    rows = take(rows, order_of(ints(rows, "time_ns"), ints(rows, "op_id")))
    owner, revoked = -1, True
    for kind, process, time_ns in zip(
        texts(rows, "kind"), ints(rows, "process").tolist(), ints(rows, "time_ns").tolist(),
        strict=True,
    ):  # fmt: skip
        if kind == AssignmentKind.REBALANCE_REVOKED:
            revoked = revoked or process == owner
            events.add("group/revoked", time_ns, of=of)
            continue
        if owner < 0:
            events.add("group/first-assigned", time_ns, of=of)
        elif process == owner:
            events.add("group/kept", time_ns, of=of)
        else:
            events.add("group/moved" if revoked else "group/moved-unrevoked", time_ns, of=of)
        owner, revoked = process, False


def _add_positions(of: str, rows: pa.Table, events: Events) -> None:
    ok = equal(rows, "outcome", Outcome.OK)
    commits = select(rows, ok & equal(rows, "act", GroupAct.COMMIT) & (ints(rows, "told_ns") >= 0))
    commits = take(commits, order_of(ints(commits, "told_ns"), ints(commits, "offset")))
    told = select(rows, ok & equal(rows, "act", GroupAct.FETCH))
    before = np.searchsorted(ints(commits, "told_ns"), ints(told, "asked_ns")) - 1
    last = np.append(ints(commits, "offset"), -1)[before]  # Index -1 selects the appended value.
    offsets, times = ints(told, "offset"), ints(told, "told_ns")
    events.add_all("group/no-position", times[(offsets < 0) & (last < 0)], of=of)
    events.add_all("group/at-last-commit", times[(offsets == last) & (last >= 0)], of=of)
    events.add_all("group/ahead-of-last-commit", times[offsets > last], of=of)
    events.add_all("group/behind-last-commit", times[offsets < last], of=of)
