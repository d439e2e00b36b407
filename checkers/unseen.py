"""unseen: acknowledged, and no reader ever got it. final-read-incomplete: no telling.

`unseen`: a certainly committed value that is not a `lost-write` and was returned by no read, though
all final reads of its partition are complete, all transactions resolved and the ISR full.
`final-read-incomplete`: a final read stopped short of its target, or was never made.

Why `unseen` proves something: a complete final read went from the log's start to an end that was
taken after the last send had ended, so it must have met every committed record.

What would not prove it: a final read that did not reach its target; polls that were lost from the
record because a stream was cut; a partition that had not recovered. An incomplete final read proves
nothing about the brokers; it is the harness's own anomaly, and makes the verdict unknown.
"""

import numpy as np

from checkers.columns import equal, ints, select, texts
from checkers.facts import RunFacts
from checkers.findings import anomaly_at, findings, known, seconds
from checkers.group import Group
from checkers.lost_write import lost_values, retained
from checkers.protocol import Checker, Excuse, Findings, Labels, Premise
from checkers.witnesses import leader_at
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly

UNSEEN = "unseen"
INCOMPLETE = "final-read-incomplete"
_Send = tuple[int, int, int, int, bool]


def _unseen(group: Group) -> list[_Send]:
    sends, polls = group.committed, group.table("polls")
    values = ints(sends, "value")
    hidden = ~np.isin(values, ints(polls, "value")) & ~np.isin(values, lost_values(group))
    offsets = ints(sends, "offset")
    found = select(sends, hidden & retained(offsets, group.log_start))
    columns = [ints(found, name).tolist() for name in ("offset", "value", "op_id", "complete_ns")]
    weak = equal(found, "acks", "1").tolist()
    return sorted(zip(*columns, weak, strict=True))


def _check_unseen(group: Group) -> Findings:
    if not group.final_reads_complete:
        return Findings(rows=0)
    labels = _labels(group)
    return findings(
        int(retained(ints(group.committed, "offset"), group.log_start).sum()),
        _unseen(group),
        lambda send: _describe(group, send),
        lambda send: ((*labels[0], Excuse.ACKS.value) if send[4] else labels[0], labels[1]),
    )


def _labels(group: Group) -> Labels:
    excuses = (Excuse.UNCLEAN.value,) if group.unclean_election_seen else ()
    broken = []
    if group.facts.cut_streams:
        broken.append(Premise.WHOLE_RECORD.value)
    if not group.facts.recovered:
        broken.append(Premise.RECOVERED.value)
    return excuses, tuple(broken)


def _describe(group: Group, send: _Send) -> Anomaly:
    offset, value, op_id, acked_ns, _ = send
    then = leader_at(group, acked_ns)
    at = f"offset {offset}" if offset >= 0 else "an unknown offset"
    return anomaly_at(
        group,
        UNSEEN,
        sentence=f"{group.facts.name_of(value)}, acknowledged at {at} of {group.place}"
        f" at {seconds(acked_ns)} by op {op_id}"
        f" (leader as observed then: {then.text if then else 'nobody'}), was"
        " returned by no read, though the final reads are complete",
        evidence={
            "value": value,
            "offset": known(offset),
            "op_id": op_id,
            "acknowledged_ns": known(acked_ns),
            "leader_then": then.broker if then else None,
            "leader_epoch_then": known(then.epoch) if then else None,
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
    return findings(reads.num_rows, rows, lambda read: _describe_read(group, read))


def _describe_read(group: Group, read: tuple[str, int, int]) -> Anomaly:
    isolation, target, reached = read
    sentence = f"{group.place} was not read again at the end of the run"
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
    return not facts.no_acks and not facts.compacted


UNSEEN_CHECKER = Checker(
    name=UNSEEN,
    anomaly_class=AnomalyClass.SAFETY,
    tables=("sends", "polls", "final_reads", "leadership", "replica_records", "replica_states"),
    check=_check_unseen,
    applies=_applies,
)
INCOMPLETE_CHECKER = Checker(
    name=INCOMPLETE,
    anomaly_class=AnomalyClass.HARNESS,
    tables=("final_reads",),
    check=_check_final_reads,
    premises=(),
)
