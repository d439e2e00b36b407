"""What a power loss and an unclean election may cost a correct Kafka."""

import json

from tests.broken.brokers import NODES, at_offset, renumber
from tests.broken.corpus import Spot, innocent, spot_of
from tests.broken.leaders import looks, take_back
from tests.broken.record import Record, Row
from tests.broken.replicas import MS, S
from tests.broken.sequences import next_epoch


def _fault(record: Record, kind: str) -> Row:
    (fault,) = record.rows("faults", kind=kind)
    return fault


def _starts_with(record: Record, spot: Spot, end: int, mark: int) -> None:
    """Have the node that lost power tell an end of its log just after it came back."""
    healed_ns = int(_fault(record, "power-loss")["healed_ns"])
    after = looks(record, spot, "n2", from_ns=healed_ns)[0]
    at_ns = healed_ns - 200 * MS
    told = {"log_end_offset": end, "high_watermark": mark, "last_stable_offset": mark}
    record.add("replica_states", after, observed_ns=at_ns, high_watermark_ns=at_ns, **told)


@innocent(base="disks")
def who_lost_power_starts_with_an_empty_log(record: Record, spot: Spot) -> None:
    """Kafka leaves flushing to the kernel: a replica that lost its log fetches it again."""
    _starts_with(record, spot, 0, 0)


@innocent(base="disks")
def who_lost_power_has_fetched_a_part_of_its_log_again(record: Record, spot: Spot) -> None:
    """It is out of the ISR until it has caught up (KIP-966: an unclean shutdown leaves the ELR)."""
    _starts_with(record, spot, spot.offset // 2, spot.offset // 3)


@innocent(base="disks")
def a_part_of_the_log_had_been_flushed(record: Record, spot: Spot) -> None:
    """The log that is recovered ends where the last flushed batch does."""
    kept = spot.offset // 2
    fault = _fault(record, "power-loss")
    effect = json.loads(fault["effect"])
    for each in effect["replicas"]:
        if (each["topic"], each["partition"]) == (spot.topic, spot.partition):
            each["log_end_after"] = min(kept, each["log_end_before"])
            each["recovery_point"] = each["log_end_after"]
    fault["effect"] = json.dumps(effect)
    _starts_with(record, spot, min(kept, 73), 0)


@innocent(base="disks")
def power_is_lost_on_every_replica_before_it_is_flushed(record: Record, spot: Spot) -> None:
    """What all replicas had in memory only was never promised, acknowledged or not."""
    fault, count = _fault(record, "power-loss"), 1 + spot.offset % 7
    lost_ns = int(fault["confirmed_ns"])
    effect = json.loads(fault["effect"])
    (hit,) = effect["processes"]
    effect["processes"] = [{**hit, "node": node} for node in NODES]
    effect["replicas"] = [{**each, "node": node} for each in effect["replicas"] for node in NODES]
    for each in effect["replicas"]:
        each["log_end_after"] = max(each["log_end_before"] - count, 0)
        each["recovery_point"] = each["log_end_after"]
    fault.update(effect=json.dumps(effect), targets=list(NODES), healed_ns=20_700 * MS)
    fault["heal_effect"] = json.dumps({**json.loads(fault["heal_effect"]), "took_s": 2.6})
    for table in ("leadership", "replica_states", "quorum_states"):
        name = "node" if table != "leadership" else "observer"
        for row in record.rows(table):
            if row[name] in {"n1", "n3"} and (row["observed_ns"] or 0) > lost_ns:
                row["incarnation"] += 1
    for partition in (0, 1):
        before = [
            row
            for row in record.rows("sends", acked=True, partition=partition)
            if row["complete_ns"] <= lost_ns
        ]
        last = spot_of(record, max(before, key=lambda row: int(row["offset"])))
        (of,) = {
            row["producer_id"]
            for row in record.rows("replica_records", offset=last.offset, **last.place)
        }
        lost = record.rows("sends", partition=partition)
        first = last.offset - count + 1
        take_back(record, last, count, at_ns=lost_ns)
        since_ns = min(row["invoke_ns"] for row in lost if row["offset"] == first)
        next_epoch(record, of, behind=at_offset(last, first), since_ns=since_ns)


def _lost_by_the_election(record: Record, count: int) -> None:
    """Have the elected replica lack some more messages than it did."""
    fault = _fault(record, "unclean-election")
    before = [
        row
        for row in record.rows("sends", acked=True, partition=1)
        if row["complete_ns"] <= fault["requested_ns"]
    ]
    last = max(before, key=lambda row: int(row["offset"]))
    take_back(record, spot_of(record, last), count, at_ns=int(fault["confirmed_ns"]))


@innocent(base="disks")
def the_elected_replica_lacked_more(record: Record, spot: Spot) -> None:
    """It has what it had told to be committed; what lies behind may be gone (KIP-106, KIP-841)."""
    _lost_by_the_election(record, 1 + spot.offset % 3)


@innocent(base="disks")
def who_was_in_sync_cut_off_what_the_elected_lacked(record: Record, spot: Spot) -> None:
    """A follower asks the new leader where its epoch ended, and cuts its log there (KIP-279)."""
    fault = _fault(record, "unclean-election")
    healed_ns = int(fault["healed_ns"])
    place = spot_of(record, record.rows("sends", acked=True, partition=1)[0])
    for node in ("n1", "n3"):
        after = looks(record, place, node, from_ns=healed_ns - 2 * S)[0]
        at_ns = int(after["observed_ns"]) - (50 + spot.offset) * MS
        told = {"log_end_offset": 138, "high_watermark": 138 - spot.offset % 4}
        record.add("replica_states", after, observed_ns=at_ns, high_watermark_ns=at_ns, **told)


@innocent(base="disks")
def a_reader_had_not_got_what_the_election_cost(record: Record, spot: Spot) -> None:
    """Then only its writers know of it."""
    fault = _fault(record, "unclean-election")
    gone = range(138 + spot.offset % 6, 148)
    record.drop(
        "polls",
        lambda row: row["offset"] in gone and row["complete_ns"] < fault["confirmed_ns"],
        topic="log-0",
        partition=1,
    )


@innocent(base="disks", moments=("unclean-election",))
def a_message_that_timed_out_while_nobody_led_was_written(record: Record, _spot: Spot) -> None:
    """Its leader died before it could answer; the last known leader had fetched it (KIP-966)."""
    sent = min(
        record.rows("sends", outcome="info", partition=0), key=lambda row: int(row["invoke_ns"])
    )
    (before,) = record.rows("sends", offset=157, partition=0)
    place = spot_of(record, before)
    renumber(record, place, 1, since_ns=sent["invoke_ns"])
    written = {"offset": 158, "value": sent["value"]}
    for row in record.rows("replica_records", offset=157, **place.place):
        told = {"record_hash": row["record_hash"] ^ 1, "sequence": row["sequence"] + 1}
        record.add("replica_records", row, **written, **told)
    for row in record.rows("polls", offset=159, **place.place):
        at = row["pos"]
        for later in record.rows("polls", op_id=row["op_id"], mop=row["mop"]):
            later["pos"] += later["pos"] >= at
        record.add("polls", row, **written, leader_epoch=place.epoch, pos=at)
