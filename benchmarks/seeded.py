"""Run records of any size from a seed: the files of a `logquake run`, made without a cluster.

Half of N operations send two messages each, and half read two. So the record has N sends, N records
polled by the clients, N polled by the final reads, and 3 N records on three replicas. Each
partition has one process that sends, and one that reads four ops behind it. One send in 1000 fails
definitely. The leader changes four times. Each change truncates the records that only the old
leader had. Observers query each leader for offsets every second, and for metadata every two
seconds. The controllers' log gets a record a second, from one leader, on three nodes. The seed
determines the hashes of records, and which broker leads first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan
from results.record.stream import StreamWriter
from results.record.tables import LIVE
from results.record.topics import CreatedTopic, dump_topics
from results.record.values import pack_value

Ints = npt.NDArray[np.int64]
MS, S = 1_000_000, 1_000_000_000
TOPIC, TOPIC_ID = "log-0", "00000000-0000-0000-0000-00000000000a"
OP_NS = 2 * MS
"""The time between two ops: 500 ops a second, as in a default run."""
EPOCHS = 5
FAILS_EACH = 1000
BEHIND = 4
FINAL_READ = 2000
QUORUM: dict[str, object] = {"topic": "__cluster_metadata", "partition": 0,
                             "topic_id": "00000000-0000-0000-0000-000000000001"}  # fmt: skip
QUORUM_START = 1000
"""The number of records in the controllers' log when the first op begins."""
CHUNK = 1 << 15
STONES = ("started", "ready", "warmup", "main", "main-ended", "healed", "recovered",
          "final-reads", "noted", "stopped", "collected")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of a record.

    Attributes:
        ops: The number of operations of clients.
        partitions: The number of partitions of the one topic.
        seed: Determines the hashes, and which broker leads first.
    """

    ops: int
    partitions: int = 8
    seed: int = 1

    @property
    def rounds(self) -> int:
        """Return the number of ops of each process. A partition has one sender and one reader."""
        return self.ops // (2 * self.partitions)

    @property
    def log_end(self) -> int:
        """Return the number of records in each partition at the end."""
        return int(offset_of(np.array([2 * self.rounds]))[0])

    @property
    def ended_ns(self) -> int:
        """Return the time at which the last op of the main phase ends."""
        return (self.ops + 2 * self.partitions) * OP_NS

    def epoch(self, rounds: Ints) -> Ints:
        """Return the leader epochs in which the sends of some rounds were written."""
        return rounds * EPOCHS // max(1, self.rounds)

    def leader(self, partition: int, epoch: int) -> int:
        """Return the broker that leads a partition in an epoch."""
        return 1 + (self.seed + partition + epoch) % 3

    def starts(self) -> list[tuple[int, int, int]]:
        """Return (epoch, first round, first offset) of each epoch."""
        first = [-(-epoch * self.rounds // EPOCHS) for epoch in range(EPOCHS)]
        offsets = offset_of(2 * np.array(first)).tolist()
        return list(zip(range(EPOCHS), first, offsets, strict=True))


def offset_of(message: Ints) -> Ints:
    """Return the offset of a partition's nth message. Failed messages have no offset."""
    return message - message // FAILS_EACH


def write_run(root: Path, shape: Shape) -> None:
    """Write the live streams of a run. The number of ops is rounded down to whole rounds."""
    shape = replace(shape, ops=shape.rounds * 2 * shape.partitions)
    paths = RunPaths(root)
    paths.live.mkdir(parents=True)
    plan = Plan(topics=1, partitions=shape.partitions, nemesis=(), workers=1)
    paths.plan.write_text(dump_plan(plan))
    dump_topics(
        [CreatedTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=shape.partitions)], paths.topics
    )
    for at, name in enumerate(STONES):
        late = at >= STONES.index("main-ended")
        append_milestone(paths.milestones, Milestone(name=name, at_ns=at + late * shape.ended_ns))
    streams = Streams(paths.live)
    for start in range(0, shape.ops, CHUNK):
        _write_ops(streams, shape, np.arange(start, min(start + CHUNK, shape.ops)))
    for partition in range(shape.partitions):
        _write_final_read(streams, shape, partition)
        _write_replicas(streams, shape, partition)
        _write_looks(streams, shape, partition)
    _write_assignments(streams, shape)
    _write_quorum(streams, shape)
    streams.close()


class Streams:
    """The live streams of a run, opened at first use. Columns that are not given are null."""

    def __init__(self, live: Path) -> None:
        self._live = live
        self._open: dict[tuple[str, str], StreamWriter] = {}
        for table in ("op_invocations", "op_completions", "send_invocations", "send_completions",
                      "polled"):  # fmt: skip
            for writer in ("worker-0", "final"):
                self.write(table, writer, 0)
        self.write("faults", "nemesis", 0)
        for table in ("leadership", "quorum_states", "replica_states"):
            for node in ("n1", "n2", "n3"):
                self.write(table, f"observer-{node}", 0)

    def write(self, table: str, writer: str, rows: int, **columns: object) -> None:
        """Append rows to a writer's stream of a table.

        Args:
            table: A name in `LIVE`.
            writer: The name of the writer.
            rows: The number of rows.
            columns: For each column an array, or one value for all rows.
        """
        place = (table, writer)
        if place not in self._open:
            self._open[place] = StreamWriter(self._live, table, writer)
        arrays = [_column(columns.get(field.name), field.type, rows) for field in LIVE[table]]
        if rows:
            self._open[place].append_batch(pa.RecordBatch.from_arrays(arrays, schema=LIVE[table]))

    def close(self) -> None:
        """Close all streams."""
        for stream in self._open.values():
            stream.close()


def _column(told: Any, kind: Any, rows: int) -> Any:  # noqa: ANN401 - any type of column
    if told is None:
        return pa.nulls(rows, kind)
    if isinstance(told, pa.Array):
        return told
    if isinstance(told, np.ndarray):
        return pa.array(told).cast(kind)
    return pa.repeat(pa.scalar(told, kind), rows)


def _place(partition: object) -> dict[str, object]:
    return {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": partition}


def _write_ops(streams: Streams, shape: Shape, ops: Ints) -> None:
    """Write some ops of the main phase.

    Ops with even numbers send, and ops with odd numbers read.
    """
    width = 2 * shape.partitions
    begins = ops * OP_NS + np.abs(_hashes(ops, shape.seed)) % (OP_NS // 4)
    ends = begins + (width - 1) * OP_NS + np.abs(_hashes(ops, shape.seed + 1)) % (OP_NS // 2)
    kinds = pa.DictionaryArray.from_arrays(ops % 2, pa.array(["send", "poll"]))
    streams.write("op_invocations", "worker-0", len(ops), op_id=ops + 1, process=ops % width,
                  worker=0, f=kinds.dictionary_decode(), phase="main",
                  invoke_ns=begins)  # fmt: skip
    streams.write("op_completions", "worker-0", len(ops), op_id=ops + 1, complete_ns=ends,
                  outcome="ok")  # fmt: skip
    sends = np.repeat(ops[ops % 2 == 0], 2)
    mop = np.arange(len(sends)) % 2
    partition, message = sends // 2 % shape.partitions, sends // width * 2 + mop
    fails = (message + 1) % FAILS_EACH == 0
    streams.write("send_invocations", "worker-0", len(sends), op_id=sends + 1, mop=mop,
                  **_place(partition), value=_values(partition, message), acks="all")  # fmt: skip
    outcome = pa.DictionaryArray.from_arrays(fails.astype(int), pa.array(["ok", "fail"]))
    streams.write("send_completions", "worker-0", len(sends), op_id=sends + 1, mop=mop,
                  offset=pa.array(offset_of(message), mask=fails), acked=~fails,
                  outcome=outcome.dictionary_decode())  # fmt: skip
    _write_polls(streams, shape, ops[ops % 2 == 1])


def _values(partition: Ints, message: Ints) -> Ints:
    return ((partition + 1) << 32) + message + pack_value(0, 1)


def _write_polls(streams: Streams, shape: Shape, ops: Ints) -> None:
    width = 2 * shape.partitions
    reads = np.repeat(ops[ops // width >= BEHIND], 2)
    pos = np.arange(len(reads)) % 2
    partition, message = reads // 2 % shape.partitions, (reads // width - BEHIND) * 2 + pos
    there = (message + 1) % FAILS_EACH != 0
    reads, pos, partition, message = reads[there], pos[there], partition[there], message[there]
    streams.write("polled", "worker-0", len(reads), op_id=reads + 1, mop=0, pos=pos,
                  **_place(partition), offset=offset_of(message),
                  value=_values(partition, message), leader_epoch=shape.epoch(message // 2),
                  isolation="read_uncommitted")  # fmt: skip


def messages(shape: Shape, start: int = 0, end: int | None = None) -> Ints:
    """Return the numbers of the messages that a partition contains, in order of offset."""
    offsets = np.arange(start, shape.log_end if end is None else min(end, shape.log_end))
    return offsets + offsets // (FAILS_EACH - 1)


def _write_final_read(streams: Streams, shape: Shape, partition: int) -> None:
    first = shape.ops + 1_000 + partition * (shape.log_end // FINAL_READ + 10)
    process = 2 * shape.partitions + partition
    begun = shape.ended_ns + S
    for start in range(0, shape.log_end, CHUNK // FINAL_READ * FINAL_READ):
        read = messages(shape, start, start + CHUNK // FINAL_READ * FINAL_READ)
        offsets = offset_of(read)
        op = first + offsets // FINAL_READ
        streams.write("polled", "final", len(read), op_id=op, mop=0, pos=offsets % FINAL_READ,
                      **_place(partition), offset=offsets, leader_epoch=shape.epoch(read // 2),
                      value=_values(np.full(len(read), partition), read),
                      isolation="read_uncommitted")  # fmt: skip
        ops = np.unique(op)
        when = begun + (ops - first) * MS
        streams.write("op_invocations", "final", len(ops), op_id=ops, process=process, worker=0,
                      f="poll", phase="final", invoke_ns=when)  # fmt: skip
        streams.write("op_completions", "final", len(ops), op_id=ops, complete_ns=when + MS // 2,
                      outcome="ok")  # fmt: skip
    streams.write("final_reads", "final", 1, **_place(partition), isolation="read_uncommitted",
                  target_end=shape.log_end, reached=shape.log_end, complete=True)  # fmt: skip


def _write_replicas(streams: Streams, shape: Shape, partition: int) -> None:
    epochs = pa.array([[{"epoch": epoch, "start_offset": at} for epoch, _, at in shape.starts()]])
    for node in ("n1", "n2", "n3"):
        for start in range(0, shape.log_end, CHUNK):
            read = messages(shape, start, start + CHUNK)
            values = _values(np.full(len(read), partition), read)
            streams.write(
                "replica_records", node, len(read), **_place(partition), snapshot="final",
                node=node, offset=offset_of(read), leader_epoch=shape.epoch(read // 2),
                value=values, record_hash=_hashes(values, shape.seed),
                producer_id=1000 + partition, producer_epoch=0, sequence=offset_of(read),
                control=False,
            )  # fmt: skip
        for snapshot, ended in (("final", None), ("noted", shape.ended_ns + 900 * S)):
            streams.write(
                "replica_states", node, 1, **_place(partition), snapshot=snapshot, node=node,
                observed_ns=ended, incarnation=0, log_start_offset=0, log_end_offset=shape.log_end,
                high_watermark=shape.log_end, high_watermark_source="checkpoint",
                epochs=epochs.cast(LIVE["replica_states"].field("epochs").type),
            )  # fmt: skip


def _hashes(values: Ints, seed: int) -> Ints:
    mixed = values.astype(np.uint64) + np.uint64(seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))).astype(np.int64)


def _write_looks(streams: Streams, shape: Shape, partition: int) -> None:
    """Write the observations: each leader's response every second, and leaders in metadata logs."""
    starts = shape.starts()
    width = 2 * shape.partitions
    for epoch, first, offset in starts:
        begun = first * width * OP_NS
        last = starts[epoch + 1][1] if epoch + 1 < EPOCHS else shape.rounds
        leader = shape.leader(partition, epoch)
        asked = np.arange(begun + S // 4, last * width * OP_NS, S)
        asked -= np.abs(_hashes(asked, partition)) % (10 * MS)  # No timer is exact.
        ended = (asked // OP_NS - width - 2 * partition) // width  # Rounds that have ended by then.
        marks = offset_of(2 * np.clip(ended, 0, shape.rounds))
        told: dict[str, object] = {**_place(partition), "leader": leader, "leader_epoch": epoch,
                                   "isr": _isrs(len(asked))}  # fmt: skip
        streams.write("leadership", f"observer-n{leader}", len(asked), **told, asked_ns=asked,
                      observed_ns=asked + MS, source="list-offsets", observer=f"n{leader}",
                      incarnation=0, high_watermark=marks)  # fmt: skip
        looked = asked[::2]
        told["isr"] = _isrs(len(looked))
        streams.write("leadership", f"observer-n{leader}", len(looked), **told,
                      asked_ns=looked + 2 * MS, observed_ns=looked + 3 * MS, source="metadata",
                      observer=f"n{leader}", incarnation=0)  # fmt: skip
        told["isr"] = _isrs(1)
        for node in ("n1", "n2", "n3"):
            streams.write("leadership", node, 1, **told, source="metadata-log", observer=node,
                          incarnation=0, log_offset=10 + epoch * shape.partitions + partition,
                          unclean=False)  # fmt: skip
        if epoch:
            old = f"n{shape.leader(partition, epoch - 1)}"
            streams.write("truncations", old, 1, **_place(partition), observed_ns=begun + MS,
                          node=old, incarnation=0, from_offset=offset, to_offset=offset + 3,
                          reason="follower", source="server-log")  # fmt: skip


def _isrs(rows: int) -> "pa.Array[Any]":
    return pa.array([[1, 2, 3]] * rows, pa.list_(pa.int32()))


def _write_assignments(streams: Streams, shape: Shape) -> None:
    partitions = np.arange(shape.partitions)
    op = shape.ops + 1 + partitions
    streams.write("reservations", "worker-0", shape.partitions, worker=0,
                  value_from=(partitions + 1) << 32,
                  value_to=((partitions + 1) << 32) + (1 << 31))  # fmt: skip
    streams.write("assignments", "worker-0", shape.partitions, op_id=np.full(len(op), -1) + 1,
                  process=2 * partitions + 1, kind="assign", time_ns=partitions * 0,
                  **_place(partitions), offset=partitions * 0)  # fmt: skip
    streams.write("assignments", "final", shape.partitions, op_id=op,
                  process=2 * shape.partitions + partitions, kind="assign",
                  time_ns=partitions * 0 + shape.ended_ns + S // 2,
                  **_place(partitions), offset=partitions * 0)  # fmt: skip
    streams.write("op_invocations", "final", len(op), op_id=op,
                  process=2 * shape.partitions + partitions, worker=0, f="assign", phase="final",
                  invoke_ns=partitions * 0 + shape.ended_ns + S // 2)  # fmt: skip
    streams.write("op_completions", "final", len(op), op_id=op, outcome="ok",
                  complete_ns=partitions * 0 + shape.ended_ns + S // 2 + MS)  # fmt: skip


def _write_quorum(streams: Streams, shape: Shape) -> None:
    for number, node in enumerate(("n1", "n2", "n3"), start=1):
        streams.write("quorum_states", node, 1, node=node, incarnation=0,
                      role="leader" if number == 1 else "follower", epoch=1, leader=1, voted_for=1,
                      voted_directory="d1")  # fmt: skip
        _write_controller(streams, shape, node)
    asked = np.arange(S, shape.ended_ns, 10 * S)
    for node, behind in (("n1", 0), ("n2", 0), ("n3", 1)):
        role = "leader" if node == "n1" else "follower"
        streams.write("quorum_states", "observer-n1", len(asked), observed_ns=asked, node=node,
                      incarnation=0, role=role, epoch=1, leader=1,
                      high_watermark=QUORUM_START + asked // S,
                      log_end_offset=QUORUM_START + asked // S - behind)  # fmt: skip


def _write_controller(streams: Streams, shape: Shape, node: str) -> None:
    """Write the end of a controllers' log: one epoch, which begins with a leader-change record."""
    offsets = np.arange(QUORUM_START + shape.ended_ns // S + 1)
    streams.write("replica_records", node, len(offsets), **QUORUM, snapshot="final", node=node,
                  offset=offsets, leader_epoch=1, record_hash=_hashes(offsets, shape.seed),
                  producer_id=-1, producer_epoch=-1, sequence=-1, control=offsets == 0)  # fmt: skip
    epochs = pa.array([[{"epoch": 1, "start_offset": 0}]])
    streams.write("replica_states", node, 1, **QUORUM, snapshot="final", node=node, incarnation=0,
                  log_start_offset=0, log_end_offset=len(offsets),
                  epochs=epochs.cast(LIVE["replica_states"].field("epochs").type))  # fmt: skip


def write_many(store: Path, runs: int, shape: Shape) -> Iterator[Path]:
    """Write several runs, each with its own seed, and yield their folders."""
    for number in range(runs):
        root = store / "benchmark" / f"run-{number:03}"
        write_run(root, Shape(ops=shape.ops, partitions=shape.partitions, seed=shape.seed + number))
        yield root
