"""What a system declares of itself: settings that it could not tell."""

from collections.abc import Iterable

from results.record.declared import Sight
from tests.broken.blind import without
from tests.broken.brokers import never_write
from tests.broken.corpus import CALM, Spot, innocent
from tests.broken.innocent_log import deleted_records_are_read_no_more
from tests.broken.record import Record


def _declare(record: Record, *, unread: Iterable[str], blind: bool = True) -> None:
    without(record, Sight if blind else ())
    assert record.declared is not None
    record.declared = record.declared.model_copy(update={"unread": frozenset(unread)})


@innocent(base="log", moments=("kill",))
def whether_elections_are_unclean_could_not_be_read(record: Record, spot: Spot) -> None:
    """They may have been: a leader that lacks messages is none of what is promised then."""
    never_write(record, spot)
    _declare(record, unread=["unclean.leader.election.enable"])


@innocent(base="log", moments=(CALM,))
def for_how_long_messages_are_kept_could_not_be_read(record: Record, spot: Spot) -> None:
    """The oldest may go at any time."""
    deleted_records_are_read_no_more(record, spot)
    record.plan["broker"].pop("log.retention.ms")
    _declare(record, unread=["retention.ms"], blind=False)
