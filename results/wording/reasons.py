"""Choose the main reason for an unknown verdict. Other reasons may only follow from it."""

from results.record.verdict import Verdict

_REASONS = (
    "the run was stopped for",
    "malformed-history", "the checker of", "the run failed", "the run ended",
    "broker-hit-from-outside", "host-not-restored", "final-read-incomplete",
    "fault-without-effect", "not-enough-traffic",
    "not every", "not everything",
)  # fmt: skip
"""Beginnings of sentences in `unknown_because`, the most important first. Other sentences are less
important."""


def heaviest_reason(verdict: Verdict) -> str:
    """Return the most important reason for an unknown verdict; "" if there is none.

    If a run failed, many other reasons follow from this failure. How many there are is random.
    """
    return min(verdict.unknown_because, key=_weight, default="")


def _weight(sentence: str) -> int:
    """Return a reason's position in `_REASONS`; a low number means more important."""
    fitting = (place for place, start in enumerate(_REASONS) if sentence.startswith(start))
    return next(fitting, len(_REASONS))
