"""Find leader epochs that had a leader, but no record in any replica's log.

The sources are `leadership`, as `reigned.py` prepares it, and the leader epochs of
`replica_records` at the run's end. The module considers only epochs between the first and the last
epoch with records. Other epochs prove nothing: records may have been deleted from a log's
beginning, and a leader after the last send gets no records.

What would not prove it: an epoch without a leader. A compacted topic, whose records may have been
removed. An epoch without a record does not prove that no record was written: all replicas may have
truncated the record.
"""

from checkers.columns import Ints, distinct, equal, ints, runs_of
from checkers.group import Group
from checkers.transitions.events import UNTIMED, Events, bucket
from checkers.transitions.reigned import steps_of
from results.record.transitions import STREAKS


def find(group: Group, events: Events) -> None:
    """For each series of leader epochs without a record, add a transition to `events`."""
    if group.facts.compacted:
        return
    written = _written(group)
    led = {step.epoch: step.by_ns for step in steps_of(group) if step.leader >= 0}
    if not len(written):
        return
    streak, known = 0, set(written.tolist())
    # The leader of an epoch with records may not have been observed.
    for epoch in sorted(each for each in {*led, *known} if written[0] < each <= written[-1]):
        if epoch not in known:
            streak += 1
        elif streak:
            time_ns = led.get(epoch, UNTIMED)
            events.add(f"epoch/without-record-{bucket(streak, *STREAKS)}", time_ns)
            streak = 0


def _written(group: Group) -> Ints:
    """Return the leader epochs of the records in the final logs."""
    records = group.table("replica_records")
    epochs = ints(records, "leader_epoch")
    starts = runs_of(epochs)[:-1]  # A log has few epochs, each in one consecutive range.
    final = equal(records, "snapshot", group.facts.snapshot)
    return (
        distinct(epochs[starts[final[starts] & (epochs[starts] >= 0)]])
        if len(starts)
        else epochs[:0]
    )
