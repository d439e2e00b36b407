"""What clients saw of a broken broker: copies, strangers, jumps, wrong answers."""

from results.record.terms import Validity
from tests.broken.answers import (
    REFUSED,
    STORED,
    append_again,
    end_of,
    fate,
    last_spot,
    next_reads,
    reads,
    send_again_as,
    swap,
    unsent_value,
    without_idempotence,
    write_stranger,
)
from tests.broken.brokers import never_write, unread, write_twice
from tests.broken.corpus import QUIET, Spot, broken, spot_of
from tests.broken.record import Record, Row

_OTHERS = (77 << 32) + 1
"""No partition's value."""


@broken("duplicate", row="catalogue", base="log")
def a_retry_is_written_twice(record: Record, spot: Spot) -> None:
    write_twice(record, spot)


@broken("duplicate", row="catalogue", base="log")
def a_message_is_written_again_at_the_end(record: Record, spot: Spot) -> None:
    append_again(record, spot)


@broken("duplicate", row="S10e", base="log", moments=(QUIET,), valid=Validity.UNKNOWN)
def a_message_is_written_again_in_another_epoch(record: Record, spot: Spot) -> None:
    send_again_as(record, spot, producer_id=0, producer_epoch=1)


@broken("duplicate", row="S10e", base="log", moments=(QUIET,), valid=Validity.UNKNOWN)
def a_message_is_written_again_under_another_id(record: Record, spot: Spot) -> None:
    send_again_as(record, spot, producer_id=4000, producer_epoch=0)


@broken("duplicate", row="S10e", base="log", moments=(QUIET,), valid=Validity.UNKNOWN)
def a_leader_copies_a_message_into_another_epoch(record: Record, spot: Spot) -> None:
    """Nobody sent it again: its producer goes on in the epoch of before, with its next number."""
    write_twice(record, spot, producer_epoch=1, sequence=0)
    spot.send["offset"] += 1


@broken("duplicate", row="S10e", base="log", moments=(QUIET,), valid=Validity.UNKNOWN)
def a_message_without_idempotence_is_written_twice_in_peace(record: Record, spot: Spot) -> None:
    without_idempotence(record)
    write_twice(record, spot)


@broken("phantom", row="catalogue", base="log")
def a_message_is_written_to_another_partition_too(record: Record, spot: Spot) -> None:
    there = {"topic": spot.topic, "partition": 1 - spot.partition}
    sends = record.rows("sends", acked=True, **there)
    before = [row for row in sends if row["complete_ns"] < spot.send["invoke_ns"]]
    other = max(before, key=lambda row: int(row["complete_ns"]))
    copy = record.rows("replica_records", snapshot="final", offset=other["offset"], **there)[0]
    write_stranger(record, spot, **{name: copy[name] for name in STORED})


@broken("phantom", row="catalogue", base="log")
def a_record_of_nobody_is_read(record: Record, spot: Spot) -> None:
    write_stranger(record, spot, _OTHERS)


@broken("phantom", row="low", base="log")
def a_reserved_value_that_was_never_sent_is_written(record: Record, spot: Spot) -> None:
    write_stranger(record, spot, unsent_value(record, spot))


@broken("phantom", row="low", base="log")
def one_reader_gets_a_reserved_value_that_was_never_sent(record: Record, spot: Spot) -> None:
    reads(record, spot)[0]["value"] = unsent_value(record, spot)


@broken("inconsistent-offsets", row="catalogue", base="log")
def one_reader_gets_the_record_before_once_more(record: Record, spot: Spot) -> None:
    read = reads(record, spot, least=2)
    read[1]["value"] = read[0]["value"]


@broken("inconsistent-offsets", row="catalogue", base="log")
def two_messages_are_acknowledged_at_one_offset(record: Record, spot: Spot) -> None:
    (other,) = record.rows("sends", offset=spot.offset + 3, **spot.place)
    other["offset"] = spot.offset


@broken("ack-mismatch", row="catalogue", base="log")
def a_message_is_acknowledged_one_offset_too_low(record: Record, spot: Spot) -> None:
    spot.send["offset"] -= 1


@broken("ack-mismatch", row="catalogue", base="log")
def a_message_is_acknowledged_far_behind_the_end(record: Record, spot: Spot) -> None:
    spot.send["offset"] = end_of(record, spot) + 1000


@broken("unseen", row="catalogue", base="log")
def nobody_is_given_the_last_messages(record: Record, spot: Spot) -> None:
    end = end_of(record, spot)
    unread(record, spot, range(end - 2, end))


@broken("unseen", row="catalogue", base="log")
def a_message_without_a_known_offset_is_passed_over(record: Record, spot: Spot) -> None:
    unread(record, spot, {spot.offset})
    spot.send["offset"] = None


@broken("G1a", row="catalogue", base="log")
def a_refused_message_is_written(record: Record, spot: Spot) -> None:
    fate(record, spot.send, "fail", REFUSED)


@broken("G1a", row="catalogue", base="log")
def a_refused_message_is_shown_to_one_reader(record: Record, spot: Spot) -> None:
    never_write(record, spot)
    reads(record, spot, from_ns=int(spot.send["invoke_ns"]))[0]["value"] = spot.value
    fate(record, spot.send, "fail", REFUSED)


@broken("offset-order", row="catalogue", base="log")
def a_message_is_written_before_an_earlier_ones(record: Record, spot: Spot) -> None:
    swap(record, spot, spot_of(record, _later(record, spot.send, of_process=False)))


@broken("offset-order", row="catalogue", base="log")
def a_message_is_written_before_one_of_a_second_ago(record: Record, spot: Spot) -> None:
    later = _later(record, spot.send, of_process=False, by_ns=1_000_000_000)
    swap(record, spot, spot_of(record, later))


@broken("nonmonotonic-send", row="catalogue", base="log")
def a_writers_later_message_is_written_before_its_earlier_one(record: Record, spot: Spot) -> None:
    earlier = max(_of_op(record, spot.send), key=place_of_send)
    swap(
        record, spot_of(record, earlier), spot_of(record, _later(record, earlier, of_process=True))
    )


@broken("int-nonmonotonic-send", row="catalogue", base="log")
def two_messages_of_one_op_are_written_the_other_way_round(record: Record, spot: Spot) -> None:
    one, other = _of_op(record, spot.send)
    swap(record, spot_of(record, one), spot_of(record, other))


@broken("poll-skip", row="catalogue", base="log")
def a_poll_begins_one_record_too_late(record: Record, spot: Spot) -> None:
    _forget(record, next_reads(record, reads(record, spot))[:1])


@broken("poll-skip", row="catalogue", base="log")
def a_poll_comes_back_empty_and_the_next_goes_on_behind(record: Record, spot: Spot) -> None:
    _forget(record, next_reads(record, reads(record, spot)))


@broken("int-poll-skip", row="catalogue", base="log")
def a_poll_leaves_out_a_record_in_its_middle(record: Record, spot: Spot) -> None:
    _forget(record, reads(record, spot, least=3)[1:2])


@broken("nonmonotonic-poll", row="catalogue", base="log")
def a_poll_begins_with_the_last_record_once_more(record: Record, spot: Spot) -> None:
    read = reads(record, spot)
    _again(record, next_reads(record, read)[0], read[-1:])


@broken("nonmonotonic-poll", row="catalogue", base="log")
def a_poll_repeats_the_one_before(record: Record, spot: Spot) -> None:
    read = reads(record, spot, least=2)
    _again(record, next_reads(record, read)[0], read)


@broken("int-nonmonotonic-poll", row="catalogue", base="log")
def a_poll_returns_two_records_the_other_way_round(record: Record, spot: Spot) -> None:
    one, other = reads(record, spot, least=3)[:2]
    for name in ("offset", "value"):
        one[name], other[name] = other[name], one[name]


@broken("high-watermark-regression", row="S10d", base="log")
def the_final_reads_are_told_an_end_before_the_last_messages(record: Record, spot: Spot) -> None:
    end_final_reads(record, spot, end_of(record, spot) - 5)


@broken("high-watermark-regression", row="S10d", base="log", moments=("kill",))
def the_final_reads_are_told_an_end_of_long_before(record: Record, spot: Spot) -> None:
    end_final_reads(record, spot, spot.offset)


def place_of_send(row: Row) -> int:
    """Return what orders the sends of an op."""
    return int(row["mop"])


def _of_op(record: Record, send: Row) -> list[Row]:
    return sorted(record.rows("sends", op_id=send["op_id"]), key=place_of_send)


def _later(record: Record, send: Row, *, of_process: bool, by_ns: int = 0) -> Row:
    """Return the next send of the partition that began when one had ended, its writer's or not."""
    place = {name: send[name] for name in ("topic", "partition")}
    later = [
        row
        for row in record.rows("sends", **place)
        if row["invoke_ns"] > send["complete_ns"] + by_ns
        and (row["process"] == send["process"]) is of_process
    ]
    return min(later, key=lambda row: (int(row["invoke_ns"]), place_of_send(row)))


def _forget(record: Record, rows: list[Row]) -> None:
    gone = {id(row) for row in rows}
    record.drop("polls", lambda row: id(row) in gone)


def _again(record: Record, before: Row, rows: list[Row]) -> None:
    """Have a poll return records before the first one that it returned of a partition."""
    first = int(before["pos"])
    for later in record.rows("polls", op_id=before["op_id"], mop=before["mop"]):
        if later["pos"] >= first:
            later["pos"] += len(rows)
    for pos, row in enumerate(rows, start=first):
        record.add(
            "polls", before, offset=row["offset"], value=row["value"],
            leader_epoch=row["leader_epoch"], pos=pos,
        )  # fmt: skip


def end_final_reads(record: Record, spot: Spot, end: int) -> None:
    unread(record, spot, range(end, 1 << 40), phase="final")
    for read in record.rows("final_reads", **spot.place):
        read |= {"target_end": end, "reached": end}


@broken("final-read-incomplete", row="harness", base="log", valid=Validity.UNKNOWN)
def a_final_read_stops_short(record: Record, spot: Spot) -> None:
    reached = last_spot(record, spot).offset - 3
    unread(record, spot, range(reached, 1 << 40), phase="final")
    for read in record.rows("final_reads", **spot.place):
        read |= {"reached": reached, "complete": False}
