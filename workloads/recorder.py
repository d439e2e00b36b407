"""Record the ops of a worker's clients as rows of the live streams.

Small ops are buffered as rows. The columns of large ops are kept as they are, and become one Arrow
batch at the next flush. So for a large op, no Python code runs for each message.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from results.record.stream import StreamWriter
from results.record.tables import LIVE
from results.record.terms import AssignmentKind, Decision, F, Outcome, Phase, ShareAct
from results.record.topics import CreatedTopic
from workloads.pacing import ArrivalCount
from workloads.protocol import (
    Batch,
    Column,
    GroupOffset,
    Key,
    Reservation,
    Send,
    SendResult,
    Settled,
    Txn,
    TxnResult,
)

STREAMS = (
    "op_invocations", "op_completions", "send_invocations", "send_completions", "polled",
    "assignments", "reservations", "arrivals",
)  # fmt: skip
TRANSACTIONS, COMMITS, TRANSFORMS, SHARED = "transactions", "commits", "transforms", "shared"
"""Additional streams of runs with transactions, group members, pipelines and share groups."""
_ROWS_UP_TO = 16
"""Ops with more sends or records than this are recorded as columns."""


class _Stream:
    """A live stream for rows and for whole columns. The next flush writes the columns."""

    def __init__(self, folder: Path, table: str, writer: str) -> None:
        self._writer = StreamWriter(folder, table, writer)
        self._schema = LIVE[table]
        self._pieces: list[tuple[int, Mapping[str, object]]] = []
        self.append = self._writer.append

    def columns(self, length: int, columns: Mapping[str, object]) -> None:
        """Add columns of equal length. A single string or number means a constant column."""
        self._pieces.append((length, columns))

    def flush(self) -> None:
        """Write the collected columns."""
        if self._pieces:
            lengths = [length for length, _ in self._pieces]
            arrays = [
                _joined([columns.get(field.name) for _, columns in self._pieces], lengths,
                        field.type)
                for field in self._schema
            ]  # fmt: skip
            self._pieces.clear()
            self._writer.append_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._writer.flush()

    def close(self) -> None:
        """Write the collected columns, and close the stream."""
        self.flush()
        self._writer.close()


def _joined(pieces: list[Any], lengths: list[int], kind: pa.DataType) -> Any:  # noqa: ANN401 - see below
    """Return one column from all pieces. In pyarrow's stubs, no type fits such a column."""
    if all(isinstance(piece, np.ndarray) for piece in pieces):
        return pa.array(np.concatenate(pieces), kind)
    if any(isinstance(piece, Sequence | np.ndarray) and not isinstance(piece, str)
           for piece in pieces):  # fmt: skip
        parts = [
            pa.array([piece] * length if _single(piece) else piece, kind)
            for piece, length in zip(pieces, lengths, strict=True)
        ]
        return pa.concat_arrays(parts)
    return _repeated(pieces, lengths, kind)


def _single(piece: object) -> bool:
    return piece is None or isinstance(piece, str | int)


def _repeated(words: list[str | int | None], lengths: list[int], kind: pa.DataType) -> Any:  # noqa: ANN401 - as above
    """Expand a run-length encoded column: repeat each value by its run length."""
    if all(isinstance(word, int) for word in words):
        return pa.array(np.repeat(np.array(words), lengths), kind)
    if len(set(words)) == 1:
        return pa.repeat(cast("Any", pa.scalar(words[0], kind)), sum(lengths))
    parts = [_word(word, length, kind) for word, length in zip(words, lengths, strict=True)]
    return pa.concat_arrays(parts)


@lru_cache(maxsize=1024)
def _word(word: str | int | None, length: int, kind: pa.DataType) -> Any:  # noqa: ANN401 - as above
    return pa.repeat(cast("Any", pa.scalar(word, kind)), length)


def _listed(column: Column) -> Sequence[int | None]:
    return column.tolist() if isinstance(column, np.ndarray) else column


class Recorder:
    """The live streams of one writer.

    Args:
        folder: The run's `record/live`.
        writer: `worker-<i>`, or another user of clients.
        worker: The worker's number. It is a column of some tables.
        topics: The run's topics. The rows contain the ids of these topics.
        acks: The plan's acks, which is a column of the table of sends.
    """

    def __init__(
        self,
        folder: Path,
        writer: str,
        *,
        worker: int,
        topics: Sequence[CreatedTopic],
        acks: str,
        streams: Sequence[str] = STREAMS,
    ) -> None:
        self._worker = worker
        self._acks = acks
        self._topic_ids = {each.topic: each.topic_id for each in topics}
        self._partitions = {each.topic: each.partitions for each in topics}
        self._streams = {table: _Stream(folder, table, writer) for table in streams}
        self._invocations = self._streams["op_invocations"].append
        self._completions = self._streams["op_completions"].append

    def reserve(self, reservation: Reservation) -> None:
        """Write a reservation to disk at once. The reserved values may be sent only after that."""
        stream = self._streams["reservations"]
        stream.append((self._worker, reservation.value_from, reservation.value_to))
        stream.flush()

    def invoked(self, op_id: int, *, process: int, f: F, phase: Phase, at_ns: int) -> None:
        """Record the beginning of an op."""
        self._invocations((op_id, process, self._worker, f.value, phase.value, at_ns))

    def completed(
        self, op_id: int, *, at_ns: int, outcome: Outcome, error: str | None = None
    ) -> None:
        """Record the end of an op."""
        self._completions((op_id, at_ns, outcome.value, error))

    def sending(self, op_id: int, op: Send) -> None:
        """Record the values that an op is about to send."""
        topic, partition = op.key
        topic_id, stream = self._topic_ids[topic], self._streams["send_invocations"]
        if len(op.values) <= _ROWS_UP_TO:
            for mop, value in enumerate(op.values.tolist()):
                stream.append(
                    (op_id, mop, topic, topic_id, partition, value, self._acks, None, None)
                )
            return
        stream.columns(len(op.values), {
            "op_id": op_id, "mop": np.arange(len(op.values)), "topic": topic,
            "topic_id": topic_id, "partition": partition, "value": op.values, "acks": self._acks,
        })  # fmt: skip

    def sent(self, op_id: int, result: SendResult) -> None:
        """Record the result of each send; a negative offset means that the offset is unknown."""
        stream, length = self._streams["send_completions"], len(result.offsets)
        outcomes = result.outcomes or [Outcome.OK] * length
        errors = result.errors or [None] * length
        acknowledging = self._acks != "0"
        if length <= _ROWS_UP_TO:
            rows = zip(result.offsets.tolist(), outcomes, errors, strict=True)
            for mop, (offset, outcome, error) in enumerate(rows):
                acked = acknowledging and outcome is Outcome.OK
                known = offset if offset >= 0 and acknowledging else None
                stream.append((op_id, mop, known, outcome.value, acked, error))
            return
        unknown = (result.offsets < 0) | (not acknowledging)
        offsets = (
            pa.array(result.offsets, pa.int64(), mask=unknown).to_pylist()
            if unknown.any()
            else result.offsets
        )
        stream.columns(length, {
            "op_id": op_id, "mop": np.arange(length),
            "offset": offsets,
            "outcome": outcomes if result.outcomes else Outcome.OK.value,
            "acked": np.array([acknowledging and each is Outcome.OK for each in outcomes])
            if result.outcomes else acknowledging,
            "error": result.errors,
        })  # fmt: skip

    def transacting(self, op_id: int, op: Txn, transactional_id: str) -> None:
        """Record the values that a transaction is about to send."""
        stream = self._streams["send_invocations"]
        for number, mop in zip(op.numbers, op.mops, strict=True):
            if not isinstance(mop, Send):
                continue
            topic, partition = mop.key
            place = (topic, self._topic_ids[topic], partition)
            for at, value in enumerate(mop.values.tolist(), number):
                stream.append((op_id, at, *place, value, self._acks, transactional_id, op_id))

    def transforming(self, op_id: int, op: Txn, batch: Batch) -> None:
        """Record which message a transaction sends for each record that the process has read."""
        stream = self._streams[TRANSFORMS]
        results = np.concatenate([send.values for send in op.sends]).tolist()
        for (place, offset, value), result in zip(self._each(batch), results, strict=True):
            stream.append((op_id, *place, offset, value, result))

    def transacted(self, op_id: int, op: Txn, transactional_id: str, result: TxnResult) -> None:
        """Record the result of a transaction, with an outcome for each of its sends.

        If the transaction was to be aborted, and no commit was ever sent, no reader may ever see
        records of the transaction. So these sends have failed. This is true even if the op ended as
        `info` because one of its clients was dropped.
        """
        aborted = result.decision is Decision.ABORT
        outcome = Outcome.FAIL if aborted else result.outcome
        numbers = [
            at
            for number, mop in zip(op.numbers, op.mops, strict=True)
            if isinstance(mop, Send)
            for at in range(number, number + len(mop.values))
        ]
        for at, sent in zip(numbers, result.deliveries, strict=True):
            self._streams["send_completions"].append(
                (op_id, at, sent.offset, outcome.value, sent.acked, sent.error)
            )
        for number, batch in result.batches:
            self.polled(op_id, batch, mop=number)
        # librdkafka does not reveal its producer id and epoch. The replicas' records contain them.
        self._streams[TRANSACTIONS].append(
            (op_id, op_id, transactional_id, None, None, result.decision.value, result.ended.value)
        )

    def polled(self, op_id: int, batch: Batch, *, mop: int = 0) -> None:
        """Write the records that a poll returned."""
        start = 0
        for (topic, partition), length in batch.spans:
            end = start + length
            place = (topic, self._topic_ids.get(topic), partition)
            self._span((op_id, mop), place, batch, start=start, end=end)
            start = end

    def _span(
        self,
        part_of: tuple[int, int],
        place: tuple[str, str | None, int],
        batch: Batch,
        *,
        start: int,
        end: int,
    ) -> None:
        (op_id, mop), isolation = part_of, batch.isolation.value
        stream, part = self._streams["polled"], slice(start, end)
        offsets, values = batch.offsets[part], batch.values[part]
        epochs = batch.leader_epochs[part]
        damage = [None] * (end - start) if batch.damage is None else batch.damage[part]
        if end - start <= _ROWS_UP_TO:
            columns = map(_listed, (offsets, values, epochs, damage))
            for pos, (*row, hurt) in enumerate(zip(*columns, strict=True), start):
                stream.append((op_id, mop, pos, *place, *row, isolation, hurt))
            return
        topic, topic_id, partition = place
        stream.columns(end - start, {
            "op_id": op_id, "mop": mop, "pos": np.arange(start, end), "topic": topic,
            "topic_id": topic_id, "partition": partition, "offset": offsets, "value": values,
            "leader_epoch": epochs, "isolation": isolation, "damage": damage,
        })  # fmt: skip

    def assigned(
        self,
        op_id: int,
        *,
        process: int,
        at_ns: int,
        starts: Mapping[Key, int | None],
        kind: AssignmentKind = AssignmentKind.ASSIGN,
    ) -> None:
        """Record a consumer's assignment with its start offsets.

        A start of None means the beginning. But in a group, None means the committed offset, which
        the client did not report.
        """
        for (topic, partition), offset in starts.items():
            topic_id = self._topic_ids[topic]
            self._streams["assignments"].append(
                (op_id, process, kind.value, at_ns, topic, topic_id, partition, offset)
            )

    def group_offsets(self, op_id: int, *, process: int, offsets: Sequence[GroupOffset]) -> None:
        """Record commits, and the committed offsets that a group reported.

        Args:
            op_id: The op that received the response. It is recorded for entries that name no other
                op.
            process: The process.
            offsets: The entries.
        """
        for each in offsets:
            topic, partition = each.key
            asker = op_id if each.op_id is None else each.op_id
            self._streams[COMMITS].append(
                (asker, process, each.act.value, each.asked_ns, each.told_ns, topic,
                 self._topic_ids.get(topic), partition, each.offset, each.outcome.value,
                 each.error, each.committed_by)
            )  # fmt: skip

    def delivered(
        self, op_id: int, batch: Batch, *, process: int, asked_ns: int, at_ns: int
    ) -> None:
        """Write a row for each record that a share group delivered to a member.

        Args:
            op_id: The poll.
            batch: The poll's records.
            process: The member.
            asked_ns: The time at which the poll began.
            at_ns: The time at which the poll ended.
        """
        assert batch.delivery_counts is not None, "a share group reports delivery counts"
        counts, times = _listed(batch.delivery_counts), (asked_ns, at_ns)
        for at, (place, offset, value) in enumerate(self._each(batch)):
            self._streams[SHARED].append(
                (op_id, process, ShareAct.DELIVER.value, *times, *place, offset, value,
                 counts[at], batch.acquired_after_ns, Outcome.OK.value, None)
            )  # fmt: skip

    def settled(self, op_id: int, batch: Batch, settled: Settled, *, process: int) -> None:
        """Record a member's acknowledgements for a poll's records."""
        times = (settled.asked_ns, settled.told_ns)
        for (place, offset, value), act, error in zip(
            self._each(batch), settled.acts, settled.errors, strict=True
        ):
            outcome = Outcome.INFO if error else Outcome.OK
            self._streams[SHARED].append(
                (op_id, process, act.value, *times, *place, offset, value, None, None,
                 outcome.value, error)
            )  # fmt: skip

    def _each(self, batch: Batch) -> Iterator[tuple[tuple[str, str | None, int], int, int | None]]:
        """Yield the topic, partition, offset and value of each record."""
        keys = [key for key, length in batch.spans for _ in range(length)]
        rows = zip(keys, batch.offsets.tolist(), _listed(batch.values), strict=True)
        for (topic, partition), offset, value in rows:
            yield (topic, self._topic_ids.get(topic), partition), offset, value

    def partitions_of(self, topics: Sequence[str]) -> dict[Key, None]:
        """Return all partitions of some topics, without positions."""
        return {(topic, part): None for topic in topics for part in range(self._partitions[topic])}

    def arrived(self, counts: Sequence[ArrivalCount]) -> None:
        """Record how many arrivals there were, and how many were missed."""
        for each in counts:
            self._streams["arrivals"].append(
                (self._worker, each.window_ns, each.phase.value, each.offered, each.missed)
            )

    def flush(self) -> None:
        """Write all rows recorded so far."""
        for stream in self._streams.values():
            stream.flush()

    def close(self) -> None:
        """Close the streams."""
        for stream in self._streams.values():
            stream.close()
