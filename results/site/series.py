"""Compute figures for each nightly run: verdicts, failures, recovery, throughput."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from results.index import RunRow

VERDICTS = ("valid", "allowed", "told", "unknown", "invalid", "unjudged")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFigures:
    """The figures of one nightly run.

    Attributes:
        suite, night: Names of the suite and of the nightly run.
        runs: Number of runs. No figure includes reruns of failed runs.
        verdicts: The number of runs with each verdict in `VERDICTS`.
        anomalies: (name, number of runs with this anomaly), the most frequent first. Scripted runs
            that ended as expected are left out.
        heads: (name, number of runs in which this anomaly was the most serious one).
        recover_s: Median recovery time in seconds; None if no run recovered.
        throughput: Median number of successful operations per second; None if unknown.
    """

    suite: str
    night: str
    runs: int
    verdicts: tuple[int, ...]
    anomalies: tuple[tuple[str, int], ...]
    heads: tuple[tuple[str, int], ...]
    recover_s: float | None
    throughput: float | None


def figures_of(rows: Iterable[RunRow]) -> list[NightFigures]:
    """Return the figures of each nightly run, the earliest first."""
    nights: defaultdict[tuple[str, str], list[RunRow]] = defaultdict(list)
    for row in rows:
        if row.night and not row.repeats:
            nights[row.night, row.suite].append(row)
    return [_figures(suite, night, nights[night, suite]) for night, suite in sorted(nights)]


def _figures(suite: str, night: str, rows: Sequence[RunRow]) -> NightFigures:
    verdicts = Counter(row.tone for row in rows)
    failed = [row for row in rows if row.tone != "told"]
    counting = [[name for name, count in row.anomalies if count] for row in failed]
    anomalies = Counter(name for names in counting for name in names)
    heads = Counter(names[0] for names in counting if names)
    return NightFigures(
        suite=suite,
        night=night,
        runs=len(rows),
        verdicts=tuple(verdicts[name] for name in VERDICTS),
        anomalies=_most_first(anomalies),
        heads=_most_first(heads),
        recover_s=_median(row.recover_s for row in rows),
        throughput=_median(row.throughput for row in rows),
    )


def most_frequent(nights: Iterable[NightFigures], *, at_most: int) -> list[str]:
    """Return the most frequent names among the most serious anomalies of the runs."""
    total: Counter[str] = Counter()
    for night in nights:
        total.update(dict(night.heads))
    return [name for name, _ in _most_first(total)[:at_most]]


def _most_first(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _median(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return median(known) if known else None
