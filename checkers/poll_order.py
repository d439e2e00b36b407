"""poll-skip, nonmonotonic-poll: a reader skipped committed records, or went back.

Definition: a reader's position is the last record of its previous ok poll. After an assignment, a
rebalance or a seek, the position is the offset just before the one that was set. `poll-skip`: a
committed record is between the position and the first record of the next ok poll.
`nonmonotonic-poll`: that first record's offset is not above the position. `int-poll-skip` and
`int-nonmonotonic-poll` are the same anomalies between neighbouring records of one op, with all
polls of the op joined. The `int-` checks leave out ops with a rebalance.

Why it proves something: a consumer reads a partition's log from its position on, in the order of
offsets, without gaps. Records below the last stable offset are final.

What would not prove it: offsets without a committed record (transaction markers, aborted records).
Records that retention removed, or that the cleaner may have removed (`cleaned.py`). An assignment
that names another offset, or no offset, which means the beginning. A seek, an assignment that
leaves the partition out, or a new process.

After a rebalance, a member starts at its group's committed offset. The check uses the offset that
the member got. `commit-lost` and `commit-ahead` check that offset. If that offset is unknown, the
anomaly is allowed. A member may also go back if an unclean election or a disk fault removed the
last record that it had read. It may also go back if its position was beyond the end of a shortened
log, because its client then continues at the current start or end of the log. An event that began
later allows no step back. A skip is allowed if it begins or ends at offsets that an unclean leader
may have lacked. It is also allowed if all replicas' disks lost the reader's last record.

If a reader skips only lost records, `lost-write` reports the loss instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.cleaned import stayed, superseded
from checkers.client_reasons import final_logs, hold, nodes_at, passed_over, record_at, server
from checkers.columns import NEVER, NONE, Ints, Mask, equal, ints, select, within
from checkers.cuts import cut_off
from checkers.dropped import dropped, taken_by_disks
from checkers.excuses import TAKES_RECORDS
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, could_not_show, number_in, numbers_in, seconds
from checkers.group import Group
from checkers.lost_write import lost_values
from checkers.markers import marker_behind
from checkers.positions import (
    REBALANCES,
    SUBSCRIBE,
    Steps,
    ok_inner_poll_steps,
    poll_steps,
    read_rows,
)
from checkers.protocol import Chapter, Checker, Excuse, Findings, Premise, Promise, Proved, Waits
from checkers.reads import others, reads_among, reads_of
from checkers.step_findings import step_findings
from checkers.symptoms import SAME_OP
from checkers.transactions import READ_COMMITTED
from checkers.unclean_elections import took_values, unclean_elections
from checkers.version_order import VersionOrder, version_order
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Evidence, Words

SKIP, INT_SKIP = "poll-skip", "int-poll-skip"
NONMONOTONIC, INT_NONMONOTONIC = "nonmonotonic-poll", "int-nonmonotonic-poll"
_GOING_BACK = {NONMONOTONIC, INT_NONMONOTONIC}
_SHOWN = 10
_ONCE = "no reader got a record from a known position"
_ALONE = "no op got two records of one partition"
_UNSHOWN = {
    SKIP: f"{_ONCE}, so a skip could not be detected",
    NONMONOTONIC: f"{_ONCE}, so a step back could not be detected",
    INT_SKIP: f"{_ALONE}, so a skip inside of an op could not be detected",
    INT_NONMONOTONIC: f"{_ALONE}, so a step back inside of an op could not be detected",
}


def _check_skips(name: str, steps_of: Callable[[Group], Steps]) -> Callable[[Group], Findings]:
    def check(group: Group) -> Findings:
        order, steps = group.view(_there), group.view(steps_of)
        jumps = _jumps(group, order, steps)
        if len(jumps.at):
            order = group.view(_kept)
            jumps = _jumps(group, order, jumps)
        return _findings(group, name, jumps, order, rows=len(steps.at))

    return check


def _check_order(name: str, steps_of: Callable[[Group], Steps]) -> Callable[[Group], Findings]:
    def check(group: Group) -> Findings:
        steps = group.view(steps_of)
        back = steps.where(ints(group.table("polls"), "offset")[steps.at] <= steps.after)
        return _findings(group, name, back, None, rows=len(steps.at))

    return check


def _there(group: Group) -> VersionOrder:
    """Return the committed records that no cleaner can have removed before a reader got them."""
    order = group.view(version_order)
    if not group.facts.compacted:
        return order
    order = order.where(within(order.values, stayed(group)))
    return order.where(~superseded(group, order.offsets, order.values))


def _kept(group: Group) -> VersionOrder:
    """Return the records of `_there` that were not lost."""
    return group.view(_there).without(group.view(lost_values))


def _skipped(group: Group, order: VersionOrder, after: int, offset: int) -> tuple[Ints, Ints]:
    """Return offset and value of the committed records that retention kept between two offsets."""
    ends = np.searchsorted(order.offsets, [max(after + 1, group.log_start), offset]).tolist()
    return order.offsets[slice(*ends)], order.values[slice(*ends)]


def _jumps(group: Group, order: VersionOrder, steps: Steps) -> Steps:
    """Return the reader steps that skip committed records, if retention did not remove them."""
    since = np.maximum(steps.after, group.log_start - 1)
    return steps.where(order.between(since, ints(group.table("polls"), "offset")[steps.at]) > 0)


def _findings(
    group: Group, name: str, steps: Steps, order: VersionOrder | None, *, rows: int
) -> Findings:
    story = _Story(group=group, name=name, steps=steps, order=order)
    back = name in _GOING_BACK
    missed_ns = _got_ns(group, steps) if back else np.full(len(steps.at), NEVER)
    unclean = _over_an_unclean_election(group, name, steps, missed_ns)
    lost = {Excuse.UNCLEAN: unclean, **_stood_on_the_lost(group, steps, missed_ns)}
    if back:
        sent_back = _sent_back(group, steps)
        lost = {excuse: mask & sent_back for excuse, mask in lost.items()}
    cut = group.facts.cut_streams and name in _rest_on_others(group.facts)
    anew = _sent_to_the_start(group, steps, missed_ns) & back
    found = step_findings(
        rows,
        ints(group.table("polls"), "offset")[steps.at],
        story.describe,
        {**lost, Excuse.REBALANCE: steps.rebalanced | anew},
        broken=(Premise.WHOLE_RECORD.value,) if cut else (),
    )
    return could_not_show(found, _UNSHOWN[name], given=bool(read_rows(group).any()))


def _got_ns(group: Group, steps: Steps) -> Ints:
    """Return the time at which the reader got the later record of each step."""
    got_ns = ints(group.table("polls"), "complete_ns")[steps.at]
    return np.where(got_ns >= 0, got_ns, NEVER)


def _sent_to_the_start(group: Group, steps: Steps, missed_ns: Ints) -> Mask:
    """Return a mask of steps whose rebalance or seek may lead beyond the end of a shortened log."""
    may_lack = unclean_elections(group).took(np.full_like(steps.at, NEVER), missed_ns=missed_ns)
    for loss in group.facts.disk_losses:
        may_lack |= loss.concerns(group.topic, group.partition) & (loss.began_ns <= missed_ns)
    return steps.dealt & may_lack


def _over_an_unclean_election(group: Group, name: str, steps: Steps, missed_ns: Ints) -> Mask:
    """Return a mask of reader steps from the log before an unclean election to the log after it.

    For steps that go back, `_sent_back` decides. With transactions, a marker may have taken the
    place of a record that was lost, so skips between records of later leaders count, too.
    """
    polls = group.table("polls")
    offsets = np.maximum(steps.after, ints(polls, "offset")[steps.at])
    if name in _GOING_BACK or group.facts.plan.transactional:
        return unclean_elections(group).took(offsets, missed_ns=missed_ns)
    values = np.append(ints(polls, "value"), NONE)[steps.since]  # -1: appended value
    told = np.append(ints(polls, "leader_epoch"), NONE)
    both = np.minimum(told[steps.since], told[steps.at])
    return took_values(group, offsets, values, both)


def _stood_on_the_lost(group: Group, steps: Steps, missed_ns: Ints) -> dict[Excuse, Mask]:
    """Return, for each excuse, a mask of the steps whose earlier record was lost on all disks."""
    read_ns = np.append(ints(group.table("polls"), "complete_ns"), NONE)  # -1: appended value
    return taken_by_disks(group, steps.after, read_ns[steps.since], missed_ns)


def _sent_back(group: Group, steps: Steps) -> Mask:
    """Return a mask of the steps of group members whose earlier record is now missing.

    The client of a member goes back by itself if its position is beyond the log's end (KIP-320, and
    `auto.offset.reset`). The client of a reader with a manual assignment reports an error instead.
    """
    polls, moves = group.table("polls"), group.table("assignments")
    members = ints(select(moves, equal(moves, "kind", SUBSCRIBE, *REBALANCES)), "process")
    values = np.append(ints(polls, "value"), NONE)[steps.since]  # -1: appended value
    gone = (steps.since >= 0) & dropped(group, steps.after, values)
    return np.asarray(gone & within(ints(polls, "process")[steps.at], members), dtype=np.bool_)


def _rest_on_others(facts: RunFacts) -> set[str]:
    """Return the anomalies whose check also needs rows of other ops than the reader's.

    If an assignment is missing from the run's record, the reader's move looks like a skip. Members
    of groups move inside of an op, too. If the sends of an aborted transaction are missing, a
    reader that skipped the aborted records seems to skip committed records.
    """
    inside = {INT_NONMONOTONIC, INT_SKIP} if facts.plan.is_grouped else set()
    return {SKIP, NONMONOTONIC} | inside | ({INT_SKIP} if facts.plan.transactional else set())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Story:
    """A description of the anomalies in a reader's steps from one record to the next.

    Attributes:
        order: The committed records that may have been skipped. None for steps back.
    """

    group: Group
    name: str
    steps: Steps
    order: VersionOrder | None

    def describe(self, index: int) -> Anomaly:
        """Return the anomaly for one pair of consecutive records."""
        polls, steps = self.group.table("polls"), self.steps
        at, since, after = (int(column[index]) for column in (steps.at, steps.since, steps.after))
        row = _row(polls, at)
        before = _row(polls, since) if since >= 0 else None
        where = self.group.place
        stood = f"positioned at offset {after + 1} of {where}" if before is None else (
            f"which had read offset {after} of {where} in op {before['op_id']}"
        )  # fmt: skip
        told, evidence = self._jump(after, row["offset"])
        return anomaly_at(
            self.group,
            self.name,
            sentence=f"process {row['process']}, {stood}, got offset {row['offset']} next, in op"
            f" {row['op_id']} at {seconds(row['invoke_ns'])}: {told}",
            evidence={
                "process": row["process"],
                "op_id": row["op_id"],
                "previous_op_id": before["op_id"] if before else None,
                "after_offset": after,
                "offset": row["offset"],
                "value": row["value"],
                "previous_value": before["value"] if before else None,
                "read_ns": row["invoke_ns"],
                "across_rebalance": bool(steps.rebalanced[index]),
                **evidence,
            },
            offset=row["offset"],
        )

    def _jump(self, after: int, offset: int) -> tuple[str, Evidence]:
        if self.order is None:
            return f"a step back of {after + 1 - offset}", {}
        skipped = _skipped(self.group, self.order, after, offset)
        count = len(skipped[0])
        offsets, values = (each[:_SHOWN].tolist() for each in skipped)
        named = [
            f"{self.group.facts.name_of(value)} at offset {at}"
            for at, value in zip(offsets[:3], values[:3], strict=True)
        ]
        more = f" and {count - len(named)} more" if count > len(named) else ""
        records = "a committed record" if count == 1 else f"{count} committed records"
        return f"it skipped {records}: {', '.join(named)}{more}", {
            "skipped": count, "skipped_offsets": offsets, "skipped_values": values,
        }  # fmt: skip


def _row(table: pa.Table, row: int) -> dict[str, int]:
    names = ("op_id", "process", "offset", "value", "invoke_ns")
    return {name: ints(table.slice(row, 1), name).item() for name in names}


def _keeps_known(facts: RunFacts) -> bool:
    """Return whether the run shows which records the logs keep until retention removes them."""
    return facts.keeps_known


_POLLS = (
    "polls", "assignments", "sends", "leadership", "replica_records", "replica_states",
    "truncations",
)  # fmt: skip
_ALL = (*_POLLS, "final_reads")
_STEPS = "steps of readers from their position to their next record"
_INNER_STEPS = "pairs of records that follow one another in an op"


def _why(group: Group, found: Anomaly) -> str:
    """Explain the probable cause: why a reader went back or skipped records."""
    if found.evidence.get("across_rebalance"):
        return (
            "its group was rebalanced in between: a member continues at the committed offset of"
            " its group"
        )
    value, op_id = number_in(found, "value"), number_in(found, "op_id")
    if found.name in _GOING_BACK:
        reads = reads_of(group, number_in(found, "offset"), [value])
        before = number_in(found, "previous_value")
        who = server(group, value, {op_id: reads.get(op_id, NONE)}, behind=before)
        return _went_back(group, found, who)
    polls = group.table("polls")
    stood = equal(polls, "op_id", number_in(found, "previous_op_id"))
    stood &= ints(polls, "offset") == number_in(found, "after_offset")
    epoch = int(ints(polls, "leader_epoch")[stood].max(initial=NONE))
    values = numbers_in(found, "skipped_values")
    who = passed_over(group, values, op_id, behind=value, epoch=epoch)
    return _left_out(group, found, f"{who} or the client")


def _unmoved(found: Anomaly) -> str:
    """Return a phrase: no seek or assignment happened between two polls. "" within one op."""
    between = number_in(found, "previous_op_id") not in {NONE, number_in(found, "op_id")}
    return "; no seek or assignment happened in between" * between


def _left_out(group: Group, found: Anomaly, who: str) -> str:
    after, next_ = number_in(found, "after_offset"), number_in(found, "offset")
    offsets, values = _skipped(group, group.view(_kept), after, next_)
    it = "it" if len(offsets) == 1 else "them"
    own = _returned(group, offsets, values, number_in(found, "op_id"))
    if own.any() and own.all():
        nodes = [log.node for log in final_logs(group) if log.holds(offsets, values).all()]
        return Proved(
            f"op {number_in(found, 'op_id')} itself returned {it} in the wrong place: {who} changed"
            f" the order of the log{_because(f'{hold(nodes)} {it}' * bool(nodes))}"
        )
    offsets, values = offsets[~own], values[~own]
    it = "it" if len(offsets) == 1 else "them"
    nodes = [log.node for log in final_logs(group) if log.holds(offsets, values).all()]
    if not len(offsets):
        return f"{who} omitted the skipped records"
    offset, value = int(offsets[0]), int(values[0])
    if final_logs(group) and not nodes_at(group, offset, value):
        return f"no log that was read holds {group.facts.name_of(value)} at offset {offset}"
    marker = marker_behind(group, offset, value) if it == "it" else ""
    got = _others(group, found, offsets, values)
    because = _because(f"{hold(nodes)} {it}" * bool(nodes), got, marker)
    aborted = " or treated its transaction as aborted" * bool(marker and _committed(group, found))
    return f"{who} omitted {it}{aborted}{because}{_unmoved(found)}"


def _returned(group: Group, offsets: Ints, values: Ints, op_id: int) -> Mask:
    """Return a mask of the records that an op received."""
    if not len(offsets):
        return np.zeros(0, dtype=np.bool_)
    places, ops, _ = reads_among(group, offsets, values)
    return np.asarray(within(np.arange(len(offsets)), places[ops == op_id]), dtype=np.bool_)


def _committed(group: Group, found: Anomaly) -> bool:
    """Return whether the reader uses read_committed isolation."""
    polls = group.table("polls")
    mine = select(polls, ints(polls, "op_id") == number_in(found, "op_id"))
    return bool(equal(mine, "isolation", READ_COMMITTED).any())


def _because(*told: str) -> str:
    known = [each for each in told if each]
    return f": {', and '.join(known)}" if known else ""


def _others(group: Group, found: Anomaly, offsets: Ints, values: Ints) -> str:
    """Return a phrase with the number of other reads that got the records this reader missed."""
    op_id, read_ns = number_in(found, "op_id"), number_in(found, "read_ns")
    places, ops, ended_ns = reads_among(group, offsets, values)
    places, ops = places[ops != op_id], ops[ops != op_id]
    known, counts = np.unique(ops, return_counts=True)
    whole = {op: ended_ns[op] for op in known[counts == len(offsets)].tolist()}
    if len(offsets) == 1:
        return others(whole, op_id, read_ns) or "no other read returned it"
    before = [op for op in known.tolist() if 0 <= ended_ns[op] <= read_ns]
    early = np.bincount(places[np.isin(ops, before)], minlength=len(offsets)).min()
    told = others(whole, op_id, read_ns, what="all of them")
    told = told or f"no other read returned {'all of ' * bool(len(ops))}them"
    return f"{told}; at least {early} reads had returned each of them before" if early > 1 else told


def _is_member(group: Group, found: Anomaly) -> bool:
    """Return whether a reader is a group member: its client resets the position by itself."""
    moves = group.table("assignments")
    mine = select(moves, ints(moves, "process") == number_in(found, "process"))
    return bool(equal(mine, "kind", SUBSCRIBE, *REBALANCES).any())


def _went_back(group: Group, found: Anomaly, who: str) -> str:
    stood, offset = number_in(found, "after_offset"), number_in(found, "offset")
    before, value = number_in(found, "previous_value"), number_in(found, "value")
    log = group.final_log
    if before >= 0 and log is not None and not nodes_at(group, stood, before):
        gone = cut_off(group, record_at(group, before, stood))
        how = f": it {gone}" if gone else ""
        name = group.facts.name_of(before)
        return f"{name}, the reader's last record, is in no log that was read{how}"
    if offset == group.log_start and _is_member(group, found) and not found.name.startswith("int"):
        beyond = [each.node for each in final_logs(group) if each.at(stood) is not None]
        reach = f", although {hold(beyond)} offset {stood}, the reader's position" if beyond else ""
        return (
            f"{who} or the client reset the reader to the log's start, as for a position that is"
            f" out of range{reach}{_unmoved(found)}"
        )
    nodes = [
        each.node
        for each in final_logs(group)
        if value >= 0 and each.node in nodes_at(group, offset, value)
        if int((each.values == value).sum()) == 1
    ]
    because = _because(
        f"{hold(nodes)} the value of offset {offset} only once" * bool(nodes),
        others(reads_of(group, offset, [value]), number_in(found, "op_id")),
    )
    return f"{who} or the client returned records out of order{because}{_unmoved(found)}"


SKIP_CHECKER = Checker(
    name=SKIP,
    why=_why,
    words=Words(
        one="read skipped a committed record",
        many="reads skipped committed records",
        means="A reader continued after a committed record that it had not got.",
        promise="A reader gets every committed record between two records that it gets.",
        explains={"int-poll-skip": SAME_OP},
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=_ALL,
    check=_check_skips(SKIP, poll_steps),
    applies=_keeps_known,
    promise=Promise.LOG,
    compares=_STEPS,
    chapter=Chapter.ORDER,
    of_histories=True,
    looks_for="a reader's position, and the first record of its next ok poll: a committed record"
    " is between them, or the offset is not higher",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS | {Excuse.REBALANCE},
)
NONMONOTONIC_CHECKER = Checker(
    name=NONMONOTONIC,
    why=_why,
    words=Words(
        one="read went backwards",
        many="reads went backwards",
        means="A reader got an earlier offset again.",
        promise="A reader only goes forward.",
        explains={"int-nonmonotonic-poll": SAME_OP},
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=_POLLS,
    check=_check_order(NONMONOTONIC, poll_steps),
    promise=Promise.LOG,
    compares=_STEPS,
    chapter=Chapter.ORDER,
    of_histories=True,
    looks_for="a reader's position, and the first record of its next ok poll: a committed record"
    " is between them, or the offset is not higher",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS | {Excuse.REBALANCE},
)
INT_SKIP_CHECKER = Checker(
    name=INT_SKIP,
    why=_why,
    words=Words(
        one="read skipped a committed record within one operation",
        many="reads skipped committed records within one operation",
        means="One poll skipped a committed record between the records that it returned.",
        promise="A reader gets every committed record between two records that it gets.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=_ALL,
    check=_check_skips(INT_SKIP, ok_inner_poll_steps),
    applies=_keeps_known,
    promise=Promise.LOG,
    compares=_INNER_STEPS,
    chapter=Chapter.ORDER,
    of_histories=True,
    looks_for="neighbouring records of one ok op",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS,
)
INT_NONMONOTONIC_CHECKER = Checker(
    name=INT_NONMONOTONIC,
    why=_why,
    words=Words(
        one="read went backwards within one operation",
        many="reads went backwards within one operation",
        means="One poll returned a record after a record of a higher offset.",
        promise="A reader only goes forward.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=_POLLS,
    check=_check_order(INT_NONMONOTONIC, ok_inner_poll_steps),
    promise=Promise.LOG,
    compares=_INNER_STEPS,
    chapter=Chapter.ORDER,
    of_histories=True,
    looks_for="neighbouring records of one ok op",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS,
)
CHECKERS = (SKIP_CHECKER, NONMONOTONIC_CHECKER, INT_SKIP_CHECKER, INT_NONMONOTONIC_CHECKER)
