"""Plot the periods in which each partition was unavailable."""

from collections.abc import Sequence

from results.page.outages import MAX_PARTITIONS, Outage
from results.plots.canvas import finish, new_axes
from results.wording.faults import FaultLine
from results.wording.inert import inert

_COLOUR = "#d95f02"
MAX_SPANS = 200
"""Maximum number of time spans plotted for a partition; the longest are kept."""
_LANE_INCHES, _NAMES_INCHES = 0.19, 1.75
_NAME = 24


def outages_plot(found: Sequence[Outage], *, faults: Sequence[FaultLine], end_s: float) -> str:
    """Return the plot as SVG; "" if every partition was always available.

    Args:
        found: The unavailable partitions, the worst first.
        faults: The faults to shade.
        end_s: End of the time axis, equal in all plots of the page.
    """
    if not found:
        return ""
    shown = found[:MAX_PARTITIONS]
    figure, axes = new_axes("", faults=faults)
    figure.set_figheight(1.1 + _LANE_INCHES * len(shown))
    for lane, outage in enumerate(shown):
        longest = sorted(outage.spans, key=lambda span: span[0] - span[1])[:MAX_SPANS]
        spans = [(first, last + 1 - first) for first, last in sorted(longest)]
        axes.broken_barh(
            spans, (lane - 0.35, 0.7), facecolors=_COLOUR,
            label="no send succeeded" if lane == 0 else "",
        )  # fmt: skip
    # A topic's name is text from outside, so line breaks are escaped and long labels cut.
    axes.set_yticks(range(len(shown)), [_name(each.place) for each in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(right=max(end_s, 1.0))
    return finish(figure, axes, name="outages", left=_NAMES_INCHES)


def _name(place: str) -> str:
    text = inert(place)
    return text if len(text) <= _NAME else f"{text[: _NAME // 2]}…{text[1 - _NAME // 2 :]}"
