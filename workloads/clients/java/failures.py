"""The definite failures of Kafka's own client: errors which prove that a record is in no log.

Every error that is not in a table is `info`, as for librdkafka (`workloads/clients/failures.py`).
An error is recognized by the exception's class, which is the text before the colon.
"""

from collections.abc import Mapping
from types import MappingProxyType

from results.record.terms import Outcome
from workloads.clients.java.frames import LOCAL, THROWN, Fault

DEFINITE: Mapping[str, str] = MappingProxyType(
    {
        "InvalidRecordException": (
            "its content is checked before the append, in the same way at each attempt"
        ),
        "TopicAuthorizationException": "checked before the append; no run changes the ACLs",
        "ClusterAuthorizationException": (
            "checked before the append, like the topic's authorization"
        ),
    }
)
"""The reason why an error in a delivery report is definite, by exception class."""

DEFINITE_WITHOUT_RETRIES: Mapping[str, str] = MappingProxyType(
    {
        "NotEnoughReplicasException": "the ISR is checked before the append, and there was only"
        " one attempt; with retries, a former leader may have"
        " appended an earlier attempt",
        "RecordTooLargeException": "the batch's size is checked before the append; a batch that"
        " is too large is split and retried, and an earlier attempt"
        " may have been appended without an answer",
    }
)
"""The reason why an error is definite if the client does not retry, by exception class."""

NEVER_TAKEN: Mapping[str, str] = MappingProxyType(
    {
        "RecordTooLargeException": (
            "`send` compares its size with max.request.size before all else"
        ),
        "BufferExhaustedException": (
            "the client's own memory was full, so it never accepted the record"
        ),
        "TimeoutException": "`send` found no metadata of the topic in time, before it accepted"
        " the record; for a record that waited in a batch, the delivery"
        " report would have another message",
    }
)
"""The reason why an exception that `send` itself raises is definite, by exception class."""


def send_outcome(fault: Fault, *, retries: int | None) -> Outcome:
    """Return the outcome of a send that failed.

    If `send` throws an exception, this proves nothing. If the transaction or sequence of a producer
    is broken, the producer may notice this only after it has accepted the record.

    Args:
        fault: The failure.
        retries: The plan's number of retries. None means the client's default, which is practically
            unlimited.
    """
    name = fault.error.partition(":")[0]
    if fault.how == THROWN:
        return Outcome.INFO
    definite = name in NEVER_TAKEN if fault.how == LOCAL else name in DEFINITE
    definite |= fault.how != LOCAL and retries == 0 and name in DEFINITE_WITHOUT_RETRIES
    return Outcome.FAIL if definite else Outcome.INFO
