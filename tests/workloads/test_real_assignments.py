"""An assignment replaces the one before it, also when that was still asking where to begin."""

from collections.abc import Iterator

import numpy as np
import pytest

from cluster.kafka.cluster import KafkaCluster
from results.record.clock import pause_until, stopwatch_s, wait_until
from results.record.plan import Plan
from workloads.clients.consumer import ProcessConsumer
from workloads.clients.producer import SharedProducer
from workloads.protocol import Key, Send, SendResult

pytestmark = pytest.mark.kafka

PLAN = Plan(nodes=1, replication=1, min_insync=1)
LIMIT_S = 60.0
SENT_S = 0.5
"""Long enough for a request to leave."""
RECORDS = 10
HERE: Key = ("assigned", 0)
WARM: Key = ("assigned", 1)


@pytest.fixture(name="reader")
def warm_reader(one_broker: KafkaCluster) -> Iterator[ProcessConsumer]:
    """A consumer that is connected, and knows where the partitions are."""
    one_broker.create_topics([HERE[0]], partitions=2, replication=1)
    producer = SharedProducer(PLAN, bootstrap=one_broker.bootstrap(), worker=0)
    results: list[SendResult] = []
    for key in (HERE, WARM):
        producer.send(Send(key=key, values=np.arange(RECORDS, dtype=np.int64)), results.append)

    def sent() -> bool:
        producer.serve(0.1)
        return len(results) == 2

    wait_until(sent, timeout_s=LIMIT_S, what="the records to be sent")
    reader = ProcessConsumer(PLAN, bootstrap=one_broker.bootstrap(), client_id="reader")
    for key in (HERE, WARM):
        assert reader.assign({key: 0}) is None
        assert first_offset(reader, key) == 0
    yield reader
    reader.close()


def first_offset(reader: ProcessConsumer, key: Key) -> int:
    """Poll until there is a record of a partition; return the offset of the first one."""
    found: list[int] = []

    def polled() -> bool:
        batch = reader.poll(100, 0.1)
        assert batch.error is None
        places = [place for place, length in batch.spans for _ in range(length)]
        offsets = zip(places, batch.offsets.tolist(), strict=True)
        found.extend(offset for place, offset in offsets if place == key)
        return bool(found)

    wait_until(polled, timeout_s=LIMIT_S, what=f"a record of {key}")
    return found[0]


def test_a_late_answer_on_the_beginning_does_not_move_a_later_assignment(
    one_broker: KafkaCluster, reader: ProcessConsumer
) -> None:
    """While the broker stands still both questions are asked; then it answers the first one."""
    one_broker.pause_node("n1")
    try:
        assert reader.assign({HERE: None}) is None
        asked = reader._handle
        pause_until(stopwatch_s() + SENT_S)
        assert reader.assign({HERE: 7}) is None
        # The race is a matter of moments, so it is kept from happening at all.
        assert reader._handle is not asked
        pause_until(stopwatch_s() + SENT_S)
    finally:
        one_broker.resume_node("n1")
    assert first_offset(reader, HERE) == 7
    settled = reader._handle
    assert reader.assign({HERE: 5, WARM: 3}) is None
    assert reader._handle is settled
    assert first_offset(reader, HERE) == 5
