"""Leaders that nobody may have elected, and partitions that have none."""

from tests.broken.brokers import leader_of, lose, unread
from tests.broken.corpus import Spot, broken
from tests.broken.leaders import answers, change_isr, elect, life, log_change, remove, unread_by
from tests.broken.record import Record, Row
from tests.broken.replicas import SPARED, S

_OTHER = 1
"""The broker of `SPARED`."""


def _for_a_second(record: Record, spot: Spot) -> list[Row]:
    return answers(record, spot, from_ns=spot.at_ns, to_ns=spot.at_ns + 2 * S)


@broken("two-leaders-in-epoch", row="S3", base="log")
def a_follower_answers_as_leader_as_well(record: Record, spot: Spot) -> None:
    for row in _for_a_second(record, spot)[:1]:
        at_ns = row["observed_ns"]
        record.add(
            "leadership",
            row,
            leader=_OTHER,
            observer=SPARED,
            incarnation=life(record, SPARED, at_ns),
        )


@broken("two-leaders-in-epoch", row="S3", base="disks")
def a_broker_names_another_leader_of_the_epoch(record: Record, spot: Spot) -> None:
    rows = record.rows("leadership", source="metadata", leader_epoch=spot.epoch, **spot.place)
    told = min(
        (row for row in rows if row["observer"] == SPARED),
        key=lambda row: abs(int(row["asked_ns"]) - spot.at_ns),
    )
    at_ns = max(spot.at_ns, told["observed_ns"] + 1)
    record.add("leadership", told, leader=2 if told["leader"] != 2 else 3, asked_ns=at_ns,
               observed_ns=at_ns + S // 100)  # fmt: skip


@broken("two-leaders-in-epoch", row="catalogue", base="disks")
def the_controllers_give_an_epoch_to_a_second_leader(record: Record, spot: Spot) -> None:
    log_change(record, spot, spot.at_ns, leader=_OTHER)


@broken("forbidden-election", row="S10a", base="log")
def a_replica_from_outside_of_the_isr_is_elected(record: Record, spot: Spot) -> None:
    elect(record, spot, SPARED, isr=[_OTHER], unclean=True)


@broken("forbidden-election", row="S10a", base="disks")
def a_leader_is_taken_out_of_its_own_isr(record: Record, spot: Spot) -> None:
    leader = int(leader_of(record, spot)[1:])
    change_isr(
        record,
        spot,
        (spot.at_ns, spot.at_ns + 2 * S),
        lambda row: [each for each in row["isr"] if each != leader],
    )


def _healed_ns(record: Record) -> int:
    return max(int(fault["healed_ns"]) for fault in record.rows("faults"))


def _refuse(record: Record, spot: Spot) -> tuple[int, int]:
    """Have a partition refuse all messages for twelve seconds after the last heal.

    A broken authorizer refuses them: that is a definite failure, so that processes go on.

    Returns:
        When the last message before was acknowledged, and the first one after.
    """
    begin_ns = _healed_ns(record) + spot.at_ns // 10
    sends = record.rows("sends", acked=True, **spot.place)
    asked = [row for row in sends if row["invoke_ns"] > begin_ns]
    late = [row for row in asked if row["invoke_ns"] > begin_ns + 12 * S]
    first, end = (min(int(row["offset"]) for row in rows) for rows in (asked, late))
    lose(record, spot, range(first, end))
    unread(record, spot, range(first, end))
    error = {"outcome": "fail", "error": "TOPIC_AUTHORIZATION_FAILED"}
    refused = [row for row in sends if first <= row["offset"] < end]
    for row in refused:
        row.update(acked=False, offset=None, **error)
        for op in record.rows("ops", op_id=row["op_id"]):
            op.update(error)
    remove(record, spot, first, end)
    taken = record.rows("sends", acked=True, **spot.place)
    return (
        max(int(row["complete_ns"]) for row in taken if row["offset"] < first),
        min(int(row["complete_ns"]) for row in taken if row["offset"] >= first),
    )


@broken("unavailable", row="catalogue", base="log")
def a_partition_refuses_messages_after_the_last_heal(record: Record, spot: Spot) -> None:
    _refuse(record, spot)


@broken("slow-election", row="catalogue", base="log")
def a_partition_has_no_leader_for_ten_seconds(record: Record, spot: Spot) -> None:
    from_ns, to_ns = _refuse(record, spot)
    record.drop(
        "leadership",
        lambda row: from_ns < row["observed_ns"] and row["asked_ns"] < to_ns,
        source="list-offsets",
        **spot.place,
    )
    waited = {
        row["process"]
        for row in record.rows("polls", **spot.place)
        if from_ns < row["complete_ns"] and row["invoke_ns"] < to_ns
    }
    unread_by(record, spot, waited, from_ns)


@broken("isr-not-restored", row="catalogue", base="log", moments=("calm", "kill"))
def a_follower_that_has_all_is_not_taken_back_into_the_isr(record: Record, spot: Spot) -> None:
    healed_ns, until_ns = _healed_ns(record), record.stone("recovered") - S
    change_isr(
        record,
        spot,
        (healed_ns, until_ns),
        lambda row: [broker for broker in row["isr"] if broker != 2],
    )


@broken("isr-not-restored", row="catalogue", base="log", moments=("calm", "kill"))
def a_follower_leaves_the_isr_after_the_heal_for_too_long(record: Record, spot: Spot) -> None:
    span = (_healed_ns(record) + 2 * S, record.stone("recovered") - S)
    change_isr(record, spot, span, lambda row: [broker for broker in row["isr"] if broker != 2])
