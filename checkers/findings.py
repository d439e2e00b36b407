"""From what a kernel found to `Findings`: evidence for the first, counts for the rest."""

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
    """Describe the first items, those without excuse and doubt before others, and count the rest.

    Args:
        rows: How many rows were looked at.
        items: What was found, by offset.
        describe: Gives an item's anomaly, without labels.
        labels: Gives an item's excuses and broken premises.
        gaps: What could not be looked at, and why.
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
    """Return what was found; if nothing could have failed, with a sentence that says why.

    Args:
        found: Of a kernel.
        why: What the run lacks, and what could not show therefore.
        given: Whether the rows are there that any run has to have; without them nobody knows what
            could have shown, and the verdict is unknown.
    """
    if found.rows or found.anomalies or not given:
        return found
    return replace(found, unshown=(*found.unshown, why))


def anomaly_at(
    group: Group, name: str, *, sentence: str, evidence: Evidence, offset: int = -1
) -> Anomaly:
    """Return an anomaly at the place of a group."""
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
    """Return a liveness anomaly with what the servers' JVMs told of their threads, if they did."""
    told = group.facts.milestone(STACKS)
    if told is None:
        return anomaly
    found = [f"{node}: {deadlock}" for node, deadlock in sorted(told.detail.items()) if deadlock]
    words = "".join(f"; {each}" for each in found)
    evidence = {**anomaly.evidence, "stacks": found}
    return replace(anomaly, sentence=f"{anomaly.sentence}{words}", evidence=evidence)


def number_in(found: Anomaly, name: str) -> int:
    """Return a number of an anomaly's evidence; -1 where it has none."""
    value = found.evidence.get(name)
    return value if isinstance(value, int) else -1


def numbers_in(found: Anomaly, name: str) -> list[int]:
    """Return a list of numbers of an anomaly's evidence; empty where it has none."""
    value = found.evidence.get(name)
    return [each for each in value if isinstance(each, int)] if isinstance(value, list) else []


def texts_in(found: Anomaly, name: str) -> list[str]:
    """Return a list of texts of an anomaly's evidence, or a single one; empty where none is."""
    value = found.evidence.get(name)
    texts = value if isinstance(value, list) else [value]
    return [each for each in texts if isinstance(each, str)]


def known(number: int) -> int | None:
    """Return a number that was recorded, None for a null."""
    return number if number >= 0 else None


def seconds(time_ns: int) -> str:
    """Return a time of the run for people: `31.204 s`."""
    return f"{time_ns // 1_000_000 / 1000:.3f} s" if time_ns >= 0 else "an unknown time"
