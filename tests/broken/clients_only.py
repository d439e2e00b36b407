"""What clients alone show of brokers of which nothing else can be seen."""

from results.record.declared import Sight
from results.record.milestones import OPEN
from results.record.terms import Validity
from tests.broken.answers import last_spot
from tests.broken.blind import without
from tests.broken.brokers import never_write, unread, write_twice
from tests.broken.clients import end_final_reads, two_messages_are_acknowledged_at_one_offset
from tests.broken.corpus import CALM, QUIET, Spot, broken, innocent, spot_of
from tests.broken.innocent_log import (
    a_killed_leader_takes_what_it_alone_acknowledged,
    retention_takes_the_beginning,
    the_last_message_had_no_answer,
)
from tests.broken.record import Record
from tests.broken.transactional import stand_still

ROW = "clients-only"
NOT_SHOWN = "the system does not show whether it did"
_LOGS = (Sight.REPLICA_LOGS, Sight.BROKER_LOGS)


@broken("lost-write", row=ROW, base="log", moments=(CALM, "kill"))
def clients_miss_a_message(record: Record, spot: Spot) -> None:
    never_write(record, spot)
    without(record, Sight)


@broken("lost-write", row=ROW, base="log", moments=(CALM,))
def the_last_message_is_not_given_at_the_end(record: Record, spot: Spot) -> None:
    """A reader got it, and afterwards the partition ends before it."""
    last = last_spot(record, spot)
    unread(record, last, {last.offset}, phase="final")
    end_final_reads(record, last, last.offset)
    without(record, Sight)


def _weakly(record: Record) -> None:
    """Have the leader alone vouch for what was sent."""
    record.plan["acks"] = "1"
    for row in record.rows("sends"):
        row["acks"] = "1"


@broken("lost-write", row=ROW, base="log", moments=(QUIET,))
def a_leader_that_stays_loses_what_it_alone_acknowledged(record: Record, spot: Spot) -> None:
    """Observers saw no election and no restart, so that no cut log can be why."""
    _weakly(record)
    never_write(record, spot)
    without(record, _LOGS)


@broken("lost-write", row=ROW, base="log", moments=(QUIET,), valid=Validity.UNKNOWN, says=NOT_SHOWN)
def nobody_shows_whether_its_leader_stayed(record: Record, spot: Spot) -> None:
    _weakly(record)
    never_write(record, spot)
    without(record, Sight)


def _end_of_committed(record: Record, spot: Spot) -> Spot:
    """Have nobody get the last committed message of the partition, nor what follows it."""
    ended = record.rows("sends", outcome="ok", acked=True, **spot.place)
    last = spot_of(record, max(ended, key=lambda row: int(row["offset"])))
    stand_still(record, last, last.offset)
    return last


@broken("lost-write", row=ROW, base="txn", moments=(CALM,))
def the_end_of_a_partition_is_gone_and_no_transaction_is_open(record: Record, spot: Spot) -> None:
    """Brokers told the readers of what is committed that the partition ends there."""
    _end_of_committed(record, spot)
    without(record, Sight)


@broken("final-read-incomplete", row=ROW, base="txn", moments=(CALM,), valid=Validity.UNKNOWN)
def a_transaction_is_open_before_the_end_of_a_partition(record: Record, spot: Spot) -> None:
    """The run noted it: its leader told a last stable offset below the high watermark."""
    last = _end_of_committed(record, spot)
    stones = [each["name"] for each in record.milestones]
    opened = {"name": OPEN, "at_ns": record.stone("final-reads"), "detail": {}}
    opened["detail"] = {f"{last.topic}-{last.partition}": ""}
    record.milestones.insert(stones.index("final-reads") + 1, opened)
    without(record, Sight)


@broken("duplicate", row=ROW, base="log", valid=Validity.UNKNOWN, says=NOT_SHOWN)
def the_copy_that_is_acknowledged_is_the_last_one(record: Record, spot: Spot) -> None:
    """A client may have sent it again in another epoch, and a broker may know no repetitions."""
    write_twice(record, spot)
    spot.send["offset"] += 1
    without(record, Sight)


@broken("duplicate", row=ROW, base="log")
def clients_are_given_a_message_twice(record: Record, spot: Spot) -> None:
    write_twice(record, spot)
    without(record, Sight)


@broken("inconsistent-offsets", row=ROW, base="log")
def clients_are_told_one_offset_of_two_messages(record: Record, spot: Spot) -> None:
    two_messages_are_acknowledged_at_one_offset(record, spot)
    without(record, _LOGS)


@innocent(base="log")
def retention_took_what_nobody_shows(record: Record, spot: Spot) -> None:
    """Where a log began, only the final reads tell."""
    retention_takes_the_beginning(record, spot)
    without(record, Sight)


@innocent(base="log", moments=("kill",))
def a_killed_leader_took_what_nobody_shows(record: Record, spot: Spot) -> None:
    """With acks=1 the leader vouches alone; no log shows from where on the next one wrote."""
    a_killed_leader_takes_what_it_alone_acknowledged(record, spot)
    without(record, Sight)


@innocent(base="log")
def the_last_message_had_no_answer_and_nobody_shows_it(record: Record, spot: Spot) -> None:
    """Nobody acknowledged it, so that it may be missing."""
    the_last_message_had_no_answer(record, spot)
    last = max(int(row["offset"]) for row in record.rows("polls", **spot.place))
    unread(record, spot, {last})
    without(record, _LOGS)
