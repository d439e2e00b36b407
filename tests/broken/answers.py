"""What clients were told: the steps that changes to their ops, sends and polls are made of."""

from collections.abc import Collection, Sequence

from results.record.clock import NS_PER_S
from tests.broken.brokers import NODES, lose, read_late, unread, write_twice
from tests.broken.corpus import Spot, spot_of
from tests.broken.record import Record, Row

TIMED_OUT, REFUSED = "_MSG_TIMED_OUT", "MSG_SIZE_TOO_LARGE"
_FINAL = 1_000_000
"""Processes from here on make the final reads."""
_LATE_PHASES = ("recovery", "final")
STORED = ("value", "record_hash", "producer_id", "producer_epoch", "sequence")


def unsent_value(record: Record, spot: Spot, *, partition: int | None = None) -> int:
    """Return a value that a worker reserved for a partition and never sent."""
    partition = spot.partition if partition is None else partition
    sent = record.rows("sends", topic=spot.topic, partition=partition)
    return max(int(row["value"]) for row in sent) + 5


def end_of(record: Record, spot: Spot) -> int:
    """Return the end of the spot's partition, as the final reads were told it."""
    (read,) = record.rows("final_reads", **spot.place)
    return int(read["target_end"])


def last_spot(record: Record, spot: Spot) -> Spot:
    """Return the last message of the spot's partition."""
    sends = record.rows("sends", **spot.place)
    return spot_of(record, max(sends, key=lambda row: int(row["offset"])))


def reads(record: Record, spot: Spot, *, least: int = 1, from_ns: int = 0) -> list[Row]:
    """Return what one ok poll of the main phase returned of the spot's partition, in its order.

    Of the polls with so many records at least it is the nearest to the spot's time.

    Args:
        record: The run.
        spot: The message.
        least: How many records the poll returned, at least.
        from_ns: When it began, at the earliest.
    """
    by_op: dict[int, list[Row]] = {}
    for row in record.rows("polls", outcome="ok", **spot.place):
        if row["phase"] not in _LATE_PHASES and row["invoke_ns"] >= from_ns:
            by_op.setdefault(row["op_id"], []).append(row)
    ops = [rows for rows in by_op.values() if len(rows) >= least and rows[0]["offset"] > least]
    found = min(ops, key=lambda rows: abs(int(rows[0]["complete_ns"]) - spot.at_ns))
    return sorted(found, key=place_in_op)


def place_in_op(row: Row) -> tuple[int, int]:
    """Return what orders the records of an op."""
    return int(row["mop"]), int(row["pos"])


def next_reads(record: Record, read: Sequence[Row]) -> list[Row]:
    """Return what the same reader's next poll that got any of the partition returned of it."""
    first = read[0]
    place = {name: first[name] for name in ("topic", "partition", "process")}
    later = [row for row in record.rows("polls", **place) if row["op_id"] > first["op_id"]]
    following = min(int(row["op_id"]) for row in later)
    return sorted((row for row in later if row["op_id"] == following), key=place_in_op)


def swap(record: Record, one: Spot, other: Spot) -> None:
    """Have two messages of a partition be written in each other's place.

    Readers get what lies behind the first place when the message in it is sent, and not before.
    """
    moved = {one.offset: other, other.offset: one}
    sent_ns = max(int(each.send["invoke_ns"]) for each in (one, other))
    read_late(record, min(one, other, key=lambda each: each.offset), sent_ns)
    logs = record.rows("replica_records", snapshot="final", **one.place)
    stored = {(row["node"], row["offset"]): dict(row) for row in logs}
    for row in logs:
        if row["offset"] in moved:
            row |= {name: stored[row["node"], moved[row["offset"]].offset][name] for name in STORED}
    for row in record.rows("polls", **one.place):
        if row["offset"] in moved:
            row["value"] = moved[row["offset"]].value
    one.send["offset"], other.send["offset"] = other.offset, one.offset


def write_stranger(record: Record, spot: Spot, value: int, **stored: object) -> None:
    """Have each node write a record with another value behind the spot's, and readers get it.

    Args:
        record: The run.
        spot: The message.
        value: Of the record.
        stored: Its hash, its producer and its number; without them it is of no known producer.
    """
    unknown = dict.fromkeys(("producer_id", "producer_epoch", "sequence"), -1)
    write_twice(
        record, spot, **{**unknown, "value": value, "record_hash": value ^ 0x5EED, **stored}
    )
    for row in record.rows("polls", offset=spot.offset + 1, **spot.place):
        row["value"] = value


def send_again_as(record: Record, spot: Spot, *, producer_id: int, producer_epoch: int) -> None:
    """Have a client send the message again under another id or epoch, and go on with that.

    It numbers what it sends to each partition from 0 on then (KIP-360), and is told of the copy.
    """
    (was, *_) = record.rows("replica_records", offset=spot.offset, **spot.place)
    write_twice(record, spot)
    spot.send["offset"] += 1  # Now the spot is that of the copy.
    later = [
        row for row in record.rows("sends", topic=spot.topic)
        if row["offset"] is not None and row["invoke_ns"] > spot.at_ns
    ]  # fmt: skip
    starts: dict[int, int] = {}
    for row in later:
        partition = row["partition"]
        starts[partition] = min(row["offset"], starts.get(partition, row["offset"]))
    starts[spot.partition] = spot.offset
    for row in record.rows("replica_records", snapshot="final", topic=spot.topic):
        start = starts.get(row["partition"], 1 << 40)
        if row["offset"] >= start and row["producer_id"] == was["producer_id"]:
            row |= {
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "sequence": row["offset"] - start,
            }


def without_idempotence(record: Record) -> None:
    """Have producers be without idempotence: brokers give them no id, and records no number."""
    record.plan["idempotence"] = False
    for row in record.rows("replica_records", snapshot="final"):
        if row["producer_id"] >= 0:
            row.update(dict.fromkeys(("producer_id", "producer_epoch", "sequence"), -1))


def append_again(record: Record, spot: Spot) -> int:
    """Have each node write the spot's message again, last of all; return where."""
    end, last = end_of(record, spot), last_spot(record, spot)
    for row in record.rows("replica_records", snapshot="final", offset=spot.offset, **spot.place):
        record.add("replica_records", row, offset=end, leader_epoch=last.epoch)
    read_ns = next(each["at_ns"] for each in record.milestones if each["name"] == "final-reads")
    for table in ("replica_states", "leadership"):
        for row in record.rows(table, **spot.place):
            names = ("log_end_offset", "high_watermark", "last_stable_offset")
            told = row.get("snapshot") or (row["observed_ns"] or 0) > read_ns
            for name in names if told else ():
                if name in row and row[name] == end:
                    row[name] = end + 1
    for read in record.rows("final_reads", **spot.place):
        read |= {"target_end": end + 1, "reached": end + 1}
    for row in record.rows("polls", offset=end - 1, phase="final", **spot.place):
        record.add("polls", row, offset=end, value=spot.value, pos=row["pos"] + 1)
    return end


def fate(record: Record, send: Row, outcome: str, error: str | None = None) -> None:
    """Have a send end otherwise than acknowledged; after an `info` its process is another one."""
    send |= {"outcome": outcome, "acked": False, "offset": None, "error": error}
    (op,) = record.rows("ops", op_id=send["op_id"])
    op |= {"outcome": outcome, "error": error}
    if outcome == "info":
        retire(record, op)


def retire(record: Record, op: Row) -> None:
    """End an op's process with it: its thread goes on as the next one, which reads nothing yet."""
    process, concurrency = int(op["process"]), int(record.plan["concurrency"])
    mine = record.rows("ops", process=process)
    later = {row["op_id"]: row for row in mine if row["op_id"] > op["op_id"]}
    numbers = [int(row["process"]) for row in record.rows("ops")]
    same = [each for each in numbers if each < _FINAL and (each - process) % concurrency == 0]
    assigned = [row["op_id"] for row in record.rows("assignments") if row["op_id"] in later]
    until = min(assigned, default=1 << 62)
    record.drop("polls", lambda row: row["op_id"] in later and row["op_id"] < until)
    for table in ("ops", "sends", "polls", "assignments"):
        for row in record.rows(table, process=process):
            if row["op_id"] in later:
                row["process"] = max(same) + concurrency


def drop_ops(record: Record, unwanted: Collection[int]) -> None:
    """Have ops never be invoked."""
    for table in ("ops", "sends", "polls", "assignments"):
        record.drop(table, lambda row: row["op_id"] in unwanted)


def idle_instant(record: Record, from_ns: int) -> int:
    """Return the first time from one on at which no send was under way."""
    sends = sorted(record.rows("sends"), key=lambda row: int(row["invoke_ns"]))
    until = from_ns
    for row in sends:
        if row["invoke_ns"] > until:
            return until
        until = max(until, int(row["complete_ns"]) + 1)
    return until


def write_no_more(record: Record, spot: Spot, from_ns: int) -> None:
    """Have nothing be written to any partition from a time on at which no send was under way."""
    for partition in range(int(record.plan["partitions"])):
        place = {"topic": spot.topic, "partition": partition}
        there = Spot(send={**spot.send, "partition": partition}, epoch=spot.epoch)
        sends = record.rows("sends", **place)
        end = 1 + max(int(row["offset"]) for row in sends if row["complete_ns"] < from_ns)
        lose(record, there, range(end, 1 << 40), nodes=NODES)
        unread(record, there, range(end, 1 << 40))
        names = {
            "replica_states": ("log_end_offset", "high_watermark", "last_stable_offset"),
            "leadership": ("high_watermark",),
            "final_reads": ("target_end", "reached"),
            "assignments": ("offset",),
        }
        for table, columns in names.items():
            for row in record.rows(table, **place):
                row |= {name: min(row[name], end) for name in columns if row[name] is not None}
        _begin_epochs(record, there, end)


def _begin_epochs(record: Record, spot: Spot, end: int) -> None:
    """Have epochs behind an end at which nothing is written any more begin at their leaders only.

    A leader notes its epoch when it becomes one; a follower does with the epoch's first record.
    """
    led = {
        (f"n{row['leader']}", row["leader_epoch"])
        for row in record.rows("leadership", source="metadata-log", **spot.place)
    }
    for row in record.rows("replica_states", snapshot="final", **spot.place):
        row["epochs"] = [
            {**line, "start_offset": min(line["start_offset"], end)}
            for line in row["epochs"]
            if line["start_offset"] < end or (row["node"], line["epoch"]) in led
        ]


def take_nothing(record: Record, spot: Spot, from_ns: int, *, timeout_s: int = 7) -> None:
    """Have the spot's partition take nothing from about a time on: each client's send times out.

    A thread goes on as the next process, and sends again. What it did in the meantime it does not.
    """
    record.plan["delivery_timeout_s"] = float(timeout_s)
    from_ns = idle_instant(record, from_ns)
    write_no_more(record, spot, from_ns)
    concurrency = int(record.plan["concurrency"])
    here = {row["op_id"] for row in record.rows("sends", **spot.place)}
    free_ns = dict.fromkeys(range(concurrency), from_ns)
    gone: set[int] = set()
    stuck: list[int] = []
    for op in record.rows("ops"):
        thread = int(op["process"]) % concurrency
        if op["invoke_ns"] < from_ns or op["phase"] == "final":
            continue
        if op["op_id"] in here and op["invoke_ns"] >= free_ns[thread]:
            free_ns[thread] = int(op["invoke_ns"]) + timeout_s * NS_PER_S
            stuck.append(op["op_id"])
        else:
            gone.add(op["op_id"])
    drop_ops(record, gone)
    for op_id in stuck:
        _time_out(record, op_id, timeout_s)


def _time_out(record: Record, op_id: int, timeout_s: int) -> None:
    (op,) = record.rows("ops", op_id=op_id)
    end_ns = int(op["invoke_ns"]) + timeout_s * NS_PER_S
    op["complete_ns"] = end_ns
    for send in record.rows("sends", op_id=op_id):
        send["complete_ns"] = end_ns
        fate(record, send, "info", TIMED_OUT)
