"""What clients alone show of brokers of which nothing else can be seen."""

from results.record.declared import Sight
from tests.broken.answers import last_spot
from tests.broken.blind import without
from tests.broken.brokers import never_write, unread, write_twice
from tests.broken.clients import end_final_reads, two_messages_are_acknowledged_at_one_offset
from tests.broken.corpus import CALM, Spot, broken, innocent
from tests.broken.innocent_log import (
    a_killed_leader_takes_what_it_alone_acknowledged,
    retention_takes_the_beginning,
    the_last_message_had_no_answer,
)
from tests.broken.record import Record

ROW = "clients-only"
_LOGS = (Sight.REPLICA_LOGS,)


@broken("lost-write", row=ROW, base="log")
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
