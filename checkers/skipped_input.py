"""skipped-input: a pipeline left out an input record.

Definition: an input record was certainly committed, and a committed transaction handled a record at
a higher offset of the same partition. No committed transaction handled the lower record. Each
transaction that handled the lower record certainly had no effect (`handled`).

Why it proves something: a transaction contains its output records and the offsets of the input that
it read. Kafka commits either all of these or nothing (KIP-98). A member that gets a partition waits
for the end of any open transaction. Then the member continues from the last committed offset. Kafka
rejects a commit by a member that was replaced (KIP-447). So each input takes effect exactly once
(KIP-129), even if members, coordinators and leaders fail.

What would not prove it:

- An input that was handled by a transaction of unknown outcome. For example, the commit request got
  no response. Such an input counts only if final reads of all outputs were complete and showed no
  effect of the transaction.
- An input record after the last handled record.
- An input record below the log's start, which retention may have deleted before a member handled it
  again.

The anomaly is allowed if a transaction marker may have been lost in an unclean election, or on the
disks of every replica.
"""

import numpy as np

from checkers.columns import equal, ints
from checkers.excuses import TAKES_RECORDS
from checkers.findings import anomaly_at, could_not_show, findings, number_in, numbers_in
from checkers.group import Group
from checkers.handled import (
    ABORTED,
    COMMITTED,
    NAMED,
    UNKNOWN,
    Handled,
    applies,
    coordinated,
    handled,
    input_at,
    labels_of,
    listed,
)
from checkers.protocol import Chapter, Checker, During, Findings, Promise, Scope
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "skipped-input"


def _check(group: Group) -> Findings:
    found = handled(group)
    offsets = ints(found.rows, "offset")[found.cuts[:-1]]
    decided = (offsets < found.reach()) & (found.counts(UNKNOWN) == 0)
    decided &= equal(found.rows, "kept", True)[found.cuts[:-1]]  # noqa: FBT003 - a value
    missed = decided & (found.counts(COMMITTED) == 0)
    return could_not_show(
        findings(
            int(decided.sum()),
            np.flatnonzero(missed).tolist(),
            lambda at: _describe(group, found, at),
            lambda at: labels_of(group, found, at),
        ),
        "no transaction that handled a second input committed, so a skipped input could not be"
        " detected",
    )


def _describe(group: Group, found: Handled, at: int) -> Anomaly:
    place, offset, value = input_at(found, at)
    ops, reach = found.ops(at, ABORTED), int(found.reach()[at])
    by = f"only by ops {listed(ops)}, which had no effect" if ops else "by no transaction"
    return anomaly_at(
        group,
        NAME,
        sentence=f"offset {offset} of {place} (value {value}) was handled {by}; committed"
        f" transactions continued to offset {reach}",
        evidence={
            "place": place,
            "input_offset": offset,
            "value": value,
            "op_ids": ops[:NAMED],
            "reached": reach,
        },
    )


def _why(group: Group, found: Anomaly) -> str:
    led = coordinated(group, numbers_in(found, "op_ids"))
    if led:
        return (
            f"{led}: it kept the positions of a transaction whose records were not committed, or"
            " the client did not begin at the committed position"
        )
    return (
        "no member recorded that it got this input, although positions advanced to"
        f" {number_in(found, 'reached')}; the run's record does not show whether a broker or the"
        " client skipped it"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="input of a pipeline took no effect",
        many="inputs of a pipeline took no effect",
        means="Committed transactions continued after a record that none of them handled.",
        promise="A pipeline that commits positions in its transactions skips no input.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=("inputs", "effects"),
    check=_check,
    scope=Scope.ACROSS,
    applies=applies,
    promise=Promise.TRANSACTIONS,
    compares="committed inputs below the last one that a committed transaction handled",
    during=During.AT_END,
    chapter=Chapter.TRANSACTIONS,
    looks_for="a committed record of an input, below one that a committed transaction handled; no"
    " transaction that handled it took effect",
    waits="the outcome of a transaction may still be open",
    excuses=TAKES_RECORDS,
)
