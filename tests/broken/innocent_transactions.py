"""What a correct Kafka may leave of transactions: late, unanswered, aborted, under other epochs."""

from results.record.clock import NS_PER_S
from tests.broken.brokers import followers_of, read_late
from tests.broken.corpus import Spot, innocent, spot_of
from tests.broken.record import Record, Row
from tests.broken.transactional import (
    abort,
    add_marker,
    before_a_poll,
    hide,
    lasts,
    late_marker,
    marker_of,
    nearest,
    quiet,
    rename_producer,
    transaction_of,
    unanswered,
)

_SHORT_NS = 2 * NS_PER_S


@innocent(base="txn")
def a_commit_has_no_answer_and_took_effect(record: Record, spot: Spot) -> None:
    """The coordinator decides when it has written PrepareCommit, whatever its answer meets."""
    spot = nearest(record, spot, before_a_poll(record))
    unanswered(record, spot.send["op_id"])


@innocent(base="txn")
def a_commit_has_no_answer_and_was_never_heard(record: Record, spot: Spot) -> None:
    """The next producer of the id has the coordinator abort what is open, with a later epoch.

    InitProducerId does so before it answers (KIP-98).
    """
    spot = nearest(record, spot, before_a_poll(record))
    _abort_for_the_next_epoch(record, spot, _idle_until(record, spot))


@innocent(base="txn")
def a_transaction_is_aborted_by_its_timeout(record: Record, spot: Spot) -> None:
    """The coordinator fences the producer by an epoch (KIP-98, KIP-360), and writes its marker.

    Its client asks for the commit too late, and gets no answer that it could trust.
    """
    spot = nearest(record, spot, before_a_poll(record))
    timeout_ns = int(record.plan["transaction_timeout_s"] * NS_PER_S)
    lasts(record, spot.send["op_id"], spot.send["invoke_ns"] + timeout_ns + NS_PER_S)
    _abort_for_the_next_epoch(record, spot, spot.send["invoke_ns"] + timeout_ns)


def _abort_for_the_next_epoch(record: Record, spot: Spot, at_ns: int) -> None:
    """Have the coordinator abort the spot's transaction at a time, for whom it fences by that."""
    sends = transaction_of(record, spot).sends
    lasts_of = {send["partition"]: spot_of(record, send) for send in reversed(sends)}
    for each in lasts_of.values():
        _next_epoch_from(record, each, marker_of(record, each))
        late_marker(record, each, at_ns)
    hide(record, sends)
    unanswered(record, spot.send["op_id"])


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
        epochs[node] = epochs.get(node, int(row["producer_epoch"])) + int(row["control"])
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

    late_ns = _idle_until(record, spot)
    for table in ("ops", "sends", "polls"):
        for row in record.rows(table, op_id=spot.send["op_id"]):
            row["complete_ns"] = late_ns


def _idle_until(record: Record, spot: Spot) -> int:
    """Return when the next op of the spot's process begins, less a millisecond."""
    mine = record.rows("ops", process=spot.send["process"])
    begun = [row["invoke_ns"] for row in mine if row["invoke_ns"] > spot.at_ns]
    return int(min(begun)) - NS_PER_S // 1000


@innocent(base="txn")
def a_follower_tells_an_older_last_stable_offset(record: Record, spot: Spot) -> None:
    """A follower knows what is committed from its last fetch: its own mark lags."""
    names = ("high_watermark", "last_stable_offset")
    for node in followers_of(record, spot):
        rows = record.rows("replica_states", node=node, snapshot=None, **spot.place)
        before = [row for row in rows if row["observed_ns"] < spot.at_ns]
        for row in rows:
            if before and 0 <= row["observed_ns"] - spot.at_ns < _SHORT_NS:
                row.update({name: before[-1][name] for name in names})


@innocent(base="txn")
def a_transaction_is_ended_late(record: Record, spot: Spot) -> None:
    """Its markers come when its producer wants to begin the next one: until then that has to wait.

    The commit is answered when the coordinator has written PrepareCommit (KIP-98).
    """
    late_marker(record, spot, _idle_until(record, spot))


@innocent(base="txn")
def readers_lag(record: Record, spot: Spot) -> None:
    """A consumer may be given late what is there; it gets all of it, in order."""
    read_late(record, spot, spot.at_ns + 2 * _SHORT_NS)
