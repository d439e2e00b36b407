"""Find records that share groups delivered again, and why (KIP-932).

The source is `shared`: each delivery with its delivery count, and each acknowledgement of members.
The last event of a record before a delivery is the reason for the new delivery. That event is a
release, an acknowledgement that was not confirmed, or the earlier delivery itself. If it is the
earlier delivery, the lock of that delivery expired, or the member left.

What would not prove it: the delivery count alone, because members leave without a request. If a
record was accepted and delivered again, this is an anomaly, not a transition.
"""

import numpy as np

from checkers.columns import equal, ints, order_of, take
from checkers.group import Group
from checkers.transitions.events import Events, bucket
from results.record.terms import Outcome, ShareAct
from results.record.transitions import DELIVERIES


def find(group: Group, events: Events) -> None:
    """Add releases, rejections and repeated deliveries to the transitions in `events`."""
    rows = group.table("shared")
    if not rows.num_rows:
        return
    names = ["offset", "value", "told_ns", "asked_ns", "act", "outcome", "delivery_count"]
    rows = rows.select(names)
    keys = [ints(rows, name) for name in ("offset", "value", "told_ns", "asked_ns")]
    rows = take(rows, order_of(*keys))
    offsets, values, times = (ints(rows, name) for name in ("offset", "value", "told_ns"))
    ok, given = equal(rows, "outcome", Outcome.OK), equal(rows, "act", ShareAct.DELIVER)
    released = equal(rows, "act", ShareAct.RELEASE)
    events.add_all("share/released", times[released & ok])
    events.add_all("share/rejected", times[equal(rows, "act", ShareAct.REJECT) & ok])
    counts = np.where(given, ints(rows, "delivery_count"), 0)
    names_of = {count: bucket(count, *DELIVERIES) for count in np.unique(counts).tolist()}
    for name in DELIVERIES:
        those = [count for count, known in names_of.items() if known == name and count > 1]
        mine = np.isin(counts, np.array(those, dtype=np.int64))
        events.add_all(f"share/delivery-{name}", times[mine])
    again = np.zeros(len(times), dtype=np.bool_)
    again[1:] = given[1:] & (offsets[1:] == offsets[:-1]) & (values[1:] == values[:-1])
    before = np.flatnonzero(again) - 1
    at = times[before + 1]
    events.add_all("share/again-after-release", at[released[before] & ok[before]])
    events.add_all("share/again-unacknowledged", at[given[before]])
    events.add_all("share/again-after-refusal", at[~given[before] & ~ok[before]])
