"""How many transitions and successions of them hunts reached over time."""

from collections.abc import Mapping, Sequence
from statistics import median

from results.plots.canvas import SERIES_COLOURS, finish, new_axes

Growth = Sequence[tuple[float, int, int]]
"""Minutes of main phases, transitions, successions."""
_BAND = 0.16


def growth_plot(hunts: Mapping[str, Sequence[Growth]]) -> str:
    """Return the plot of hunts as SVG; empty if nothing was reached.

    Args:
        hunts: By name. Of several with one name the median is drawn, and a band from the least to
            the most.
    """
    told = {name: [each for each in some if each] for name, some in hunts.items()}
    if not any(told.values()):
        return ""
    figure, axes = new_axes("reached so far", faults=())
    axes.set_xlabel("minutes of main phases")
    for at, (name, growths) in enumerate(told.items()):
        minutes = sorted({0.0, *(each[0] for growth in growths for each in growth)})
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
        for what, style, column in (("pairs in succession", "-", 2), ("transitions", "--", 1)):
            counts = [[_upto(growth, moment, column) for growth in growths] for moment in minutes]
            if not growths:
                continue
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
