"""Runs a transaction with single requests, in an order that a scenario chooses (KIP-98).

A client library never sends a request after the end of its transaction. But the network may deliver
a delayed Produce request after this end. With this module a scenario controls when a request
arrives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeVar

from kio.schema.add_partitions_to_txn.v3.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.end_txn.v3.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import i32, i32Timedelta
from kio.static.protocol import RequestPayload

from cluster.kafka import questions
from cluster.kafka.lines import Lines
from cluster.kafka.producing import ANSWER_LIMIT_S, NO_PRODUCER, RefusedError, produce
from cluster.kafka.questions import Place
from cluster.kafka.wire import A
from cluster.protocol import CoordinatorKind
from results.record.clock import wait_until

READY_LIMIT_S = 40.0
"""How many seconds to wait for a coordinator. The first wait includes the creation of a topic."""


class TransactionByHand:
    """One transaction in one partition; the caller decides when each request is sent.

    Args:
        lines: Connections to the brokers.
        node: The broker that leads the partition and coordinates the transaction.
        place: The partition.
        transactional_id: The producer's transactional id.
        timeout_s: The time in seconds after which the coordinator aborts the transaction.
    """

    def __init__(
        self, lines: Lines, node: str, place: Place, *, transactional_id: str, timeout_s: float
    ) -> None:
        self._lines, self._node, self._place = lines, node, place
        self._id = TransactionalId(transactional_id)
        self._timeout_s = timeout_s
        self._producer = NO_PRODUCER

    def begin(self) -> None:
        """Get a producer id, and add the partition to the transaction.

        Raises:
            WireError, WaitTimeoutError: There is no coordinator, or it does not answer.
            RefusedError: The coordinator refuses a request.
        """
        question = questions.coordinator(CoordinatorKind.TRANSACTION, self._id)
        _accepted("FindCoordinator", lambda: self._ask(question, FindCoordinatorResponse))
        asked = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout=i32Timedelta.parse(timedelta(seconds=self._timeout_s)),
        )
        given = _accepted("InitProducerId", lambda: self._ask(asked, InitProducerIdResponse))
        self._producer = (given.producer_id, given.producer_epoch)
        _accepted("AddPartitionsToTxn", self._added)

    def write(self, payload: bytes, *, sequence: int) -> int:
        """Send one message in one Produce request with acks=all, and return its offset.

        Args:
            payload: The message's value.
            sequence: The message's sequence number in the producer's epoch.

        Raises:
            WireError: No response came.
            RefusedError: The broker refuses the message.
        """
        return produce(
            self._lines,
            self._node,
            self._place,
            payload,
            transactional_id=self._id,
            producer=self._producer,
            sequence=sequence,
        )

    def end(self, *, committed: bool) -> None:
        """Ask the coordinator to commit or abort. It responds before it writes the marker.

        Raises:
            WireError: No response came.
            RefusedError: The coordinator refuses.
        """
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        _accepted("EndTxn", lambda: self._ask(request, EndTxnResponse))

    def _added(self) -> "_Said":
        topic, partition = self._place
        producer_id, epoch = self._producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=(
                AddPartitionsToTxnTopic(name=TopicName(topic), partitions=(i32(partition),)),
            ),
        )
        answer = self._ask(request, AddPartitionsToTxnResponse)
        (said,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        return _Said(error_code=said.partition_error_code)

    def _ask(self, question: RequestPayload, answer: type[A]) -> A:
        return self._lines.ask(self._node, question, answer, timeout_s=ANSWER_LIMIT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    error_code: ErrorCode


class _Answer(Protocol):
    @property
    def error_code(self) -> ErrorCode:
        """The error code of a response."""


S = TypeVar("S", bound=_Answer)


def _accepted(what: str, ask: Callable[[], S]) -> S:
    """Repeat a request until it is accepted: after its start, a coordinator first refuses requests.

    Raises:
        RefusedError: The refusal is final.
        WaitTimeoutError: The request is not accepted in time.
    """

    def once() -> S | None:
        answer = ask()
        if answer.error_code is ErrorCode.none:
            return answer
        if not answer.error_code.retriable:
            raise RefusedError(what, answer.error_code)
        return None

    return wait_until(once, timeout_s=READY_LIMIT_S, what=f"{what} to be accepted")
