"""Which of the sentences that keep a run from a verdict is the cause, and which follow from it."""

from results.record.verdict import Verdict

_REASONS = (
    "the run was stopped for",
    "malformed-history", "the checker of", "the run failed", "the run ended",
    "broker-hit-from-outside", "host-not-restored", "final-read-incomplete",
    "fault-without-effect", "not-enough-traffic",
    "not every", "not everything",
)  # fmt: skip
"""How sentences of `unknown_because` begin, the heaviest first; others weigh less."""


def heaviest_reason(verdict: Verdict) -> str:
    """Return the sentence that weighs most of all that keep a run from a verdict; or nothing.

    A run that failed lacks much besides, and how much is luck.
    """
    return min(verdict.unknown_because, key=_weight, default="")


def _weight(sentence: str) -> int:
    """Return where a reason stands in `_REASONS`, the heaviest first."""
    fitting = (place for place, start in enumerate(_REASONS) if sentence.startswith(start))
    return next(fitting, len(_REASONS))
