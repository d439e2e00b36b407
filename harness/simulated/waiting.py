"""Simulated clients for code that waits: a story's, one op at a time, as virtual time passes."""

from collections import deque
from collections.abc import Callable, Mapping

from harness.simulated.consumer import Consumer
from harness.simulated.producer import Done, Producer
from results.record.clock import pause_until, stopwatch_s
from results.record.runtime import new_event
from workloads.protocol import Batch, Key, Send, SendResult

LOOK_EVERY_S = 0.01
"""How late a poll may return what was fetched."""


class WaitingSender:
    """Implements `workloads.protocol.LoneSender`.

    Args:
        producer: The machine that sends.
        end: Ends it.
    """

    def __init__(self, producer: Producer, end: Callable[[], None]) -> None:
        self.fatal = False
        self._producer, self._end = producer, end
        self._came = new_event()
        self._reports: deque[tuple[Done, SendResult]] = deque()

    def send(self, op: Send, done: Done) -> None:
        """Start an op; its report comes with `serve`."""

        def came(result: SendResult) -> None:
            self._reports.append((done, result))
            self._came.set()

        self._producer.send(op, came)

    def serve(self, timeout_s: float) -> None:
        """Wait for reports, at most that long, and hand them on."""
        self._came.wait(timeout_s)
        self._came.clear()
        while self._reports:
            done, result = self._reports.popleft()
            done(result)

    def waiting(self) -> int:
        """Return how many messages have no report yet."""
        return self._producer.waiting

    def check_reachable(self, topic: str, *, timeout_s: float) -> None:
        """Ask nothing: an op's messages are one batch, whenever their leader is found."""

    def close(self) -> None:
        """End it at once."""
        self._end()


class WaitingReader:
    """Implements `workloads.protocol.Reader`.

    Args:
        consumer: The machine that fetches.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def assign(self, starts: Mapping[Key, int | None]) -> str | None:
        """Read these partitions from now on."""
        return self._consumer.assign(starts)

    def poll(self, limit: int, timeout_s: float = 0) -> Batch:
        """Return what was fetched, waiting for it, for the end or an error at most that long."""
        deadline_s = stopwatch_s() + timeout_s
        while True:
            batch, now_s = self._consumer.poll(limit), stopwatch_s()
            if len(batch.offsets) or batch.ends or batch.error or now_s >= deadline_s:
                return batch
            pause_until(min(deadline_s, now_s + LOOK_EVERY_S))

    def membership(self) -> object:
        """Transactions are not simulated."""
        return self._consumer.membership()

    def close(self) -> None:
        """End it at once."""
        self._consumer.close()
