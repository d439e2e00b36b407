"""The transactional producer of one thread, which executes whole transactions.

The calls of the producer wait for the coordinator, and each call has a timeout. So these calls run
outside the worker's loop. The `transactional.id` belongs to the thread. The next producer with this
id fences the previous producer and aborts the open transaction (KIP-98). So a producer in an
unknown state is dropped and replaced.

The commit is sent only after all messages are flushed and have responses. A failure before the
commit leads to an abort. After an abort no commit is ever sent, so the transaction certainly cannot
commit. The abort ends the transaction, or the next producer fences it, or `transaction.timeout.ms`
passes. After the commit was sent, only the response to it decides the outcome.

With `after_timeout = "go-on"` a client is less careful, as most applications are. After a timeout
it aborts, and begins the next transaction with the same producer.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from results.record.clock import pause_until, stopwatch_s, unix_s
from results.record.contents import messages
from results.record.identities import transactional_id
from results.record.plan import Plan
from results.record.shapes import shape_of
from results.record.terms import Decision, Outcome, TransactionOutcome
from workloads.clients.course import CRASHED, ON_PURPOSE, Course
from workloads.clients.failures import error_name
from workloads.clients.settings import transactional_settings
from workloads.protocol import Delivery, End, Key, Reader, Send, Txn, TxnResult

_GRACE_S = 2.0
"""How many seconds a call may take beyond its own timeout."""
_TRIES = 3
"""The number of attempts of a coordinator call if the client continues after timeouts."""
_BROKEN = (KafkaException, TimeoutError, SystemError)
"""Errors that a call may raise. The Python client raises a fatal error while it still handles
reports. Calls in the callbacks of these reports then raise SystemError, and the fatal error is
lost."""


class TransactionalProducer:
    """A confluent-kafka producer with a `transactional.id`, and its successors.

    Args:
        plan: The plan, which decides the transaction timeout, linger, compression and payloads.
        bootstrap: The addresses `host:port,...`.
        thread: The thread's number, below the plan's concurrency.
    """

    def __init__(self, plan: Plan, *, bootstrap: str, thread: int) -> None:
        self.transactional_id = transactional_id(thread, plan)
        self._settings = transactional_settings(plan, bootstrap=bootstrap, thread=thread)
        self._limit_s = plan.transaction_timeout_s
        self._goes_on = plan.goes_on
        self._shape = shape_of(plan)
        self._handle: Producer | None = None
        self._caller = ThreadPoolExecutor(1)

    def transact(self, op: Txn, reader: Reader, starts: Mapping[Key, int]) -> TxnResult:
        """Execute a transaction; it takes at most a few times the transaction timeout."""
        course = Course(op)
        trouble = self._until_the_end(op, reader, starts, course)
        if op.end is End.CRASH:
            self._discard()
            return course.result(
                Outcome.INFO, Decision.ABORT, TransactionOutcome.UNKNOWN, trouble or CRASHED
            )
        if trouble or op.end is End.ABORT:
            ended = self._abort(answered=course.answered)
            return course.result(Outcome.FAIL, Decision.ABORT, ended, trouble or ON_PURPOSE)
        return self._commit(course)

    def close(self) -> None:
        """End the client at once, even with an open transaction."""
        self._discard()

    def _until_the_end(
        self, op: Txn, reader: Reader, starts: Mapping[Key, int], course: Course
    ) -> str | None:
        """Begin, send, poll and flush. Return the error, or None if all sends have responses."""
        try:
            producer = self._begin()
            for done, (number, mop) in enumerate(zip(op.numbers, op.mops, strict=True), 1):
                if isinstance(mop, Send):
                    self._send(producer, mop, course, number)
                else:
                    course.batches.append((number, reader.poll(mop.limit)))
                if op.pause_s and done == op.pause_after:
                    self._served(producer)
                    pause_until(stopwatch_s() + op.pause_s)
            if op.commits_positions or op.handles:
                self._add_positions(producer, reader, course.positions(starts))
            unanswered = self._served(producer)
        except BufferError:
            return "the client's own queue was full"
        except _BROKEN as broken:
            return _why(broken)
        if unanswered:
            return f"{unanswered} sends were not answered within {self._limit_s:g} s"
        return course.trouble()

    def _served(self, producer: Producer) -> int:
        """Handle reports until all have come or the time is over; return how many are missing.

        After a fatal error, `poll` stops at the error, but `flush` handles further reports.
        """
        deadline_s = stopwatch_s() + self._limit_s
        while (left := len(producer)) and (now_s := stopwatch_s()) < deadline_s:
            producer.poll(deadline_s - now_s)
        return left

    def _begin(self) -> Producer:
        if self._handle is None:
            handle = Producer(self._settings)
            self._ask(lambda: handle.init_transactions(self._limit_s))
            self._handle = handle
        self._handle.begin_transaction()
        return self._handle

    def _ask(self, call: Callable[[], None]) -> None:
        """Make a call that waits for a coordinator. If the call does not return, drop the producer.

        If the coordinator is down, `send_offsets_to_transaction` ignores its own timeout
        (https://github.com/confluentinc/librdkafka/issues/5456) and may hang forever.

        Raises:
            TimeoutError: The call did not return in time.
        """
        try:
            self._caller.submit(call).result(self._limit_s + _GRACE_S)
        except TimeoutError:
            self._caller = ThreadPoolExecutor(1)
            self._discard()
            raise TimeoutError(
                f"a call of the client did not return in {self._limit_s:g} s"
            ) from None

    def _send(self, producer: Producer, mop: Send, course: Course, number: int) -> None:
        topic, partition = mop.key
        at_ms = round(unix_s() * 1000)
        sent = messages(mop.values, self._shape, at_ms)
        for at, (payload, key, headers) in enumerate(sent, number):
            report = _reporter(course, at)
            producer.produce(topic, payload, key, partition, report, None, at_ms, headers)

    def _add_positions(
        self, producer: Producer, reader: Reader, positions: Mapping[Key, int]
    ) -> None:
        if positions:
            offsets = [TopicPartition(*key, offset) for key, offset in positions.items()]
            member = reader.membership()
            self._ask(lambda: producer.send_offsets_to_transaction(offsets, member, self._limit_s))

    def _abort(self, *, answered: bool) -> TransactionOutcome:
        """Abort. If the result is unknown, drop the producer. The next producer then fences it.

        If sends have no response yet, the producer is also dropped, except if the plan lets it
        continue. The reason: an abort would drop messages that wait for a retry. librdkafka would
        then reuse their sequence numbers in the same epoch. If the first attempt was written after
        all, the broker takes the next transaction's record for a duplicate. The broker then
        acknowledges a record that it never writes.
        """
        producer = self._handle
        if producer is None or not (answered or self._goes_on):
            self._discard()
            return TransactionOutcome.UNKNOWN
        try:
            self._patiently(lambda: producer.abort_transaction(self._limit_s))
        except _BROKEN:
            self._discard()
            return TransactionOutcome.UNKNOWN
        return TransactionOutcome.ABORTED

    def _patiently(self, call: Callable[[], None]) -> None:
        """Call a coordinator; retry if the client continues after timeouts."""
        for _ in range(_TRIES - 1 if self._goes_on else 0):
            try:
                self._ask(call)
            except KafkaException as failed:
                if not failed.args[0].retriable():
                    raise
            else:
                return
        self._ask(call)

    def _commit(self, course: Course) -> TxnResult:
        producer = self._handle
        assert producer is not None, "a transaction was begun"
        try:
            self._patiently(lambda: producer.commit_transaction(self._limit_s))
        except _BROKEN as broken:
            self._give_up(broken)
            return course.result(
                Outcome.INFO, Decision.COMMIT, TransactionOutcome.UNKNOWN, _why(broken)
            )
        return course.result(Outcome.OK, Decision.COMMIT, TransactionOutcome.COMMITTED, None)

    def _give_up(self, broken: BaseException) -> None:
        """After a failed commit, abort if the client continues after timeouts.

        Otherwise drop the producer.
        """
        if isinstance(broken, KafkaException) and broken.args[0].txn_requires_abort():
            self._abort(answered=False)
        else:
            self._discard()

    def _discard(self) -> None:
        """Drop the producer in a thread, because the destruction waits for connections to close."""
        handle, self._handle = self._handle, None
        if handle is not None:
            threading.Thread(target=_end, args=[[handle]], daemon=True).start()
            del handle


def _end(handles: list[Producer]) -> None:
    """Destroy a producer: remove the last reference to it, which is in this list."""
    handles.clear()


def _why(broken: KafkaException | TimeoutError | SystemError) -> str:
    if isinstance(broken, KafkaException):
        return error_name(broken.args[0])
    return str(broken)


def _reporter(course: Course, at: int) -> Callable[[KafkaError | None, Message], None]:
    """Return the callback for the delivery report of the message with index `at` in the op."""

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            course.delivered(at, Delivery(offset=message.offset(), acked=True, error=None))
        else:
            course.delivered(at, Delivery(error=error_name(error)))

    return report
