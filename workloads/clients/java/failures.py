"""The definite failures of Kafka's own client: a record is certainly in no log.

As `workloads/clients/failures.py` says for librdkafka, everything that is not in a table is `info`.
An error is known by the class of its exception, which is its name up to the colon.
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
"""Reasons by class, for what a report says."""

DEFINITE_WITHOUT_RETRIES: Mapping[str, str] = MappingProxyType(
    {
        "NotEnoughReplicasException": "the ISR is checked before the append, and this was the only"
        " try; with retries an earlier one may have been written by a former leader",
        "RecordTooLargeException": "its batch's size is checked before the append; a batch that is"
        " too large is split and tried again, and an earlier try may have been written unheard",
    }
)
"""Reasons by class; definite only where a record is tried once."""

NEVER_TAKEN: Mapping[str, str] = MappingProxyType(
    {
        "RecordTooLargeException": "`send` compares its size with max.request.size first of all",
        "BufferExhaustedException": "the client's own memory was full: it never took the record",
        "TimeoutException": "`send` found no metadata of the topic in time, before it took the"
        " record; if the record had waited in a batch, its report would say so",
    }
)
"""Reasons by class, for what `send` itself reports, before it returns."""


def send_outcome(fault: Fault, *, retries: int | None) -> Outcome:
    """Judge a send that did not succeed.

    Args:
        fault: Its.
        retries: The plan's; None is the client's default, which is practically without limit.

    An exception that `send` throws proves nothing. A producer whose transaction or sequence is
    broken finds that out only after it has taken the record.
    """
    name = fault.error.partition(":")[0]
    if fault.how == THROWN:
        return Outcome.INFO
    definite = name in NEVER_TAKEN if fault.how == LOCAL else name in DEFINITE
    definite |= fault.how != LOCAL and retries == 0 and name in DEFINITE_WITHOUT_RETRIES
    return Outcome.FAIL if definite else Outcome.INFO
