"""How many transitions and successions of them hunts reached over time."""

from collections.abc import Mapping, Sequence

from results.plots.canvas import SERIES_COLOURS, finish, new_axes

Growth = Sequence[tuple[float, int, int]]
"""Minutes of main phases, transitions, successions."""


def growth_plot(hunts: Mapping[str, Growth]) -> str:
    """Return the plot of hunts as SVG, by name; empty if nothing was reached."""
    told = {name: growth for name, growth in hunts.items() if growth}
    if not told:
        return ""
    figure, axes = new_axes("reached so far", faults=())
    axes.set_xlabel("minutes of main phases")
    for at, (name, growth) in enumerate(told.items()):
        minutes = [0.0, *(each[0] for each in growth)]
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
        for what, style, column in (("pairs in succession", "-", 2), ("transitions", "--", 1)):
            counts = [0, *(each[column] for each in growth)]
            axes.step(
                minutes, counts, where="post", label=f"{name}: {what}", color=colour,
                linestyle=style, linewidth=1.5,
            )  # fmt: skip
    axes.set_ylim(bottom=0)
    return finish(figure, axes, name="growth")
