"""Texts that explain why one anomaly causes others; several checks use them.

A check's `Words.explains` lists its symptoms: anomalies that follow from the same cause. A symptom
occurs only by chance. An anomaly is listed only if the first anomaly causes it by itself.

Anomalies that may have a cause of their own are never listed. Otherwise a new bug would count as a
known one. Examples are a value that is in the log twice, an answer with a wrong offset, and a
leader epoch that decreases. Another is a value that the log holds but no reader receives. A loss is
never listed as a symptom, because it matters most.
"""

WRITTEN_AGAIN = "where a log lost its end, later writes get lower offsets than earlier ones had"
READ_AND_GONE = (
    "a reader of the cut-off records has a position after the end of the log, and"
    " continues elsewhere"
)
ABOVE = "what was read and then cut off lies above what later leaders announce"
TWICE = "an offset that was cut off is given to another value"
MECHANISM = "it is how the brokers lost it; whether a look at them fell into that time is luck"
SAME_OP = "it is the same step back, with both sides in one operation"
TWO_LOGS = "two leaders write two logs, and one of these must be cut off"
LACKING = "a leader that lacks what is committed announces less, and goes on from there"

OF_WRITERS = {
    "offset-order": WRITTEN_AGAIN,
    "nonmonotonic-send": WRITTEN_AGAIN,
    "int-nonmonotonic-send": WRITTEN_AGAIN,
    "int-send-skip": "messages of one operation are on both sides of the cut",
}
"""The writers' symptoms of a log that lost its end, by anomaly."""
OF_READERS = {
    "poll-skip": READ_AND_GONE,
    "int-poll-skip": READ_AND_GONE,
    "nonmonotonic-poll": READ_AND_GONE,
    "int-nonmonotonic-poll": READ_AND_GONE,
    "uncommitted-read": ABOVE,
}
"""The readers' symptoms of a log that lost its end, by anomaly."""
OF_A_LOST_END = {**OF_WRITERS, **OF_READERS, "inconsistent-offsets": TWICE}
OF_LEADERS = {
    "committed-truncation": MECHANISM,
    "log-divergence": MECHANISM,
    "incomplete-leader": MECHANISM,
    "high-watermark-regression": MECHANISM,
    "log-end-regression": MECHANISM,
    "epoch-mismatch": TWICE,
}
"""The symptoms of leaders and replicas if a log lost its end, by anomaly."""
