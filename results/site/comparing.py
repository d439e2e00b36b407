"""Compare two runs: their verdicts, their anomalies, their plans and their figures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from results.index import RunRow
from results.record.hidden import without_secrets
from results.record.verdict import Verdict
from results.wording.inert import shortened

MAX_PAIRS, MAX_TEXT = 300, 500
"""Maximum rows of a table, and characters of a cell, because a plan may have any size."""
_UNSET, _NONE = "not set", "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A row of a comparison table: a label, and the values of the left run and the right run."""

    what: str
    left: str
    right: str

    def cut(self) -> "Pair":
        """Return the row; very long texts in it are cut off."""
        texts = (shortened(each, MAX_TEXT) for each in (self.what, self.left, self.right))
        what, left, right = texts
        return Pair(what=what, left=left, right=right)

    @property
    def differs(self) -> bool:
        """Whether the two values differ."""
        return self.left != self.right


def shown(pairs: Iterable[Pair]) -> tuple[list[Pair], int]:
    """Return the rows to show, and the number of further rows."""
    whole = list(pairs)
    return [each.cut() for each in whole[:MAX_PAIRS]], max(0, len(whole) - MAX_PAIRS)


def plan_differences(left: Mapping[str, object], right: Mapping[str, object]) -> list[Pair]:
    """Return the keys in which two plans differ, with nested keys as `budgets.isr_s`."""
    a, b = _flat(left), _flat(right)
    pairs = [
        Pair(what=key, left=a.get(key, _UNSET), right=b.get(key, _UNSET))
        for key in sorted(a.keys() | b.keys())
    ]
    return [pair for pair in pairs if pair.differs]


def anomaly_pairs(left: Verdict | None, right: Verdict | None) -> list[Pair]:
    """Return the count of each anomaly in both runs."""
    names = {
        name
        for verdict in (left, right)
        if verdict
        for name, summary in verdict.anomalies.items()
        if summary.count
    }
    return [
        Pair(what=name, left=_found(left, name), right=_found(right, name))
        for name in sorted(names)
    ]


def figure_pairs(left: RunRow, right: RunRow) -> list[Pair]:
    """Return both runs' figures from the index."""
    both = (left, right)
    told = {
        "operations": [_count(each.operations) for each in both],
        "operations a second that succeeded": [_rounded(each.throughput, "") for each in both],
        "time to recover": [_rounded(each.recover_s, " s") for each in both],
        "duration": [_rounded(each.duration_s, " s") for each in both],
    }
    kinds = sorted({kind for each in both for kind, _ in each.faults})
    for kind in kinds:
        told[f"faults: {kind}"] = [str(dict(each.faults).get(kind, 0)) for each in both]
    return [Pair(what=what, left=a, right=b) for what, (a, b) in told.items()]


def latency_pairs(left: Verdict | None, right: Verdict | None) -> list[Pair]:
    """Return the latencies of both runs; latencies in neither verdict are left out."""
    a, b = _latencies(left), _latencies(right)
    return [
        Pair(what=key, left=a.get(key, _NONE), right=b.get(key, _NONE))
        for key in sorted(a.keys() | b.keys())
    ]


def _latencies(verdict: Verdict | None) -> dict[str, str]:
    told = verdict.stats.get("latency_ms") if verdict else None
    if not isinstance(told, Mapping):
        return {}
    return {
        f"latency of {f}, {quantile}": f"{value:.3g} ms"
        for f, quantiles in told.items()
        if isinstance(quantiles, Mapping)
        for quantile, value in quantiles.items()
        if isinstance(value, int | float)
    }


def _flat(values: Mapping[str, object]) -> dict[str, str]:
    """Return a plan's values by dotted keys, for tables nested to any depth.

    Secrets are hidden.
    """
    flat: dict[str, str] = {}
    ahead: list[tuple[str, object]] = list(values.items())
    while ahead:
        key, value = ahead.pop()
        if isinstance(value, Mapping):
            ahead += [(f"{key}.{each}", below) for each, below in value.items()]
        else:
            flat[key] = _told(without_secrets({key: value})[key])
    return flat


def _told(value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        return "; ".join(
            ", ".join(f"{key} {each}" for key, each in item.items()) for item in value
        ) or "none"  # fmt: skip
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _found(verdict: Verdict | None, name: str) -> str:
    if verdict is None:
        return "not judged"
    summary = verdict.anomalies.get(name)
    if summary is None or not summary.count:
        return "none"
    allowed = f", {summary.allowed:,} allowed" if summary.allowed else ""
    return f"{summary.count:,}{allowed}"


def _count(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _rounded(value: float | None, unit: str) -> str:
    return _NONE if value is None else f"{value:,.1f}{unit}"
