"""Why several anomalies bring others about: reasons that more than one check's words give.

What a check's `Words.explains` names is seen, or not, where its promise was broken, and follows
from the same cause. A pair stands there only if the one brings the other about by itself, so that
whether it is seen too is luck. What may have a cause of its own stands nowhere, or a new bug would
pass for one that was seen before: a value that lies in the log twice (a lost one lies in it
nowhere), one that the log holds and no reader is given, an answer that names a wrong offset, a
leader epoch that goes down. Nor is a loss ever a symptom: it is what matters most.
"""

WRITTEN_AGAIN = "where a log lost its end, later writes get lower offsets than earlier ones had"
READ_AND_GONE = "who had read what was cut off stands behind the end, and goes on elsewhere"
ABOVE = "what was read and then cut off lies above what later leaders announce"
TWICE = "an offset that was cut off is given to another value"
MECHANISM = "it is how the brokers lost it; whether a look at them fell into that time is luck"
SAME_OP = "it is the same step back, of which both sides fell into one operation"
TWO_LOGS = "two leaders write two logs, of which one has to be cut off"
LACKING = "a leader that lacks what is committed announces less, and goes on from there"

OF_WRITERS = {
    "offset-order": WRITTEN_AGAIN,
    "nonmonotonic-send": WRITTEN_AGAIN,
    "int-nonmonotonic-send": WRITTEN_AGAIN,
    "int-send-skip": "messages of one operation lie on both sides of the cut",
}
"""What writers see of a log that lost its end."""
OF_READERS = {
    "poll-skip": READ_AND_GONE,
    "int-poll-skip": READ_AND_GONE,
    "nonmonotonic-poll": READ_AND_GONE,
    "int-nonmonotonic-poll": READ_AND_GONE,
    "uncommitted-read": ABOVE,
}
"""What readers see of it."""
OF_A_LOST_END = {**OF_WRITERS, **OF_READERS, "inconsistent-offsets": TWICE}
OF_LEADERS = {
    "committed-truncation": MECHANISM,
    "log-divergence": MECHANISM,
    "incomplete-leader": MECHANISM,
    "high-watermark-regression": MECHANISM,
    "log-end-regression": MECHANISM,
    "epoch-mismatch": TWICE,
}
"""What is seen of its leaders and replicas."""
