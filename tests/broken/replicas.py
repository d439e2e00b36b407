"""Replicas that differ, forget, or say of themselves what is not so."""

from tests.broken.brokers import cut, final_log, followers_of, leader_of, lose, note_cut
from tests.broken.corpus import Spot, broken
from tests.broken.leaders import answers, committed_by, elect, looks, take_back
from tests.broken.record import Record

MS = 1_000_000
S = 1_000 * MS
SPARED = "n1"
"""A node that no fault of a base hits, and that follows at each moment."""


def _fall(record: Record, spot: Spot, *, to: int) -> None:
    """Have a follower cut its log, and tell a lower end of it in a look between two others."""
    look = next(
        row for row in looks(record, spot, SPARED, from_ns=spot.at_ns) if row["high_watermark"]
    )
    told = {"log_end_offset": to, "high_watermark": to, "last_stable_offset": to}
    at_ns = look["observed_ns"] + 100 * MS
    record.add("replica_states", look, observed_ns=at_ns, high_watermark_ns=at_ns, **told)
    why = (
        f"below its high watermark {look['high_watermark']}"
        if to
        else "Truncate and start at offset"
    )
    note_cut(record, spot, SPARED, offset=to, why=why)


@broken("log-end-regression", row="S8", base="log")
def a_follower_cuts_off_committed_records_and_fetches_them_again(
    record: Record, spot: Spot
) -> None:
    _fall(record, spot, to=spot.offset - 5)


@broken("log-end-regression", row="S8", base="disks")
def a_follower_whose_disk_was_spared_starts_over(record: Record, spot: Spot) -> None:
    _fall(record, spot, to=0)


@broken("epoch-mismatch", row="S8", base="log")
def readers_are_given_a_record_with_another_epoch(record: Record, spot: Spot) -> None:
    for row in record.rows("polls", offset=spot.offset, **spot.place):
        row["leader_epoch"] += 1


@broken("epoch-mismatch", row="S8", base="disks")
def the_next_leader_writes_again_what_had_been_read(record: Record, spot: Spot) -> None:
    read = record.rows("polls", offset=spot.offset, **spot.place)
    first_ns = min(int(row["complete_ns"]) for row in read)
    elect(record, spot, SPARED, start=spot.offset, at_ns=first_ns)


@broken("log-divergence", row="catalogue", base="log")
def a_follower_leaves_out_a_record(record: Record, spot: Spot) -> None:
    lose(record, spot, {spot.offset}, nodes=(SPARED,))


@broken("log-divergence", row="catalogue", base="disks")
def the_last_leader_leaves_out_a_record_that_followers_have(record: Record, spot: Spot) -> None:
    followers = followers_of(record, spot)
    lose(record, spot, {spot.offset}, nodes={"n1", "n2", "n3"} - set(followers))


@broken("two-leaders-in-epoch", row="catalogue", base="log")
def a_follower_has_another_record_of_the_same_epoch(record: Record, spot: Spot) -> None:
    one, other = final_log(record, spot, SPARED)[spot.offset : spot.offset + 2]
    one["record_hash"], one["value"] = other["record_hash"] ^ 1, None


@broken("epoch-regression", row="catalogue", base="log")
def a_leader_writes_a_record_in_an_epoch_to_come(record: Record, spot: Spot) -> None:
    rows = record.rows("replica_records", offset=spot.offset, **spot.place)
    for row in rows + record.rows("polls", offset=spot.offset, **spot.place):
        row["leader_epoch"] += 1


@broken("epoch-regression", row="catalogue", base="disks")
def a_checkpoint_has_an_epoch_begin_too_late(record: Record, spot: Spot) -> None:
    (state,) = record.rows("replica_states", snapshot="final", node=SPARED, **spot.place)
    for line in state["epochs"]:
        if line["epoch"] == spot.epoch:
            line["start_offset"] = spot.offset + 1


@broken("committed-truncation", row="catalogue", base="log")
def the_leader_stops_without_what_it_had_announced(record: Record, spot: Spot) -> None:
    cut(record, spot, spot.offset, nodes=(leader_of(record, spot),), from_ns=None)


@broken("committed-truncation", row="catalogue", base="disks")
def a_leader_of_before_whose_disk_was_spared_stops_without_its_end(
    record: Record, spot: Spot
) -> None:
    cut(record, spot, spot.offset, nodes=("n3",), from_ns=None)


def _hold_back(record: Record, spot: Spot) -> None:
    """Have the leader announce for a while that what had been read is not committed yet."""
    read = record.rows("polls", offset=spot.offset, **spot.place)
    first_ns = min(int(row["complete_ns"]) for row in read)
    late = answers(record, spot, from_ns=first_ns)
    for row in late[:2]:
        row["high_watermark"] = min(row["high_watermark"], spot.offset)
    for node in ("n1", "n2", "n3"):
        for row in looks(record, spot, node, from_ns=first_ns, to_ns=late[1]["observed_ns"]):
            row["high_watermark"] = min(row["high_watermark"], spot.offset)
            row["last_stable_offset"] = row["high_watermark"]


@broken("uncommitted-read", row="catalogue", base="log")
def readers_are_given_what_is_not_committed(record: Record, spot: Spot) -> None:
    _hold_back(record, spot)


@broken("uncommitted-read", row="catalogue", base="disks")
def readers_are_given_what_followers_lack(record: Record, spot: Spot) -> None:
    _hold_back(record, spot)


@broken("high-watermark-regression", row="catalogue", base="log")
def a_leaders_high_watermark_goes_back(record: Record, spot: Spot) -> None:
    before, after = answers(record, spot, from_ns=spot.at_ns)[:2]
    after["high_watermark"] = before["high_watermark"] - 10


@broken("high-watermark-regression", row="catalogue", base="disks")
def a_new_leader_answers_before_its_high_watermark_is_where_it_began(
    record: Record, spot: Spot
) -> None:
    before_ns = int(answers(record, spot, to_ns=spot.at_ns)[-1]["asked_ns"])
    told = committed_by(record, spot, before_ns)
    elect(record, spot)
    first = answers(record, spot, from_ns=spot.at_ns)[0]
    first["high_watermark"] = told - 5


@broken("incomplete-leader", row="catalogue", base="log")
def a_new_leader_begins_without_acknowledged_messages(record: Record, spot: Spot) -> None:
    elect(record, spot, SPARED, start=take_back(record, spot, 20))


@broken("incomplete-leader", row="catalogue", base="disks")
def an_elected_replica_lacks_what_was_committed(record: Record, spot: Spot) -> None:
    elect(record, spot, SPARED, start=take_back(record, spot, 12))
