"""The transactional producer of one thread, which carries whole transactions out.

Its calls wait for the coordinator, each with a limit, so it is used aside of the worker's loop. The
`transactional.id` is the thread's: whoever comes next with it fences the one before, and what that
one left open is aborted (KIP-98). So a producer of which nobody knows how far it came is thrown
away, and another one takes its place.

What is certain: everything is flushed and answered before the commit is sent. Until then a failure
leads to an abort, and since no commit will ever be sent the transaction cannot commit: by the
abort, by the fence, or by `transaction.timeout.ms`. After that, only the answer tells.

With `after_timeout = "go-on"` a client is less careful, as most applications are: after a time-out
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
"""What a call may take beyond its own limit."""
_TRIES = 3
"""Of a call to a coordinator, by a client that goes on after time-outs."""
_BROKEN = (KafkaException, TimeoutError, SystemError)
"""What a call may raise. The Python client raises a fatal error while it is still handing on
reports; whatever those call then is a SystemError, and the fatal error is lost."""


class TransactionalProducer:
    """A confluent-kafka producer with a `transactional.id`, and those that follow it.

    Args:
        plan: Decides the transaction timeout, linger, compression and payloads.
        bootstrap: `host:port,...`.
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
        """Carry a transaction out; it takes a few times the transaction timeout at most."""
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
        """End the client at once, whatever it has open."""
        self._discard()

    def _until_the_end(
        self, op: Txn, reader: Reader, starts: Mapping[Key, int], course: Course
    ) -> str | None:
        """Begin, send, poll and flush; return what went wrong, None if all is answered."""
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
        """Serve reports until all are in, or the limit is over; return how many are not.

        `flush` goes on with reports when a fatal error is raised in between; `poll` stops there.
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
        """Call what waits for a coordinator; a producer that never returns is thrown away.

        With its coordinator down, `send_offsets_to_transaction` forgets its own limit
        (https://github.com/confluentinc/librdkafka/issues/5456), and may hang for good.

        Raises:
            TimeoutError: It did not return in time.
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
        """Abort; a producer of which that is not known is thrown away, and so fenced.

        Also one with sends that were not answered, unless the plan has it go on: its abort drops
        what waits to be sent once more, and librdkafka then uses those sequence numbers again, in
        the same epoch. If the first try was written after all, the broker takes the next
        transaction's record for a copy of it, and acknowledges what it never writes.
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
        """Ask a coordinator; whoever goes on after time-outs asks it again."""
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
        """Abort what could not be committed if its client goes on, else discard the producer."""
        if isinstance(broken, KafkaException) and broken.args[0].txn_requires_abort():
            self._abort(answered=False)
        else:
            self._discard()

    def _discard(self) -> None:
        """Throw the producer away; its end waits for its connections, so nobody waits for it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            threading.Thread(target=_end, args=[[handle]], daemon=True).start()
            del handle


def _end(handles: list[Producer]) -> None:
    """Destroy the handle of a list: the last reference must be dropped here."""
    handles.clear()


def _why(broken: KafkaException | TimeoutError | SystemError) -> str:
    if isinstance(broken, KafkaException):
        return error_name(broken.args[0])
    return str(broken)


def _reporter(course: Course, at: int) -> Callable[[KafkaError | None, Message], None]:
    """Return what takes the delivery report of a value, by its number in the record."""

    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            course.delivered(at, Delivery(offset=message.offset(), acked=True, error=None))
        else:
            course.delivered(at, Delivery(error=error_name(error)))

    return report
