"""The logical processes of one worker: each one op at a time, none with a thread of its own.

An op that ends as info retires its process: the thread goes on as the next one
(`process = thread + k * concurrency`), with a new consumer. Producers are shared by all.
"""

import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

from results.record.clock import RunClock
from results.record.terms import F, Outcome, Phase
from workloads.protocol import (
    Assign,
    Batch,
    Crash,
    Generator,
    Key,
    Observed,
    Poll,
    Reader,
    Send,
    Sender,
    SendResult,
)
from workloads.recorder import Recorder

WORKER_BITS = 40
REST_NS = 250_000_000
"""After a poll that failed: an error that lasts must not cost a new consumer for each op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """How a crew comes by its clients."""

    sender: Callable[[], Sender]
    reader: Callable[[int], Reader]
    """For a process."""


@dataclass(slots=True, kw_only=True)
class _Thread:
    number: int
    process: int
    reader: Reader
    assigned: bool = False
    rest_until_ns: int = 0
    positions: dict[Key, int] = field(default_factory=dict)


class Crew:
    """The threads of a worker, and what they have in flight.

    Args:
        threads: Their numbers, below the plan's concurrency.
        concurrency: Of the whole run: how far a thread's process numbers lie apart.
        worker: The worker's number: the high bits of its op ids.
        generator: The workload.
        clients: Make the clients.
        recorder: Gets every invocation before the request leaves, and every completion.
        clock: The run's.
    """

    def __init__(
        self,
        threads: range,
        *,
        concurrency: int,
        worker: int,
        generator: Generator,
        clients: Clients,
        recorder: Recorder,
        clock: RunClock,
    ) -> None:
        self._concurrency = concurrency
        self._generator = generator
        self._clients = clients
        self._recorder = recorder
        self._clock = clock
        self._next_op_id = worker << WORKER_BITS
        self._sender = clients.sender()
        self._replaced: list[Sender] = []
        self._free = deque(
            _Thread(number=number, process=number, reader=clients.reader(number))
            for number in threads
        )
        self._resting: deque[_Thread] = deque()
        self._in_flight: Counter[Key] = Counter()
        self._graveyard = _Graveyard()
        self.ops: Counter[tuple[F, Outcome]] = Counter()
        self.latencies_ns: list[int] = []
        """Of the sends that ended ok, since whoever shows them emptied the list."""

    @property
    def free(self) -> int:
        """How many processes have no op in flight."""
        return len(self._free)

    @property
    def in_flight(self) -> int:
        """How many ops have begun and not ended."""
        return self._in_flight.total()

    def invoke(self, phase: Phase) -> bool:
        """Start the next op of the process that has been free for longest.

        Returns:
            Whether it did anything: False for a poll that found nothing.
        """
        thread = self._free.popleft()
        now_ns = self._clock.now_ns()
        op = self._generator.next_op(
            Observed(
                now_ns=now_ns,
                phase=phase,
                thread=thread.number,
                assigned=thread.assigned,
                positions=thread.positions,
                in_flight=self._in_flight,
            )
        )
        op_id = self._next_op_id
        self._next_op_id += 1
        invoked_ns = self._clock.now_ns()
        self._recorder.invoked(
            op_id, process=thread.process, f=_F[type(op)], phase=phase, at_ns=invoked_ns
        )
        match op:
            case Send():
                self._send(thread, op_id, op, invoked_ns)
            case Poll():
                return self._poll(thread, op_id, op)
            case Assign():
                self._assign(thread, op_id, op)
            case Crash():
                self._end(
                    thread, op_id, F.CRASH, outcome=Outcome.INFO, error="thrown away on purpose"
                )
        return True

    def serve(self, timeout_s: float) -> None:
        """Wait for reports of sends, at most that long, and replace a producer that is broken."""
        self._sender.serve(timeout_s)
        now_ns = self._clock.now_ns()
        while self._resting and self._resting[0].rest_until_ns <= now_ns:
            self._resting[0].rest_until_ns = 0
            self._free.append(self._resting.popleft())
        for sender in self._replaced:
            sender.serve(0)
        self._replaced = [sender for sender in self._replaced if sender.waiting()]
        if self._sender.fatal:
            self._replaced.append(self._sender)
            self._sender = self._clients.sender()

    def _send(self, thread: _Thread, op_id: int, op: Send, invoked_ns: int) -> None:
        if op.reserved is not None:
            self._recorder.reserve(op.reserved)
        self._recorder.sending(op_id, op)
        self._in_flight[op.key] += 1

        def done(result: SendResult) -> None:
            self._in_flight[op.key] -= 1
            self._recorder.sent(op_id, result)
            if result.outcomes is None:
                self.latencies_ns.append(self._clock.now_ns() - invoked_ns)
            self._end(thread, op_id, F.SEND, outcome=result.worst, error=result.error)

        self._sender.send(op, done)

    def _poll(self, thread: _Thread, op_id: int, op: Poll) -> bool:
        batch = thread.reader.poll(op.limit)
        self._recorder.polled(op_id, batch)
        thread.positions.update(next_positions(batch))
        outcome = Outcome.OK if batch.error is None else Outcome.INFO
        if batch.error is not None:
            # Where the next process starts must not repeat the error, as behind a truncated end.
            thread.positions.clear()
            thread.rest_until_ns = self._clock.now_ns() + REST_NS
        self._end(thread, op_id, F.POLL, outcome=outcome, error=batch.error)
        return len(batch.offsets) > 0

    def _assign(self, thread: _Thread, op_id: int, op: Assign) -> None:
        error = thread.reader.assign(op.starts)
        self._recorder.assigned(
            op_id, process=thread.process, at_ns=self._clock.now_ns(), starts=op.starts
        )
        thread.assigned = True
        thread.positions = {key: offset for key, offset in op.starts.items() if offset is not None}
        if error:
            thread.rest_until_ns = self._clock.now_ns() + REST_NS
        outcome = Outcome.INFO if error else Outcome.OK
        self._end(thread, op_id, F.ASSIGN, outcome=outcome, error=error)

    def _end(
        self, thread: _Thread, op_id: int, f: F, *, outcome: Outcome, error: str | None
    ) -> None:
        self._recorder.completed(op_id, at_ns=self._clock.now_ns(), outcome=outcome, error=error)
        self.ops[f, outcome] += 1
        if outcome is Outcome.INFO:
            self._retire(thread)
        (self._resting if thread.rest_until_ns else self._free).append(thread)

    def _retire(self, thread: _Thread) -> None:
        self._graveyard.bury(thread.reader)
        thread.process += self._concurrency
        thread.reader = self._clients.reader(thread.process)
        thread.assigned = False


_F = {Send: F.SEND, Poll: F.POLL, Assign: F.ASSIGN, Crash: F.CRASH}


def next_positions(batch: Batch) -> dict[Key, int]:
    """Return the offset after the last record of each partition in a batch."""
    ends = accumulate(length for _, length in batch.spans)
    return {
        key: int(batch.offsets[end - 1]) + 1
        for (key, _), end in zip(batch.spans, ends, strict=True)
    }


class _Graveyard:
    """Closes consumers aside: to close one may take as long as a broker is silent."""

    def __init__(self) -> None:
        self._readers: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        threading.Thread(target=self._dig, name="graveyard", daemon=True).start()

    def bury(self, reader: Reader) -> None:
        """Take a consumer that nobody will use any more."""
        self._readers.put(reader)

    def _dig(self) -> None:
        while True:
            self._readers.get().close()
