"""unseen: no reader received an acknowledged record. final-read-incomplete: a read stopped early.

Definition: `unseen` is a certainly committed message that no read returned. A message that is
already reported as `lost-write` does not count. The check needs complete final reads of the
partition. In a run with transactions, messages beyond the end of these reads do not count, because
a transaction may be open there. If not every partition had a full ISR again before these reads, the
anomaly is not trusted. If there is a read_committed final read, only read_committed reads count for
records of transactions. Read_uncommitted readers receive such records in any case. If a system's
replica logs cannot be read, it is unknown whether the record is in a log. Then the missing record
is a `lost-write`.

`final-read-incomplete` is a final read that stopped before its target, or was never made. In a run
with transactions, a transaction may still be open at the target. Then the anomaly is also reported
if committed records are beyond the target.

Why it proves something: a complete final read goes from the log's start to a log end that was
requested after the last send. So such a read must have returned every committed record.

What would not prove it:

- A final read that did not reach its target.
- Polls that are missing because a stream of the run's record is incomplete.
- A partition that had not recovered.
- A record that the cleaner may have removed (`cleaned.py`).
- A record above the last stable offset, which a read_committed reader may not get yet.

The contract allows an `unseen` message that was sent with acks=1. But after a recovery, acks=1 does
not excuse a record that the last leader's log has below the ends of the final reads. The contract
also allows the anomaly if an unclean election, or a loss on the disks of all replicas, may have
removed the record.

An incomplete final read proves nothing about the brokers. Such a read is an anomaly of Logquake
itself, and makes the verdict unknown.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from checkers.acknowledger import Acked, acknowledgers, evidence_of, named
from checkers.cleaned import uncleaned
from checkers.client_reasons import (
    final_logs,
    final_server,
    hold,
    marker_doubt,
    offset_of,
    sent,
    server,
    value_at,
)
from checkers.columns import (
    NEVER,
    NONE,
    Mask,
    equal,
    first_match,
    ints,
    present,
    select,
    texts,
    within,
)
from checkers.disk_losses import lost_on_disks
from checkers.excuses import TAKES_ACKNOWLEDGED
from checkers.facts import FINAL, RunFacts
from checkers.findings import anomaly_at, findings, known, number_in, seconds, texts_in
from checkers.group import Group
from checkers.group_reasons import ends_of, kept_open
from checkers.lost_write import held_back, lost_values, retained
from checkers.markers import marker_behind
from checkers.protocol import Chapter, Checker, During, Excuse, Findings, Labels, Premise, Promise
from checkers.reigns import between
from checkers.transactions import READ_COMMITTED
from checkers.unclean_elections import took_value_at
from checkers.witnesses import nodes_with, skipped_by
from results.record.declared import Sight
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

UNSEEN = "unseen"
INCOMPLETE = "final-read-incomplete"
_NOTHING = np.zeros(0, dtype=np.int64)
_COLUMNS = ("offset", "value", "op_id", "invoke_ns", "complete_ns")
_Send = tuple[int, int, int, int, int, bool, bool]


def _unseen(group: Group) -> list[_Send]:
    sends = group.committed
    values, offsets = ints(sends, "value"), ints(sends, "offset")
    hidden = ~_seen(group, sends) & ~within(values, lost_values(group))
    hidden &= retained(offsets, group.log_start) & ~_unstable(group, sends) & uncleaned(group)
    found = select(sends, hidden)
    columns = [ints(found, name).tolist() for name in _COLUMNS]
    weak = (equal(found, "acks", "1") & ~_passed(group, found)).tolist()
    log = group.final_log
    stands = within(ints(found, "value"), _NOTHING if log is None else log.values)
    # An unclean leader may have a transaction's records, but not its commit marker.
    plain = (stands & ~_for_committed(group, found)).tolist()
    return sorted(zip(*columns, weak, plain, strict=True))


def _passed(group: Group, sends: pa.Table) -> Mask:
    """Return a mask of the sends that the last leader's log has below the ends of final reads.

    After a recovery, these records were committed when the final reads began.
    """
    log, ends = group.final_log, ints(group.table("final_reads"), "target_end")
    if log is None or not group.facts.recovered:
        return np.zeros(sends.num_rows, dtype=np.bool_)
    return within(ints(sends, "value"), log.values[log.offsets < ends.min()])


def _seen(group: Group, sends: pa.Table) -> Mask:
    """Return a mask of the sends that a read of the required isolation level returned."""
    values, polls = ints(sends, "value"), group.table("polls")
    committed = select(polls, equal(polls, "isolation", READ_COMMITTED))
    by_committed, by_anybody = (within(values, ints(each, "value")) for each in (committed, polls))
    return np.where(_for_committed(group, sends), by_committed, by_anybody)


def _unstable(group: Group, sends: pa.Table) -> Mask:
    """Return a mask of the sends whose records are beyond the end of the relevant final reads.

    A record's offset comes from the leader's final log, or else from the acknowledgement. If the
    logs are not visible, the mask contains only sends for which an open transaction was seen at
    that end (`held_back`).
    """
    log, reads = group.final_log, group.table("final_reads")
    if not group.facts.plan.transactional:
        return np.zeros(sends.num_rows, dtype=np.bool_)
    if not group.shows_logs:
        held = select(group.committed, held_back(group, READ_COMMITTED))
        return within(ints(sends, "value"), ints(held, "value"))
    offsets = ints(sends, "offset")
    if log is not None:
        offsets = np.append(log.offsets, NONE)[first_match(ints(sends, "value"), log.values)]
    ends, committed = ints(reads, "target_end"), equal(reads, "isolation", READ_COMMITTED)
    end, any_end = (int(each.max(initial=0)) for each in (ends[committed], ends))
    return np.asarray(offsets >= np.where(_for_committed(group, sends), end, any_end), np.bool_)


def _for_committed(group: Group, sends: pa.Table) -> Mask:
    """Return a mask of the sends for which only read_committed final reads count."""
    there = equal(group.table("final_reads"), "isolation", READ_COMMITTED).any()
    return present(sends, "txn_id") & bool(there)


def _check_unseen(group: Group) -> Findings:
    if not group.final_reads_complete:
        return Findings(rows=0)
    due = retained(ints(group.committed, "offset"), group.log_start)
    due &= ~_unstable(group, group.committed) & uncleaned(group)
    return findings(
        int(due.sum()),
        _unseen(group),
        lambda send: _describe(group, send),
        lambda send: _labels(group, send),
    )


def _labels(group: Group, send: _Send) -> Labels:
    offset, value, _, _, acked_ns, is_weak, stands = send
    # The ISR was full before the final reads, so each later election was clean. A record of the
    # last leader was therefore also in the log of the leader that served the reads.
    kept = stands and group.facts.recovered
    unclean = not kept and took_value_at(group, offset, [value])
    excuses = [Excuse.UNCLEAN.value] if unclean else []
    if is_weak:
        excuses.append(Excuse.ACKS.value)
    if group.final_log is None:  # Otherwise the log has the record.
        excuses += lost_on_disks(group, offset, acked_ns)
    broken = []
    if group.facts.cut_streams:
        broken.append(Premise.WHOLE_RECORD.value)
    if not group.facts.recovered:
        broken.append(Premise.RECOVERED.value)
    return tuple(excuses), tuple(broken)


def _describe(group: Group, send: _Send) -> Anomaly:
    offset, value, op_id, sent_ns, acked_ns, *_ = send
    by = acknowledgers(group, Acked(value=value, offset=offset, sent_ns=sent_ns, acked_ns=acked_ns))
    at = f"offset {offset}" if offset >= 0 else "an unknown offset"
    return anomaly_at(
        group,
        UNSEEN,
        sentence=f"{group.facts.name_of(value)}, acknowledged at {at} of {group.place}"
        f" at {seconds(acked_ns)} to op {op_id} (by {named(by)}), was"
        " returned by no read, though the final reads are complete",
        evidence={
            "value": value,
            "offset": known(offset),
            "op_id": op_id,
            "acknowledged_ns": known(acked_ns),
            **evidence_of(by),
            "found_on": nodes_with(list(group.logs.get(FINAL, {}).values()), value),
        },
        offset=offset,
    )


def _check_final_reads(group: Group) -> Findings:
    reads = group.table("final_reads")
    if not reads.num_rows:
        item = ("", -1, -1)
        return findings(0, [item], lambda read: _describe_read(group, read))
    short = select(reads, ~equal(reads, "complete", True))  # noqa: FBT003 - a value
    columns = [ints(short, name).tolist() for name in ("target_end", "reached")]
    rows = sorted(zip(texts(short, "isolation"), *columns, strict=True))
    if not rows and _unstable(group, group.committed).any():
        rows = [("", int(ints(reads, "target_end").max()), -1)]
    return findings(reads.num_rows, rows, lambda read: _describe_read(group, read))


def _describe_read(group: Group, read: tuple[str, int, int]) -> Anomaly:
    isolation, target, reached = read
    sentence = f"{group.place} was not read again at the end of the run"
    if target >= 0 and not isolation:
        sentence = (
            f"the final reads of {group.place} ended at offset {target}, where a transaction"
            " stayed open: committed records follow it"
        )
    if isolation:
        got = f"reached offset {reached} of {target}"
        sentence = f"the final read ({isolation}) of {group.place} {got}"
    return anomaly_at(
        group,
        INCOMPLETE,
        sentence=sentence,
        evidence={"isolation": isolation or None, "target_end": target, "reached": reached},
        offset=reached,
    )


def _applies(facts: RunFacts) -> bool:
    return not facts.no_acks and facts.keeps_known


def _why_unseen(group: Group, found: Anomaly) -> str:
    nodes, value = texts_in(found, "found_on"), number_in(found, "value")
    if not nodes:
        return (
            "final reads went beyond its offset, and no log that was read shows whether it is"
            " stored"
        )
    log = group.final_log
    if log is None or log.node not in nodes:
        last = (
            f"the log of {group.leader.node}, the last leader,"
            if group.leader
            else "the last leader's log"
        )
        return (
            f"{hold(nodes)} it, and final reads went beyond its offset; {last} was not read, so"
            " the run's record does not show whether its leader had it"
        )
    there = offset_of(group, value)
    past = skipped_by(group, there)
    how = f"{len(past)} {'reads' if past[1:] else 'read'} skipped it" if past else (
        f"final reads ended at offset {_ends(group)}"
    )  # fmt: skip
    unread = int(ints(group.table("polls"), "offset").max(initial=NONE)) + 1
    run = f", and no read returned anything from offset {unread} on" if unread <= there else ""
    marker = marker_behind(group, there, value)
    if marker.startswith("no marker"):
        return f"{hold(nodes)} it at offset {there}, but {marker}"
    servers = dict.fromkeys([*_first_past(group, value, past), final_server(group)])
    who = " and ".join(servers)
    return f"{hold(nodes)} it at offset {there}, and {how}{run}: {who} or the clients omitted it"


def _first_past(group: Group, value: int, op_ids: Sequence[int]) -> list[str]:
    """Return a phrase that names the broker which answered the earliest of the given reads."""
    polls = group.table("polls")
    mine = select(polls, within(ints(polls, "op_id"), np.array(op_ids, dtype=np.int64)))
    if not mine.num_rows:
        return []
    ended = ints(mine, "complete_ns")
    first = int(ended.argmin())
    return [server(group, value, {int(ints(mine, "op_id")[first]): int(ended[first])})]


def _ends(group: Group) -> int:
    return int(ints(group.table("final_reads"), "target_end").max())


UNSEEN_CHECKER = Checker(
    name=UNSEEN,
    why=_why_unseen,
    words=Words(
        one="acknowledged write was never read",
        many="acknowledged writes were never read",
        means="A broker confirmed the message, the log holds it, and no reader ever got it.",
        promise="Every reader that reads to the end gets each acknowledged message.",
        explains=dict.fromkeys(
            ("poll-skip", "int-poll-skip"), ("a reader that continues skips a record that no"
                                             " reader gets")
        ),
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "final_reads", "assignments", "leadership", "replica_records",
            "replica_states", "truncations"),
    sees=frozenset({Sight.REPLICA_LOGS, Sight.LEADER_EPOCHS}),
    check=_check_unseen,
    applies=_applies,
    promise=Promise.STORED,
    compares="committed sends, searched for in the records that were read",
    chapter=Chapter.CLIENTS,
    looks_for="a committed value that no read returned, though all final reads of its partition"
              " are complete; a `lost-write` does not count",
    waits="only the final reads show which records no reader got",
    excuses=TAKES_ACKNOWLEDGED,
)  # fmt: skip


def _why_incomplete(group: Group, found: Anomaly) -> str:
    isolation, reached = found.evidence.get("isolation"), number_in(found, "reached")
    if not isolation:
        target = number_in(found, "target_end")
        return _open_there(group, target) if target >= 0 else "no final read was made"
    rows, polls = group.final_polls, group.table("polls")
    mine, began = (
        select(rows, equal(rows, "isolation", isolation)),
        group.facts.milestone("final-reads"),
    )
    last_ns = int(max(ints(mine, "complete_ns"), default=NONE))
    took = ""
    if began is not None and 0 <= began.at_ns <= last_ns:
        took = f" {seconds(last_ns - began.at_ns)} after final reads began"
    op_ids, offsets = ints(polls, "op_id"), ints(polls, "offset")
    beyond = len(set(op_ids[offsets >= max(reached, 0)].tolist()) - set(ints(mine, "op_id")))
    nodes = [log.node for log in final_logs(group) if log.at(reached) is not None]
    told = [f"{hold(nodes)} offset {reached}"] if nodes and reached >= 0 else []
    many = "one other read" if beyond == 1 else f"{beyond} other reads"
    told += [f"{many} got there"] if beyond else []
    had = f"; {' and '.join(told)}" if told else ""
    why = _without_leader(group, began.at_ns if began is not None else NEVER)
    why = why or "the run's record does not show why it did not continue"
    return f"its last poll ended{took}{had}; {why}"


def _without_leader(group: Group, since_ns: int) -> str:
    """Return a phrase if no report since a time named a leader of the partition."""
    rows = group.table("leadership")
    told = select(rows, present(rows, "observed_ns"))
    times, led = ints(told, "observed_ns"), ints(told, "leader") >= 0
    first_ns = int(times[~led & (times > times[led].max(initial=NONE))].min(initial=NEVER))
    last_ns = int(times.max(initial=NONE))
    if not first_ns <= since_ns <= last_ns:
        return ""
    decided = between(group.facts.reigns, (group.topic, group.partition), (since_ns, since_ns))
    by_log = all(each.leader < 0 for each in decided) and bool(decided)
    return (
        f"no broker reported a leader of the partition from {seconds(first_ns)} to"
        f" {seconds(last_ns)}"
        f"{', and according to their log, the controllers had not elected one' * by_log}"
    )


def _open_there(group: Group, offset: int) -> str:
    """Return a phrase with the transaction that is open at the end of the final reads."""
    value = value_at(group, offset)
    mine, log = sent(group, value), group.final_log
    if mine is None or not mine.in_txn:
        return (
            "its leader did not let readers continue from this offset, as for an open transaction"
        )
    marker = int(ends_of(log, np.array([offset])).markers[0])
    if log is not None and marker >= 0 and (who := kept_open(group, offset, marker)):
        return (
            f"the transaction of op {mine.op_id} has ended: its marker is at offset {marker} in"
            f" the log of {log.node}, but {who} reported the last stable offset {offset}"
        )
    if behind := marker_behind(group, offset, value):
        because = f": {behind}" * behind.startswith("no marker")
        return (
            "its leader did not let readers continue from this offset, as for an open transaction"
            f"{because}"
        )
    lost = marker_doubt(group, offset, mine.sent_ns)
    return (
        f"the transaction of op {mine.op_id}, whose record is at this offset, has no marker after"
        " it: its coordinator did not end it in that"
        f" log{f', or the marker was lost: {lost}' if lost else ''}"
    )


INCOMPLETE_CHECKER = Checker(
    name=INCOMPLETE,
    why=_why_incomplete,
    words=Words(
        one="partition was not read to its end",
        many="partitions were not read to their ends",
        means=(
            "The run does not show whether the records that were not read at the end still exist."
        ),
    ),
    anomaly_class=AnomalyClass.HARNESS,
    tables=(
        "sends",
        "polls",
        "final_reads",
        "leadership",
        "replica_records",
        "replica_states",
        "truncations",
    ),
    check=_check_final_reads,
    premises=(),
    compares="final reads",
    chapter=Chapter.HARNESS,
    looks_for="a final read that was never made or ended too early, or a transaction that is"
    " still open at its end",
    during=During.AT_END,
)
