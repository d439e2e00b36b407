"""What a system declares of itself: settings that it could not tell, and what a kill may take."""

from collections.abc import Iterable

from results.record.declared import Sight
from tests.broken.blind import without
from tests.broken.brokers import NODES, never_write
from tests.broken.corpus import CALM, QUIET, Spot, broken, innocent
from tests.broken.innocent_log import deleted_records_are_read_no_more
from tests.broken.record import Record

ROW = "declared"


def _declare(
    record: Record, *, unread: Iterable[str] = (), survives_kill: bool = True, blind: bool = True
) -> None:
    without(record, Sight if blind else ())
    assert record.declared is not None
    record.declared = record.declared.model_copy(
        update={"unread": frozenset(unread), "survives_kill": survives_kill}
    )


def _kill_all(record: Record) -> None:
    """Have the kill hit each broker: one process plays them all."""
    (kill,) = record.rows("faults", kind="kill")
    kill["targets"] = list(NODES)


@innocent(base="log", moments=(CALM, "kill"))
def what_one_process_had_went_with_it(record: Record, spot: Spot) -> None:
    """It keeps nothing on a disk, and says so."""
    never_write(record, spot)
    _kill_all(record)
    _declare(record, survives_kill=False)


@broken("lost-write", row=ROW, base="log", moments=(CALM, "kill"))
def what_one_process_had_went_though_it_keeps_it(record: Record, spot: Spot) -> None:
    never_write(record, spot)
    _kill_all(record)
    _declare(record)


@broken("lost-write", row=ROW, base="log", moments=(QUIET,))
def a_message_is_gone_that_no_kill_came_after(record: Record, spot: Spot) -> None:
    never_write(record, spot)
    _kill_all(record)
    _declare(record, survives_kill=False)


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
