"""A transaction by hand: each request is sent by itself, in the order that a story wants (KIP-98).

A client library never sends a request behind the end of its transaction, but the network may
deliver one there: a Produce request that was held up. Here a story decides when it arrives.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
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
from kio.schema.produce.v9.request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i32Timedelta, i64
from kio.static.protocol import RequestPayload

from cluster.kafka import questions
from cluster.kafka.lines import Lines
from cluster.kafka.questions import Place
from cluster.kafka.wire import A
from cluster.protocol import ClusterError, CoordinatorKind
from results.record.clock import unix_s, wait_until

ANSWER_LIMIT_S = 10.0
"""Of one request: a broker answers acks=all once all replicas have it."""
READY_LIMIT_S = 40.0
"""Until there is a coordinator: the first one has its topic made."""
_ALL_REPLICAS = i16(-1)
_TRANSACTIONAL = i16(0x10)
"""The bit of a batch's attributes."""


class RefusedError(ClusterError):
    """A broker refused a request of a transaction.

    Attributes:
        error: Kafka's constant: `INVALID_TXN_STATE`.
    """

    def __init__(self, what: str, error: ErrorCode) -> None:
        self.error = error.name.upper()
        super().__init__(f"{what} was refused: {self.error}")


class TransactionByHand:
    """One transaction in one partition, whose requests are sent one by one.

    Args:
        lines: To the brokers.
        node: The broker that leads the partition and coordinates the transaction.
        place: The partition.
        transactional_id: Of its producer.
        timeout_s: After so long its coordinator aborts it.
    """

    def __init__(
        self, lines: Lines, node: str, place: Place, *, transactional_id: str, timeout_s: float
    ) -> None:
        self._lines, self._node, self._place = lines, node, place
        self._id = TransactionalId(transactional_id)
        self._timeout_s = timeout_s
        self._producer = (ProducerId(-1), i16(-1))

    def begin(self) -> None:
        """Get a producer id, and add the partition to the transaction.

        Raises:
            WireError, WaitTimeoutError: There is no coordinator, or it does not answer.
            RefusedError: It refuses.
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
        """Send one message in a Produce request of its own, with acks=all; return its offset.

        Args:
            payload: The message.
            sequence: Its number in the producer's epoch.

        Raises:
            WireError: No answer came.
            RefusedError: The broker refuses it.
        """
        topic, partition = self._place
        data = PartitionProduceData(
            index=i32(partition), records=Records(self._batch(payload, sequence))
        )
        request = ProduceRequest(
            transactional_id=self._id,
            acks=_ALL_REPLICAS,
            timeout=i32Timedelta.parse(timedelta(seconds=ANSWER_LIMIT_S)),
            topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
        )
        (said,) = self._ask(request, ProduceResponse).responses[0].partition_responses
        if said.error_code is not ErrorCode.none:
            raise RefusedError("Produce", said.error_code)
        return int(said.base_offset)

    def end(self, *, committed: bool) -> None:
        """Ask the coordinator to commit or to abort; it answers before the marker is written.

        Raises:
            WireError: No answer came.
            RefusedError: It refuses.
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

    def _batch(self, payload: bytes, sequence: int) -> bytes:
        producer_id, epoch = self._producer
        now = TZAwareMicros.parse(datetime.fromtimestamp(unix_s(), tz=UTC))
        record = Record(
            attributes=i8(0), timestamp=now, offset=i64(0), key=None, value=payload, headers=()
        )
        batch = NewRecordBatch(
            producer_id=i64(producer_id),
            producer_epoch=epoch,
            base_sequence=i32(sequence),
            records=(record,),
            attributes=_TRANSACTIONAL,
        )
        buffer = io.BytesIO()
        write_new_batch(buffer, batch)
        return buffer.getvalue()

    def _ask(self, question: RequestPayload, answer: type[A]) -> A:
        return self._lines.ask(self._node, question, answer, timeout_s=ANSWER_LIMIT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    error_code: ErrorCode


class _Answer(Protocol):
    @property
    def error_code(self) -> ErrorCode:
        """What a request came to."""


S = TypeVar("S", bound=_Answer)


def _accepted(what: str, ask: Callable[[], S]) -> S:
    """Ask until a request is accepted; while its coordinator gets ready, it is refused.

    Raises:
        RefusedError: It is refused for good.
        WaitTimeoutError: It is not accepted in time.
    """

    def once() -> S | None:
        answer = ask()
        if answer.error_code is ErrorCode.none:
            return answer
        if not answer.error_code.retriable:
            raise RefusedError(what, answer.error_code)
        return None

    return wait_until(once, timeout_s=READY_LIMIT_S, what=f"{what} to be accepted")
