"""The definite failures of Kafka's own client: errors which prove that a record is in no log.

As in `workloads/clients/failures.py` for librdkafka, every error that is not in a table is `info`.
An error is recognized by its exception's class, the text before the colon.
"""

from collections.abc import Mapping
from types import MappingProxyType

from results.record.terms import Outcome
from workloads.clients.java.frames import LOCAL, THROWN, Fault

DEFINITE: Mapping[str, str] = MappingProxyType(
    {
        "InvalidRecordException": "its content is checked before the append, at each try alike",
        "TopicAuthorizationException": "checked before the append; no run changes the ACLs",
        "ClusterAuthorizationException": "checked before the append, as the topic's",
    }
)
"""The reasons why errors in a delivery report are definite, by exception class."""

DEFINITE_WITHOUT_RETRIES: Mapping[str, str] = MappingProxyType(
    {
        "NotEnoughReplicasException": "the ISR is checked before the append, and this was the only"
        " try; with retries an earlier one may have been written by a former leader",
        "RecordTooLargeException": "its batch's size is checked before the append; a batch that is"
        " too large is split and tried again, and an earlier try may have been written unheard",
    }
)
"""The reasons why errors are definite if there are no retries, by exception class."""

NEVER_TAKEN: Mapping[str, str] = MappingProxyType(
    {
        "RecordTooLargeException": "`send` compares its size with max.request.size first of all",
        "BufferExhaustedException": "the client's own memory was full: it never took the record",
        "TimeoutException": "`send` found no metadata of the topic in time, before it took the"
        " record; if the record had waited in a batch, its report would say so",
    }
)
"""The reasons why errors that `send` itself raises are definite, by exception class."""


def send_outcome(fault: Fault, *, retries: int | None) -> Outcome:
    """Return the outcome of a send that failed.

    An exception thrown by `send` proves nothing. A producer with a broken transaction or sequence
    may notice this only after it has accepted the record.

    Args:
        fault: The failure.
        retries: The plan's number of retries; None: the client's default, practically unlimited.
    """
    name = fault.error.partition(":")[0]
    if fault.how == THROWN:
        return Outcome.INFO
    definite = name in NEVER_TAKEN if fault.how == LOCAL else name in DEFINITE
    definite |= fault.how != LOCAL and retries == 0 and name in DEFINITE_WITHOUT_RETRIES
    return Outcome.FAIL if definite else Outcome.INFO
