"""What brokers do to a record: the steps that changes are made of."""

from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import replace

from tests.broken.corpus import Spot
from tests.broken.record import Record, Row

NODES = ("n1", "n2", "n3")


def leader_of(record: Record, spot: Spot) -> str:
    """Return who led the spot's partition in its epoch."""
    rows = record.rows("leadership", leader_epoch=spot.epoch, **spot.place)
    return next(f"n{row['leader']}" for row in rows if row["leader"] >= 1)


def followers_of(record: Record, spot: Spot) -> tuple[str, ...]:
    """Return who had copies in the end, but for the last leader."""
    rows = record.rows("leadership", source="list-offsets", **spot.place)
    last = max(rows, key=lambda row: int(row["observed_ns"]))
    return tuple(node for node in NODES if node != f"n{last['leader']}")


def final_log(record: Record, spot: Spot, node: str) -> list[Row]:
    """Return what a node has of the spot's partition in the end, in the order of offsets."""
    return record.rows("replica_records", snapshot="final", node=node, **spot.place)


def unread(record: Record, spot: Spot, offsets: Collection[int], *, phase: str = "") -> None:
    """Have nobody read some records; with a phase: nobody in it."""
    record.drop(
        "polls",
        lambda row: row["offset"] in offsets and phase in {"", row["phase"]},
        **spot.place,
    )


def lose(
    record: Record, spot: Spot, offsets: Collection[int], *, nodes: Collection[str] = NODES
) -> None:
    """Take records out of nodes' final logs."""
    record.drop(
        "replica_records",
        lambda row: row["node"] in nodes and row["offset"] in offsets,
        snapshot="final",
        **spot.place,
    )


def cut(
    record: Record, spot: Spot, end: int, *, nodes: Collection[str] = NODES, from_ns: int | None
) -> None:
    """Have nodes' logs end at an offset: what they told from a time on, and their final logs.

    Without a time only the final logs end there.
    """
    lose(record, spot, range(end, 1 << 40), nodes=nodes)
    for row in record.rows("replica_states", **spot.place):
        told = from_ns is not None and (row["observed_ns"] or 0) >= from_ns
        if row["node"] in nodes and (told or row["snapshot"] == "final"):
            for name in ("log_end_offset", "high_watermark", "last_stable_offset"):
                if row[name] is not None:
                    row[name] = min(row[name], end)


_WHEN = {
    "sends": "complete_ns",
    "polls": "complete_ns",
    "assignments": "time_ns",
    "commits": "told_ns",
    "leadership": "asked_ns",
    "replica_states": "observed_ns",
}
"""When a row of a table was told; what has no time is of the end."""


def renumber(record: Record, spot: Spot, by: int, *, since_ns: int = -1) -> None:
    """Move all that lies behind the spot by some offsets, wherever it is told since a time."""
    behind = spot.offset
    move(record, spot, lambda at: at + by if at > behind else at, since_ns=since_ns)


def move(record: Record, spot: Spot, to: Callable[[int], int], *, since_ns: int = -1) -> None:
    """Have each offset and each end of the spot's partition be another one, told since a time."""
    names = {
        "sends": ("offset",),
        "polls": ("offset",),
        "assignments": ("offset",),
        "commits": ("offset",),
        "final_reads": ("target_end", "reached"),
        "leadership": ("high_watermark",),
        "replica_records": ("offset",),
        "replica_states": (
            "log_start_offset",
            "log_end_offset",
            "high_watermark",
            "last_stable_offset",
        ),
        "truncations": ("from_offset", "to_offset"),
    }
    for table, columns in names.items():
        for row in record.rows(table, **spot.place):
            told_ns = row[_WHEN[table]] if table in _WHEN else None
            if told_ns is not None and told_ns <= since_ns:
                continue
            for name in columns:
                if row[name] is not None:
                    row[name] = to(row[name])
            for epoch in row.get("epochs") or ():
                epoch["start_offset"] = to(epoch["start_offset"])


def never_write(record: Record, spot: Spot) -> None:
    """Have the message be acknowledged and written nowhere: the next one takes its offset."""
    lose(record, spot, {spot.offset})
    unread(record, spot, {spot.offset})
    offset = spot.offset
    renumber(record, spot, -1)
    spot.send["offset"] = offset


def write_twice(record: Record, spot: Spot, **changed: object) -> None:
    """Have each node write the message again right behind itself, and readers read both."""
    renumber(record, spot, 1)
    again = {"offset": spot.offset + 1}
    for row in record.rows("replica_records", snapshot="final", offset=spot.offset, **spot.place):
        record.add("replica_records", row, **again, **changed)
    for row in record.rows("polls", offset=spot.offset, **spot.place):
        for later in record.rows("polls", op_id=row["op_id"], mop=row["mop"]):
            if later["pos"] > row["pos"]:
                later["pos"] += 1
        record.add("polls", row, **again, pos=row["pos"] + 1)


def take_out(record: Record, spot: Spot, offsets: Collection[int]) -> None:
    """Have records of the spot's partition never be written: what lies behind moves up."""
    lose(record, spot, offsets)
    unread(record, spot, offsets)
    gone = sorted(offsets)
    move(record, spot, lambda offset: offset - bisect_left(gone, offset))


def at_offset(spot: Spot, offset: int) -> Spot:
    """Return the spot as if its message stood at another offset."""
    return replace(spot, send={**spot.send, "offset": offset})
