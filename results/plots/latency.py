"""Plot quantiles of latencies and of the end-to-end lag, on a logarithmic scale."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from results.plots.canvas import SERIES_COLOURS, finish, new_axes, step_s
from results.tables import RunTables
from results.wording.faults import FaultLine

_QUANTILES = (("p50_ms", "median", "-"), ("p95_ms", "95 %", "--"), ("p99_ms", "99 %", "-."),
              ("max_ms", "slowest", ":"))  # fmt: skip


def latency_plot(tables: RunTables, *, f: str, faults: Sequence[FaultLine]) -> str:
    """Return the latency plot of one operation type `f` as SVG; "" if there are no statistics.

    If a point stands for several seconds, it shows the worst second.
    """
    rows = [row for row in tables.statistics("latency").to_pylist() if row["f"] == f]
    return _quantiles_plot(rows, f"{f}: milliseconds", faults=faults, name=f"latency-{f}")


def lag_plot(tables: RunTables, *, faults: Sequence[FaultLine]) -> str:
    """Return the plot of the end-to-end lag as SVG; "" if there are no statistics.

    A point shows the worst lag of all partitions in the seconds that the point stands for.
    """
    columns = [column for column, _, _ in _QUANTILES]
    lags = (
        tables.statistics("lag").group_by("second").aggregate([(each, "max") for each in columns])
    )
    rows = lags.rename_columns(["second", *columns]).to_pylist()
    return _quantiles_plot(rows, "lag: milliseconds", faults=faults, name="lag")


def _quantiles_plot(
    rows: Sequence[Mapping[str, Any]], label: str, *, faults: Sequence[FaultLine], name: str
) -> str:
    if not rows:
        return ""
    step = step_s(max(row["second"] or 0 for row in rows))
    figure, axes = new_axes(label, faults=faults)
    for (column, title, style), colour in zip(_QUANTILES, SERIES_COLOURS, strict=True):
        worst = _worst(rows, column, step=step)
        seconds = range(min(worst, default=0), max(worst, default=-1) + 1, step)
        # A second without such an operation becomes a gap in the line.
        values = [worst.get(second, math.nan) for second in seconds]
        axes.plot(list(seconds), values, label=title, color=colour, linestyle=style, linewidth=1.3)
    axes.set_yscale("log")
    # The default writes powers in mathematical notation, which would stay plain text here.
    from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: PLC0415 - see `new_axes`

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return finish(figure, axes, name=name)


def _worst(rows: Sequence[Mapping[str, object]], column: str, *, step: int) -> dict[int, float]:
    worst: dict[int, float] = {}
    for row in rows:
        second, value = row["second"], row[column]
        if isinstance(second, int) and isinstance(value, float) and value > 0:
            start = second // step * step
            worst[start] = max(value, worst.get(start, 0.0))
    return worst
