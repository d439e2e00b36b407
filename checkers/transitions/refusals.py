"""Find failed requests, by kind of request and by the error's name.

The sources are the errors in a partition's tables `sends`, `commits` and `shared`, and the errors
of polls and transactions in `ops`. Clients write an error's name before its text
(`workloads.clients.failures`). Java clients write the name of the exception's class. Clients retry
failed requests. So an error is recorded only when the client gave up. Brokers may have refused more
requests than the record shows.

What would not prove it: an error text of Logquake without an error name, such as the text for a
transaction that a client left on purpose.
"""

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from checkers.columns import codes, equal, ints, present, select, slices
from checkers.group import Group
from checkers.transitions.events import Events
from results.record.terms import F
from results.record.transitions import ERRORS

_NAME = re.compile(r"(?:^|[\s:])(?P<name>_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|_[A-Z]{4,}|UNKNOWN):")
_CLASS = re.compile(r"\b(?P<name>(?:[A-Z][a-z0-9]+)+)(?:Exception|Error)\b")
_PURPOSE = "on purpose"
_SILENCES = ("no report came", "were not answered", "did not return")
"""The texts by which Logquake's clients report that a client library did not answer."""
_KNOWN_AS: Mapping[str, str] = {
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
    "UNKNOWN_SERVER": "UNKNOWN_SERVER_ERROR",
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "KAFKA_STORAGE": "KAFKA_STORAGE_ERROR",
    "INVALID_MSG": "CORRUPT_MESSAGE",
    "CORRUPT_RECORD": "CORRUPT_MESSAGE",
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "RECORD_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "GROUP_COORDINATOR_NOT_AVAILABLE": "COORDINATOR_NOT_AVAILABLE",
    "GROUP_LOAD_IN_PROGRESS": "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR_FOR_GROUP": "NOT_COORDINATOR",
    "OUT_OF_ORDER_SEQUENCE": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "INVALID_PID_MAPPING": "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE_TRANSITION": "INVALID_TXN_STATE",
    "_AUTO_OFFSET_RESET": "OFFSET_OUT_OF_RANGE",
    "TIMEOUT": "client-timed-out",
    "_MSG_TIMED_OUT": "client-timed-out",
    "_TIMED_OUT": "client-timed-out",
    "_TIMED_OUT_QUEUE": "client-timed-out",
    "_TRANSPORT": "client-transport",
    "DISCONNECT": "client-transport",
    "NETWORK": "client-transport",
    "_ALL_BROKERS_DOWN": "client-transport",
    "_STATE": "client-state",
    "ILLEGAL_STATE": "client-state",
    "TRANSACTION_ABORTED": "client-state",
    "_FENCED": "client-fenced",
    "_PURGE_QUEUE": "client-purged",
    "_PURGE_INFLIGHT": "client-purged",
    "_QUEUE_FULL": "client-queue-full",
}
"""Other names of errors: names in librdkafka, Java class names, and names in older versions."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def error_of(text: str) -> str | None:
    """Return the standard name of an error, or None if the text is not an error of a request.

    Args:
        text: A recorded error, such as `_MSG_TIMED_OUT: Local: Message timed out`, or the message
            of a Java client.
    """
    if not text or _PURPOSE in text:
        return None
    if named := _NAME.search(text):
        return _KNOWN_AS.get(named["name"], named["name"])
    if any(words in text for words in _SILENCES):
        return "client-timed-out"
    if thrown := _CLASS.search(text):
        name = _WORDS.sub("_", thrown["name"]).upper()
        return _KNOWN_AS.get(name, name)
    return "other"


def find(group: Group, events: Events) -> None:
    """Add the failed sends, commits and acknowledgements to the transitions in `events`."""
    _add(events, "send", group.table("sends"), "complete_ns")
    _add(events, "commit", group.table("commits"), "told_ns")
    _add(events, "share", group.table("shared"), "told_ns")


def find_of_run(group: Group, events: Events) -> None:
    """Add the failed polls and transactions of a run to the transitions in `events`."""
    for piece in slices(group.table("ops"), ("f", "error", "complete_ns")):
        failed = select(piece, present(piece, "error"))
        _add(events, "poll", select(failed, equal(failed, "f", F.POLL)), "complete_ns")
        _add(events, "transaction", select(failed, equal(failed, "f", F.TXN)), "complete_ns")


def _add(events: Events, asked: str, rows: pa.Table, time: str) -> None:
    failed = select(rows.select(["error", time]), present(rows, "error"))
    if not failed.num_rows:
        return
    numbers, words = codes(failed, "error")
    times, names = ints(failed, time), [error_of(text) for text in words]
    for name in sorted({name for name in names if name is not None}):
        mine = np.array([each == name for each in names], dtype=np.bool_)[numbers]
        known = name if name in ERRORS[asked] else "other"
        events.add_all(f"refused/{asked}-{known}", times[mine])
