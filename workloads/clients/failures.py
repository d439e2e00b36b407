"""The definite failures: errors which prove that a record is in no log.

Every other error is `info`. With retries, an earlier attempt may have been written. But if an error
does not depend on time, the earlier attempts were refused, too. Only such errors are definite.

A *retriable* error is not a *definite* failure: after NOT_LEADER_OR_FOLLOWER, timeouts, disconnects
and NOT_ENOUGH_REPLICAS_AFTER_APPEND the record may have been written (KAFKA-13574).
"""

from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import KafkaError

from results.record.terms import Outcome

DEFINITE: Mapping[int, str] = MappingProxyType(
    {
        KafkaError._QUEUE_FULL: (  # noqa: SLF001 - librdkafka's local errors are public constants that begin so
            "the client's own queue was full, so it never accepted the message"
        ),
        KafkaError.INVALID_RECORD: (
            "its content is checked before the append, in the same way at each attempt"
        ),
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "checked before the append; no run changes the ACLs",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: (
            "checked before the append, like the topic's authorization"
        ),
    }
)
"""The reason why an error is definite, by error code."""

DEFINITE_WITHOUT_RETRIES: Mapping[int, str] = MappingProxyType(
    {
        KafkaError.NOT_ENOUGH_REPLICAS: "the ISR is checked before the append, and there was only"
        " one attempt; with retries, a former leader may have"
        " appended an earlier attempt",
        KafkaError.MSG_SIZE_TOO_LARGE: "the batch's size is checked before the append; but a"
        " later attempt may have more records in its batch than an"
        " earlier attempt that was appended without an answer",
        KafkaError._PURGE_QUEUE: "purged from the client's queue before it was ever sent; with"  # noqa: SLF001 - as above
        " retries, it may have been sent before, and may have waited there for a retry",
    }
)
"""The reason why an error is definite if the client does not retry, by error code."""


def send_outcome(error: KafkaError, *, retries: int | None) -> Outcome:
    """Return the outcome of a send whose delivery report has an error.

    Args:
        error: The error in the delivery report.
        retries: The plan's number of retries. None means the client's default, which is practically
            unlimited.
    """
    code = error.code()
    definite = code in DEFINITE or (retries == 0 and code in DEFINITE_WITHOUT_RETRIES)
    return Outcome.FAIL if definite else Outcome.INFO


def refusal_outcome(error: KafkaError) -> Outcome:
    """Return the outcome of a send for which `produce` itself raised an error.

    `rd_kafka_producev` promises that after any error, the message was not enqueued. But after a
    fatal error, the outcome is treated as unknown, because the error concerns the whole producer.
    """
    return Outcome.INFO if error.fatal() else Outcome.FAIL


def error_name(error: KafkaError) -> str:
    """Return the error's text for the record: `_MSG_TIMED_OUT: Local: Message timed out`."""
    return f"{error.name()}: {error.str()}"
