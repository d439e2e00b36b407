"""Plot the operations per second by outcome; `missed` means that no process was free."""

from collections import defaultdict
from collections.abc import Sequence

from results.plots.canvas import OUTCOME_COLOURS, finish, new_axes, step_s
from results.tables import RunTables
from results.wording.faults import FaultLine

_STYLES = {"ok": "-", "fail": "--", "info": "-."}
_OTHER = "#8a8f98"


def rates_plot(tables: RunTables, *, faults: Sequence[FaultLine]) -> str:
    """Return the plot of the statistics `rates` and `offered` as SVG; "" if there are none."""
    rows = [
        (row["second"] or 0, str(row["outcome"]), row["count"] or 0)
        for row in tables.statistics("rates").to_pylist()
    ]
    if not rows:
        return ""
    rows += [
        (row["second"] or 0, "missed", row["missed"] or 0)
        for row in tables.statistics("offered").to_pylist()
        if row["missed"]
    ]
    first, last = min(row[0] for row in rows), max(row[0] for row in rows)
    step = step_s(last)
    series: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for second, outcome, count in rows:
        series[outcome][second // step * step] += count
    figure, axes = new_axes("operations a second", faults=faults)
    seconds = range(first // step * step, last + 1, step)
    for outcome, counts in sorted(series.items(), key=lambda each: -sum(each[1].values())):
        axes.plot(
            list(seconds),
            [counts[second] / step for second in seconds],
            label=outcome,
            color=OUTCOME_COLOURS.get(outcome, _OTHER),
            linestyle=_STYLES.get(outcome, ":"),
            linewidth=1.5,
        )
    axes.set_ylim(bottom=0)
    return finish(figure, axes, name="rates")
