"""Decide whether a scripted run ended as its scenario expects. Only `read_end` reads files."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from harness.scenarios.deeds import listed
from harness.scenarios.protocol import Expected
from results.record.contents import message_name
from results.record.paths import RunPaths
from results.record.steps import load_steps
from results.record.terms import Phase, Validity
from results.record.verdict import MAX_EXAMPLES, Verdict

LOST = "lost-write"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a scripted run.

    Attributes:
        valid: The verdict.
        anomalies: The names of the verdict's anomalies.
        lost: The lost messages that the verdict names, in the order of their offsets.
        lost_count: How many messages are lost. The verdict names at most `MAX_EXAMPLES` of these
            messages.
        read: The messages that the final read returned, in order.
        failed: Whether the scenario ended before its last step.
    """

    valid: Validity
    anomalies: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    lost_count: int = 0
    read: tuple[str, ...] = ()
    failed: bool = False


def read_end(paths: RunPaths, verdict: Verdict) -> End:
    """Return the end of a stored scripted run."""
    lost = verdict.anomalies.get(LOST)
    named = (each.evidence.get("value") for each in (lost.examples if lost else ()))
    return End(
        valid=verdict.valid,
        anomalies=frozenset(verdict.anomalies),
        lost=tuple(message_name(value) for value in named if isinstance(value, int)),
        lost_count=lost.count if lost else 0,
        read=tuple(_final_messages(paths)),
        failed=any(step.failed for step in load_steps(paths.steps)),
    )


def differences(expected: Expected, end: End) -> tuple[str, ...]:
    """Return one sentence for each difference from the expected end.

    The result is an empty list if there is no difference.
    """
    if end.failed:
        return ("the story did not reach its end",)
    found = []
    if end.valid is not expected.valid:
        found.append(f"{end.valid}, not {expected.valid}")
    found += [f"no {name} was found" for name in sorted(expected.anomalies - end.anomalies)]
    found += [f"{name} was found" for name in sorted(end.anomalies - expected.anomalies)]
    if expected.lost and not _same_losses(expected.lost, end):
        lost = listed(end.lost) or "none"
        more = f" ({end.lost_count} in all)" if end.lost_count > len(end.lost) else ""
        found.append(f"lost messages: {lost}{more}, not {listed(expected.lost)}")
    if expected.read is not None and end.read != expected.read:
        found.append(
            f"readers get {listed(end.read) or 'nothing'}, not {listed(expected.read) or 'nothing'}"
        )
    return tuple(found)


def expectation(expected: Expected) -> str:
    """Return the expected end in words: `invalid with lost-write, message2 is lost`."""
    with_them = f" with {_each_of(sorted(expected.anomalies))}" if expected.anomalies else ""
    parts = [f"{expected.valid}{with_them}"]
    if expected.lost:
        parts.append(f"{listed(expected.lost)} {'is' if len(expected.lost) == 1 else 'are'} lost")
    if expected.read is not None:
        parts.append(f"readers get {listed(expected.read) or 'nothing'}")
    return ", ".join(parts)


def outcome_line(expected: Expected, found: Sequence[str]) -> str:
    """Return a line that reports whether the run ended as expected."""
    if found:
        return f"NOT as expected: {'; '.join(found)} (expected: {expectation(expected)})"
    return f"as expected: {expectation(expected)}"


def _each_of(names: Sequence[str]) -> str:
    """Return one text that lists all names; `listed`, by contrast, shortens long lists."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _same_losses(lost: tuple[str, ...], end: End) -> bool:
    enough = min(end.lost_count, MAX_EXAMPLES)
    return len(lost) == end.lost_count and len(end.lost) >= enough and set(end.lost) <= set(lost)


def _final_messages(paths: RunPaths) -> list[str]:
    """Return the names of the messages in the final read: one for each offset, in offset order."""
    if not paths.table("polls").exists():
        return []
    polls = pq.read_table(paths.table("polls"), columns=["offset", "value", "phase"])
    found = {
        row["offset"]: "?" if row["value"] is None else message_name(row["value"])
        for row in polls.to_pylist()
        if row["phase"] == Phase.FINAL.value
    }
    return [found[offset] for offset in sorted(found)]
