"""delivered-again: a share group delivered a record again after the record was accepted.

Definition: a member accepted or rejected a record, and the broker confirmed that. Later a member
got the same record (offset and value) again. That member certainly acquired the record after the
confirmation.

Why it proves something: an accepted or rejected record is in its final state. The share coordinator
writes that state to its log before the broker sends the confirmation (KIP-932). The partition's
next leader reads the state from this log. While a member holds a record, the broker refuses
acknowledgements of other members. The broker also refuses an acknowledgement after the member's
lock has expired.

What would not prove it: an acknowledgement that got no answer or an error, and a release. A record
that was acquired before the confirmation proves nothing. The member may keep the record in its
buffer while its lock expires and another member accepts the record. Then the poll of the first
member returns the record after the confirmation.

The client prefetches, so the acquisition time is unknown. Two lower bounds are recorded: the
member's join, and its last empty poll minus the longest request (`workloads.sharer`). The later
bound is `acquired_after_ns`. So the check misses a delivery to a member that joined before the
confirmation, if the member's last empty poll was before the confirmation or too soon after it.

A replaced leader may not yet know that it was replaced. Such a leader delivers records without
asking the share coordinator. So every broker must first have learned the leader epoch of the
confirmation, or a later epoch. The anomaly is allowed if an unclean election, or a loss on the
disks of all replicas, may have removed the group's state after the confirmation.
"""

import numpy as np
import pyarrow as pa

from checkers.columns import NEVER, ints, texts
from checkers.deliveries import (
    TABLES,
    applies,
    confirmed,
    delivered,
    in_force_ns,
    labels_of,
    rows_in,
)
from checkers.excuses import TAKES_RECORDS
from checkers.findings import anomaly_at, could_not_show, findings, number_in, seconds
from checkers.group import Group
from checkers.group_reasons import served_by
from checkers.protocol import Chapter, Checker, Findings, Promise, Waits
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "delivered-again"


def _check(group: Group) -> Findings:
    done, given = confirmed(group), delivered(group)
    at, since_ns = rows_in(given, done), in_force_ns(group, done)
    bound_ns = np.append(since_ns, NEVER)[at]
    again = np.flatnonzero(ints(given, "acquired_after_ns") > bound_ns)
    confirmed_ns, given_ns = ints(done, "told_ns"), ints(given, "told_ns")
    found = findings(
        # Confirmations after which no record was acquired could not have failed.
        int((since_ns < ints(given, "acquired_after_ns").max(initial=0)).sum()),
        again.tolist(),
        lambda row: _describe(group, done.slice(int(at[row]), 1), given.slice(int(row), 1)),
        lambda row: labels_of(group, int(confirmed_ns[at[row]]), int(given_ns[row])),
    )
    return could_not_show(
        found,
        "no record was certainly acquired after every broker knew a leader that had confirmed an"
        " acceptance, so a repeated delivery could not be detected",
    )


def _describe(group: Group, done: pa.Table, given: pa.Table) -> Anomaly:
    """Return the anomaly for a delivery, given the rows of the delivery and of the confirmation."""

    def number(table: pa.Table, name: str) -> int:
        return int(ints(table, name)[0])

    offset, told_ns = number(given, "offset"), number(done, "told_ns")
    member, other = number(done, "process"), number(given, "process")
    since_ns, given_ns = number(given, "acquired_after_ns"), number(given, "told_ns")
    act = texts(done, "act")[0]
    return anomaly_at(
        group,
        NAME,
        sentence=f"process {member} got the confirmation at {seconds(told_ns)} that it had"
        f" {act}ed offset {offset} of {group.place}; process {other}, which acquired the"
        f" record after {seconds(since_ns)}, got it again at {seconds(given_ns)}"
        f" (delivery {number(given, 'delivery_count')})",
        evidence={
            "value": number(given, "value"),
            "act": act,
            "op_ids": [number(done, "op_id"), number(given, "op_id")],
            "processes": [member, other],
            "asked_ns": number(done, "asked_ns"),
            "confirmed_ns": told_ns,
            "acquired_after_ns": since_ns,
            "delivered_ns": given_ns,
        },
        offset=offset,
    )


def _why(group: Group, found: Anomaly) -> str:
    confirmed_ns, given_ns = number_in(found, "confirmed_ns"), number_in(found, "delivered_ns")
    first = served_by(group, (number_in(found, "asked_ns"), confirmed_ns))
    then = served_by(group, (number_in(found, "acquired_after_ns"), given_ns))
    return (
        f"{f'{first},' if first else 'a broker'} confirmed this, and"
        f" {f'{then},' if then else 'a broker'} delivered the record again; the run's"
        " record does not show what the share coordinator stored"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="accepted record was delivered again",
        many="accepted records were delivered again",
        means=(
            "A broker confirmed that the record was accepted or rejected, and its share group"
            " delivered it again."
        ),
        promise=(
            "A share group does not deliver a record again after it confirmed the record as"
            " accepted or rejected."
        ),
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=TABLES,
    check=_check,
    applies=applies,
    promise=Promise.GROUPS,
    compares="records that were confirmed as accepted or rejected",
    chapter=Chapter.GROUPS,
    looks_for="a record that was delivered to a member which acquired it after the share group"
    " had confirmed it as accepted or rejected",
    waits=Waits.STOPPED,
    excuses=TAKES_RECORDS,
)
