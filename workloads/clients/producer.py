"""The producer shared by the logical processes of a worker."""

from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from results.record.clock import unix_s
from results.record.contents import messages
from results.record.headers import Header
from results.record.plan import Plan
from results.record.shapes import shape_of
from results.record.terms import Outcome
from results.record.values import VALUE_BYTES, encode_payload
from workloads.clients.failures import DEFINITE, error_name, refusal_outcome, send_outcome
from workloads.clients.settings import producer_settings
from workloads.protocol import Send, SendResult, Values


class UnreachableError(ConnectionError):
    """No broker answered. The message is one sentence."""


class SharedProducer:
    """A confluent-kafka producer, which collects the delivery reports of an op until all are there.

    Args:
        plan: The plan, which decides acks, idempotence, retries, linger, compression and payloads.
        bootstrap: The addresses `host:port,...`.
        worker: The worker's number.
        payload: A function that returns the payload for a value. Each payload begins with its
            value, and the messages have no key and no headers. None means messages in which readers
            can detect damage (`results.record.contents`).
    """

    def __init__(
        self,
        plan: Plan,
        *,
        bootstrap: str,
        worker: int,
        payload: Callable[[int], bytes] | None = None,
    ) -> None:
        self.fatal = False
        self._retries = plan.retries
        self._shape = shape_of(plan)
        self._payload = payload
        settings = producer_settings(plan, bootstrap=bootstrap, worker=worker)
        self._handle = Producer({**settings, "error_cb": self._on_error})

    def send(self, op: Send, done: Callable[[SendResult], None]) -> None:
        """Pass the op's messages to librdkafka.

        If librdkafka refuses a message, the message gets its outcome at once.
        """
        flight = _Flight(op.values, done, retries=self._retries)
        topic, partition = op.key
        produce = self._handle.produce
        at_ms = round(unix_s() * 1000)
        for index, (payload, key, headers) in enumerate(self._messages(op.values, at_ms)):
            report = flight.report if payload is not None else flight.report_of(index)
            try:
                produce(topic, payload, key, partition, report, None, at_ms, headers)
            except BufferError:
                full = KafkaError._QUEUE_FULL  # noqa: SLF001 - a public constant that begins so
                flight.refuse(index, Outcome.FAIL, f"_QUEUE_FULL: {DEFINITE[full]}")
            except KafkaException as refused:
                error = refused.args[0]
                self.fatal = self.fatal or error.fatal()
                flight.refuse(index, refusal_outcome(error), error_name(error))
        flight.settle()

    def serve(self, timeout_s: float) -> None:
        """Wait for delivery reports up to a timeout, in whole milliseconds.

        After a fatal error, `poll` itself raises an exception, whatever the error callback does. An
        error is fatal, for example, if a new leader does not know the sequence of an idempotent
        producer. The delivery reports then come with the next call.
        """
        try:
            self._handle.poll(timeout_s)
        except KafkaException as raised:
            error = raised.args[0]
            if not error.fatal():
                raise
            self.fatal = True

    def waiting(self) -> int:
        """Return how many messages have no delivery report yet."""
        return len(self._handle)

    def check_reachable(self, topic: str, *, timeout_s: float) -> None:
        """Request the topic's metadata.

        Raises:
            UnreachableError: No broker answered in time, or the topic does not exist.
        """
        try:
            answer = self._handle.list_topics(topic, timeout=timeout_s).topics[topic]
        except KafkaException as silent:
            raise UnreachableError(
                f"no broker answered a client within {timeout_s:g} s: {silent.args[0].str()}"
            ) from silent
        if answer.error is not None:
            raise UnreachableError(f"topic {topic} cannot be used: {answer.error.str()}")

    def close(self) -> None:
        """End the client at once. Messages that wait for a delivery report will not get it."""
        # The handle's callback refers to this object. Otherwise both would live until a garbage
        # collection.
        del self._handle

    def _messages(
        self, values: Values, at_ms: int
    ) -> Iterable[tuple[bytes | None, bytes | None, Header | None]]:
        """Return the payload, the key and the headers of each message."""
        if self._payload is None:
            return messages(values, self._shape, at_ms)
        return [(self._payload(value), None, None) for value in values.tolist()]

    def _on_error(self, error: KafkaError) -> None:
        self.fatal = self.fatal or error.fatal()


class _Flight:
    """The messages of one op, between `produce` and their delivery reports."""

    __slots__ = ("_done", "_due", "_failed", "_offsets", "_payloads", "_refused", "_retries",
                 "_values")  # fmt: skip

    def __init__(
        self, values: Values, done: Callable[[SendResult], None], *, retries: int | None
    ) -> None:
        self._values = values
        self._done = done
        self._retries = retries
        self._due = len(values)
        self._payloads: list[bytes | None] = []
        self._offsets: list[int | None] = []
        self._failed: list[tuple[int, KafkaError]] = []
        self._refused: dict[int, tuple[Outcome, str]] = {}

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Record a delivery report. No other Python code runs for each message.

        The message object itself is not kept, so the next report can use the same memory, which is
        still in the processor's cache.
        """
        payloads = self._payloads
        if error is not None:
            self._failed.append((len(payloads), error))
        payloads.append(message.value())
        self._offsets.append(message.offset())
        if len(payloads) == self._due:
            self._done(self._result())

    def report_of(self, index: int) -> Callable[[KafkaError | None, Message], None]:
        """Return the callback for the delivery report of a tombstone, which contains no payload."""

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed.append((len(self._payloads), error))
            self._payloads.append(encode_payload(int(self._values[index]), VALUE_BYTES))
            self._offsets.append(message.offset())
            if len(self._payloads) == self._due:
                self._done(self._result())

        return report

    def refuse(self, index: int, outcome: Outcome, error: str) -> None:
        """Record a message that librdkafka refused."""
        self._refused[index] = (outcome, error)
        self._due -= 1

    def settle(self) -> None:
        """End the op at once if no message is in flight; only `serve` handles reports."""
        if self._due == 0:
            self._done(self._result())

    def _result(self) -> SendResult:
        offsets = np.full(len(self._values), -1, dtype=np.int64)
        indices = self._indices()
        offsets[indices] = _known(self._offsets)
        if not self._refused and not self._failed:
            return SendResult(offsets=offsets)
        outcomes = [Outcome.OK] * len(offsets)
        reasons: list[str | None] = [None] * len(offsets)
        for place, error in self._failed:
            index = int(indices[place])
            outcomes[index] = send_outcome(error, retries=self._retries)
            reasons[index] = error_name(error)
            offsets[index] = -1
        for index, (outcome, reason) in self._refused.items():
            outcomes[index], reasons[index] = outcome, reason
        return SendResult(offsets=offsets, outcomes=outcomes, errors=reasons)

    def _indices(self) -> Values:
        """Return, for each report, the message's index in the op. Reports may come in any order."""
        if not self._payloads:
            return np.empty(0, dtype=np.int64)
        payloads = cast("list[bytes]", self._payloads)
        if len(set(map(len, payloads))) > 1:
            payloads = [payload[:VALUE_BYTES] for payload in payloads]
        heads = np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(payloads), -1)
        values = heads[:, :VALUE_BYTES].copy().view(">i8").ravel().astype(np.int64)
        indices: Values = values - self._values[0]
        return indices


def _known(offsets: list[int | None]) -> Values:
    """Return the offsets; -1 stands for an offset that the broker did not send."""
    try:
        return np.fromiter(cast("list[int]", offsets), np.int64, len(offsets))
    except TypeError:  # At least one of them is None.
        return np.array([-1 if offset is None else offset for offset in offsets], np.int64)
