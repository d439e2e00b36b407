"""Transactions that a broker or coordinator broke: shown, hidden, torn, or never ended."""

from results.record.clock import NS_PER_S
from results.record.terms import Isolation, Outcome
from tests.broken.brokers import (
    end_broker,
    followers_of,
    in_order,
    lose,
    never_write,
    read_early,
    read_late,
    take_out,
    unread,
    write_twice,
)
from tests.broken.corpus import Spot, broken, spot_of
from tests.broken.record import Record, Row
from tests.broken.transactional import (
    COMMITTED,
    Transaction,
    abort,
    across,
    fence,
    hide,
    marker_of,
    nearest,
    quiet,
    refuse,
    show,
    stand_still,
    transaction_of,
    transactions,
)


@broken("hanging-transaction", row="S7", base="txn")
def a_partition_keeps_an_ended_transaction_open(record: Record, spot: Spot) -> None:
    """Each replica has the marker, and forgets to count the transaction as over."""
    stand_still(record, spot, spot.offset)


@broken("hanging-transaction", row="S7", base="txn")
def a_coordinator_never_writes_the_markers_of_an_abort(record: Record, spot: Spot) -> None:
    """It goes on preparing the abort, so that the producer cannot begin another transaction."""
    spot = quiet(record, spot, partitions=1)
    mine = record.rows("transactions", transactional_id=spot.send["transactional_id"])
    later = {row["op_id"] for row in mine if row["op_id"] > spot.send["op_id"]}
    refuse(record, later)
    abort(record, spot, told="unknown")
    take_out(record, spot, {marker_of(record, spot)})
    stand_still(record, spot, spot.offset)


def _aborted(record: Record, spot: Spot) -> Spot:
    return nearest(
        record,
        spot,
        lambda each: each.sends[0] if each.sends and each.sends[0]["acked"] else None,
        outcome=Outcome.FAIL,
    )


@broken("G1a", row="transactions", base="txn")
def an_aborted_transaction_gets_commit_markers(record: Record, spot: Spot) -> None:
    for send in transaction_of(record, _aborted(record, spot)).sends:
        show(record, spot_of(record, send))


@broken("G1a", row="transactions", base="txn")
def one_answer_leaves_out_that_a_transaction_was_aborted(record: Record, spot: Spot) -> None:
    """The fetch answers of KIP-98 list what was aborted; clients drop nothing else."""
    show(record, _aborted(record, spot), readers=1)


@broken("torn-transaction", row="transactions", base="txn")
def one_partition_gets_an_abort_marker(record: Record, spot: Spot) -> None:
    torn = nearest(record, spot, across)
    hide(record, transaction_of(record, torn).of(torn.partition))


@broken("torn-transaction", row="transactions", base="txn")
def an_aborted_transaction_is_listed_from_too_low_an_offset(record: Record, spot: Spot) -> None:
    """The list has a later transaction of the producer, and begins inside of this one."""

    def two(each: Transaction) -> Row | None:
        last = each.sends[-1] if each.sends else None
        return last if last and len(each.of(last["partition"])) > 1 else None

    hide(record, [nearest(record, spot, two).send])


@broken("precommitted-read", row="transactions", base="txn")
def a_transaction_reads_what_it_sent(record: Record, spot: Spot) -> None:
    """The leader answers its own producer's consumer beyond the last stable offset."""

    def own(each: Transaction) -> Row | None:
        known = each.polls and each.sends and each.sends[0]["mop"] < each.polls[-1]["mop"]
        return each.sends[0] if known else None

    mine = nearest(record, spot, own)
    read_early(record, mine, transaction_of(record, mine).polls[-1])


@broken("G1c", row="transactions", base="txn")
def two_transactions_read_each_other(record: Record, spot: Spot) -> None:
    """Leaders answer read_committed readers up to the high watermark."""
    everybody = transactions(record)

    def with_another(each: Transaction) -> Row | None:
        return each.sends[0] if _partners(record, each, everybody) else None

    first = transaction_of(record, nearest(record, spot, with_another))
    second = _partners(record, first, everybody)[0]
    for reader, writer in ((first, second), (second, first)):
        read_early(record, spot_of(record, writer.sends[0]), reader.polls[-1])


@broken("precommitted-read", row="transactions", base="txn")
def a_transaction_reads_another_before_its_commit(record: Record, spot: Spot) -> None:
    """A leader answers one read_committed reader up to the high watermark."""
    everybody = transactions(record)
    for reader in sorted(everybody, key=lambda each: abs(int(each.op["complete_ns"]) - spot.at_ns)):
        for writer in everybody if reader.polls else ():
            if _commits_later(record, reader, writer) and _reads_later(record, reader, writer):
                read_early(record, spot_of(record, writer.sends[0]), reader.polls[-1])
                return


def _commits_later(record: Record, reader: Transaction, writer: Transaction) -> bool:
    """Tell whether a transaction of another process has its marker after that of the reader."""
    apart = writer.op["process"] != reader.op["process"] and bool(writer.sends)
    overlaps = writer.op["invoke_ns"] < reader.op["complete_ns"] < writer.op["complete_ns"]
    if not (apart and overlaps):
        return False
    sent = writer.sends[0]
    mine = [each for each in reader.sends if _place(each) == _place(sent)]
    markers = [marker_of(record, spot_of(record, each)) for each in (*mine[:1], sent)]
    return len(markers) > 1 and markers[0] < markers[1]


def _place(send: Row) -> tuple[object, object]:
    return send["topic"], send["partition"]


def _partners(record: Record, each: Transaction, everybody: list[Transaction]) -> list[Transaction]:
    """Return those under way at the same time of which this one reads, and that read of it."""
    return [
        other
        for other in everybody
        if other.op["process"] != each.op["process"]
        and other.op["invoke_ns"] < each.op["complete_ns"]
        and each.op["invoke_ns"] < other.op["complete_ns"]
        and _reads_later(record, other, each)
        and _reads_later(record, each, other)
    ]


def _reads_later(record: Record, reader: Transaction, writer: Transaction) -> bool:
    """Tell whether the process of a transaction reads the other's first message after it.

    And whether that message may have been written before it ends.
    """
    if not reader.polls or not writer.sends:
        return False
    first = writer.sends[0]
    place = {name: first[name] for name in ("topic", "partition")}
    before = [
        row["invoke_ns"]
        for row in record.rows("sends", **place)
        if (row["offset"] or 0) <= (first["offset"] or 0)
    ]
    rows = record.rows("polls", value=first["value"], process=reader.op["process"])
    later = bool(rows) and all(row["op_id"] > reader.op["op_id"] for row in rows)
    return later and max(before) < reader.op["complete_ns"]


@broken("lost-write", row="transactions", base="txn")
def a_committed_message_is_never_written(record: Record, spot: Spot) -> None:
    never_write(record, spot)


@broken("lost-write", row="transactions", base="txn")
def a_marker_is_missing_and_the_next_one_aborts(record: Record, spot: Spot) -> None:
    """The next marker of the producer, an ABORT, decides for both of its transactions."""
    kept = nearest(record, spot, lambda each: _before_an_abort(record, each))
    later = _next_of_producer(record, kept.send)
    sends = [
        send
        for send in transaction_of(record, kept).of(kept.partition)
        if send["offset"] is not None
    ]
    take_out(record, kept, {marker_of(record, kept)})
    hide(record, sends)
    if later is not None:
        read_late(record, kept, later["complete_ns"], wanted=_committed)


def _before_an_abort(record: Record, each: Transaction) -> Row | None:
    for send in each.sends:
        later = _next_of_producer(record, send)
        if later is not None and later["outcome"] == Outcome.FAIL.value and later["acked"]:
            return send
    return None


def _next_of_producer(record: Record, send: Row) -> Row | None:
    """Return the first send of the producer's next transaction in the partition."""
    same = {name: send[name] for name in ("transactional_id", "partition")}
    later = [row for row in record.rows("sends", **same) if row["op_id"] > send["op_id"]]
    return min(later, key=lambda row: (row["op_id"], row["mop"]), default=None)


def _committed(row: Row) -> bool:
    return bool(row["isolation"] == COMMITTED)


@broken("duplicate", row="transactions", base="txn")
def a_message_of_a_transaction_is_written_twice(record: Record, spot: Spot) -> None:
    """The leader does not recognise what the producer sends again."""
    write_twice(record, spot)


@broken("duplicate", row="transactions", base="txn")
def a_fenced_producer_writes_once_more(record: Record, spot: Spot) -> None:
    """Its message comes under the epoch before, behind the one of the producer that fenced it."""
    (was, *_) = record.rows("replica_records", offset=spot.offset, **spot.place)
    old = {name: was[name] for name in ("producer_epoch", "sequence")}
    fence(record, spot)
    write_twice(record, spot, **old)


@broken("phantom", row="transactions", base="txn")
def a_reader_is_given_a_message_of_the_other_partition(record: Record, spot: Spot) -> None:
    other = next(
        send
        for send in record.rows("sends", acked=True, outcome="ok")
        if send["partition"] != spot.partition
    )
    in_order(record.rows("polls", value=spot.value, isolation=COMMITTED))[-1]["value"] = other[
        "value"
    ]


@broken("ack-mismatch", row="transactions", base="txn")
def a_message_is_acknowledged_at_its_markers_offset(record: Record, spot: Spot) -> None:
    spot.send["offset"] = marker_of(record, spot)


@broken("log-divergence", row="transactions", base="txn")
def a_follower_has_no_marker(record: Record, spot: Spot) -> None:
    lose(record, spot, {marker_of(record, spot)}, nodes=followers_of(record, spot)[:1])


@broken("log-divergence", row="transactions", base="txn")
def a_follower_has_the_other_marker(record: Record, spot: Spot) -> None:
    """ABORT instead of COMMIT, or the other way round: a marker has a key and a value, too."""
    same = {"offset": marker_of(record, spot), "snapshot": "final", **spot.place}
    for row in record.rows("replica_records", node=followers_of(record, spot)[0], **same):
        row["record_hash"] += 1


@broken("int-poll-skip", row="transactions", base="txn")
def an_answer_drops_a_committed_message(record: Record, spot: Spot) -> None:
    """One read_committed reader is told that its transaction was aborted."""
    reads = _around(record, spot)
    record.drop("polls", lambda row: row["op_id"] == reads[0], value=spot.value)


def _around(record: Record, spot: Spot) -> list[int]:
    """Return the ok ops that read what lies before the spot, at it and behind it."""
    rows = record.rows("polls", isolation=COMMITTED, outcome="ok", phase="main", **spot.place)
    sides: dict[int, set[bool]] = {}
    for row in rows:
        sides.setdefault(row["op_id"], set()).add(row["offset"] > spot.offset)
    readers = {row["op_id"] for row in rows if row["offset"] == spot.offset}
    inside = {row["op_id"] for row in rows if row["offset"] < spot.offset}
    return sorted(op for op in readers & inside if True in sides[op])


@broken("poll-skip", row="transactions", base="txn")
def a_reader_goes_on_behind_a_whole_transaction(record: Record, spot: Spot) -> None:
    """Its next answer begins behind the marker, and leaves out the transaction before it."""
    rows = in_order(
        record.rows("polls", value=spot.value, isolation=COMMITTED, outcome="ok", phase="main")
    )
    reader = rows[0]
    record.drop(
        "polls",
        lambda row: row["op_id"] >= reader["op_id"] and row["offset"] <= spot.offset,
        process=reader["process"],
        **spot.place,
    )


@broken("uncommitted-read", row="transactions", base="txn", moments=("isolate",))
def a_cut_off_leader_shows_what_only_it_has(record: Record, spot: Spot) -> None:
    """A reader of uncommitted data gets a message above the high watermark; it is cut off later."""
    (fault,) = record.rows("faults", kind="isolate")
    unanswered = [
        send
        for send in record.rows("sends", acked=False, **spot.place)
        if send["invoke_ns"] < fault["confirmed_ns"] < send["complete_ns"]
    ]
    cut = record.rows("truncations", **spot.place)[0]
    watcher = next(
        row
        for row in record.rows("polls", isolation=Isolation.READ_UNCOMMITTED.value, **spot.place)
        if row["offset"] == cut["from_offset"] - 2
    )
    record.add(
        "polls",
        watcher,
        offset=cut["from_offset"],
        value=unanswered[0]["value"],
        leader_epoch=spot.epoch - 1,
        pos=1000,
    )


@broken("high-watermark-regression", row="S10d", base="txn", moments=("kill", "isolate"))
def the_final_reads_end_below_what_was_read(record: Record, spot: Spot) -> None:
    """The last stable offset goes back to a transaction that was over and read long ago."""
    for row in record.rows("final_reads", isolation=COMMITTED, **spot.place):
        row["target_end"] = row["reached"] = spot.offset
    unread(record, spot, range(spot.offset, 1 << 40), phase="final")


@broken("broker-ended", row="H1", base="txn", moments=("isolate",))
def a_cut_off_broker_halts(record: Record, _: Spot) -> None:
    """It leads, finds no controller, and calls `Runtime.halt` instead of waiting."""
    (fault,) = record.rows("faults", kind="isolate")
    end_broker(
        record,
        fault["targets"][0],
        int(fault["confirmed_ns"]) + NS_PER_S,
        code="1",
        said="FATAL no controller could be reached (kafka.server.BrokerLifecycleManager)",
    )
