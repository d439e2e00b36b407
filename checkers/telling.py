"""Decide the order, the texts and the causes of the anomalies in a verdict.

The verdict contains the order, the texts and the causes. So the terminal, the pages, the site and
the JUnit report print the same texts. If one anomaly explains another, the explained anomaly comes
later and refers to the first. For example, a log that lost its end has symptoms in writers, readers
and replicas.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from checkers.changes import TOLD_LATE_NS
from checkers.facts import Disturbance, RunFacts
from checkers.findings import number_in, seconds
from checkers.registry import HEADLINES, WORDS
from results.record.terms import AnomalyClass
from results.record.verdict import Anomaly, AnomalySummary, Example, Words

UNEXPLAINED = "the run's record does not show why"
_TIMES = {
    "told_ns": "at", "read_ns": "at", "completed_ns": "at", "time_ns": "at",
    "later_observed_ns": "at", "acknowledged_ns": "when it was acknowledged, at",
    "sent_ns": "when it was sent, at",
}  # fmt: skip
"""The keys of the evidence that contain the time of an anomaly, and a phrase for each key."""


def words_of(
    checked: Iterable[str], summaries: Mapping[str, AnomalySummary], told_as: Mapping[str, Words]
) -> dict[str, Words]:
    """Return the texts of all checks and anomalies, each with only the symptoms that occurred.

    Args:
        checked: The names of the checks that the run's judge knows.
        summaries: The anomalies by name.
        told_as: Other texts for some anomalies. The examples of an anomaly decide whether it has
            other texts.
    """
    names = sorted({*checked, *summaries} & WORDS.keys())
    words = {name: told_as.get(name, WORDS[name]) for name in names}
    return {
        name: replace(
            each, explains=_present(each.explains, summaries) if name in summaries else {}
        )
        for name, each in words.items()
    }


def _present(
    explains: Mapping[str, str], summaries: Mapping[str, AnomalySummary]
) -> dict[str, str]:
    return {name: why for name, why in explains.items() if name in summaries}


def ranked(
    summaries: Mapping[str, AnomalySummary],
    words: Mapping[str, Words],
    *,
    weighty: Iterable[str],
    light: Iterable[str],
) -> tuple[str, ...]:
    """Return the names of anomalies in the order in which a reader should see them.

    Anomalies that decide the verdict come first, then untrusted ones, then Logquake's own, then
    allowed ones. Within each of these groups, an anomaly that a deciding anomaly explains comes
    later. The next criterion is the order of `registry.HEADLINES`. Then safety comes before
    liveness.

    Args:
        summaries: The anomalies by name.
        words: The texts of each anomaly.
        weighty: The anomalies that decide the verdict.
        light: The anomalies whose proof is weaker than the name suggests.
    """
    deciding, weak = set(weighty), set(light)
    symptoms = {
        symptom for root in deciding - weak if root in words for symptom in words[root].explains
    }

    def rank(name: str) -> tuple[bool, bool, bool, bool, int, bool, str]:
        summary = summaries[name]
        harness = summary.anomaly_class is AnomalyClass.HARNESS
        last = name in weak or name not in HEADLINES
        order = len(HEADLINES) if last else HEADLINES.index(name)
        undecided = harness or name not in deciding
        allowed = summary.count == summary.allowed
        lively = summary.anomaly_class is AnomalyClass.LIVENESS
        return undecided, allowed, harness, name in symptoms, order, lively, name

    return tuple(sorted(summaries, key=rank))


def with_causes(
    summaries: Mapping[str, AnomalySummary],
    words: Mapping[str, Words],
    *,
    order: Sequence[str],
    otherwise: Mapping[str, Sequence[str]],
    described: Mapping[str, Sequence[Example]],
) -> dict[str, AnomalySummary]:
    """Return the anomalies, and add a cause to every example.

    If the check proved a cause, that cause is used. Otherwise the cause combines two parts: a
    reason from the partition's rows, and another anomaly that may explain this one. If both are
    missing, the cause states that the run's record does not show why.

    Args:
        summaries: The anomalies by name.
        words: The texts of each anomaly.
        order: The names of the anomalies. An anomaly that explains others comes before them.
        otherwise: The reason that the check gives for each example. Empty if the check gives no
            reason.
        described: All examples that checks described. Only some of these are stored.
    """
    caused: dict[str, AnomalySummary] = {}
    for name in order:
        roots = {
            root: (words[root].explains[name], [*summary.examples, *described[root]])
            for root, summary in caused.items()
            if name in words[root].explains
        }
        examples = tuple(
            replace(each, cause=each.cause or _both(why, _root(each, roots)) or UNEXPLAINED)
            for each, why in zip(summaries[name].examples, otherwise[name], strict=True)
        )
        caused[name] = replace(summaries[name], examples=examples)
    return {name: caused[name] for name in summaries}


def in_force(facts: RunFacts, found: Anomaly) -> str:
    """Return a phrase with the faults that were in force when an anomaly happened, or "".

    A fault that had begun but was not confirmed by then is listed as not yet confirmed.
    """
    times = [(number_in(found, name), what) for name, what in _TIMES.items()]
    at_ns, what = next((each for each in times if each[0] >= 0), (-1, ""))
    if at_ns < 0:
        return ""
    there = [each for each in facts.disturbances if each.begun_ns <= at_ns <= each.ended_ns]
    sure = [each for each in there if 0 <= each.confirmed_ns <= at_ns]
    faults = [
        f"{name}: {'; '.join(sorted({_fault(each) for each in found}))}"
        for name, found in (
            ("in force", sure),
            ("begun and not yet confirmed", [each for each in there if each not in sure]),
        )
        if found
    ]
    if not faults:
        return f" (no known fault {what} {seconds(at_ns)})"
    return f" ({what} {seconds(at_ns)} {'; '.join(faults)})"


def _fault(fault: Disturbance) -> str:
    """Return a fault as a phrase: `kill of n1`."""
    return f"{fault.kind} of {', '.join(sorted(fault.nodes))}" if fault.nodes else fault.kind


def _both(why: str, root: str) -> str:
    """Join the reason from the partition's rows and the anomaly that may explain this anomaly."""
    return "; ".join(each for each in (why, root) if each)


def _root(example: Example, roots: Mapping[str, tuple[str, Sequence[Example]]]) -> str:
    """Return a phrase that names an anomaly of the same partition that may explain this one.

    The phrase is "" if there is no such anomaly. Only offsets and times are compared, not values,
    so the phrase contains "may". The offset of the explaining anomaly must not be above all offsets
    of the symptom. If the times of both anomalies are known, the explaining anomaly must not begin
    later than `TOLD_LATE_NS` after the symptom's end. If both anomalies lack offsets, their times
    must overlap.

    Args:
        example: An example of the symptom.
        roots: The reason and the examples of each anomaly that may explain the symptom.
    """
    offsets = _offsets(example)
    for name, (reason, examples) in roots.items():
        may = [
            each
            for each in examples
            if each.topic
            and (each.topic, each.partition) == (example.topic, example.partition)
            and _may_bring_about(each, example)
        ]
        found = min(may, key=lambda each: (each.offset not in offsets, each.offset), default=None)
        if found is not None:
            first = reason.partition(";")[0]
            whence = (
                "" if found.cause in {"", UNEXPLAINED} else f"; the cause of {name}: {found.cause}"
            )
            at = f" at offset {found.offset}" if found.offset >= 0 else ""
            return f"this anomaly may follow from {name}{at}: {first}{whence}"
    return ""


def _may_bring_about(root: Example, symptom: Example) -> bool:
    """Return whether the offsets and times fit the assumption that one anomaly caused the other."""
    (begun_ns, ended_ns), (first_ns, last_ns) = _span(root), _span(symptom)
    offsets = _offsets(symptom)
    if not offsets and root.offset < 0:
        return 0 <= begun_ns <= last_ns and 0 <= first_ns <= ended_ns
    in_time = begun_ns < 0 or last_ns < 0 or begun_ns <= last_ns + TOLD_LATE_NS
    return 0 <= root.offset <= max(offsets, default=-1) and in_time


def _span(example: Example) -> tuple[int, int]:
    """Return the first and last time in an anomaly's evidence; -1 if the evidence has no time."""
    times = [
        value
        for name, value in example.evidence.items()
        if name.endswith("_ns") and name != "calm_from_ns" and isinstance(value, int) and value >= 0
    ]
    return min(times, default=-1), max(times, default=-1)


def _offsets(example: Example) -> set[int]:
    """Return the anomaly's own offset and all offsets in its evidence."""
    told = [value for name, value in example.evidence.items() if name.endswith("offset")]
    return {example.offset, *(value for value in told if isinstance(value, int))} - {-1}
