"""The definite failures: errors after which a record is certainly in no log.

Everything that is not in this table is `info`. With retries an earlier try may have been written,
so only errors that do not depend on time are definite: what is refused now was refused before.
A *retriable* error is not a *definite* one: NOT_LEADER_OR_FOLLOWER, timeouts, disconnects and
NOT_ENOUGH_REPLICAS_AFTER_APPEND may all have been written (KAFKA-13574).
"""

from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import KafkaError

from results.record.terms import Outcome

DEFINITE: Mapping[int, str] = MappingProxyType(
    {
        KafkaError._QUEUE_FULL: "the client's own queue was full: it never took the message",  # noqa: SLF001 - librdkafka's local errors are public constants that begin so
        KafkaError.INVALID_RECORD: "its content is checked before the append, at each try alike",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "checked before the append; no run changes the ACLs",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "checked before the append, as the topic's",
    }
)
"""Reasons by error code."""

DEFINITE_WITHOUT_RETRIES: Mapping[int, str] = MappingProxyType(
    {
        KafkaError.NOT_ENOUGH_REPLICAS: "the ISR is checked before the append, and this was the"
        " only try; with retries an earlier one may have been written by a former leader",
        KafkaError.MSG_SIZE_TOO_LARGE: "its batch's size is checked before the append; a later try"
        " may put more records into the batch than the one that was written unheard",
        KafkaError._PURGE_QUEUE: "purged from the client's queue, where it waited for its only try;"  # noqa: SLF001 - as above
        " after a fatal error librdkafka also purges what waits there to be tried once more",
    }
)
"""Reasons by error code; definite only where a record is tried once."""


def send_outcome(error: KafkaError, *, retries: int | None) -> Outcome:
    """Judge the delivery report of a send that did not succeed.

    Args:
        error: What the delivery report says.
        retries: The plan's; None is the client's default, which is practically without limit.
    """
    code = error.code()
    definite = code in DEFINITE or (retries == 0 and code in DEFINITE_WITHOUT_RETRIES)
    return Outcome.FAIL if definite else Outcome.INFO


def refusal_outcome(error: KafkaError) -> Outcome:
    """Judge an error that `produce` itself raised.

    `rd_kafka_producev` says of every error that the message was not enqueued; a fatal error is left
    out of the doubt's benefit, as a rule for the producer as a whole and not for the message.
    """
    return Outcome.INFO if error.fatal() else Outcome.FAIL


def error_name(error: KafkaError) -> str:
    """Return the error as the record has it: `_MSG_TIMED_OUT: Local: Message timed out`."""
    return f"{error.name()}: {error.str()}"
