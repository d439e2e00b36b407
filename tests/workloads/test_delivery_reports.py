"""A send op's reports, in whatever order they come, and what librdkafka refused."""

import numpy as np
from confluent_kafka import OFFSET_INVALID, KafkaError, Message

from results.record.terms import Outcome
from workloads.clients.producer import _Flight
from workloads.protocol import SendResult

VALUES = np.arange(50, 54)


def report(flight: _Flight, value: int, offset: int, error: KafkaError | None) -> None:
    payload = value.to_bytes(8, "big") + b"padding"
    flight.report(error, Message(value=payload, offset=offset, error=error))


def test_reports_out_of_order_a_failure_and_a_refusal_find_their_values() -> None:
    ended: list[SendResult] = []
    flight = _Flight(VALUES, ended.append, retries=None)
    flight.refuse(2, Outcome.FAIL, "no room")
    flight.settle()
    report(flight, 53, 9, None)
    report(flight, 50, 7, KafkaError(KafkaError._MSG_TIMED_OUT))
    assert ended == []
    report(flight, 51, 8, None)
    (result,) = ended
    assert result.offsets.tolist() == [-1, 8, -1, 9]
    assert result.outcomes == [Outcome.INFO, Outcome.OK, Outcome.FAIL, Outcome.OK]
    assert result.errors is not None
    assert [error and error.split(":")[0] for error in result.errors] == [
        "_MSG_TIMED_OUT", None, "no room", None,
    ]  # fmt: skip


def test_an_op_without_trouble_has_offsets_only_and_an_unknown_one_is_negative() -> None:
    ended: list[SendResult] = []
    flight = _Flight(VALUES, ended.append, retries=None)
    for value, offset in ((52, 3), (51, OFFSET_INVALID), (50, 1), (53, 4)):
        report(flight, value, offset, None)
    (result,) = ended
    assert (result.outcomes, result.errors) == (None, None)
    assert result.offsets.tolist() == [1, -1, 3, 4]


def test_an_op_that_was_refused_as_a_whole_ends_at_once() -> None:
    ended: list[SendResult] = []
    flight = _Flight(VALUES, ended.append, retries=None)
    for index in range(len(VALUES)):
        flight.refuse(index, Outcome.FAIL, "no room")
    flight.settle()
    (result,) = ended
    assert result.worst is Outcome.FAIL
    assert result.offsets.tolist() == [-1] * 4
