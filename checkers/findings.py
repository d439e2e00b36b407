"""Build `Findings` from a checker's items: the first items get evidence, the others are counted."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from checkers.group import Group
from checkers.protocol import MAX_DESCRIBED, Findings, Labels
from results.record.milestones import STACKS
from results.record.verdict import Anomaly, Evidence

T = TypeVar("T")
NO_LABELS: Labels = ((), ())


def _no_labels(_item: object) -> Labels:
    return NO_LABELS


def findings(
    rows: int,
    items: Sequence[T],
    describe: Callable[[T], Anomaly],
    labels: Callable[[T], Labels] = _no_labels,
    *,
    gaps: tuple[str, ...] = (),
) -> Findings:
    """Return findings that describe the first items, and count the other items.

    Items with neither excuses nor broken premises are described first.

    Args:
        rows: The number of compared rows.
        items: The items that were found, by offset.
        describe: Returns an item's anomaly, without labels.
        labels: Returns an item's excuses and broken premises.
        gaps: Comparisons that were not possible, with the reasons.
    """
    labelled = [(item, labels(item)) for item in items]
    if len(items) > MAX_DESCRIBED:
        labelled.sort(key=lambda each: each[1] != NO_LABELS)
    described = [
        replace(describe(item), excuses=excuses, broken_premises=broken)
        for item, (excuses, broken) in labelled[:MAX_DESCRIBED]
    ]
    beyond = Counter(label for _, label in labelled[MAX_DESCRIBED:])
    return Findings(rows=rows, anomalies=tuple(described), beyond=dict(beyond), gaps=gaps)


def could_not_show(found: Findings, why: str, *, given: bool = True) -> Findings:
    """Return the findings; if they compared nothing, with the reason added.

    Args:
        found: The checker's findings.
        why: The reason: which data the run lacks, and which anomaly could not be found without it.
        given: Whether the run has the rows that every run must have. Without these rows, it is
            unknown what could have failed, and the verdict is unknown.
    """
    if found.rows or found.anomalies or not given:
        return found
    return replace(found, unshown=(*found.unshown, why))


def anomaly_at(
    group: Group, name: str, *, sentence: str, evidence: Evidence, offset: int = -1
) -> Anomaly:
    """Return an anomaly of a group's partition."""
    return Anomaly(
        name=name,
        sentence=sentence,
        evidence=evidence,
        run_id=group.facts.run_id,
        topic=group.topic,
        topic_id=group.topic_id,
        partition=group.partition,
        offset=offset,
    )


def with_stacks(group: Group, anomaly: Anomaly) -> Anomaly:
    """Return a liveness anomaly.

    If the servers' thread dumps show deadlocks, they are added to it.
    """
    told = group.facts.milestone(STACKS)
    if told is None:
        return anomaly
    found = [f"{node}: {deadlock}" for node, deadlock in sorted(told.detail.items()) if deadlock]
    words = "".join(f"; {each}" for each in found)
    evidence = {**anomaly.evidence, "stacks": found}
    return replace(anomaly, sentence=f"{anomaly.sentence}{words}", evidence=evidence)


def number_in(found: Anomaly, name: str) -> int:
    """Return a number from an anomaly's evidence, or -1."""
    value = found.evidence.get(name)
    return value if isinstance(value, int) else -1


def numbers_in(found: Anomaly, name: str) -> list[int]:
    """Return a list of numbers from an anomaly's evidence, or an empty list."""
    value = found.evidence.get(name)
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []


def texts_in(found: Anomaly, name: str) -> list[str]:
    """Return a list of strings from an anomaly's evidence. One string gives a list of one."""
    value = found.evidence.get(name)
    texts = value if isinstance(value, list) else [value]
    return [each for each in texts if isinstance(each, str)]


def known(number: int) -> int | None:
    """Return the number, or None if it is negative (null)."""
    return number if number >= 0 else None


def seconds(time_ns: int) -> str:
    """Return a time of the run as text for reports: `31.204 s`."""
    return f"{time_ns // 1_000_000 / 1000:.3f} s" if time_ns >= 0 else "an unknown time"
