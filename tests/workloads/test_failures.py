import pytest
from confluent_kafka import KafkaError

from results.record.terms import Outcome
from workloads.clients.failures import (
    DEFINITE,
    DEFINITE_WITHOUT_RETRIES,
    refusal_outcome,
    send_outcome,
)

DEPENDS_ON_TIME = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._FATAL,
]


@pytest.mark.parametrize("code", DEPENDS_ON_TIME)
@pytest.mark.parametrize("retries", [None, 0, 3])
def test_what_may_have_been_written_is_info(code: int, retries: int | None) -> None:
    assert send_outcome(KafkaError(code), retries=retries) is Outcome.INFO


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._QUEUE_FULL,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_what_does_not_depend_on_time_has_failed_and_has_a_reason(code: int) -> None:
    assert send_outcome(KafkaError(code), retries=None) is Outcome.FAIL
    assert len(DEFINITE[code]) > 20


@pytest.mark.parametrize(
    "code",
    [KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._PURGE_QUEUE],
)
@pytest.mark.parametrize(
    ("retries", "outcome"), [(0, Outcome.FAIL), (1, Outcome.INFO), (None, Outcome.INFO)]
)
def test_what_a_later_try_may_meet_is_definite_only_for_the_single_try(
    code: int, retries: int | None, outcome: Outcome
) -> None:
    assert send_outcome(KafkaError(code), retries=retries) is outcome
    assert len(DEFINITE_WITHOUT_RETRIES[code]) > 20


def test_what_produce_refuses_was_never_queued() -> None:
    unknown = KafkaError(KafkaError._UNKNOWN_PARTITION)
    assert refusal_outcome(unknown) is Outcome.FAIL
    assert send_outcome(unknown, retries=None) is Outcome.INFO
