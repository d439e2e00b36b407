"""Leaders, their epochs, and what they and their followers tell: steps of changes."""

import json
from collections.abc import Callable, Collection
from itertools import pairwise

from tests.broken.brokers import NODES, end_at, follow, leader_of, lose, move, note_cut, renumber
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


def _log_ends(record: Record, at_ns: int) -> tuple[int, int]:
    """Return where the controllers' log ended, as was told last before a time, and first after."""
    told = [row for row in record.rows("quorum_states", role="leader") if row["observed_ns"]]
    before = [row["log_end_offset"] for row in told if row["observed_ns"] <= at_ns]
    after = [row["log_end_offset"] for row in told if row["observed_ns"] > at_ns]
    return max(before, default=0), min(after, default=1 << 40)


def logged(record: Record, spot: Spot, at_ns: int, *, epoch: int | None = None) -> list[Row]:
    """Return the rows of the metadata log, one a node, that were its last of a partition by a time.

    Args:
        record: The run.
        spot: Of which partition.
        at_ns: The time; the log's end is told about once a second.
        epoch: What was not written by the look before is of this epoch at most; None: is not yet.
    """
    before, after = _log_ends(record, at_ns)
    rows = record.rows("leadership", source="metadata-log", **spot.place)
    limit = -1 if epoch is None else epoch
    offsets = [
        row["log_offset"]
        for row in rows
        if row["log_offset"] < before
        or (row["log_offset"] < after and row["leader_epoch"] <= limit)
    ]
    return [row for row in rows if row["log_offset"] == max(offsets)]


def log_change(record: Record, spot: Spot, at_ns: int, **changed: object) -> list[Row]:
    """Add a change of leader or ISR to each node's metadata log; return its rows."""
    before = logged(record, spot, at_ns, epoch=spot.epoch)
    taken = {row["log_offset"] for row in record.rows("leadership", source="metadata-log")}
    later = [row["log_offset"] for row in record.rows("leadership", source="metadata-log",
             **spot.place) if row["log_offset"] > before[0]["log_offset"]]  # fmt: skip
    least = max(before[0]["log_offset"] + 1, _log_ends(record, at_ns)[0])
    ahead = (at for at in range(least, min(later, default=1 << 20)) if at not in taken)
    behind = (at for at in range(before[0]["log_offset"] + 1, 1 << 20) if at not in taken)
    place = next(ahead, None)
    changed = {"unclean": False, "log_offset": next(behind) if place is None else place, **changed}
    return [record.add("leadership", row, **changed) for row in before]


def change_isr(
    record: Record,
    spot: Spot,
    span: tuple[int, int],
    isr: Callable[[Row], list[int]],
    *,
    back_ns: int | None = None,
) -> None:
    """Have the ISR of the spot's partition be another one for a while, for all who tell of it.

    Args:
        record: The run.
        spot: Of which partition.
        span: From when to when brokers tell it.
        isr: Returns it for a row with the leader and the ISR of before.
        back_ns: When the controllers take it back; None: at the end of the span, if there is one.
    """
    from_ns, to_ns = span
    back_ns = to_ns if back_ns is None else back_ns
    first, last = (dict(logged(record, spot, at_ns)[0]) for at_ns in (from_ns, back_ns))
    meant = [
        row
        for row in record.rows("leadership", source="metadata-log", **spot.place)
        if first["log_offset"] < row["log_offset"] <= last["log_offset"]
        or (row["log_offset"] > last["log_offset"] and back_ns >= record.stone("stopped"))
    ]
    here = Spot(send=spot.send, epoch=first["leader_epoch"])
    log_change(record, here, from_ns, isr=isr(first))
    begun = {row["leader_epoch"] for row in meant} - {first["leader_epoch"]}
    logged_isrs = record.rows("leadership", source="state-change-log", **spot.place)
    for row in meant + [row for row in logged_isrs if row["isr"] and row["leader_epoch"] in begun]:
        row["isr"] = isr(row)
    if back_ns < record.stone("stopped"):
        there = Spot(send=spot.send, epoch=last["leader_epoch"])
        log_change(record, there, back_ns, isr=last["isr"])
    _drop_repeated(record, spot)
    for row in record.rows("leadership", source="metadata", **spot.place):
        if from_ns <= row["observed_ns"] <= to_ns:
            row["isr"] = isr(row)


def _drop_repeated(record: Record, spot: Spot) -> None:
    """Take rows out of the metadata log that change nothing."""
    rows = record.rows("leadership", source="metadata-log", **spot.place)
    rows.sort(key=lambda row: (row["observer"], row["log_offset"]))
    names = ("observer", "leader", "leader_epoch")
    same = {
        id(after)
        for row, after in pairwise(rows)
        if all(row[name] == after[name] for name in names) and set(row["isr"]) == set(after["isr"])
    }
    record.drop("leadership", lambda row: id(row) in same)


def depose(record: Record, spot: Spot, at_ns: int) -> None:
    """Have the controllers take the spot's leader away at a time, and never elect another one."""
    gone = {"leader": -1, "leader_epoch": spot.epoch + 1}
    (change, *_) = log_change(record, spot, at_ns, **gone)
    for source in ("metadata-log", "state-change-log"):
        record.drop(
            "leadership",
            lambda row: (
                (row["log_offset"] or 0) > change["log_offset"]
                or (row["log_offset"] is None and row["leader_epoch"] > spot.epoch)
            ),
            source=source,
            **spot.place,
        )
    log_leader(record, spot, change)
    for row in record.rows("leadership", source="metadata", **spot.place):
        if row["observed_ns"] >= at_ns:
            row.update(gone, isr=change["isr"])


def log_leader(record: Record, spot: Spot, change: Row) -> None:
    """Have each broker log a change of the spot's leader; its leader logs the ISR as well."""
    like = record.rows("leadership", source="state-change-log", **spot.place)[0]
    named = {name: change[name] for name in ("leader", "leader_epoch")}
    for node in NODES:
        leads = node == f"n{change['leader']}"
        record.add("leadership", like, observer=node, isr=change["isr"] if leads else None, **named)


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
        start: The epoch's first offset; None: behind all that was known to be committed. Else the
            leader never had more than that, and the others cut off what they have.
        changed: What else the row of the metadata log has: `isr`, `unclean`, `at_ns`.
    """
    at_ns = int(str(changed.pop("at_ns", spot.at_ns)))
    lacks, start = start is not None, committed_by(record, spot, at_ns) if start is None else start
    broker = int((leader or leader_of(record, spot))[1:])
    isr = logged(record, spot, at_ns, epoch=spot.epoch)[0]["isr"]
    added = log_change(record, spot, at_ns, leader=broker, leader_epoch=spot.epoch + 1, **changed)
    after = added[0]["log_offset"]
    ours = {id(row) for row in added}
    for row in record.rows("leadership", **spot.place):
        if id(row) not in ours and _is_later(row, spot.epoch, at_ns, after):
            _lead(record, row, spot, broker)
    log_leader(record, spot, added[0])
    next_one = Spot(send=spot.send, epoch=spot.epoch + 1)
    if changed.get("isr") and isr:  # Who was left out comes back at once.
        log_change(record, next_one, at_ns, isr=isr)
    if lacks:
        _cut_behind(record, next_one, broker, start=start, at_ns=at_ns)
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


def _cut_behind(record: Record, spot: Spot, leader: int, *, start: int, at_ns: int) -> None:
    """Have a leader never have had what lies behind its start, and the others cut that off."""
    why = follow(leader, spot.epoch - 1, start)
    for node in NODES:
        if node != f"n{leader}":
            note_cut(record, spot, node, offset=start, why=why)
    for row in looks(record, spot, f"n{leader}", to_ns=at_ns):
        end_at(row, start)


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
            row["incarnation"] = life(record, f"n{broker}", row["observed_ns"])
            row["observer"] = f"n{broker}"
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
