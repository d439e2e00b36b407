"""A simulated producer: it sends messages as batches to the partitions' leaders.

The producer is a state machine, like a simulated broker: it receives events, and returns effects.
Each partition has a lane, with its own producer id and one batch in flight. So a retry keeps the
order of the batches. If a batch's outcome stays unknown, the lane gets a new producer id. Real
clients increase their epoch instead (KIP-360).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from kio.schema.errors import ErrorCode
from msgspec import Struct

from cluster.reference.machine import Answered, Effect, Event, Fired, timer
from cluster.reference.messages.clients import InitProducerIdRequest, InitProducerIdResponse
from cluster.reference.messages.data import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from harness.simulated.asking import BACKOFF_NS, MS, Questions
from harness.simulated.encoding import record_batch
from harness.simulated.leaders import Leaders
from results.record.clock import pause_until, stopwatch_s
from results.record.contents import message_payload
from results.record.plan import Plan
from results.record.runtime import new_event
from results.record.terms import Outcome
from workloads.protocol import Key, Send, SendResult

MOST_BYTES = 900_000
_ACKS = {"0": 0, "1": 1, "all": -1}
_EPOCH_MS = 1_700_000_000_000
"""The timestamp of the first records. The value is arbitrary, but must be equal in all runs."""
_TIMED_OUT = "_MSG_TIMED_OUT: Local: Message timed out"

REFUSED_BEFORE_THE_APPEND = frozenset({
    ErrorCode.invalid_record, ErrorCode.corrupt_message, ErrorCode.message_too_large,
    ErrorCode.record_list_too_large,
})  # fmt: skip
"""Errors that a broker reports before it appends. If the first try of a batch fails with such an
error, the batch was not written."""

Done = Callable[[SendResult], None]


class _Entry(Struct, eq=False, kw_only=True):
    values: list[int]
    deadline_ns: int
    done: Done


class _Flight(Struct, eq=False, kw_only=True):
    entries: list[_Entry]
    data: bytes
    tries: int = 0
    asked: bool = False


@dataclass(slots=True)
class _Lane:
    key: Key
    linger: str
    """The name of the timer that ends the lane's linger time."""
    waiting: deque[_Entry] = field(default_factory=deque)
    flight: _Flight | None = None
    producer: tuple[int, int] | None = None
    sequence: int = 0
    asks_id: bool = False
    rests_until_ns: int = 0


class Producer:
    """The state machine of a producer. It implements `workloads.protocol.LoneSender`.

    Args:
        plan: The plan, which determines acks, idempotence, retries and limits.
        leaders: The known leaders.
        wake: The function that triggers the timer `WORK` at once, because a call came from outside.
        clock: The function that returns the virtual time, as it is in the run's record.
        lone: Whether the producer sends only a few named messages, as in a scenario. If so, `serve`
            returns as soon as a delivery report comes.

    Attributes:
        end: The function that ends the machine.
    """

    def __init__(
        self,
        plan: Plan,
        leaders: Leaders,
        *,
        wake: Callable[[], None],
        clock: Callable[[], int],
        lone: bool = False,
    ) -> None:
        self._plan, self._leaders, self._wake, self._clock = plan, leaders, wake, clock
        self._acks = _ACKS[plan.acks]
        self._delivery_ns = round(plan.delivery_timeout_s * 1000) * MS
        self._linger_ns = round(plan.linger_ms * MS)
        self._idempotent, self._payload_bytes = plan.idempotent, plan.payload_bytes
        self._payload = message_payload if lone else None
        self._came = new_event() if lone else None
        self._lanes = {key: _Lane(key, f"linger-{key}") for key in plan.topic_partitions}
        self._questions = Questions()
        self._waiting = 0
        self.fatal = False
        self.end: Callable[[], None] = lambda: None

    def send(self, op: Send, done: Done) -> None:
        """Queue an op. The callback `done` receives the result later."""
        lane = self._lanes[op.key]
        deadline_ns = self._clock() + self._delivery_ns
        lane.waiting.append(_Entry(values=op.values.tolist(), deadline_ns=deadline_ns, done=done))
        self._waiting += len(op.values)
        if lane.flight is None:
            self._wake()

    def serve(self, timeout_s: float) -> None:
        """Let virtual time pass, so that the producer can work."""
        if self._came is not None:
            self._came.wait(timeout_s)
            self._came.clear()
        elif timeout_s > 0:
            pause_until(stopwatch_s() + timeout_s)

    def waiting(self) -> int:
        """Return how many messages have no delivery report yet."""
        return self._waiting

    def check_reachable(self, topic: str, *, timeout_s: float) -> None:
        """Do nothing: the messages of an op form one batch, even if the leader is found later."""

    def close(self) -> None:
        """End the producer's machine. Messages that have no delivery report yet never get one."""
        self.end()

    def start(self, now: int) -> Sequence[Effect]:
        """Start the machine, and ask for the leaders."""
        return [*self._leaders.refreshed(now, self._questions), timer("expire", 1000 * MS)]

    def on(self, now: int, event: Event) -> Sequence[Effect]:
        """Handle an event."""
        out: list[Effect] = []
        match event:
            case Fired(timer="expire"):
                out.append(timer("expire", 250 * MS))
                self._expire()
                self._work(now, out)
            case Fired():
                self._work(now, out)
            case Answered(request=number, message=message):
                self._questions.answered(now, number, message)
                self._work(now, out)
            case _:
                pass
        return out

    def _work(self, now: int, out: list[Effect]) -> None:
        for lane in self._lanes.values():
            flight = lane.flight
            if flight is None and lane.waiting:
                self._fill(lane, now, out)
                flight = lane.flight
            if flight is not None and not flight.asked:
                self._put_out(lane, flight, now, out)

    def _fill(self, lane: _Lane, now: int, out: list[Effect]) -> None:
        """If the oldest waiting op has waited for the linger time, build a batch from the ops."""
        oldest_ns = lane.waiting[0].deadline_ns - self._delivery_ns
        left_ns = oldest_ns + self._linger_ns - self._clock()
        if left_ns > 0:
            out.append(timer(lane.linger, left_ns))
            return
        if self._idempotent and lane.producer is None:
            self._ask_id(lane, now, out)
            return
        entries: list[_Entry] = []
        values: list[int] = []
        while lane.waiting and (not entries or len(values) * self._payload_bytes < MOST_BYTES):
            entries.append(lane.waiting.popleft())
            values += entries[-1].values
        producer = (*lane.producer, lane.sequence) if lane.producer else (-1, -1, -1)
        lane.sequence = (lane.sequence + len(values)) & 0x7FFF_FFFF
        data = record_batch(
            values,
            payload_bytes=self._payload_bytes,
            producer=producer,
            at_ms=_EPOCH_MS + self._clock() // MS,
            payload=self._payload,
        )
        lane.flight = _Flight(entries=entries, data=data)

    def _ask_id(self, lane: _Lane, now: int, out: list[Effect]) -> None:
        if not lane.asks_id and lane.rests_until_ns <= now:
            lane.asks_id = True
            taker = partial(self._take_id, lane)
            out.append(self._questions.ask(self._leaders.someone(), InitProducerIdRequest(), taker))

    def _put_out(self, lane: _Lane, flight: _Flight, now: int, out: list[Effect]) -> None:
        leader = self._leaders.of(lane.key)
        if lane.rests_until_ns > now:
            return
        if leader is None:
            out += self._leaders.refreshed(now, self._questions)
            return
        topic, partition = lane.key
        records = ProducePartition(topic=topic, partition=partition, records=flight.data)
        flight.asked, flight.tries = True, flight.tries + 1
        request = ProduceRequest(acks=self._acks, timeout_ms=10_000, partitions=(records,))
        out.append(self._questions.ask(leader[0], request, partial(self._produced, lane, flight)))
        if self._acks == 0:
            self._succeed(lane, flight, -1)

    def _take_id(self, lane: _Lane, now: int, message: object) -> None:
        lane.asks_id = False
        if isinstance(message, InitProducerIdResponse) and message.error_code is ErrorCode.none:
            lane.producer, lane.sequence = (message.producer_id, message.producer_epoch), 0
        else:
            lane.rests_until_ns = now + BACKOFF_NS

    def _produced(self, lane: _Lane, flight: _Flight, now: int, message: object) -> None:
        if lane.flight is not flight:
            return  # The batch timed out, or acks is 0.
        produced = message.partitions[0] if isinstance(message, ProduceResponse) else None
        error = produced.error_code if produced else ErrorCode.network_exception
        if error is ErrorCode.none and produced is not None:
            self._succeed(lane, flight, produced.base_offset)
        elif error is ErrorCode.duplicate_sequence_number:
            self._succeed(lane, flight, -1)  # The batch was written, at an unknown offset.
        elif self._may_retry(flight, error):
            flight.asked = False
            lane.rests_until_ns = now + BACKOFF_NS
            self._leaders.forget(lane.key)
        else:
            self._fail(lane, flight, error)

    def _may_retry(self, flight: _Flight, error: ErrorCode) -> bool:
        """Return whether the same batch may be sent again."""
        if not error.retriable or error in REFUSED_BEFORE_THE_APPEND:
            return False
        return self._plan.retries is None or flight.tries <= self._plan.retries

    def _succeed(self, lane: _Lane, flight: _Flight, base_offset: int) -> None:
        lane.flight, known = None, base_offset >= 0
        for entry in flight.entries:
            count = len(entry.values)
            if known:
                offsets = np.arange(base_offset, base_offset + count, dtype=np.int64)
                base_offset += count
            else:
                offsets = np.full(count, -1, dtype=np.int64)
            self._end(entry, SendResult(offsets=offsets))

    def _fail(self, lane: _Lane, flight: _Flight, error: ErrorCode) -> None:
        definite = flight.tries == 1 and (
            error in REFUSED_BEFORE_THE_APPEND
            or (self._plan.retries == 0 and error is ErrorCode.not_enough_replicas)
        )
        outcome = Outcome.FAIL if definite else Outcome.INFO
        lane.flight = lane.producer = None
        self._lose(flight.entries, outcome, f"{error.name.upper()}: from the broker")

    def _expire(self) -> None:
        """Time out old ops. If an op was sent, its outcome stays unknown."""
        now_ns = self._clock()
        for lane in self._lanes.values():
            while lane.waiting and lane.waiting[0].deadline_ns <= now_ns:
                self._lose([lane.waiting.popleft()], Outcome.INFO, _TIMED_OUT)
            flight = lane.flight
            if flight is not None and flight.entries[0].deadline_ns <= now_ns:
                lane.flight = lane.producer = None
                self._lose(flight.entries, Outcome.INFO, _TIMED_OUT)

    def _lose(self, entries: Sequence[_Entry], outcome: Outcome, error: str) -> None:
        for entry in entries:
            count = len(entry.values)
            result = SendResult(
                offsets=np.full(count, -1, dtype=np.int64),
                outcomes=[outcome] * count,
                errors=[error] * count,
            )
            self._end(entry, result)

    def _end(self, entry: _Entry, result: SendResult) -> None:
        self._waiting -= len(entry.values)
        entry.done(result)
        if self._came is not None:
            self._came.set()
