"""What brokers and coordinators do to transactions: steps of the changes to the base `txn`."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count

from results.record.terms import F, Isolation, Outcome
from tests.broken.brokers import (
    at_offset,
    final_log,
    in_order,
    insert,
    leader_of,
    put_off,
    read_late,
    renumber,
    take_out,
)
from tests.broken.corpus import Spot, spot_of
from tests.broken.record import Record, Row
from tests.broken.sequences import close_gaps

COMMITTED = Isolation.READ_COMMITTED.value
_FINAL = 1_000_000
"""From here on processes are those of the final reads."""
_ON_PURPOSE = "aborted on purpose"
_REFUSED = (
    "CONCURRENT_TRANSACTIONS: Failed to initialize Producer ID: Broker: Producer attempted to"
    " update a transaction while another concurrent operation on the same transaction was ongoing"
)
_UNANSWERED = "_TIMED_OUT: Transaction EndTxn request timed out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction of the record.

    Attributes:
        op: Its row.
        sends: Their rows, in order.
        polls: The rows of what it read, in order.
    """

    op: Row
    sends: list[Row]
    polls: list[Row]

    @property
    def writes_only(self) -> bool:
        """Whether it wrote and read nothing: then its end moves no reader."""
        return bool(self.sends) and not self.polls

    def of(self, partition: int) -> list[Row]:
        """Return the sends to a partition."""
        return [send for send in self.sends if send["partition"] == partition]


def transactions(record: Record, outcome: Outcome = Outcome.OK) -> list[Transaction]:
    """Return the transactions whose ops had an outcome."""
    ops = record.rows("ops", f=F.TXN.value, outcome=outcome.value)
    sends: dict[int, list[Row]] = {op["op_id"]: [] for op in ops}
    polls: dict[int, list[Row]] = {op["op_id"]: [] for op in ops}
    for table, by_op in (("sends", sends), ("polls", polls)):
        for row in record.rows(table):
            by_op.get(row["op_id"], []).append(row)
    return [
        Transaction(
            op=op,
            sends=sorted(sends[op["op_id"]], key=lambda row: int(row["mop"])),
            polls=in_order(polls[op["op_id"]]),
        )
        for op in ops
    ]


def fence(record: Record, spot: Spot) -> None:
    """Have the spot's producer be a new one, that fenced the one of before, from its op on.

    It has the next epoch, and numbers what it sends to each partition from 0 on.
    """
    (was, *_) = record.rows("replica_records", offset=spot.offset, **spot.place)
    name = spot.send["transactional_id"]
    since = {
        row["value"]
        for row in record.rows("sends", transactional_id=name)
        if row["op_id"] >= spot.send["op_id"]
    }
    mine = record.rows("replica_records", snapshot="final", producer_id=was["producer_id"])
    logs: dict[tuple[str, str, int], list[Row]] = {}
    for row in sorted(mine, key=lambda row: int(row["offset"])):
        logs.setdefault((row["node"], row["topic"], row["partition"]), []).append(row)
    for rows in logs.values():
        first = next((at for at, row in enumerate(rows) if row["value"] in since), len(rows))
        numbers = count()
        for row in rows[first:]:
            if row["producer_epoch"] == was["producer_epoch"] and not row["control"]:
                row["sequence"] = next(numbers)
            row["producer_epoch"] += 1


def transaction_of(record: Record, spot: Spot) -> Transaction:
    """Return the spot's transaction."""
    (op,) = record.rows("ops", op_id=spot.send["op_id"])
    found = transactions(record, Outcome(op["outcome"]))
    return next(each for each in found if each.op is op)


def nearest(
    record: Record,
    spot: Spot,
    wanted: Callable[[Transaction], Row | None],
    *,
    outcome: Outcome = Outcome.OK,
) -> Spot:
    """Return the send that is wanted of the transaction that ended next to the spot's.

    Args:
        record: The run.
        spot: In whose moment.
        wanted: Returns the send of a transaction, None if that one will not do.
        outcome: Of the transaction's op.
    """
    found = transactions(record, outcome)
    for each in sorted(found, key=lambda each: abs(int(each.op["complete_ns"]) - spot.at_ns)):
        send = wanted(each)
        if send is not None and send["offset"] is not None:
            return spot_of(record, send)
    raise LookupError(f"no transaction of {record.plan['name']} is as it is wanted")


def quiet(record: Record, spot: Spot, *, partitions: int = 2) -> Spot:
    """Return the first message of the nearest committed transaction that read nothing.

    Args:
        record: The run.
        spot: In whose moment.
        partitions: To so many it wrote, at most.
    """

    def wanted(each: Transaction) -> Row | None:
        few = len({send["partition"] for send in each.sends}) <= partitions
        return each.sends[0] if each.writes_only and few else None

    return nearest(record, spot, wanted)


def across(each: Transaction) -> Row | None:
    """Return the first send of a transaction that wrote to several partitions, else None."""
    return each.sends[0] if len({send["partition"] for send in each.sends}) > 1 else None


def producer_of(record: Record, spot: Spot) -> int:
    """Return the producer id of the spot's message."""
    node = leader_of(record, spot)
    (stored,) = record.rows("replica_records", node=node, offset=spot.offset, **spot.place)
    return int(stored["producer_id"])


def marker_of(record: Record, spot: Spot) -> int:
    """Return where the marker stands that ended the spot's transaction in its partition."""
    producer = producer_of(record, spot)
    return next(
        int(row["offset"])
        for row in sorted(final_log(record, spot, "n1"), key=lambda row: int(row["offset"]))
        if row["offset"] > spot.offset and row["control"] and row["producer_id"] == producer
    )


def add_marker(record: Record, spot: Spot, offset: int, **changed: object) -> None:
    """Have the marker of the spot's transaction be written once more, behind an offset."""
    like = marker_of(record, spot)
    renumber(record, at_offset(spot, offset), 1)
    moved = like + (like > offset)
    for row in record.rows("replica_records", snapshot="final", offset=moved, **spot.place):
        record.add("replica_records", row, offset=offset + 1, **changed)


def late_marker(record: Record, spot: Spot, until_ns: int) -> None:
    """Have the spot's transaction be ended in its partition at a time: its marker comes behind.

    Readers of what is committed wait for it, and nobody else does.
    """
    marker = marker_of(record, spot)
    acked = record.rows("sends", acked=True, **spot.place)
    before = [send["offset"] for send in acked if send["complete_ns"] < until_ns]
    last = max(before)
    if last > marker:
        (*rows,) = record.drop(
            "replica_records", lambda _: True, snapshot="final", offset=marker, **spot.place
        )
        renumber(record, at_offset(spot, marker), -1)
        renumber(record, at_offset(spot, last - 1), 1)
        for row in rows:
            record.add("replica_records", row, offset=last)
    for row in record.rows("replica_states", snapshot=None, **spot.place):
        if spot.send["invoke_ns"] < row["observed_ns"] < until_ns:
            row["last_stable_offset"] = min(row["last_stable_offset"], spot.offset)
    read_late(record, spot, until_ns, wanted=lambda row: bool(row["isolation"] == COMMITTED))


def hide(record: Record, sends: Collection[Row]) -> None:
    """Have no read_committed reader be given some messages."""
    values = {send["value"] for send in sends}
    record.drop("polls", lambda row: row["value"] in values, isolation=COMMITTED)


def show(record: Record, spot: Spot, *, readers: int | None = None) -> None:
    """Have read_committed readers be given the spot's message where they passed over it.

    Args:
        record: The run.
        spot: A message of an aborted transaction.
        readers: To how many of them, None: to all.
    """
    rows = in_order(record.rows("polls", isolation=COMMITTED, **spot.place))
    past: dict[int, int] = {}
    passing: list[Row] = []
    for row in rows:
        if past.get(row["process"], spot.offset) < spot.offset < row["offset"]:
            passing.append(row)
        past[row["process"]] = row["offset"]
    for row in passing[:readers]:
        insert(record, row, [{**row, "offset": spot.offset, "value": spot.value,
                              "leader_epoch": spot.epoch}])  # fmt: skip


def end(record: Record, op_ids: Collection[int], outcome: Outcome, error: str | None) -> None:
    """Have transactions end another way than they did, for their clients."""
    for table in ("ops", "sends", "polls"):
        for row in record.rows(table):
            if row["op_id"] in op_ids:
                row["outcome"] = outcome.value
    for row in record.rows("ops"):
        if row["op_id"] in op_ids:
            row["error"] = error


def abort(record: Record, spot: Spot, *, told: str = "aborted") -> None:
    """Have the spot's transaction be aborted by its client."""
    op_id = spot.send["op_id"]
    hide(record, record.rows("sends", op_id=op_id))
    end(record, {op_id}, Outcome.FAIL, _ON_PURPOSE)
    for row in record.rows("transactions", op_id=op_id):
        row["decision"], row["outcome"] = "abort", told


def never_write_of(record: Record, op_ids: Collection[int]) -> None:
    """Have transactions write nothing, neither messages nor markers, and read nothing."""
    sends = record.drop("sends", lambda row: row["op_id"] in op_ids)
    read = record.drop("polls", lambda row: row["op_id"] in op_ids)
    put_off(record, read)
    gone: dict[int, tuple[Spot, set[int]]] = {}
    for send in sends:
        if send["offset"] is not None:
            each = spot_of(record, send)
            offsets = gone.setdefault(each.partition, (each, set()))[1]
            offsets.update({each.offset, marker_of(record, each)})
    for each, offsets in gone.values():
        close_gaps(
            record,
            [
                row
                for row in record.rows("replica_records", control=False, **each.place)
                if row["offset"] in offsets
            ],
        )
        take_out(record, each, offsets)


def refuse(record: Record, op_ids: Collection[int]) -> None:
    """Have transactions not even begin: their id still has another one under way."""
    never_write_of(record, op_ids)
    end(record, op_ids, Outcome.FAIL, _REFUSED)
    for row in record.rows("transactions"):
        if row["op_id"] in op_ids:
            row["decision"], row["outcome"] = "abort", "unknown"


def lasts(record: Record, op_id: int, until_ns: int) -> None:
    """Have a transaction's op last until a time: its thread does nothing else meanwhile."""
    (op,) = record.rows("ops", op_id=op_id)
    step = int(record.plan["concurrency"])
    instead = record.drop(
        "ops",
        lambda row: (
            row["process"] % step == op["process"] % step
            and row["op_id"] > op_id
            and row["invoke_ns"] < until_ns
        ),
    )
    op_ids = {row["op_id"] for row in instead}
    never_write_of(record, op_ids)
    for table in ("transactions", "assignments"):
        record.drop(table, lambda row: row["op_id"] in op_ids)
    for table in ("ops", "sends", "polls"):
        for row in record.rows(table, op_id=op_id):
            row["complete_ns"] = until_ns


def unanswered(record: Record, op_id: int) -> None:
    """Have nobody answer the commit of a transaction: its process ends, and the next one begins."""
    end(record, {op_id}, Outcome.INFO, _UNANSWERED)
    for row in record.rows("transactions", op_id=op_id):
        row["outcome"] = "unknown"
    _retire(record, op_id)


def before_a_poll(record: Record) -> Callable[[Transaction], Row | None]:
    """Return what wants the first send of one that read nothing, and that a poll follows."""

    def wanted(each: Transaction) -> Row | None:
        following = _next_op(record, each.op)
        fits = each.writes_only and following is not None and following["f"] == F.POLL.value
        return each.sends[0] if fits else None

    return wanted


def _next_op(record: Record, op: Row) -> Row | None:
    step = int(record.plan["concurrency"])
    mine = [
        row
        for row in record.rows("ops")
        if _same_thread(row, op, step) and row["op_id"] > op["op_id"]
    ]
    return min(mine, key=lambda row: int(row["op_id"]), default=None)


def _same_thread(row: Row, op: Row, step: int) -> bool:
    """Tell whether a process is of the thread of an op; the final reads have others."""
    first = int(row["process"])
    return first % step == op["process"] % step and first < _FINAL


def _retire(record: Record, op_id: int) -> None:
    """Have the process of an op end with it; its thread's next op assigns the process after it."""
    (op,) = record.rows("ops", op_id=op_id)
    step, following = int(record.plan["concurrency"]), _next_op(record, op)
    if following is None:
        return
    for table in ("ops", "sends", "polls", "assignments"):
        for row in record.rows(table):
            if _same_thread(row, op, step) and row["op_id"] > op_id:
                row["process"] += step
    following["f"] = F.ASSIGN.value
    record.drop("polls", lambda _: True, op_id=following["op_id"])
    read = in_order(record.rows("polls", process=following["process"]))
    like = record.rows("assignments", kind=F.ASSIGN.value)
    for partition in sorted({row["partition"] for row in like}):
        firsts = [row["offset"] for row in read if row["partition"] == partition]
        record.add(
            "assignments",
            next(row for row in like if row["partition"] == partition),
            op_id=following["op_id"],
            process=following["process"],
            time_ns=following["complete_ns"],
            offset=firsts[0] if firsts else None,
        )


def stand_still(record: Record, spot: Spot, stable: int) -> None:
    """Have the last stable offset stand still from the spot's time on: nobody reads beyond it."""
    for row in record.rows("replica_states", **spot.place):
        told = row["last_stable_offset"] is not None and (row["observed_ns"] or 0) > spot.at_ns
        if told:
            row["last_stable_offset"] = min(row["last_stable_offset"], stable)
    record.drop("polls", lambda row: row["offset"] >= stable, isolation=COMMITTED, **spot.place)
    for row in record.rows("final_reads", isolation=COMMITTED, **spot.place):
        row["target_end"] = row["reached"] = min(row["target_end"], stable)


def rename_producer(
    record: Record, spot: Spot, name: Callable[[Row], tuple[int, int]], *, since: int
) -> None:
    """Have the records of the spot's producer from an offset on be written as another one's.

    Args:
        record: The run.
        spot: In whose partition.
        name: Returns producer id and epoch of a record; a new pair's numbers begin at 0.
        since: The offset.
    """
    producer = producer_of(record, spot)
    for node in ("n1", "n2", "n3"):
        numbers: dict[tuple[int, int], int] = {}
        rows = sorted(final_log(record, spot, node), key=lambda row: int(row["offset"]))
        for row in rows:
            if row["producer_id"] != producer:
                continue
            if row["offset"] < since:
                session = (producer, int(row["producer_epoch"]))
                numbers[session] = max(numbers.get(session, 0), row["sequence"] + 1)
                continue
            row["producer_id"], row["producer_epoch"] = session = name(row)
            if not row["control"]:
                row["sequence"] = numbers.get(session, 0)
                numbers[session] = row["sequence"] + 1
