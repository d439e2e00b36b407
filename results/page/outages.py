"""Find, for each partition, the seconds in which every send failed.

One such second alone does not count, because a send may have begun only at the end of the second.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from results.tables import RunTables
from results.wording.faults import FaultLine

MAX_PARTITIONS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The unavailability of a partition.

    Attributes:
        place: The partition, `log-0-1`.
        seconds: Number of seconds with open sends but no success.
        longest: Largest number of such seconds in a row. Seconds without sends are skipped: they
            are not counted, and the row continues after them.
        calm: Number of such seconds while no fault was in force.
        spans: (first, last) second of each unavailable period, both inclusive.
    """

    place: str
    seconds: int
    longest: int
    calm: int
    spans: tuple[tuple[int, int], ...]


def outages(tables: RunTables, faults: Sequence[FaultLine]) -> tuple[list[Outage], int]:
    """Return the unavailable partitions, longest outage first, and the number of the others."""
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
