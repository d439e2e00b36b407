"""The final reads: new consumers read every partition from its beginning to its end.

The final reads run when the workers have stopped and the cluster has recovered. The read of a
partition is complete only if the reader's position reaches the target. The target is the last
stable offset that the leader reported after the last send had ended. If clients write in
transactions, the final reads are read_committed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.plan import Plan
from results.record.stream import StreamWriter
from results.record.terms import F, Isolation, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.clients.consumer import ProcessConsumer
from workloads.clients.settings import for_librdkafka
from workloads.crew import WORKER_BITS
from workloads.protocol import Batch, Key, Reader
from workloads.recorder import STREAMS, Recorder

FINAL_WORKER = 1023
FIRST_PROCESS = 1_000_000
MOST_READERS = 8
POLL_LIMIT = 10_000
_IDLE_S = 0.01
_REST_S = 0.25
_FLUSH_S = 0.1
_WRITER = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRead:
    """The result of reading one partition.

    Attributes:
        topic: The topic.
        partition: The partition's number.
        target_end: The offset to reach: the offset after the last record to read.
        reached: The position after the last record, or the end that the leader reported.
        complete: Whether the target was reached.
    """

    topic: str
    partition: int
    target_end: int
    reached: int
    complete: bool


@dataclass(slots=True, kw_only=True)
class _Reader:
    process: int
    goals: dict[Key, int]
    """The partitions that this reader must still read, and the target offset of each partition."""
    positions: dict[Key, int]
    client: Reader | None = None
    rest_until_s: float = 0
    keys: list[Key] = field(default_factory=list)


class FinalReader:
    """A reader that uses several consumers in turn until all targets are reached.

    Args:
        reader: Creates the consumer of a process.
        targets: The target offset of each partition.
        recorder: Gets the ops.
        clock: The run's clock.
    """

    def __init__(
        self,
        reader: Callable[[int], Reader],
        targets: Mapping[Key, int],
        *,
        recorder: Recorder,
        clock: RunClock,
    ) -> None:
        self._made = reader
        self._recorder = recorder
        self._clock = clock
        self._next_op_id = FINAL_WORKER << WORKER_BITS
        keys, count = sorted(targets), min(MOST_READERS, max(1, len(targets)))
        self._readers = [
            _Reader(
                process=FIRST_PROCESS + number,
                goals={key: targets[key] for key in keys[number::count]},
                positions=dict.fromkeys(keys[number::count], 0),
            )
            for number in range(count)
        ]
        self._stride = count

    def read(self, timeout_s: float) -> dict[Key, int]:
        """Read all partitions up to the targets, or until the time limit.

        Return the positions reached.
        """
        deadline_s = stopwatch_s() + timeout_s
        flush_at_s = 0.0
        while (now_s := stopwatch_s()) < deadline_s:
            at_work = [reader for reader in self._readers if reader.goals]
            if not at_work:
                break
            moved = [self._step(reader) for reader in at_work if reader.rest_until_s <= now_s]
            if now_s >= flush_at_s:
                flush_at_s = now_s + _FLUSH_S
                self._recorder.flush()
            if not any(moved):
                pause_until(min(deadline_s, now_s + _IDLE_S))
        for reader in self._readers:
            if reader.client is not None:
                reader.client.close()
        return {key: at for reader in self._readers for key, at in reader.positions.items()}

    def _step(self, reader: _Reader) -> bool:
        if reader.client is None:
            return self._assign(reader)
        op_id = self._begin(reader, F.POLL)
        batch = reader.client.poll(POLL_LIMIT)
        self._recorder.polled(op_id, batch)
        self._end(reader, op_id, batch.error)
        self._advance(reader, batch)
        return len(batch.offsets) > 0

    def _assign(self, reader: _Reader) -> bool:
        """Create a process's consumer. It begins at the positions that its predecessor reached."""
        reader.client = self._made(reader.process)
        starts = {key: reader.positions[key] or None for key in reader.goals}
        op_id = self._begin(reader, F.ASSIGN)
        error = reader.client.assign(starts)
        self._recorder.assigned(
            op_id, process=reader.process, at_ns=self._clock.now_ns(), starts=starts
        )
        self._end(reader, op_id, error)
        return True

    def _begin(self, reader: _Reader, f: F) -> int:
        op_id = self._next_op_id
        self._next_op_id += 1
        self._recorder.invoked(
            op_id, process=reader.process, f=f, phase=Phase.FINAL, at_ns=self._clock.now_ns()
        )
        return op_id

    def _end(self, reader: _Reader, op_id: int, error: str | None) -> None:
        outcome = Outcome.OK if error is None else Outcome.INFO
        self._recorder.completed(op_id, at_ns=self._clock.now_ns(), outcome=outcome, error=error)
        if error is None or reader.client is None:
            return
        reader.client.close()
        reader.client = None
        reader.process += self._stride
        reader.rest_until_s = stopwatch_s() + _REST_S

    def _advance(self, reader: _Reader, batch: Batch) -> None:
        for key, position in (batch.positions | batch.ends).items():
            reader.positions[key] = max(reader.positions[key], position)
            if reader.positions[key] >= reader.goals.get(key, 0):
                reader.goals.pop(key, None)


def final_reader(plan: Plan, bootstrap: str) -> Callable[[int], Reader]:
    """Return a function that creates a process's consumer for final reads, with librdkafka."""
    return lambda process: ProcessConsumer(
        for_librdkafka(plan),
        bootstrap=bootstrap,
        client_id=f"process-{process}",
        report_ends=True,
        isolation=final_isolation(plan),
    )


def final_isolation(plan: Plan) -> Isolation:
    """Return the isolation level of the final reads."""
    return Isolation.READ_COMMITTED if plan.transactional else Isolation.READ_UNCOMMITTED


def read_to_end(
    plan: Plan,
    topics: Sequence[CreatedTopic],
    reader: Callable[[int], Reader],
    *,
    targets: Mapping[Key, int],
    clock: RunClock,
    live: Path,
    timeout_s: float,
) -> list[FinalRead]:
    """Read every partition to its target; record the ops, and return the results.

    Args:
        plan: The run's plan.
        topics: The created topics.
        reader: Creates the consumer of a process, as `final_reader` does.
        targets: For each (topic, partition), the last stable offset that the leader reported after
            the last send had ended.
        clock: The run's clock.
        live: The folder of the live streams; the writer's name is `final`.
        timeout_s: The limit for all partitions together.

    Returns:
        A row for each partition in `targets`, in the same order.
    """
    streams = [table for table in STREAMS if table not in ("arrivals", "reservations")]
    recorder = Recorder(
        live, _WRITER, worker=FINAL_WORKER, topics=topics, acks=plan.acks, streams=streams
    )
    try:
        reached = FinalReader(reader, targets, recorder=recorder, clock=clock).read(timeout_s)
    finally:
        recorder.close()
    reads = [
        FinalRead(
            topic=topic,
            partition=partition,
            target_end=target,
            reached=reached[topic, partition],
            complete=reached[topic, partition] >= target,
        )
        for (topic, partition), target in sorted(targets.items())
    ]
    _record(reads, topics, live, final_isolation(plan))
    return reads


def _record(
    reads: Sequence[FinalRead], topics: Sequence[CreatedTopic], live: Path, isolation: Isolation
) -> None:
    topic_ids = {each.topic: each.topic_id for each in topics}
    writer = StreamWriter(live, "final_reads", _WRITER)
    for each in reads:
        writer.append(
            (
                each.topic,
                topic_ids.get(each.topic),
                each.partition,
                isolation.value,
                each.target_end,
                each.reached,
                each.complete,
            )
        )
    writer.close()
