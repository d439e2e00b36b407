"""Leaders, their epochs, and what they and their followers tell: steps of changes."""

import json
from collections.abc import Collection

from tests.broken.brokers import leader_of, lose, move, renumber
from tests.broken.corpus import Spot
from tests.broken.record import Record, Row


def acknowledged(record: Record, from_ns: int, to_ns: int, **equal: object) -> list[Row]:
    """Return what was sent and acknowledged in a time, in the order of acknowledgements."""
    sends = [
        row
        for row in record.rows("sends", acked=True, outcome="ok", **equal)
        if row["invoke_ns"] > from_ns and row["complete_ns"] < to_ns
    ]
    return sorted(sends, key=lambda row: int(row["complete_ns"]))


def answers(record: Record, spot: Spot, *, from_ns: int = 0, to_ns: int = 1 << 60) -> list[Row]:
    """Return what leaders of the spot's partition answered in a time, as it was asked."""
    rows = record.rows("leadership", source="list-offsets", **spot.place)
    rows = [row for row in rows if from_ns < row["asked_ns"] <= to_ns]
    return sorted(rows, key=lambda row: int(row["asked_ns"]))


def looks(
    record: Record, spot: Spot, node: str, *, from_ns: int = 0, to_ns: int = 1 << 60
) -> list[Row]:
    """Return what a node told of its replica in a time, in that order."""
    rows = record.rows("replica_states", node=node, snapshot=None, **spot.place)
    rows = [row for row in rows if from_ns < row["observed_ns"] <= to_ns]
    return sorted(rows, key=lambda row: int(row["observed_ns"]))


def life(record: Record, node: str, at_ns: int) -> int:
    """Return the incarnation of a node's broker at a time."""
    told = [row for row in record.rows("leadership", observer=node) if row["observed_ns"]]
    return int(min(told, key=lambda row: abs(int(row["observed_ns"]) - at_ns))["incarnation"])


def committed_by(record: Record, spot: Spot, at_ns: int) -> int:
    """Return the end of what was acknowledged, announced or read by a time in the spot's epoch."""
    placed = record.rows("sends", acked=True, **spot.place)
    read = record.rows("polls", **spot.place)
    ends = [int(row["offset"]) + 1 for row in placed + read if 0 < row["complete_ns"] <= at_ns]
    told = record.rows("leadership", source="list-offsets", **spot.place)
    return max([*ends, *(int(row["high_watermark"]) for row in told if row["asked_ns"] <= at_ns)])


def logged(record: Record, spot: Spot, at_ns: int) -> list[Row]:
    """Return the rows of the metadata log, one a node, that were its last of a partition by a time.

    How many changes it had is known from what the leader's broker told of leader and ISR.
    """
    told = record.rows("leadership", source="metadata", observer=leader_of(record, spot))
    places: list[tuple[int, list[int]]] = []
    for row in sorted(told, key=lambda each: int(each["observed_ns"])):
        place = (int(row["leader_epoch"]), sorted(row["isr"]))
        here = (row["topic"], row["partition"]) == (spot.topic, spot.partition)
        if here and row["asked_ns"] <= at_ns and place not in places[-1:]:
            places.append(place)
    rows = record.rows("leadership", source="metadata-log", **spot.place)
    offsets = sorted({int(row["log_offset"]) for row in rows})
    return [row for row in rows if row["log_offset"] == offsets[len(places) - 1]]


def log_change(record: Record, spot: Spot, at_ns: int, **changed: object) -> list[Row]:
    """Add a change of leader or ISR to each node's metadata log; return its rows."""
    before = logged(record, spot, at_ns)
    taken = {row["log_offset"] for row in record.rows("leadership", source="metadata-log")}
    place = next(at for at in range(before[0]["log_offset"] + 1, 1 << 20) if at not in taken)
    changed = {"unclean": False, "log_offset": place, **changed}
    return [record.add("leadership", row, **changed) for row in before]


def elect(
    record: Record, spot: Spot, leader: str = "", *, start: int | None = None, **changed: object
) -> int:
    """Have a new leader epoch begin when the spot's message is acknowledged; return its start.

    All that was told, written or read of its epoch after that, and of later epochs, is of an epoch
    higher by one.

    Args:
        record: The run.
        spot: When and where.
        leader: A node; empty: who led is elected again.
        start: The epoch's first offset; None: behind all that was known to be committed.
        changed: What else the row of the metadata log has: `isr`, `unclean`, `at_ns`.
    """
    at_ns = int(str(changed.pop("at_ns", spot.at_ns)))
    start = committed_by(record, spot, at_ns) if start is None else start
    broker = int((leader or leader_of(record, spot))[1:])
    added = log_change(record, spot, at_ns, leader=broker, leader_epoch=spot.epoch + 1, **changed)
    after = added[0]["log_offset"]
    ours = {id(row) for row in added}
    for row in record.rows("leadership", **spot.place):
        if id(row) not in ours and _is_later(row, spot.epoch, at_ns, after):
            _lead(record, row, spot, broker)
    written = record.rows("replica_records", **spot.place)
    read = [row for row in record.rows("polls", **spot.place) if row["complete_ns"] > at_ns]
    for row in written + read:
        row["leader_epoch"] += row["leader_epoch"] >= spot.epoch and row["offset"] >= start
    for row in record.rows("replica_states", **spot.place):
        for line in row["epochs"] or ():
            line["epoch"] += line["epoch"] > spot.epoch
        if row["epochs"]:
            line = {"epoch": spot.epoch + 1, "start_offset": start}
            row["epochs"] = sorted([*row["epochs"], line], key=lambda each: int(each["epoch"]))
    _move_orders(record, spot)
    return start


def _is_later(row: Row, epoch: int, at_ns: int, after: int) -> bool:
    if row["leader_epoch"] != epoch:
        return bool(row["leader_epoch"] > epoch)
    if row["source"] == "metadata-log":
        return bool(row["log_offset"] > after)
    return bool((row["asked_ns"] or 0) > at_ns)


def _lead(record: Record, row: Row, spot: Spot, broker: int) -> None:
    """Have what was told of the spot's epoch be told of the next one, and of its leader."""
    if row["leader_epoch"] == spot.epoch:
        if row["source"] == "list-offsets" and row["leader"] != broker:
            row["observer"] = f"n{broker}"
            row["incarnation"] = life(record, row["observer"], row["observed_ns"])
        row["leader"] = broker
    row["leader_epoch"] += 1


def _move_orders(record: Record, spot: Spot) -> None:
    """Have faults that ordered elections of the partition have seen the epochs that there are."""
    for fault in record.rows("faults", kind="unclean-election"):
        effect = json.loads(fault["effect"])
        if effect["place"] == [spot.topic, spot.partition]:
            for side in (effect["before"], effect["after"]):
                side["leader_epoch"] += side["leader_epoch"] > spot.epoch
            fault["effect"] = json.dumps(effect)


def take_back(record: Record, spot: Spot, count: int, *, at_ns: int = 0) -> int:
    """Have the last messages up to the spot be lost when the next leader begins there.

    Args:
        record: The run.
        spot: The last of them.
        count: How many.
        at_ns: When they are lost; 0: when the spot's message is acknowledged.

    Returns:
        The offset of the first of them, at which the next leader goes on.
    """
    at_ns = at_ns or spot.at_ns
    first, end = spot.offset - count + 1, spot.offset + 1
    lose(record, spot, range(first, end))
    had: dict[int, int] = {}
    for row in record.rows("polls", **spot.place):
        if first <= row["offset"] < end and row["complete_ns"] <= at_ns:
            had[row["process"]] = max(had.get(row["process"], 0), row["offset"] + count + 1)
    record.drop(
        "polls",
        lambda row: (
            row["complete_ns"] > at_ns
            and first <= row["offset"] < had.get(row["process"], end)
            and (row["phase"] != "final" or row["offset"] < end)
        ),
        **spot.place,
    )
    renumber(record, spot, -count, since_ns=at_ns)
    for row in record.rows("assignments", **spot.place):  # Who had read on goes on from there.
        if row["time_ns"] > at_ns and (row["offset"] or 0) >= first:
            row["offset"] = max(row["offset"], had.get(row["process"], 0) - count)
    return first


def remove(record: Record, spot: Spot, first: int, end: int) -> None:
    """Close the gap that offsets from one to another (exclusive) leave, wherever it is told."""
    move(record, spot, lambda at: at + first - end if at >= end else min(at, first))


def unread_by(record: Record, spot: Spot, processes: Collection[int], from_ns: int) -> None:
    """Have processes get nothing more of the spot's partition from a time on, but in the end."""
    record.drop(
        "polls",
        lambda row: (
            row["process"] in processes and row["complete_ns"] > from_ns and row["phase"] != "final"
        ),
        **spot.place,
    )
