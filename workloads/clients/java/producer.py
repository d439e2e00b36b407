"""The producer shared by the logical processes of a worker, in Java."""

from collections.abc import Callable
from itertools import count

from results.record.clock import unix_s
from results.record.contents import messages
from results.record.plan import Plan
from results.record.shapes import shape_of
from results.record.terms import Outcome
from workloads.clients.java.bridge import AskedError, Bridge, BridgeError, limited
from workloads.clients.java.failures import send_outcome
from workloads.clients.java.frames import (
    THROWN,
    Ask,
    Report,
    Role,
    Tell,
    sending,
    text,
    told_report,
    told_text,
)
from workloads.clients.java.settings import producer_settings
from workloads.clients.producer import UnreachableError
from workloads.protocol import Send, SendResult

_GRACE_S = 10.0
"""How many seconds a request may take beyond its own timeout."""
_Done = Callable[[SendResult], None]


class JavaProducer:
    """Kafka's own producer. It implements `workloads.protocol.Sender`.

    Args:
        bridge: The worker's JVM.
        plan: The plan, which decides acks, idempotence, retries, linger, compression and payloads.
        bootstrap: The addresses `host:port,...`.
        worker: The worker's number.
    """

    def __init__(self, bridge: Bridge, plan: Plan, *, bootstrap: str, worker: int) -> None:
        self.fatal = False
        self._retries = plan.retries
        self._shape = shape_of(plan)
        settings = producer_settings(plan, bootstrap=bootstrap, worker=worker)
        self._seat = bridge.open(Role.PRODUCER, settings.plans, settings.own)
        self._numbers = count()
        self._flights: dict[int, tuple[int, _Done]] = {}

    def send(self, op: Send, done: _Done) -> None:
        """Send the op's messages to the JVM in one frame."""
        number, at_ms = next(self._numbers), round(unix_s() * 1000)
        sent = messages(op.values, self._shape, at_ms)
        self._flights[number] = (len(op.values), done)
        self._seat.tell(Ask.SEND, sending(number, op, sent, at_ms))

    def serve(self, timeout_s: float) -> None:
        """Wait for delivery reports up to a timeout, and pass them on."""
        for told in self._seat.all(timeout_s):
            if told.kind is not Tell.SENT:
                raise BridgeError(f"the Java producer cannot send: {told_text(told.body)}")
            report = told_report(told.body)
            _, done = self._flights.pop(report.op)
            self.fatal = self.fatal or any(each.how == THROWN for each in report.faults)
            done(result_of(report, retries=self._retries))
        if self.fatal and not self._flights:
            self._seat.close()

    def waiting(self) -> int:
        """Return how many messages have no delivery report yet."""
        return sum(length for length, _ in self._flights.values())

    def check_reachable(self, topic: str, *, timeout_s: float) -> None:
        """Request the topic's metadata.

        Raises:
            UnreachableError: No broker answered in time, or the topic does not exist.
        """
        body = text(topic) + limited(timeout_s)
        try:
            self._seat.ask(Ask.REACH, body, limit_s=timeout_s + _GRACE_S)
        except (AskedError, TimeoutError) as silent:
            raise UnreachableError(
                f"no broker answered a client within {timeout_s:g} s: {silent}"
            ) from silent

    def close(self) -> None:
        """End the client at once. Messages that wait for a delivery report will not get it."""
        self._seat.close()


def result_of(report: Report, *, retries: int | None) -> SendResult:
    """Return the results of an op's records."""
    if not report.faults:
        return SendResult(offsets=report.offsets)
    outcomes = [Outcome.OK] * len(report.offsets)
    errors: list[str | None] = [None] * len(report.offsets)
    for each in report.faults:
        outcomes[each.index] = send_outcome(each, retries=retries)
        errors[each.index] = each.error
    return SendResult(offsets=report.offsets, outcomes=outcomes, errors=errors)
