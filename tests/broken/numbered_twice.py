"""Clients that go on after a time-out: librdkafka gives two records one sequence number."""

from tests.broken.brokers import leader_of, take_out
from tests.broken.corpus import Spot, broken, innocent, spot_of
from tests.broken.record import Record, Row
from tests.broken.sequences import close_gaps
from tests.broken.transactional import Transaction, abort, fence, nearest, transaction_of


def _identity(record: Record, send: Row) -> tuple[int, int]:
    """Return the producer id and epoch of a message, by its leader's log."""
    spot = spot_of(record, send)
    (row,) = record.rows(
        "replica_records", snapshot="final", node=leader_of(record, spot), offset=spot.offset,
        **spot.place,
    )  # fmt: skip
    return int(row["producer_id"]), int(row["producer_epoch"])


def _next_one(record: Record, first: Row) -> Row | None:
    """Return what the same producer committed next in the same partition."""
    alike = {name: first[name] for name in ("topic", "partition", "transactional_id")}
    later = [
        send
        for send in record.rows("sends", outcome="ok", acked=True, **alike)
        if send["op_id"] > first["op_id"]
    ]
    send = min(later, key=lambda send: (int(send["op_id"]), int(send["mop"])), default=None)
    same = send is not None and _identity(record, send) == _identity(record, first)
    return send if same else None


def _give_up(record: Record, spot: Spot) -> tuple[Spot, Row]:
    """Have a client give up and abort what was written; return that, and what it sent next."""

    def wanted(each: Transaction) -> Row | None:
        lone = each.writes_only and len(each.sends) == 1
        return each.sends[0] if lone and _next_one(record, each.sends[0]) else None

    record.plan["after_timeout"] = "go-on"
    first = nearest(record, spot, wanted)
    later = _next_one(record, first.send)
    assert later is not None, "the coordinator is known by then"
    return first, later


def _take_for_a_copy(record: Record, first: Spot, later: Row) -> None:
    """Have a message be acknowledged in the place of another one, and written nowhere."""
    stored = spot_of(record, later)
    close_gaps(
        record,
        record.rows("replica_records", control=False, offset=stored.offset, **stored.place),
    )
    take_out(record, stored, {stored.offset})
    abort(record, first)
    for send in transaction_of(record, first).sends:
        later["offset"] = send["offset"]
        send["offset"], send["acked"] = None, False


@innocent(base="txn", moments=("kill", "isolate"))
def librdkafka_uses_a_sequence_number_twice(record: Record, spot: Spot) -> None:
    """The broker does what KIP-98 asks of it: the verdict names the library, and is valid."""
    first, later = _give_up(record, spot)
    _take_for_a_copy(record, first, later)


@broken("lost-write", row="sequences", base="txn", moments=("kill", "isolate"))
def a_broker_takes_a_new_epochs_record_for_a_copy(record: Record, spot: Spot) -> None:
    """Sequence numbers begin anew in each epoch: only a broken broker compares them with others."""
    first, later = _give_up(record, spot)
    fence(record, spot_of(record, later))
    _take_for_a_copy(record, first, later)


@broken("lost-write", row="sequences", base="txn", moments=("calm",))
def javas_record_is_taken_for_a_copy(record: Record, spot: Spot) -> None:
    """Kafka's own client never uses a number twice."""
    record.plan["client_kind"] = "java"
    first, later = _give_up(record, spot)
    _take_for_a_copy(record, first, later)
