"""delivered-again: a share group delivered a record again after it was accepted.

Definition: a member accepted or rejected a record, and the broker confirmed that; a member was then
delivered the same record (offset and value), and had certainly acquired it after the confirmation.

Why it proves something: a record that is accepted, or rejected, is in its last state, and the share
coordinator has that in its log before the broker confirms it (KIP-932). Whoever leads the partition
next reads it from there. While a record is one member's, the broker takes nobody else's word on it;
so who accepted it late, after its lock, is not confirmed.

What would not prove it: an acknowledgement without an answer, or with an error; a release. A record
that was acquired before: a client fetches ahead, and may hand over what another member has accepted
meanwhile, as its own lock is over. When a record was acquired is not known; `acquired_after_ns` is
the latest time that it certainly lies behind (`workloads.sharer`). So what is delivered again to a
member that joined before the confirmation, and had no empty poll long enough after it, is not seen.
Nor is what a leader hands out that was replaced, and has not heard of it: it does not ask the share
coordinator before it delivers. So every broker must have told before that it knows the leader epoch
of the confirmation, or a later one. Where an unclean election, or disks that lost it on every
replica, may have cost the group's state, it is allowed.
"""

import numpy as np
import pyarrow as pa

from checkers.changes import NEVER_NS
from checkers.columns import ints, texts
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
from checkers.protocol import Chapter, Checker, Findings, Promise, Proof
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, Words

NAME = "delivered-again"


def _check(group: Group) -> Findings:
    done, given = confirmed(group), delivered(group)
    at, since_ns = rows_in(given, done), in_force_ns(group, done)
    bound_ns = np.append(since_ns, NEVER_NS)[at]
    again = np.flatnonzero(ints(given, "acquired_after_ns") > bound_ns)
    found = findings(
        int((since_ns < NEVER_NS).sum()),
        again.tolist(),
        lambda row: _describe(group, done.slice(int(at[row]), 1), given.slice(int(row), 1)),
        lambda _: labels_of(group),
    )
    return could_not_show(
        found,
        "no broker confirmed that a record was accepted, as far as is known who led, so one that is"
        " delivered again could not show",
    )


def _describe(group: Group, done: pa.Table, given: pa.Table) -> Anomaly:
    """Describe a delivery, by its row and that of the confirmation before."""

    def number(table: pa.Table, name: str) -> int:
        return int(ints(table, name)[0])

    offset, told_ns = number(given, "offset"), number(done, "told_ns")
    member, other = number(done, "process"), number(given, "process")
    since_ns, given_ns = number(given, "acquired_after_ns"), number(given, "told_ns")
    act = texts(done, "act")[0]
    return anomaly_at(
        group,
        NAME,
        sentence=f"process {member} was confirmed at {seconds(told_ns)} that it"
        f" {act}ed offset {offset} of {group.place}; process"
        f" {other}, which acquired it after {seconds(since_ns)}, was delivered it again at"
        f" {seconds(given_ns)} (delivery {number(given, 'delivery_count')})",
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
        f"{f'{first},' if first else 'a broker'} confirmed it, and {then or 'a broker'} gave the"
        " record out again;"
        " the record does not have what the share coordinator kept"
    )


CHECKER = Checker(
    name=NAME,
    why=_why,
    words=Words(
        one="accepted record was delivered again",
        many="accepted records were delivered again",
        means="A broker confirmed that the record was done with, and its share group gave it out.",
        promise="A share group does not deliver again what it confirmed as accepted or rejected.",
    ),
    anomaly_class=AnomalyClass.SAFETY,
    tables=TABLES,
    check=_check,
    applies=applies,
    promise=Promise.GROUPS,
    compares="records that were confirmed as accepted or rejected",
    chapter=Chapter.GROUPS,
    looks_for="a record that a share group delivered to a member that acquired it after it was"
    " confirmed as accepted or rejected",
    meanwhile=Proof.TOLD,
    excuses=TAKES_RECORDS,
)
