"""What a correct Kafka may leave of transactions: late, unanswered, aborted, under other epochs."""

from tests.broken.brokers import followers_of, read_late
from tests.broken.corpus import Spot, innocent
from tests.broken.record import Record, Row
from tests.broken.transactional import (
    COMMITTED,
    Transaction,
    abort,
    add_marker,
    before_a_poll,
    hide,
    marker_of,
    nearest,
    quiet,
    rename_producer,
    transaction_of,
    unanswered,
)

_SHORT_NS = 2_000_000_000


@innocent(base="txn")
def a_commit_has_no_answer_and_took_effect(record: Record, spot: Spot) -> None:
    """The coordinator decides when it has written PrepareCommit, whatever its answer meets."""
    spot = nearest(record, spot, before_a_poll(record))
    unanswered(record, spot.send["op_id"])


@innocent(base="txn")
def a_commit_has_no_answer_and_was_never_heard(record: Record, spot: Spot) -> None:
    """The next producer of the id has the coordinator abort what is open (KIP-98)."""
    spot = nearest(record, spot, before_a_poll(record))
    hide(record, transaction_of(record, spot).sends)
    unanswered(record, spot.send["op_id"])


@innocent(base="txn")
def a_transaction_is_aborted_by_its_timeout(record: Record, spot: Spot) -> None:
    """The coordinator fences the producer by an epoch (KIP-98, KIP-360), and writes its marker.

    Its client asks for the commit too late, and gets no answer that it could trust.
    """
    spot = nearest(record, spot, before_a_poll(record))
    op_id, marker = spot.send["op_id"], marker_of(record, spot)
    _next_epoch_from(record, spot, marker)
    hide(record, transaction_of(record, spot).sends)
    unanswered(record, op_id)


@innocent(base="txn")
def a_producer_is_fenced_and_begins_anew(record: Record, spot: Spot) -> None:
    """InitProducerId gives the same id and a later epoch, whose sequence numbers begin at 0."""
    _next_epoch_from(record, spot, marker_of(record, spot) + 1)


def _next_epoch_from(record: Record, spot: Spot, since: int) -> None:
    rename_producer(
        record, spot, lambda row: (row["producer_id"], row["producer_epoch"] + 1), since=since
    )


@innocent(base="txn")
def a_producer_gets_another_id(record: Record, spot: Spot) -> None:
    """An id whose epochs are used up is replaced by a new one, of epoch 0 (KIP-98)."""
    rename_producer(
        record, spot, lambda row: (9_000, row["producer_epoch"]), since=marker_of(record, spot) + 1
    )


@innocent(base="txn")
def each_transaction_has_an_epoch_of_its_own(record: Record, spot: Spot) -> None:
    """The coordinator raises the epoch at each end; the marker has the raised one (KIP-890)."""
    epochs: dict[str, int] = {}

    def name(row: Row) -> tuple[int, int]:
        node = row["node"]
        epochs[node] = epochs.get(node, row["producer_epoch"]) + bool(row["control"])
        return int(row["producer_id"]), epochs[node]

    rename_producer(record, spot, name, since=spot.offset)


@innocent(base="txn")
def a_marker_is_written_again(record: Record, spot: Spot) -> None:
    """A coordinator that takes over finds PrepareCommit and writes all markers, again or not."""
    add_marker(record, spot, marker_of(record, spot))


@innocent(base="txn")
def a_marker_ends_nothing(record: Record, spot: Spot) -> None:
    """A partition that a transaction added and sent nothing to gets its marker all the same."""
    add_marker(record, spot, marker_of(record, spot), producer_id=9_000)


@innocent(base="txn")
def a_transaction_is_aborted_by_its_client(record: Record, spot: Spot) -> None:
    """Logs keep its records, watchers see them, and its sends were acknowledged."""
    abort(record, quiet(record, spot))


@innocent(base="txn")
def an_aborted_message_has_no_answer(record: Record, spot: Spot) -> None:
    """The leader wrote it, and its answer was lost; so the client aborted the transaction."""
    spot = quiet(record, spot)
    abort(record, spot)
    for send in transaction_of(record, spot).sends:
        send["offset"], send["acked"] = None, False


@innocent(base="txn")
def a_commit_is_answered_late(record: Record, spot: Spot) -> None:
    """The coordinator answers when the markers are written, or tells to try again."""

    def waits(each: Transaction) -> Row | None:
        return each.sends[0] if each.sends and _idle_until(record, each.op) else None

    spot = nearest(record, spot, waits)
    (op,) = record.rows("ops", op_id=spot.send["op_id"])
    late_ns = _idle_until(record, op)
    for table in ("ops", "sends", "polls"):
        for row in record.rows(table, op_id=op["op_id"]):
            row["complete_ns"] = late_ns


def _idle_until(record: Record, op: Row) -> int:
    """Return when the next op of a process begins, less a millisecond; 0 if it has none."""
    mine = record.rows("ops", process=op["process"])
    begun = [row["invoke_ns"] for row in mine if row["invoke_ns"] > op["invoke_ns"]]
    return int(min(begun, default=1_000_000)) - 1_000_000


@innocent(base="txn")
def a_follower_tells_an_older_last_stable_offset(record: Record, spot: Spot) -> None:
    """A follower knows what is committed from its last fetch: its own mark lags."""
    for node in followers_of(record, spot):
        rows = record.rows("replica_states", node=node, snapshot=None, **spot.place)
        lagging = [row for row in rows if 0 <= row["observed_ns"] - spot.at_ns < _SHORT_NS]
        for row in lagging:
            row["high_watermark"] = min(row["high_watermark"], spot.offset)
            row["last_stable_offset"] = min(row["last_stable_offset"], spot.offset)


@innocent(base="txn")
def a_transaction_stays_open_for_a_while(record: Record, spot: Spot) -> None:
    """Its markers take a second or two: readers of what is committed wait, the others do not."""
    until_ns = spot.at_ns + _SHORT_NS
    for row in record.rows("replica_states", snapshot=None, **spot.place):
        if spot.send["invoke_ns"] < row["observed_ns"] < until_ns:
            row["last_stable_offset"] = min(row["last_stable_offset"], spot.offset)
    read_late(record, spot, until_ns, wanted=lambda row: bool(row["isolation"] == COMMITTED))


@innocent(base="txn")
def readers_lag(record: Record, spot: Spot) -> None:
    """A consumer may be given late what is there; it gets all of it, in order."""
    read_late(record, spot, spot.at_ns + 2 * _SHORT_NS)
