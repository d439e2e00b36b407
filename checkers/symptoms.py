"""The texts that explain why one anomaly causes others; several checks use them.

For each check, `Words.explains` lists symptoms: other anomalies with the same cause as the check's
anomaly. Chance decides whether a symptom occurs. An anomaly is listed only if the check's anomaly
can cause it without any other cause.

An anomaly that may have a separate cause is not listed. Otherwise a new bug would count as a known
bug. Four anomalies may have a separate cause: a message is in the log twice, a response has a wrong
offset, a leader epoch decreases, or a message in the log is never read (`unseen`). Exception:
`torn-transaction` and `log-start-moved` list `unseen`. A loss (`lost-write`) is never listed as a
symptom, because it matters most.
"""

WRITTEN_AGAIN = "after a log lost its end, later writes get lower offsets than earlier writes had"
READ_AND_GONE = (
    "a reader of the truncated records has a position after the end of the log, and continues"
    " elsewhere"
)
ABOVE = (
    "records that were read and then truncated are above the high watermarks that later"
    " leaders announce"
)
TWICE = "a truncated offset is assigned to another value"
MECHANISM = "this is how the brokers lost the message; whether it was observed depends on chance"
SAME_OP = "this is the same anomaly with both records in one operation"
TWO_LOGS = "two leaders write two different logs, and one of them must be truncated"
LACKING = (
    "a leader that lacks committed records announces a lower high watermark, and continues"
    " from there"
)

OF_WRITERS = {
    "offset-order": WRITTEN_AGAIN,
    "nonmonotonic-send": WRITTEN_AGAIN,
    "int-nonmonotonic-send": WRITTEN_AGAIN,
    "int-send-skip": "messages of one operation are before and after the truncation",
}
"""The anomalies that writers see if a log lost its end, each with the reason."""
OF_READERS = {
    "poll-skip": READ_AND_GONE,
    "int-poll-skip": READ_AND_GONE,
    "nonmonotonic-poll": READ_AND_GONE,
    "int-nonmonotonic-poll": READ_AND_GONE,
    "uncommitted-read": ABOVE,
}
"""The anomalies that readers see if a log lost its end, each with the reason."""
OF_A_LOST_END = {**OF_WRITERS, **OF_READERS, "inconsistent-offsets": TWICE}
OF_LEADERS = {
    "committed-truncation": MECHANISM,
    "log-divergence": MECHANISM,
    "incomplete-leader": MECHANISM,
    "high-watermark-regression": MECHANISM,
    "log-end-regression": MECHANISM,
    "epoch-mismatch": TWICE,
}
"""The anomalies of leaders and replicas if a log lost its end, each with the reason."""
