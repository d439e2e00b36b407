"""Forward, with retries, the client requests that only the controller can execute (KIP-590)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from cluster.reference.controller.refusals import refusal
from cluster.reference.machine import Asker, Effect, Nanoseconds, Reply, Request, SetTimer
from cluster.reference.messages.control import (
    AlterPartitionReassignmentsRequest,
    ControlRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
)
from cluster.reference.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.reference.settings import NANOSECONDS_A_MS

TIMERS = "forward:"
RETRY_MS = 100
ATTEMPT_MS = 3000
"""Milliseconds to wait for one controller before another one is tried."""
PATIENCE_MS = 15_000
QUESTION_MS = 500
FORWARDED = (
    CreateTopicsRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    IncrementalAlterConfigsRequest,
    DescribeQuorumRequest,
)


@dataclass(slots=True)
class _Order:
    asker: Asker
    message: ControlRequest | DescribeQuorumRequest
    until: Nanoseconds


class Forwarding:
    """The forwarded requests that have no response yet.

    Args:
        numbers: The counter for request numbers, which all modules of a node share.
        controller: Returns the leader of the quorum; -1 if unknown.
    """

    def __init__(self, numbers: Iterator[int], controller: Callable[[], int]) -> None:
        self._numbers, self._controller = numbers, controller
        self._asked: dict[int, _Order] = {}
        self._resting: dict[str, _Order] = {}

    def owns(self, request: int) -> bool:
        """Return whether a request with this number was forwarded to the controller."""
        return request in self._asked

    def take(
        self, now: Nanoseconds, asker: Asker, message: ControlRequest | DescribeQuorumRequest
    ) -> Iterator[Effect]:
        """Forward a client's request to the controller."""
        patience_ms = min(getattr(message, "timeout_ms", PATIENCE_MS), PATIENCE_MS)
        if isinstance(message, DescribeQuorumRequest):
            patience_ms = QUESTION_MS
        until = now + patience_ms * NANOSECONDS_A_MS
        yield from self._try(now, _Order(asker, message, until))

    def answered(self, now: Nanoseconds, request: int, answer: object | None) -> Iterator[Effect]:
        """Pass a response to the client. If the sender is not the controller, retry instead."""
        order = self._asked.pop(request)
        if answer is None or _is_elsewhere(answer):
            yield from self._rest(now, order)
        else:
            yield Reply(asker=order.asker, message=answer)

    def fired(self, now: Nanoseconds, timer: str) -> Iterator[Effect]:
        """Retry a forwarded request after a pause."""
        order = self._resting.pop(timer, None)
        if order is not None:
            yield from self._try(now, order)

    def _try(self, now: Nanoseconds, order: _Order) -> Iterator[Effect]:
        controller = self._controller()
        if controller < 0:
            yield from self._rest(now, order)
            return
        number = next(self._numbers)
        self._asked[number] = order
        yield Request(
            number=number,
            to=controller,
            message=order.message,
            timeout_ns=min(ATTEMPT_MS * NANOSECONDS_A_MS, max(order.until - now, NANOSECONDS_A_MS)),
        )

    def _rest(self, now: Nanoseconds, order: _Order) -> Iterator[Effect]:
        if now >= order.until:
            yield Reply(asker=order.asker, message=_refused(order.message))
            return
        name = f"{TIMERS}{next(self._numbers)}"
        self._resting[name] = order
        after_ns = RETRY_MS * NANOSECONDS_A_MS
        yield SetTimer(timer=name, after_ns=after_ns, at_most_ns=after_ns)


def _refused(order: ControlRequest | DescribeQuorumRequest) -> object:
    """Return the response to a request that no controller accepted in time."""
    if isinstance(order, DescribeQuorumRequest):
        return DescribeQuorumResponse(error_code=ErrorCode.not_leader_or_follower)
    return refusal(order, ErrorCode.request_timed_out)


def _is_elsewhere(answer: object) -> bool:
    """Return whether a response means that its sender is not the controller."""
    codes = [getattr(answer, "error_code", ErrorCode.none)]
    for name in ("topics", "results", "responses"):
        codes += [each.error_code for each in getattr(answer, name, ())]
    elsewhere = {ErrorCode.not_controller, ErrorCode.not_leader_or_follower}
    return any(code in elsewhere for code in codes)
