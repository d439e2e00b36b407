"""The final reads in virtual time: every partition to its end, with fresh consumers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.simulated.clock import VirtualClock
from harness.simulated.consumer import Consumer
from harness.simulated.errands import Steps
from harness.simulated.worker import ClientHosts
from results.record.clock import NS_PER_S
from results.record.plan import Plan
from results.record.stream import StreamWriter
from results.record.terms import F, Isolation, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.crew import WORKER_BITS
from workloads.final_reads import FINAL_WORKER, FIRST_PROCESS
from workloads.protocol import Key
from workloads.recorder import STREAMS, Recorder

POLL_LIMIT = 2000
IDLE_S, REST_S = 0.02, 0.5
READERS = 4
_WRITER = "final"


class FinalReads:
    """Reads on with several consumers until all goals are reached.

    Args:
        plan: The run.
        topics: As created.
        targets: The end to reach, by partition.
        hosts: Where the consumers live.
        clock: Virtual.
        live: The folder of the live streams.
    """

    def __init__(
        self,
        plan: Plan,
        topics: Sequence[CreatedTopic],
        targets: Mapping[Key, int],
        *,
        hosts: ClientHosts,
        clock: VirtualClock,
        live: Path,
    ) -> None:
        streams = [table for table in STREAMS if table not in ("arrivals", "reservations")]
        self._recorder = Recorder(
            live, _WRITER, worker=FINAL_WORKER, topics=topics, acks=plan.acks, streams=streams
        )
        self._topics, self._targets, self._live = topics, targets, live
        self._hosts, self._clock = hosts, clock
        self._next_op_id = FINAL_WORKER << WORKER_BITS
        self._positions = dict.fromkeys(targets, 0)

    def read(self, limit_s: float) -> Steps:
        """Read everything, and write what was reached."""
        keys = sorted(self._targets)
        count = min(READERS, len(keys))
        deadline_ns = self._clock.now_ns() + round(limit_s * NS_PER_S)
        for number in range(count):
            yield from self._read_share(FIRST_PROCESS + number, keys[number::count], deadline_ns)
        self._recorder.close()
        self._write()

    def _read_share(self, process: int, keys: Sequence[Key], deadline_ns: int) -> Steps:
        stride = READERS
        while self._open(keys) and self._clock.now_ns() < deadline_ns:
            consumer, host = self._hosts.lone_consumer()
            self._assign(process, consumer, keys)
            yield from self._poll_on(process, consumer, keys, deadline_ns)
            self._hosts.end(host)
            process += stride
            if self._open(keys):
                yield REST_S

    def _assign(self, process: int, consumer: Consumer, keys: Sequence[Key]) -> None:
        starts = {key: self._positions[key] or None for key in self._open(keys)}
        op_id = self._begin(process, F.ASSIGN)
        consumer.assign(starts)
        self._recorder.assigned(op_id, process=process, at_ns=self._clock.now_ns(), starts=starts)
        self._end(op_id, None)

    def _poll_on(
        self, process: int, consumer: Consumer, keys: Sequence[Key], deadline_ns: int
    ) -> Steps:
        while self._open(keys) and self._clock.now_ns() < deadline_ns:
            op_id = self._begin(process, F.POLL)
            batch = consumer.poll(POLL_LIMIT)
            self._recorder.polled(op_id, batch)
            self._end(op_id, batch.error)
            for key, position in batch.positions.items():
                self._positions[key] = max(self._positions[key], position)
            if batch.error is not None:
                return
            yield 0.0 if len(batch.offsets) else IDLE_S

    def _open(self, keys: Sequence[Key]) -> list[Key]:
        return [key for key in keys if self._positions[key] < self._targets[key]]

    def _begin(self, process: int, f: F) -> int:
        op_id = self._next_op_id
        self._next_op_id += 1
        self._recorder.invoked(
            op_id, process=process, f=f, phase=Phase.FINAL, at_ns=self._clock.now_ns()
        )
        return op_id

    def _end(self, op_id: int, error: str | None) -> None:
        outcome = Outcome.OK if error is None else Outcome.INFO
        self._recorder.completed(op_id, at_ns=self._clock.now_ns(), outcome=outcome, error=error)

    def _write(self) -> None:
        ids = {each.topic: each.topic_id for each in self._topics}
        writer = StreamWriter(self._live, "final_reads", _WRITER)
        for (topic, part), target in sorted(self._targets.items()):
            reached = self._positions[topic, part]
            isolation = Isolation.READ_UNCOMMITTED.value
            writer.append(
                (topic, ids.get(topic), part, isolation, target, reached, reached >= target)
            )
        writer.close()
