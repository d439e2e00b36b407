"""Seconds in which a partition took nothing, though somebody tried: per partition."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from results.page.faults import FaultLine
from results.tables import RunTables

MAX_PARTITIONS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A partition's unavailability.

    Attributes:
        place: `log-0-1`.
        seconds: In which sends were under way, and none came out ok.
        longest: Of them in a row, with nothing but seconds without an attempt between.
        calm: Of them while no fault was in force.
        spans: (first, last) of each stretch, both inclusive.
    """

    place: str
    seconds: int
    longest: int
    calm: int
    spans: tuple[tuple[int, int], ...]


def outages(tables: RunTables, faults: Sequence[FaultLine]) -> tuple[list[Outage], int]:
    """Return the partitions that were unavailable, the longest first, and how many never were."""
    lines: dict[tuple[str, int], dict[int, bool]] = defaultdict(dict)
    for row in tables.statistics("availability").to_pylist():
        if row["attempted"] and row["second"] is not None:
            line = lines[str(row["topic"]), row["partition"] or 0]
            line[row["second"]] = line.get(row["second"], False) or bool(row["ok"])
    found = [_outage(f"{place[0]}-{place[1]}", line, faults) for place, line in lines.items()]
    broken = sorted(
        (each for each in found if each.seconds),
        key=lambda each: (-each.longest, -each.seconds, each.place),
    )
    return broken, len(found) - len(broken)


def _outage(place: str, line: dict[int, bool], faults: Sequence[FaultLine]) -> Outage:
    spans: list[tuple[int, int]] = []
    longest = run = 0
    first = None
    for second in sorted(line):
        if line[second]:
            run, first = 0, None
            continue
        run += 1
        longest = max(longest, run)
        if first is None:
            first = second
            spans.append((second, second))
        else:
            spans[-1] = (first, second)
    bad = [second for second, ok in line.items() if not ok]
    return Outage(
        place=place,
        seconds=len(bad),
        longest=longest,
        calm=sum(not _in_fault(second, faults) for second in bad),
        spans=tuple(spans),
    )


def _in_fault(second: int, faults: Sequence[FaultLine]) -> bool:
    return any(
        fault.requested_s < second + 1 and (fault.healed_s is None or fault.healed_s > second)
        for fault in faults
        if fault.confirmed_s is not None
    )
