"""The transactional producer of one thread, in Java.

The rules are the same as for librdkafka (`workloads/clients/transactions.py`). The commit is sent
only after all sends have responses. If something failed before, the transaction is aborted. A
producer in an unknown state is dropped, and the next producer fences it.

If Kafka's own client is closed normally, it first ends its transaction. But this module closes the
client without waiting, so the transaction stays open, and the next producer with the same id ends
it.
"""

from collections.abc import Mapping
from typing import cast

from results.record.clock import pause_until, stopwatch_s, unix_s
from results.record.contents import messages
from results.record.identities import transactional_id
from results.record.plan import Plan
from results.record.shapes import shape_of
from results.record.terms import Decision, Outcome, TransactionOutcome
from workloads.clients.course import CRASHED, ON_PURPOSE, Course
from workloads.clients.java.bridge import AskedError, Bridge, Seat
from workloads.clients.java.frames import (
    Ask,
    Membership,
    Role,
    Tell,
    Told,
    places,
    sending,
    told_report,
    told_text,
)
from workloads.clients.java.settings import transactional_settings
from workloads.protocol import Delivery, End, Key, Reader, Send, Txn, TxnResult

_GRACE_S = 2.0
"""How many seconds a call may take beyond its own timeout."""
_TRIES, _TIMED_OUT = 3, "TimeoutException:"
"""For clients that continue after timeouts: the number of attempts of a coordinator call, and the
prefix of errors after which the call is retried."""
_NUMBER_BITS = 20
"""In the number of a frame, this many low bits are the index of the micro-operation. The higher
bits are the number of the transaction."""
_BROKEN = (AskedError, TimeoutError)
"""Errors that a call may raise. If the JVM has ended, the worker ends."""


class JavaTransactor:
    """Kafka's own producer with a `transactional.id`, and its successors.

    Args:
        bridge: The worker's JVM.
        plan: The plan, which decides the transaction timeout, linger, compression and payloads.
        bootstrap: The addresses `host:port,...`.
        thread: The thread's number, below the plan's concurrency.
    """

    def __init__(self, bridge: Bridge, plan: Plan, *, bootstrap: str, thread: int) -> None:
        self.transactional_id = transactional_id(thread, plan)
        self._bridge = bridge
        self._settings = transactional_settings(plan, bootstrap=bootstrap, thread=thread)
        self._limit_s = plan.transaction_timeout_s
        self._goes_on = plan.goes_on
        self._turn = 0
        self._shape = shape_of(plan)
        self._seat: Seat | None = None
        self._unanswered: set[int] = set()
        self._course: Course | None = None

    def transact(self, op: Txn, reader: Reader, starts: Mapping[Key, int]) -> TxnResult:
        """Execute a transaction; it takes at most a few times the transaction timeout."""
        course = self._course = Course(op)
        self._unanswered.clear()
        self._turn += 1
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
            seat = self._begin()
            for done, (number, mop) in enumerate(zip(op.numbers, op.mops, strict=True), 1):
                if isinstance(mop, Send):
                    self._send(seat, mop, number)
                else:
                    course.batches.append((number, reader.poll(mop.limit)))
                if op.pause_s and done == op.pause_after:
                    self._served(seat)
                    pause_until(stopwatch_s() + op.pause_s)
            positions = course.positions(starts) if op.commits_positions or op.handles else {}
            if positions:
                member = cast("Membership", reader.membership())
                self._ask(seat, Ask.OFFSETS, member.packed() + places(positions))
            self._served(seat)
        except _BROKEN as broken:
            return str(broken)
        if self._unanswered:
            return f"sends were not answered within {self._limit_s:g} s"
        return course.trouble()

    def _begin(self) -> Seat:
        seat = self._seat
        if seat is None:
            settings = self._settings
            seat = self._seat = self._bridge.open(Role.PRODUCER, settings.plans, settings.own)
            try:
                self._ask(seat, Ask.INIT)
            except _BROKEN:
                self._discard()
                raise
        self._ask(seat, Ask.BEGIN)
        return seat

    def _ask(self, seat: Seat, kind: Ask, body: bytes = b"") -> None:
        """Make a call that waits for a coordinator. If the call does not return, drop the producer.

        Raises:
            AskedError: The client refused the call, or the client's own timeout was over.
            TimeoutError: The client did not respond.
        """
        try:
            seat.ask(kind, body, limit_s=self._limit_s + _GRACE_S, on_event=self._take)
        except TimeoutError:
            self._discard()
            raise

    def _send(self, seat: Seat, mop: Send, number: int) -> None:
        at_ms = round(unix_s() * 1000)
        sent = messages(mop.values, self._shape, at_ms)
        self._unanswered.add(number)
        turn = self._turn << _NUMBER_BITS
        seat.tell(Ask.SEND, sending(turn | number, mop, sent, at_ms))

    def _served(self, seat: Seat) -> None:
        """Handle delivery reports until all reports have come, or until the time is over.

        Raises:
            AskedError: The client could not even begin to send.
        """
        deadline_s = stopwatch_s() + self._limit_s
        while self._unanswered and (left_s := deadline_s - stopwatch_s()) > 0:
            told = seat.next(left_s)
            if told is not None:
                self._take(told)

    def _take(self, told: Told) -> None:
        """Record the results of a micro-operation's sends."""
        if told.kind is Tell.FAILED:
            raise AskedError(told_text(told.body))
        report, course = told_report(told.body), self._course
        assert course is not None, "only a transaction sends"
        turn, number = divmod(report.op, 1 << _NUMBER_BITS)
        if turn != self._turn:
            return  # The report of an earlier transaction, which was given up.
        self._unanswered.discard(number)
        errors = {each.index: each.error for each in report.faults}
        for index, offset in enumerate(report.offsets.tolist()):
            delivery = (
                Delivery(error=errors[index])
                if index in errors
                else Delivery(offset=offset if offset >= 0 else None, acked=True, error=None)
            )
            course.delivered(number + index, delivery)

    def _abort(self, *, answered: bool) -> TransactionOutcome:
        """Abort. If the result is unknown, drop the producer. The next producer then fences it.

        If sends have no response yet, they may still be written after the abort. So their producer
        is also dropped, except if the plan lets producers continue.
        """
        seat = self._seat
        if seat is None or not (answered or self._goes_on):
            self._discard()
            return TransactionOutcome.UNKNOWN
        try:
            self._patiently(seat, Ask.ABORT_TXN)
        except _BROKEN:
            self._discard()
            return TransactionOutcome.UNKNOWN
        return TransactionOutcome.ABORTED

    def _patiently(self, seat: Seat, kind: Ask) -> None:
        """Call a coordinator; retry if the client continues after timeouts."""
        for _ in range(_TRIES - 1 if self._goes_on else 0):
            try:
                self._ask(seat, kind)
            except AskedError as failed:
                if not str(failed).startswith(_TIMED_OUT):
                    raise
            else:
                return
        self._ask(seat, kind)

    def _commit(self, course: Course) -> TxnResult:
        seat = self._seat
        assert seat is not None, "a transaction was begun"
        try:
            self._patiently(seat, Ask.COMMIT_TXN)
        except _BROKEN as broken:
            self._discard()
            return course.result(
                Outcome.INFO, Decision.COMMIT, TransactionOutcome.UNKNOWN, str(broken)
            )
        return course.result(Outcome.OK, Decision.COMMIT, TransactionOutcome.COMMITTED, None)

    def _discard(self) -> None:
        """Drop the producer without waiting for its end."""
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.close()
