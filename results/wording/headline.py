"""The verdict in a sentence, and the main anomaly: the example that shows the verdict best."""

import re
from dataclasses import dataclass, replace

from results.record.declared import AS_FAR_AS
from results.record.terms import Judge, Validity
from results.record.verdict import AnomalySummary, Example, Verdict, as_sentence
from results.wording.plural import many
from results.wording.reasons import heaviest_reason
from results.wording.resting import untested

ALLOWED = "allowed"
"""Colour name ("tone") of a run that is valid only because the judge allows all anomalies."""
_NOTES = re.compile(r"; (?![^()]*\))")
"""Separates a cause from further remarks."""
_BUSY = 3
"""The load for each core above which a machine is called busy. A run alone causes a load of about 2
on two cores."""
_OF_SLOWNESS = (
    "fault-without-effect", "not-enough-traffic", "final-read-incomplete", "not every",
    "not everything",
)  # fmt: skip
"""Beginnings of reasons that a busy machine can cause."""
_MOST_OTHERS = 20
_MOST_REASONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The first lines that a reader sees about a verdict.

    Attributes:
        tone: The colour: valid, allowed (valid with allowed anomalies), invalid, unknown or
            unjudged.
        sentence: The verdict.
        anomaly: Name of the anomaly in the sentence; None if there is none.
        witness: The example that shows this anomaly.
        cause: The cause of this example. It contains the message's number; empty if unknown.
        promise: The broken promise, as a sentence; empty if the verdict contains no promise.
        more: Further sentences.
    """

    tone: str
    sentence: str
    anomaly: str | None = None
    witness: Example | None = None
    cause: str = ""
    promise: str = ""
    more: tuple[str, ...] = ()

    @property
    def witness_says(self) -> str:
        """The main anomaly's sentence; "" if there is none, or if another sentence contains it."""
        sentence = self.witness.sentence if self.witness else ""
        told = any(sentence in each for each in (self.sentence, *self.more))
        return "" if told else sentence


def headline(verdict: Verdict | None, *, alive: bool = False) -> Headline:
    """Return the headline of a verdict.

    Args:
        verdict: The verdict; None if the run was not judged.
        alive: Whether the run is still running.
    """
    if verdict is None:
        state = "is still running" if alive else "was not judged yet; run `logquake check`"
        return Headline(tone="unjudged", sentence=f"No verdict: the run {state}.")
    match verdict.valid:
        case Validity.VALID:
            head = _valid(verdict)
        case Validity.UNKNOWN:
            head = _unknown(verdict)
        case Validity.INVALID:
            head = _invalid(verdict)
    return replace(
        head,
        more=head.more if verdict.valid is Validity.VALID else (*head.more, *verdict.reach),
        sentence=f"{_interrupted(verdict)}{head.sentence}{_stopped(verdict)}",
        promise=verdict.words_of(head.anomaly).promise if head.anomaly else "",
    )


def _interrupted(verdict: Verdict) -> str:
    """Return the first words for an interrupted run, of which only a part was judged; or ""."""
    at_s = verdict.stats.get("interrupted_at_s")
    return "" if at_s is None else f"Interrupted at {at_s} s. "


def _busy(verdict: Verdict) -> str:
    """Return a sentence about a busy machine; "" if the machine was not busy.

    A busy machine is a frequent cause of unknown verdicts.
    """
    load, cores = verdict.stats.get("load"), verdict.stats.get("cores")
    if not isinstance(load, float) or not isinstance(cores, int) or load <= _BUSY * cores:
        return ""
    return (
        f"This may be the cause: the machine was busy, with a load of {load} on"
        f" {many(cores, 'core')}. Repeat the run while nothing else runs."
    )


def _stopped(verdict: Verdict) -> str:
    """Return a sentence about why the run was stopped, or since when it was not checked; or ""."""
    if (until_s := verdict.stats.get("watched_until_s")) is not None:
        return (
            f" From {until_s} s on, the run was not judged while it ran (watcher.log has the"
            " reason)."
        )
    told = verdict.stats.get("stopped_on_violation")
    if not isinstance(told, dict):
        return ""
    where = f" in {told['place']}" if told.get("place") else ""
    return f" The run was stopped at {told.get('at_s')} s because of {told.get('anomaly')}{where}."


def decisive(verdict: Verdict) -> tuple[str, AnomalySummary] | None:
    """Return the anomaly that a reader should see first, or None if there is none."""
    return next(iter(ranked_anomalies(verdict)), None)


def ranked_anomalies(verdict: Verdict) -> list[tuple[str, AnomalySummary]]:
    """Return the anomalies in the order in which a reader should see them.

    If the verdict has no order of its own, the anomalies that decide the verdict come first.
    """
    place = {name: at for at, name in enumerate(verdict.ranked)}

    def rank(name: str) -> tuple[int, bool, bool, str]:
        summary = verdict.anomalies[name]
        last = place.get(name, len(place))
        return last, not decides(summary), counting(summary) == 0, name

    names = sorted((name for name, each in verdict.anomalies.items() if each.count), key=rank)
    return [(name, verdict.anomalies[name]) for name in names]


def counting(summary: AnomalySummary) -> int:
    """Return how many anomalies in a summary the judge does not allow."""
    return summary.count - summary.allowed


def decides(summary: AnomalySummary) -> bool:
    """Return whether at least one anomaly in a summary is both trusted and not allowed."""
    if not (counting(summary) and summary.trusted):
        return False
    # Deciding examples are stored before others.
    shown = any(not each.allowed and each.trusted for each in summary.examples)
    return shown or summary.trusted > summary.allowed


def broker_name(broker: object) -> str:
    """Return a broker's number and the name of the node: `broker 2 (n2)`."""
    return (
        f"broker {broker} (n{broker})" if isinstance(broker, int) and broker >= 0 else "no broker"
    )


def _valid(verdict: Verdict) -> Headline:
    found, bare = decisive(verdict), untested(verdict)
    reach = verdict.reach
    limited = bool(reach) and reach[0].startswith(AS_FAR_AS)
    far = f"{reach[0][:1].lower()}{reach[0][1:]}" if limited else ""
    more = (*reach, *(f"Not tested: {each.promise.rstrip('.')}." for each in bare))
    if found is not None:
        name, summary = found
        told = verdict.words_of(name).counted(summary.count)
        by = "contract" if verdict.judge == Judge.CONTRACT else f"the judge {verdict.judge}"
        sentence = f"Valid, by {by}: {told}, and that is allowed"
        if far:
            sentence, more = f"{sentence}, {far.rstrip('.')}", more[1:]
        head = _with_witness(ALLOWED, f"{sentence}.", name, summary, more=more)
        whys = [each.why for _, every in ranked_anomalies(verdict) for each in every.examples]
        reasons = [as_sentence(each) for each in dict.fromkeys(whys) if each]
        return replace(head, more=(*reasons[:_MOST_REASONS], *more))
    if far:
        return Headline(tone="valid", sentence=f"Valid, {far}", more=more[1:])
    if bare:
        made = sum(not each.given_up for each in verdict.basis)
        of = f"{len(bare)} of {made} promises"
        return Headline(
            tone="valid",
            sentence=(
                f"Valid, as far as this run goes: it could not have shown a violation of {of}."
            ),
            more=more,
        )
    return Headline(tone="valid", sentence="Valid: every promise was kept.", more=more)


def _unknown(verdict: Verdict) -> Headline:
    why = heaviest_reason(verdict)
    sentence = f"Unknown: {(why or 'not enough was checked').rstrip('.')}."
    more = tuple(each for each in verdict.unknown_because if each != why)
    if why.startswith(_OF_SLOWNESS) and (busy := _busy(verdict)):
        more = (*more, busy)
    found = decisive(verdict)
    if found is None:
        return Headline(tone="unknown", sentence=sentence, more=more)
    return _with_witness("unknown", sentence, *found, more=more)


def _invalid(verdict: Verdict) -> Headline:
    found = decisive(verdict)
    if found is None:
        return Headline(tone="invalid", sentence="Invalid.")
    name, summary = found
    count = counting(summary) or summary.count
    sentence = f"Invalid: {verdict.words_of(name).counted(count)}."
    others = [
        verdict.words_of(other).counted(counting(each)) + _doubt(each)
        for other, each in sorted(verdict.anomalies.items())
        if other != name and counting(each)
    ]
    if (rest := len(others) - _MOST_OTHERS) > 0:
        others[_MOST_OTHERS:] = [many(rest, "more kind")]
    more = (f"Besides: {'; '.join(others)}.",) if others else ()
    return _with_witness("invalid", sentence, name, summary, more=more)


def _doubt(summary: AnomalySummary) -> str:
    return "" if summary.trusted else " (not to be trusted)"


def _with_witness(
    tone: str, sentence: str, name: str, summary: AnomalySummary, *, more: tuple[str, ...] = ()
) -> Headline:
    ranked = sorted(summary.examples, key=lambda each: (each.allowed, not each.trusted))
    witness = ranked[0] if ranked else None
    return Headline(
        tone=tone,
        sentence=sentence,
        anomaly=name,
        witness=witness,
        cause=_cause(witness) if witness else "",
        more=more,
    )


def _cause(witness: Example) -> str:
    """Return the main anomaly's cause; if the value is not in it, put the value in front."""
    value, cause = witness.evidence.get("value"), witness.cause
    named = not isinstance(value, int) or str(value) in cause
    return cause if named or not cause else f"value {value}: {cause}"


def clauses(cause: str) -> tuple[str, ...]:
    """Split a cause into the cause itself and its further remarks."""
    return tuple(_NOTES.split(cause))
