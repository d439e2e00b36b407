"""What share groups do: steps of the changes to the base `shares`."""

from results.record.terms import ShareAct
from tests.broken.corpus import Spot
from tests.broken.record import Record, Row

DELIVER, ACCEPT = ShareAct.DELIVER.value, ShareAct.ACCEPT.value


def accepted(record: Record, spot: Spot) -> Row:
    """Return the row in which the spot's message was confirmed as accepted.

    Where it was not, that of the next one of its partition that was.
    """
    done = [
        row
        for row in record.rows("shared", act=ACCEPT, outcome="ok", **spot.place)
        if row["offset"] >= spot.offset
    ]
    return min(done, key=lambda row: int(row["offset"]))


def joined_at(record: Record, after_ns: int) -> Row:
    """Return the delivery to a member that joined after some time, and latest of all."""
    joined = {
        row["process"]: row["time_ns"] for row in record.rows("assignments", kind="subscribe")
    }
    given = [
        row
        for row in record.rows("shared", act=DELIVER)
        if joined[row["process"]] > after_ns and row["acquired_after_ns"] > after_ns
    ]
    return max(given, key=lambda row: (int(row["acquired_after_ns"]), int(row["told_ns"])))


def deliver(record: Record, what: Row, like: Row) -> Row:
    """Have a record delivered with what else a poll returned; return the row."""
    place = {name: what[name] for name in ("topic", "topic_id", "partition", "offset", "value")}
    return record.add("shared", like, **place)
