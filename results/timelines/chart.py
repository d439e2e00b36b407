"""The two Bokeh figures of the time line: faults and leaders above, operations below.

Both figures share one time axis. This module creates the figures without data. `timelines.js` fills
in the data whenever the visible time span changes. Lanes are numbered from the top, but the axis
begins at the bottom: lane i of n lies between n-1-i and n-i.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.embed import json_item
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    FixedTicker,
    LinearAxis,
    PanTool,
    Range1d,
    WheelZoomTool,
)
from bokeh.plotting import figure
from bokeh.resources import Resources

SHORTEST_S = 2e-6
_LANE_PX, _AXIS_PX = 17, 46
_FEWEST_PX, _MOST_PX = 90, 620
_LEFT_PX = 92
_BOXES = ("left", "right", "bottom", "top", "fill", "line")
_TEXTS = ("x", "y", "text")


def bokeh_script() -> str:
    """Return Bokeh's core script, without widgets, tables and mathematics."""
    resources = Resources(mode="inline", components=["bokeh"])
    return "\n".join(resources.js_raw)


def chart(*, end_s: float, above: Sequence[str], below: Sequence[str]) -> Mapping[str, Any]:
    """Return the JSON that Bokeh embeds: both figures, without data.

    Args:
        end_s: End of the time axis.
        above: Names of the lanes of faults and leaders.
        below: Names of the lanes of operations.
    """
    time = Range1d(
        start=0, end=end_s, bounds=(0, end_s), min_interval=SHORTEST_S, max_interval=end_s,
        name="time",
    )  # fmt: skip
    figures = [
        _figure("spans", time, above, labelled=not below),
        _figure("operations", time, below, labelled=True),
    ]
    return dict(json_item(column(*figures, sizing_mode="stretch_width")))


def _figure(name: str, time: Range1d, lanes: Sequence[str], *, labelled: bool) -> figure:
    count = max(1, len(lanes))
    height = min(_MOST_PX, max(_FEWEST_PX, count * _LANE_PX)) + (_AXIS_PX if labelled else 14)
    own = Range1d(
        start=0, end=count, bounds=(0, count), min_interval=min(3, count), name=f"{name}-lanes"
    )
    plot = figure(
        name=name, height=height, x_range=time, y_range=own, sizing_mode="stretch_width",
        tools=[], toolbar_location=None, min_border_left=_LEFT_PX, min_border_right=12,
        lod_threshold=None, output_backend="canvas",
    )  # fmt: skip
    wheel, pan = WheelZoomTool(dimensions="width", maintain_focus=False), PanTool()
    plot.add_tools(wheel, pan)
    plot.toolbar.active_scroll, plot.toolbar.active_drag = wheel, pan
    _add_lanes(plot, lanes)
    below = plot.xaxis[0]
    below.visible = labelled
    below.axis_label = "seconds since the run's start"
    below.axis_label_text_font_style = "normal"
    _add_marks(plot, name)
    return plot


def _add_lanes(plot: figure, lanes: Sequence[str]) -> None:
    axis = plot.yaxis[0]
    assert isinstance(axis, LinearAxis)
    middles = [len(lanes) - lane - 0.5 for lane in range(len(lanes))]
    axis.update(
        ticker=FixedTicker(ticks=middles),
        major_label_overrides=dict(zip(middles, lanes, strict=True)),
        major_tick_line_color=None,
    )
    plot.ygrid.visible = False


def _add_marks(plot: figure, name: str) -> None:
    """Add what the script fills in: shades of faults, an image of counts, boxes, and labels."""
    shades, boxes = _source(f"{name}-shades", _BOXES), _source(f"{name}-boxes", _BOXES)
    plot.quad(
        left="left", right="right", bottom="bottom", top="top", source=shades,
        fill_color="fill", line_color=None, level="underlay",
    )  # fmt: skip
    image = ColumnDataSource(
        {"image": [np.zeros((1, 1), np.uint32)], "x": [0], "y": [0], "dw": [1], "dh": [1]},
        name=f"{name}-image",
    )
    plot.image_rgba(image="image", x="x", y="y", dw="dw", dh="dh", source=image, level="image")
    plot.quad(
        left="left", right="right", bottom="bottom", top="top", source=boxes, fill_color="fill",
        line_color="line", line_width=1,
    )  # fmt: skip
    plot.text(
        x="x", y="y", text="text", source=_source(f"{name}-texts", _TEXTS), x_offset=3,
        text_baseline="middle", text_font_size="11px", name=f"{name}-words",
    )  # fmt: skip


def _source(name: str, columns: Sequence[str]) -> ColumnDataSource:
    return ColumnDataSource({each: [] for each in columns}, name=name)
