"""What brokers do to a record: the steps that changes are made of."""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from results.record.clock import NS_PER_S
from results.record.milestones import ENDED
from results.record.terms import QUORUM_TOPIC
from tests.broken.corpus import Spot
from tests.broken.record import Record, Row

NODES = ("n1", "n2", "n3")
_SESSION_NS = 3 * NS_PER_S
"""After so long the controllers miss a broker (`broker.session.timeout.ms` of a run)."""


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
            end_at(row, end)


def end_at(state: Row, end: int) -> None:
    """Have a replica's log end at an offset, or before: a cut takes the epochs behind it along."""
    for name in ("log_end_offset", "high_watermark", "last_stable_offset"):
        if state[name] is not None:
            state[name] = min(state[name], end)
    if state["epochs"] is not None:
        state["epochs"] = [line for line in state["epochs"] if line["start_offset"] < end]


def begin_at(state: Row, start: int) -> None:
    """Have a replica's log begin at an offset: the epoch that is under way begins there, too."""
    state["log_start_offset"] = start
    if state["epochs"]:
        before = [line for line in state["epochs"] if line["start_offset"] <= start]
        later = [line for line in state["epochs"] if line["start_offset"] > start]
        state["epochs"] = [*({**line, "start_offset": start} for line in before[-1:]), *later]


def note_cut(record: Record, spot: Spot, node: str, *, offset: int, why: str) -> None:
    """Have a node's server log tell that it cut its log of the spot's partition."""
    record.add(
        "truncations",
        {"topic_id": spot.send["topic_id"], **spot.place},
        observed_ns=None, node=node, incarnation=0, from_offset=offset, to_offset=None,
        reason=why, source="server-log",
    )  # fmt: skip


def follow(leader: int, epoch: int, end: int) -> str:
    """Return why a follower cuts its log (KIP-101), as the harness takes it from server logs."""
    return f"follower of broker {leader}: epoch {epoch} ends at offset {end} there"


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
            if table == "truncations" and row["reason"]:
                said = re.compile(r"(?<=ends at offset )\d+")
                row["reason"] = said.sub(lambda at: str(to(int(at.group()))), row["reason"])


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


def in_order(rows: Collection[Row]) -> list[Row]:
    """Return rows of `polls` as they were read."""
    return sorted(rows, key=lambda row: (row["op_id"], row["mop"], row["pos"]))


def insert(record: Record, before: Row, rows: Sequence[Row]) -> None:
    """Have an op read other records before one of those that it read."""
    at = before["pos"]
    for later in record.rows("polls", op_id=before["op_id"], mop=before["mop"]):
        if later["pos"] >= at:
            later["pos"] += len(rows)
    copies = ("op_id", "mop", "process", "phase", "invoke_ns", "complete_ns", "outcome")
    same = {name: before[name] for name in copies}
    for number, row in enumerate(rows):
        record.add("polls", row, **same, pos=at + number)


def read_late(
    record: Record, spot: Spot, until_ns: int, *, wanted: Callable[[Row], bool] = lambda _: True
) -> None:
    """Have readers be given the spot's message, and what is behind it, only from a time on.

    Each reads it then before what it reads next; a reader that ends before never does.

    Args:
        record: The run.
        spot: The message.
        until_ns: The time.
        wanted: Tells of a row of `polls` whether its reader is meant.
    """
    gone = record.drop(
        "polls",
        lambda row: row["offset"] >= spot.offset and row["complete_ns"] < until_ns and wanted(row),
        **spot.place,
    )
    put_off(record, gone)


def put_off(record: Record, gone: Collection[Row]) -> None:
    """Have readers be given later what was taken from them: before what they read next.

    Args:
        record: The run, without those rows.
        gone: Rows of `polls`. Nobody is given them again who reads nothing more of the partition.
    """
    read: dict[tuple[int, str, int], list[Row]] = {}
    for row in in_order(record.rows("polls", outcome="ok")):
        read.setdefault((row["process"], row["topic"], row["partition"]), []).append(row)
    waiting: dict[int, tuple[Row, dict[int, Row]]] = {}
    for row in gone:
        rows = read.get((row["process"], row["topic"], row["partition"]), [])
        following = next((each for each in rows if each["op_id"] > row["op_id"]), None)
        if following is not None and row["offset"] < following["offset"]:
            waiting.setdefault(id(following), (following, {}))[1][row["offset"]] = row
    for following, mine in waiting.values():
        first = mine[min(mine)]
        for move in _assigned(record, first, until=following["op_id"]):
            move["offset"] = min(move["offset"] or 0, first["offset"])
        insert(record, following, [mine[offset] for offset in sorted(mine)])


def read_early(record: Record, spot: Spot, last: Row) -> None:
    """Have an op read on to the spot's message, behind the last record that it read.

    Args:
        record: The run.
        spot: What its process reads later, up to which it reads now.
        last: The last row of what the op read.
    """
    later = record.drop(
        "polls",
        lambda row: row["op_id"] > last["op_id"] and row["offset"] <= spot.offset,
        process=last["process"],
        **spot.place,
    )
    copies = ("op_id", "mop", "process", "phase", "invoke_ns", "complete_ns", "outcome")
    same = {name: last[name] for name in copies}
    once = {row["offset"]: row for row in later}
    for number, offset in enumerate(sorted(once), start=1):
        record.add("polls", once[offset], **same, pos=last["pos"] + number)
    until = min((row["op_id"] for row in record.rows("polls", process=last["process"], **spot.place)
                 if row["op_id"] > last["op_id"]), default=1 << 62)  # fmt: skip
    for move in _assigned(record, {**last, **spot.place}, until=until):
        move["offset"] = max(move["offset"] or 0, spot.offset + 1)


def _assigned(record: Record, read: Row, *, until: int) -> list[Row]:
    """Return the assignments of a reader's partition from the op of a row on, up to another op."""
    same = {name: read[name] for name in ("process", "topic", "partition")}
    rows = record.rows("assignments", kind="assign", **same)
    return [row for row in rows if read["op_id"] < row["op_id"] <= until]


def end_broker(record: Record, node: str, at_ns: int, *, code: str, said: str) -> None:
    """Have a broker end by itself, and stay away: nothing is heard of it again.

    Its files are as they were then; the others stay in sync without it. It leads nothing then, or
    is cut off.
    """
    number = int(node.removeprefix("n"))
    lives = {row["incarnation"] for row in record.rows("quorum_states", node=node)
             if (row["observed_ns"] or 0) <= at_ns}  # fmt: skip
    detail = {"node": node, "incarnation": str(max(lives)), "code": code, "said": said}
    record.milestones.append({"name": ENDED, "at_ns": at_ns, "detail": detail})
    record.milestones.sort(key=lambda each: int(each["at_ns"]))
    for each in record.milestones:
        if each["name"] == "stopped":
            each["detail"][node] = "killed"
        if each["name"] == "recovered":
            each["detail"]["failed"] = f"a partition's in-sync replicas lack {node}"
    for (topic, partition), end in _ends_by(record, node, at_ns).items():
        place = {"topic": topic, "partition": partition, "node": node}
        record.drop("replica_records", partial(_lies_outside, range(end)), **place)
        for row in record.rows("replica_states", **place):
            end_at(row, end)
    for table in ("replica_states", "quorum_states"):
        record.drop(table, lambda row: (row["observed_ns"] or 0) > at_ns, node=node)
    record.drop("truncations", lambda _: True, node=node)
    record.drop("leadership", lambda row: (row["observed_ns"] or 0) > at_ns, observer=node)
    _stay_out_of_sync(record, number, at_ns)
    _forget_leaders(record, node)


def _lies_outside(left: range, row: Row) -> bool:
    return row["offset"] not in left


def _ends_by(record: Record, node: str, at_ns: int) -> dict[tuple[str, int], int]:
    """Return where a node's logs ended at a time, as far as it had told."""
    ends: dict[tuple[str, int], int] = {}
    for table, place in (("replica_states", None), ("quorum_states", (QUORUM_TOPIC, 0))):
        for row in record.rows(table, node=node):
            told = row["observed_ns"] is not None and row["observed_ns"] <= at_ns
            if told and row["log_end_offset"] is not None:
                where = place or (row["topic"], row["partition"])
                ends[where] = max(ends.get(where, 0), row["log_end_offset"])
    for row in record.rows("truncations", node=node):  # Of what it cut off later nothing is known.
        where = row["topic"], row["partition"]
        ends[where] = min(ends.get(where, 0), row["from_offset"])
    return ends


def _forget_leaders(record: Record, node: str) -> None:
    """Have a node know no leader behind the end of its copy of the controllers' log."""
    known = [row["offset"] for row in record.rows("replica_records", topic=QUORUM_TOPIC, node=node)]
    record.drop(
        "leadership",
        lambda row: row["log_offset"] > max(known),
        source="metadata-log",
        observer=node,
    )
    heard = {
        (row["topic"], row["partition"], row["leader_epoch"])
        for row in record.rows("leadership", source="metadata-log", observer=node)
    }
    record.drop(
        "leadership",
        lambda row: (row["topic"], row["partition"], row["leader_epoch"]) not in heard,
        source="state-change-log",
        observer=node,
    )
    for row in record.rows("quorum_states", node=node, observed_ns=None):
        if row["log_end_offset"] is not None:
            row["log_end_offset"] = max(known) + 1


def _stay_out_of_sync(record: Record, number: int, at_ns: int) -> None:
    """Have a broker be taken out of the in-sync replicas, and never come back to them, nor lead."""
    told = [row for row in record.rows("quorum_states", role="leader") if row["observed_ns"]]
    gone_ns = at_ns + _SESSION_NS
    end = max(row["log_end_offset"] for row in told if row["observed_ns"] <= gone_ns)
    changes = record.rows("leadership", source="metadata-log")
    taken = {row["log_offset"] for row in changes}
    before: dict[tuple[str, str, int], Row] = {}
    for row in sorted(changes, key=lambda row: int(row["log_offset"])):
        if row["log_offset"] < end:
            before[row["observer"], row["topic"], row["partition"]] = row
        elif row["leader"] != number:
            row["isr"] = [each for each in row["isr"] or () if each != number] or row["isr"]
    places: dict[tuple[str, int], int] = {}
    free = (at for at in range(end, 1 << 20) if at not in taken)
    for (_, topic, partition), row in before.items():
        if number in (row["isr"] or ()) and row["leader"] != number:
            left = [each for each in row["isr"] if each != number]
            offset = places.setdefault((topic, partition), 0) or next(free)
            places[topic, partition] = offset
            record.add("leadership", row, isr=left, log_offset=offset, unclean=False)
    for row in record.rows("leadership", source="metadata"):
        if row["isr"] and row["observed_ns"] > gone_ns and row["leader"] != number:
            row["isr"] = [each for each in row["isr"] if each != number]
