"""Sends one record in one Produce request with acks=all, without batching or retries."""

import io
from datetime import UTC, datetime, timedelta

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.schema.errors import ErrorCode
from kio.schema.produce.v9.request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i32Timedelta, i64

from cluster.kafka.lines import Lines
from cluster.kafka.questions import Place
from cluster.protocol import ClusterError
from results.record.clock import unix_s

ANSWER_LIMIT_S = 10.0
"""The time limit in seconds of one request; with acks=all the broker waits for all replicas."""
_OF_BROKER = 0.8
"""The share of the time limit for the replicas. The rest is for the leader's response."""
NO_PRODUCER = (ProducerId(-1), i16(-1))
"""The producer id and epoch of a record without idempotence."""
_ALL_REPLICAS = i16(-1)
_TRANSACTIONAL = i16(0x10)
"""The transactional bit in a batch's attributes."""


class RefusedError(ClusterError):
    """A broker refused a request.

    Attributes:
        error: Kafka's error name, such as `INVALID_TXN_STATE`.
    """

    def __init__(self, what: str, error: ErrorCode) -> None:
        self.error = error.name.upper()
        super().__init__(f"{what} was refused: {self.error}")


def produce(
    lines: Lines,
    node: str,
    place: Place,
    payload: bytes,
    *,
    transactional_id: TransactionalId | None = None,
    producer: tuple[ProducerId, i16] = NO_PRODUCER,
    sequence: int = -1,
    timeout_s: float = ANSWER_LIMIT_S,
) -> int:
    """Send a record to a broker, and return its offset.

    Args:
        lines: Connections to the brokers.
        node: The node to send to.
        place: The partition. The node must be its leader.
        payload: The record's value.
        transactional_id: None for a record outside a transaction.
        producer: The producer's id and epoch.
        sequence: The record's sequence number in this epoch; -1 without idempotence.
        timeout_s: The time limit for the response, in seconds.

    Raises:
        WireError: No response came.
        RefusedError: The broker refuses the record.
    """
    topic, partition = place
    batch = _batch(payload, producer, sequence, of_transaction=transactional_id is not None)
    data = PartitionProduceData(index=i32(partition), records=Records(batch))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=_ALL_REPLICAS,
        timeout=i32Timedelta.parse(timedelta(seconds=_OF_BROKER * timeout_s)),
        topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )
    answer = lines.ask(node, request, ProduceResponse, timeout_s=timeout_s)
    (said,) = answer.responses[0].partition_responses
    if said.error_code is not ErrorCode.none:
        raise RefusedError("Produce", said.error_code)
    return int(said.base_offset)


def _batch(
    payload: bytes, producer: tuple[ProducerId, i16], sequence: int, *, of_transaction: bool
) -> bytes:
    now = TZAwareMicros.parse(datetime.fromtimestamp(unix_s(), tz=UTC))
    record = Record(
        attributes=i8(0), timestamp=now, offset=i64(0), key=None, value=payload, headers=()
    )
    batch = NewRecordBatch(
        producer_id=i64(producer[0]),
        producer_epoch=producer[1],
        base_sequence=i32(sequence),
        records=(record,),
        attributes=_TRANSACTIONAL if of_transaction else i16(0),
    )
    buffer = io.BytesIO()
    write_new_batch(buffer, batch)
    return buffer.getvalue()
