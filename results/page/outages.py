"""Seconds in which a partition took nothing, though somebody tried: per partition.

A single second counts for nothing: a send that began in its last instant was under way in it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from results.tables import RunTables
from results.wording.faults import FaultLine

MAX_PARTITIONS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A partition's unavailability.

    Attributes:
        place: `log-0-1`.
        seconds: In which sends were under way, and none came out ok.
        longest: Of them in a row; seconds without an attempt between them do not count.
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
    stretches: list[list[int]] = []
    before_ok = True
    for second in sorted(line):
        if line[second]:
            before_ok = True
            continue
        if before_ok:
            stretches.append([])
        stretches[-1].append(second)
        before_ok = False
    long = [each for each in stretches if len(each) > 1]
    bad = [second for each in long for second in each]
    return Outage(
        place=place,
        seconds=len(bad),
        longest=max((len(each) for each in long), default=0),
        calm=sum(not _in_fault(second, faults) for second in bad),
        spans=tuple((each[0], each[-1]) for each in long),
    )


def _in_fault(second: int, faults: Sequence[FaultLine]) -> bool:
    return any(
        fault.requested_s < second + 1 and (fault.healed_s is None or fault.healed_s > second)
        for fault in faults
        if fault.confirmed_s is not None
    )
