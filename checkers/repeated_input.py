"""repeated-input: a pipeline handled one input record twice.

Definition: two transactions that certainly committed handled the same input record.

Why it proves something: a transaction contains its output records and the offsets of the input that
it read. Kafka commits either all of these or nothing (KIP-98). A member that gets a partition waits
for the end of any open transaction. Then the member continues from the last committed offset. Kafka
rejects a commit by a member that was replaced (KIP-447). So each input takes effect exactly once
(KIP-129), even if members, coordinators and leaders fail.

What would not prove it: a transaction whose commit request got no response, and whose records no
reader received. The anomaly is allowed if an unclean election, or the disks of every replica, may
have lost the group's offset before the last of the transactions ended. A loss of outputs changes no
offset of the group. But the loss may include the marker of an abort. Then readers get records of an
aborted transaction. So losses of outputs count if only readers show that one of the transactions
committed.
"""

import numpy as np

from checkers.columns import NEVER, equal, ints, select, within
from checkers.excuses import TAKES_RECORDS
from checkers.findings import anomaly_at, could_not_show, findings, numbers_in
from checkers.group import Group
from checkers.handled import (
    COMMITTED,
    NAMED,
    Handled,
    applies,
    coordinated,
    handled,
    input_at,
    labels_of,
    listed,
)
from checkers.protocol import Chapter, Checker, Excuse, Findings, Labels, Promise, Scope, Waits
from checkers.reigns import GROUPS, TRANSACTIONS
from checkers.state_losses import disk_reasons, unclean_by
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "repeated-input"


def _check(group: Group) -> Findings:
    found = handled(group)
    committed = found.counts(COMMITTED)
    return could_not_show(
        findings(
            int((committed > 0).sum()),
            np.flatnonzero(committed > 1).tolist(),
            lambda at: _describe(group, found, at),
            lambda at: _labels(group, found, at),
        ),
        "no transaction that handled an input committed, so an input that was handled twice could"
        " not be detected",
    )


def _labels(group: Group, found: Handled, at: int) -> Labels:
    mine = np.array(found.ops(at, COMMITTED), dtype=np.int64)
    ops = group.derived["effects"]
    ops = select(ops, within(ints(ops, "op_id"), mine))
    if not equal(ops, "answered", True).all():  # noqa: FBT003 - a value
        return labels_of(group, found, at)
    ended_ns = ints(ops, "complete_ns")
    last_ns = int(ended_ns.max()) if (ended_ns >= 0).all() else NEVER
    topic, _, partition = input_at(found, at)[0].rpartition("-")
    topics, number = (topic, GROUPS, TRANSACTIONS), int(partition)
    lost = disk_reasons(group.facts, *topics, partition=number, needed_ns=last_ns)
    excuses, broken = labels_of(group, found, at, outputs=False)
    if unclean_by(group.facts, *topics, by_ns=last_ns, partition=number):
        lost |= {*excuses} & {Excuse.UNCLEAN.value}
    return tuple(sorted(lost)), broken


def _describe(group: Group, found: Handled, at: int) -> Anomaly:
    place, offset, value = input_at(found, at)
    ops = found.ops(at, COMMITTED)
    return anomaly_at(
        group,
        NAME,
        sentence=f"offset {offset} of {place} (value {value}) was handled by the transactions of"
        f" ops {listed(ops)}, and all of them committed",
        evidence={"place": place, "input_offset": offset, "value": value, "op_ids": ops[:NAMED]},
    )


def _why(group: Group, found: Anomaly) -> str:
    led = coordinated(group, numbers_in(found, "op_ids"))
    return (
        f"{led}: the second transaction began at a position from before the first one, or came"
        " from a member that the group had already replaced"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="input of a pipeline took effect twice",
        many="inputs of a pipeline took effect twice",
        means="Two committed transactions handled the same record.",
        promise="A pipeline that commits positions in its transactions handles each input once.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("inputs", "effects"),
    check=_check,
    scope=Scope.ACROSS,
    applies=applies,
    promise=Promise.TRANSACTIONS,
    compares="inputs that a committed transaction handled",
    chapter=Chapter.TRANSACTIONS,
    looks_for="two transactions that certainly committed handled the same record of an input",
    waits=Waits.BEFORE,
    excuses=TAKES_RECORDS,
)
