"""Compute the shapes of the trend charts that `trend.svg` draws. Lengths are SVG user units."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

WIDTH, HEIGHT = 560, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 12, 26
_TICKS = 4
_MAX_BAR = 44.0
_LABELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A horizontal grid line and its label."""

    y: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One coloured part of a bar."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The meaning of a colour."""

    tone: str
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A point of a line."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart.

    Attributes:
        title: Title with the unit.
        summary: A sentence about the content of the chart, for screen readers.
        ticks: Horizontal grid lines.
        labels: (x, text) of the labels below the chart.
        boxes: Sections of bars.
        path: SVG path data of the line; empty if there is none.
        dots: Points of the line.
        keys: Meanings of the bars' colours.
    """

    title: str
    summary: str
    ticks: tuple[Tick, ...]
    labels: tuple[tuple[float, str], ...]
    boxes: tuple[Box, ...] = ()
    path: str = ""
    dots: tuple[Dot, ...] = ()
    keys: tuple[Key, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the chart has no bars and no points."""
        return not self.boxes and not self.dots


def bars(
    title: str, names: Sequence[str], counts: Sequence[Sequence[int]], *, keys: Sequence[Key]
) -> Chart:
    """Return a chart of stacked bars.

    Args:
        title: Title of the chart.
        names: Names of the bars, from left to right.
        counts: For each bar, the count of each colour.
        keys: Meanings of the colours, from bottom to top.
    """
    top = _round_up(max((sum(each) for each in counts), default=0))
    boxes = []
    for place, (name, parts) in enumerate(zip(names, counts, strict=True)):
        width = min(_MAX_BAR, _step(len(names)) * 0.7)
        below = 0
        for key, count in zip(keys, parts, strict=True):
            if count:
                y = _y(below + count, top)
                boxes.append(
                    Box(
                        x=round(_x(place, len(names)) - width / 2, 2),
                        y=y,
                        width=round(width, 2),
                        height=round(_y(below, top) - y, 2),
                        tone=key.tone,
                        title=f"{name}: {count} {key.word}",
                    )
                )
            below += count
    return Chart(
        title=title,
        summary=f"{title}, {len(names)} nights",
        ticks=_ticks(top, whole=True),
        labels=_labels(names),
        boxes=tuple(boxes),
        keys=tuple(keys),
    )


def line(title: str, names: Sequence[str], values: Sequence[float | None], *, unit: str) -> Chart:
    """Return a line chart. The line has a gap where a nightly run has no value."""
    top = _round_up(max((each for each in values if each is not None), default=0))
    dots, path, pen_down = [], [], False
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        if value is None:
            pen_down = False
            continue
        x, y = _x(place, len(names)), _y(value, top)
        path.append(f"{'L' if pen_down else 'M'}{x} {y}")
        pen_down = True
        dots.append(Dot(x=x, y=y, title=f"{name}: {value:.3g} {unit}"))
    return Chart(
        title=title,
        summary=f"{title}, {len(dots)} nights",
        ticks=_ticks(top),
        labels=_labels(names),
        path=" ".join(path),
        dots=tuple(dots),
    )


def _step(count: int) -> float:
    return (WIDTH - LEFT - RIGHT) / max(1, count)


def _x(place: int, count: int) -> float:
    return round(LEFT + _step(count) * (place + 0.5), 2)


def _y(value: float, top: float) -> float:
    share = value / top if top else 0.0
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 2)


def _round_up(value: float) -> float:
    """Round a value up to the next of 1, 2, 4, 5 or 8 times a power of ten."""
    if value <= 0:
        return _TICKS
    power = 10.0 ** floor(log10(value))
    return float(next((each * power for each in (1, 2, 4, 5, 8) if each * power >= value),
                      10 * power))  # fmt: skip


def _ticks(top: float, *, whole: bool = False) -> tuple[Tick, ...]:
    count = int(min(_TICKS, ceil(top))) if whole else _TICKS
    values = [top * number / count for number in range(count + 1)]
    return tuple(
        Tick(y=_y(each, top), label=f"{each:,.6g}")
        for each in values
        if not whole or each == int(each)
    )


def _labels(names: Sequence[str]) -> tuple[tuple[float, str], ...]:
    """Return labels for the newest bar and for some other bars, so that labels do not overlap."""
    every = max(1, ceil(len(names) / _LABELS))
    return tuple(
        (_x(place, len(names)), name)
        for place, name in enumerate(names)
        if (len(names) - 1 - place) % every == 0
    )
