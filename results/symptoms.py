"""What else is seen, or not, where a promise was broken, and why it follows from the same cause.

A pair stands here only if the one brings the other about by itself, so that whether it is seen too
is luck. What may have a cause of its own stands nowhere, or a new bug would pass for one that was
seen before: a value that lies in the log twice (a lost one lies in it nowhere), one that the log
holds and nobody is given, an answer that names a wrong offset, a leader epoch that goes down. Nor
is a loss ever a symptom: it is what matters most.
"""

from collections.abc import Iterable, Mapping

_WRITTEN_AGAIN = "where a log lost its end, later writes get lower offsets than earlier ones had"
_READ_AND_GONE = "who had read what was cut off stands behind the end, and goes on elsewhere"
_ABOVE = "what was read and then cut off lies above what later leaders announce"
_TWICE = "an offset that was cut off is given to another value"
_MECHANISM = "it is how the brokers lost it; whether a look at them fell into that time is luck"
_SAME_OP = "whether the two belong to one operation or to two is luck"
_CIRCLE = "a circle stays one where more orders are looked at"

_OF_WRITERS = {
    "offset-order": _WRITTEN_AGAIN,
    "nonmonotonic-send": _WRITTEN_AGAIN,
    "int-nonmonotonic-send": _WRITTEN_AGAIN,
    "int-send-skip": "messages of one operation lie on both sides of the cut",
}
_OF_READERS = {
    "poll-skip": _READ_AND_GONE,
    "int-poll-skip": _READ_AND_GONE,
    "nonmonotonic-poll": _READ_AND_GONE,
    "int-nonmonotonic-poll": _READ_AND_GONE,
    "uncommitted-read": _ABOVE,
}
_OF_A_LOST_END = {**_OF_WRITERS, **_OF_READERS, "inconsistent-offsets": _TWICE}
_OF_LEADERS = {
    "committed-truncation": _MECHANISM,
    "log-divergence": _MECHANISM,
    "incomplete-leader": _MECHANISM,
    "high-watermark-regression": _MECHANISM,
    "log-end-regression": _MECHANISM,
    "epoch-mismatch": _TWICE,
}
_TWO = "two leaders write two logs, of which one has to be cut off"
_BELOW = "what lay below the new start of a log is gone"
_LACKING = "a leader that lacks what is committed announces less, and goes on from there"

SYMPTOMS: Mapping[str, Mapping[str, str]] = {
    "lost-write": {**_OF_A_LOST_END, **_OF_LEADERS},
    "two-leaders-in-epoch": dict.fromkeys({**_OF_A_LOST_END, **_OF_LEADERS}, _TWO),
    "log-start-moved": {
        **dict.fromkeys(("unseen", "torn-transaction"), _BELOW),
        "poll-skip": "readers jump to where the log begins",
        "committed-truncation": _BELOW,
    },
    "committed-truncation": {
        **_OF_A_LOST_END,
        "log-divergence": "who cut it off and was given another record differs from who kept it",
        "incomplete-leader": "who cut it off leads without it",
        "log-end-regression": "for a while the log of who cut it off was shorter",
        "epoch-mismatch": "it was read, and another record was written in its place",
        "high-watermark-regression": _LACKING,
    },
    "log-divergence": {
        **_OF_READERS,
        "inconsistent-offsets": "two leaders, one after the other, tell what each of them holds",
        "incomplete-leader": "of two logs that differ one lacks what was committed in the other",
        "high-watermark-regression": _LACKING,
    },
    "incomplete-leader": {**_OF_A_LOST_END, "high-watermark-regression": _LACKING},
    "high-watermark-regression": {"uncommitted-read": _ABOVE},
    "ack-mismatch": {
        "inconsistent-offsets": "at the offset that the answer named lies another value",
        **dict.fromkeys(_OF_WRITERS, "an answer that names a wrong offset puts it out of order"),
    },
    "inconsistent-offsets": {**_OF_WRITERS, **_OF_READERS},
    "torn-transaction": {
        "unseen": "what is not shown of the transaction nobody is given",
        "poll-skip": "readers jump over what is not shown of the transaction",
        "int-poll-skip": "readers jump over what is not shown of the transaction",
    },
    "G1a": {"precommitted-read": "of what is shown too early, whose it is is luck"},
    "unavailable": {
        "slow-election": "without a leader nothing is taken",
        "isr-not-restored": "a partition that takes nothing has no full ISR, either",
    },
    "slow-election": {"isr-not-restored": "there is no ISR without a leader"},
    **{
        f"{kind}{order}": dict.fromkeys((f"{kind}{more}" for more in wider), _CIRCLE)
        for kind in ("G0", "G1c")
        for order, wider in (("", ("-process", "-realtime")), ("-process", ("-realtime",)))
    },
    "unseen": {
        "poll-skip": "whoever reads on jumps over what nobody is given",
        "int-poll-skip": "whoever reads on jumps over what nobody is given",
    },
    "offset-order": {
        "nonmonotonic-send": "a process that goes back is such a pair by the clock, too",
        "int-nonmonotonic-send": _SAME_OP,
    },
    "poll-skip": {"int-poll-skip": _SAME_OP},
    "nonmonotonic-poll": {"int-nonmonotonic-poll": _SAME_OP},
    "nonmonotonic-send": {"int-nonmonotonic-send": _SAME_OP},
}
"""By root, those that weigh most first: symptom and reason."""


def reason_for(symptom: str, roots: Iterable[str]) -> tuple[str, str] | None:
    """Return (root, why) of the first root that explains a symptom; None: it has its own cause."""
    return next(
        ((root, SYMPTOMS[root][symptom]) for root in roots if symptom in SYMPTOMS.get(root, ())),
        None,
    )
