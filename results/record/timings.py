"""`timings.json`: times of the command before the start of the run's clock, and after the run.

The milestones contain the times during the run. The judge's times are not milestones, because a
second judging must give the same bytes, even if it takes more or less time.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from results.record.atomic import write_atomically
from results.record.milestones import MAX_NS
from results.record.reading import parse_json, read_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Moments of a run's command, in nanoseconds since the run's start; None if unknown.

    Attributes:
        began_ns: Start of the command; negative, because it is before the run's start.
        judging_ns: Time at which the engine was ready and judging began.
        judged_ns: Time at which the verdict was written.
        drawn_ns: Time at which the page was written.
    """

    began_ns: int | None = None
    judging_ns: int | None = None
    judged_ns: int | None = None
    drawn_ns: int | None = None


def write_timings(path: Path, timings: Timings) -> None:
    """Write the timings of a run.

    Raises:
        StoreError: The file cannot be written.
    """
    write_atomically(path, json.dumps(asdict(timings)) + "\n")


def read_timings(path: Path) -> Timings:
    """Return the timings of a run; missing or invalid values are None."""
    try:
        told = parse_json(read_bytes(path))
    except (OSError, ValueError):
        return Timings()
    values = told if isinstance(told, dict) else {}
    return Timings(
        **{each.name: _moment(values.get(each.name)) for each in fields(Timings)},
    )


def _moment(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_NS:
        return None
    return value
