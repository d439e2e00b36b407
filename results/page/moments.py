"""List the events around the main anomaly as table rows: faults, leader, ISR, replicas."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from results.page.case import Case, Look
from results.page.witness import Kind, Told, from_s, reign_at
from results.record.clock import NS_PER_S
from results.wording.faults import FaultLine

MAX_MOMENTS = 16
MAX_REPLICAS = 5
_CLOSE_S = 0.05
"""Events at most this number of seconds apart share a row."""
_STALE_S = 4.0
"""The last observation of a replica is not shown if it is older than this number of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The rows of the table.

    Attributes:
        nodes: The replicas, one column each.
        rows: (second, faults in force, leader and epoch, ISR, log end and high watermark of each
            replica).
    """

    nodes: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def moments(case: Case, told: Told, faults: Sequence[FaultLine]) -> Moments:
    """Return a row for each event of the main anomaly that has a time."""
    nodes = tuple(list(case.looks)[:MAX_REPLICAS])
    rows = [
        (
            f"{at_s:.2f}",
            _in_force(faults, at_s),
            _leader(case, at_s),
            _isr(case, at_s),
            *(_replica(case.looks[node], at_s) for node in nodes),
        )
        for at_s in _times(told)
    ]
    return Moments(nodes=nodes, rows=tuple(rows))


def _times(told: Told) -> list[float]:
    own = sorted(
        each.at_s
        for each in told.events
        if each.at_s is not None and (each.kind is not Kind.FAULT or each.at_s >= told.window[0])
    )
    times: list[float] = []
    for at_s in own:
        if not times or at_s - times[-1] > _CLOSE_S:
            times.append(at_s)
    return times[:MAX_MOMENTS]


def _in_force(faults: Sequence[FaultLine], at_s: float) -> str:
    held = [
        f"{each.kind} {each.nodes}{_doubt(each, at_s)}"
        for each in faults
        if each.begun and from_s(each) <= at_s
        and (each.healed_s is None or at_s < each.healed_s)
    ]  # fmt: skip
    return "; ".join(held[:2]) + (f" +{len(held) - 2}" if len(held) > 2 else "") or "-"  # noqa: PLR2004 - as many as fit


def _doubt(fault: FaultLine, at_s: float) -> str:
    if fault.confirmed_s is None:
        return " (perhaps)"
    return " (ending)" if fault.over_s is not None and at_s >= fault.over_s else ""


def _leader(case: Case, at_s: float) -> str:
    reign = reign_at(case.reigns, int(at_s * NS_PER_S))
    if reign is None:
        return "?"
    epoch = "" if reign.epoch is None else f" e{reign.epoch}"
    return f"n{reign.leader}{epoch}" if reign.leader >= 0 else f"none{epoch}"


def _isr(case: Case, at_s: float) -> str:
    at = bisect.bisect_right([each[0] for each in case.isr], int(at_s * NS_PER_S)) - 1
    return ",".join(map(str, case.isr[at][1])) if at >= 0 else "?"


def _replica(looks: Sequence[Look], at_s: float) -> str:
    at_ns = int(at_s * NS_PER_S)
    at = bisect.bisect_right([each.at_ns for each in looks], at_ns) - 1
    if at < 0 or at_ns - looks[at].at_ns > _STALE_S * NS_PER_S:
        return "?"
    mark = looks[at].high_watermark
    return f"{looks[at].end}/{'?' if mark is None or mark < 0 else mark}"
