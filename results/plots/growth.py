"""Plot, over time, how many transitions and how many pairs of transitions the hunts reached."""

from collections.abc import Mapping, Sequence
from statistics import median

from results.plots.canvas import SERIES_COLOURS, finish, new_axes

Growth = Sequence[tuple[float, int, int]]
"""The totals after each run: (minutes of main phases, transitions, pairs of transitions)."""
TRANSITIONS, PAIRS = "transitions", "pairs in succession"
_COLUMNS = {PAIRS: ("-", 2), TRANSITIONS: ("--", 1)}
_BAND = 0.16
_BEYOND = 1.01
"""Factor that extends the axis, so that the last step is visible."""


def growth_plot(
    hunts: Mapping[str, Sequence[Growth]], *, counted: Sequence[str] = tuple(_COLUMNS)
) -> str:
    """Return the plot of hunts as SVG; "" if nothing was reached.

    Args:
        hunts: Hunts by name. If several hunts share a name, the plot shows their median, and a band
            from their minimum to their maximum.
        counted: The counts to plot.
    """
    told = {name: [each for each in some if each] for name, some in hunts.items()}
    if not any(told.values()):
        return ""
    figure, axes = new_axes("reached so far", faults=())
    axes.set_xlabel("minutes of main phases")
    for at, (name, growths) in enumerate(told.items()):
        if not growths:
            continue
        minutes = sorted({0.0, *(each[0] for growth in growths for each in growth)})
        minutes.append(minutes[-1] * _BEYOND)
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
        for what in counted:
            style, column = _COLUMNS[what]
            counts = [[_upto(growth, moment, column) for growth in growths] for moment in minutes]
            axes.step(
                minutes, [median(each) for each in counts], where="post",
                label=f"{name}: {what}", color=colour, linestyle=style, linewidth=1.5,
            )  # fmt: skip
            if len(growths) > 1:
                axes.fill_between(
                    minutes, [min(each) for each in counts], [max(each) for each in counts],
                    step="post", color=colour, alpha=_BAND, linewidth=0,
                )  # fmt: skip
    axes.set_ylim(bottom=0)
    return finish(figure, axes, name="growth")


def _upto(growth: Growth, moment: float, column: int) -> int:
    return max((int(each[column]) for each in growth if each[0] <= moment), default=0)
