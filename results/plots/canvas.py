"""Shared functions of all plots: their style, the shading of faults, and the output as SVG."""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from results.wording.faults import FaultLine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_POINTS = 900
"""Maximum number of points. In a longer run, a point stands for several seconds."""
OUTCOME_COLOURS = {"ok": "#2b8cbe", "fail": "#d95f02", "info": "#a06cd5"}
"""Colours that colour-blind readers can distinguish, on a white and on a black page."""
SERIES_COLOURS = ("#2b8cbe", "#3f9d6d", "#d95f02", "#8a8f98")
INK = "#010203"
"""Placeholder for the text colour around the plot; replaced by `currentColor`."""
_SHADE = "#8a8f98"
_SIZE = (9.0, 2.7)
_MARGINS = (0.15, 0.42, 0.42)
"""Margins in inches: right of the axes, below the axes (seconds), above the axes (legend)."""
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.size": 9,
    "text.parse_math": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def load() -> None:
    """Import matplotlib and its fonts in advance, before the first plot is needed."""
    new_axes("", faults=())


def new_axes(label: str, *, faults: Sequence[FaultLine]) -> tuple["Figure", "Axes"]:
    """Return an empty plot with an axis of seconds; the periods of confirmed faults are shaded."""
    import matplotlib as mpl  # noqa: PLC0415 - takes half a second, so only drawing imports it
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415 - as above
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=_SIZE)
        FigureCanvasSVG(figure)
        axes = figure.subplots()
    axes.set_xlabel("seconds since the start")
    axes.set_ylabel(label)
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    # All spans form one shape, because a thousand separate shapes take half a minute.
    if spans := _in_force(faults):
        axes.broken_barh(
            spans, (0, 1), transform=axes.get_xaxis_transform(), facecolors=_SHADE, alpha=0.16,
            linewidth=0,
        )  # fmt: skip
    return figure, axes


def _in_force(faults: Sequence[FaultLine]) -> list[tuple[float, float]]:
    """Return (start, duration) of each period in which a confirmed fault was in force, in order."""
    held = sorted(
        (each.confirmed_s, each.healed_s)
        for each in faults
        if each.confirmed_s is not None and each.healed_s is not None
    )
    spans: list[list[float]] = []
    for begun, ended in held:
        if spans and begun <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], ended)
        else:
            spans.append([begun, ended])
    return [(begun, ended - begun) for begun, ended in spans]


def finish(figure: "Figure", axes: "Axes", *, name: str, left: float = 0.95) -> str:
    """Add the legend and return the SVG, for use alone or inside a page.

    Args:
        figure: The plot.
        axes: The plot's axes.
        name: Prefix of the SVG's ids, so that they differ between the plots of a page.
        left: Margin left of the axes, in inches, for numbers or names. The margins are fixed,
            because Matplotlib's automatic layout would draw each plot twice.
    """
    import matplotlib as mpl  # noqa: PLC0415 - as above

    (width, height), (right, below, above) = figure.get_size_inches(), _MARGINS
    figure.subplots_adjust(
        left=left / width, right=1 - right / width, bottom=below / height, top=1 - above / height
    )
    axes.margins(x=0)
    axes.set_xlim(left=0)
    text = io.StringIO()
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": name}):
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 1.0),
            bbox_transform=figure.transFigure,
            ncols=4,
            labelcolor=INK,
        )
        figure.savefig(
            text,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _cleaned(text.getvalue(), name)


def step_s(last_second: int) -> int:
    """Return the number of seconds that one point of the plot represents."""
    return last_second // MAX_POINTS + 1


def _cleaned(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", svg)
    svg = svg.replace(INK, "currentColor")
    # The viewBox scales the plot; fixed widths would not.
    opening = rf'<svg {_NAMESPACES} \1 class="plot">'
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', opening, svg)
    return re.sub(r"\n\s*", "\n", svg)


_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def standalone(svg: str) -> str:
    """Return a plot as a complete SVG file, coloured for the viewer's light or dark scheme."""
    scheme = (
        "<style>svg{color:#1b1f24}@media (prefers-color-scheme:dark){svg{color:#e3e6ea}}</style>"
    )
    return svg.replace(">", f">{scheme}", 1)
