"""What a shared producer does when librdkafka gives it up."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from results.record.plan import plan_from
from workloads.clients.producer import SharedProducer


class Raising:
    def __init__(self, *, fatal: bool) -> None:
        self._error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "desynchronized", fatal)

    def poll(self, _timeout_s: float) -> int:
        raise KafkaException(self._error)


def producer(*, fatal: bool) -> SharedProducer:
    made = SharedProducer(plan_from({}), bootstrap="127.0.0.1:1", worker=0)
    made._handle = Raising(fatal=fatal)  # type: ignore[assignment]  # librdkafka fails on demand
    return made


def test_a_fatal_error_that_poll_raises_marks_the_producer_and_ends_nothing() -> None:
    shared = producer(fatal=True)
    shared.serve(0)
    assert shared.fatal


def test_another_error_is_not_swallowed() -> None:
    shared = producer(fatal=False)
    with pytest.raises(KafkaException):
        shared.serve(0)
    assert not shared.fatal
