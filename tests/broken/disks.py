"""Losses that neither a power loss nor an unclean election explains."""

from tests.broken.brokers import cut, leader_of, never_write
from tests.broken.corpus import Spot, broken, spot_of
from tests.broken.leaders import acknowledged, answers, elect, take_back
from tests.broken.record import Record
from tests.broken.replicas import SPARED

_ELECTION = ("unclean-election",)


def _in_partition(record: Record, spot: Spot, partition: int) -> Spot:
    """Return the spot, or what another partition acknowledged last before it."""
    if spot.partition == partition:
        return spot
    before = acknowledged(record, 0, spot.at_ns, partition=partition)
    return spot_of(record, before[-1])


@broken("lost-write", row="excuses", base="disks")
def every_replica_loses_a_record_though_one_alone_lost_power(record: Record, spot: Spot) -> None:
    never_write(record, spot)


@broken("lost-write", row="excuses", base="disks")
def an_election_of_one_partition_costs_another_one_a_record(record: Record, spot: Spot) -> None:
    never_write(record, _in_partition(record, spot, 0))


@broken("under-replicated", row="excuses", base="disks")
def a_replica_whose_disk_was_spared_loses_the_end_of_its_log(record: Record, spot: Spot) -> None:
    place = _in_partition(record, spot, 0)
    cut(record, place, place.offset, nodes=("n3",), from_ns=None)


@broken("under-replicated", row="excuses", base="disks")
def who_lost_power_and_was_in_sync_again_lacks_the_end(record: Record, spot: Spot) -> None:
    place = _in_partition(record, spot, 0)
    cut(record, place, place.offset, nodes=("n2",), from_ns=None)


@broken("high-watermark-regression", row="excuses", base="disks")
def the_high_watermark_goes_back_though_its_leaders_disk_was_spared(
    record: Record, spot: Spot
) -> None:
    place = _in_partition(record, spot, 0)
    before, after = answers(record, place, from_ns=place.at_ns)[:2]
    after["high_watermark"] = before["high_watermark"] - 3


@broken("incomplete-leader", row="excuses", base="disks")
def a_clean_election_costs_what_an_unclean_one_may(record: Record, spot: Spot) -> None:
    place = _in_partition(record, spot, 0)
    elect(record, place, SPARED, start=take_back(record, place, 8))


def _of_the_elected(record: Record, share: float) -> Spot:
    """Return a message that the unclean leader acknowledged in the epoch that it began."""
    (fault,) = record.rows("faults", kind="unclean-election")
    sends = acknowledged(record, int(fault["confirmed_ns"]), 1 << 60, partition=1)
    return spot_of(record, sends[int(len(sends) * share)])


@broken("lost-write", row="S9", base="disks", moments=_ELECTION)
def the_elected_acknowledges_what_it_never_writes(record: Record, _spot: Spot) -> None:
    never_write(record, _of_the_elected(record, 0.3))


@broken("lost-write", row="S9", base="disks", moments=_ELECTION)
def the_elected_drops_the_end_that_it_acknowledged(record: Record, _spot: Spot) -> None:
    last = _of_the_elected(record, 0.9)
    cut(record, last, last.offset, from_ns=None)


@broken("lost-write", row="S9", base="disks", moments=_ELECTION)
def the_next_leader_lacks_what_the_elected_had_acknowledged(record: Record, _spot: Spot) -> None:
    last = _of_the_elected(record, 0.6)
    elect(record, last, SPARED, start=take_back(record, last, 9))


@broken("committed-truncation", row="S9", base="disks", moments=_ELECTION)
def the_elected_stops_without_what_it_had_announced(record: Record, _spot: Spot) -> None:
    last = _of_the_elected(record, 0.5)
    cut(record, last, last.offset, nodes=(leader_of(record, last),), from_ns=None)


@broken("log-divergence", row="S9", base="disks", moments=_ELECTION)
def a_replica_keeps_what_the_election_cost_and_is_back_in_the_isr(
    record: Record, _spot: Spot
) -> None:
    rows = record.rows("replica_records", node="n3", topic="log-0", partition=1)
    for row in rows:
        if row["leader_epoch"] == 3 and row["offset"] < 148:
            row.update(leader_epoch=0, record_hash=row["record_hash"] ^ 1, value=None)
    place = {"node": "n3", "topic": "log-0", "partition": 1}
    record.drop("truncations", lambda _: True, **place)
    (state,) = record.rows("replica_states", snapshot="final", **place)
    for line in state["epochs"]:
        line["start_offset"] = 148 if line["epoch"] == 3 else line["start_offset"]


@broken("epoch-mismatch", row="S9", base="disks", moments=_ELECTION)
def the_elected_gives_readers_records_of_an_epoch_to_come(record: Record, _spot: Spot) -> None:
    place = _of_the_elected(record, 0.4)
    for row in record.rows("polls", offset=place.offset, **place.place):
        row["leader_epoch"] = 4


@broken("epoch-mismatch", row="S9", base="disks", moments=_ELECTION)
def the_elected_gives_readers_records_of_an_epoch_of_before(record: Record, _spot: Spot) -> None:
    place = _of_the_elected(record, 0.4)
    for row in record.rows("polls", offset=place.offset, **place.place):
        row["leader_epoch"] = 0
