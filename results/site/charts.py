"""Geometry of the trends' drawings; `trend.svg` draws it. Lengths are SVG user units."""

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
    """A line across, and its label."""

    y: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A part of a bar."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a colour means."""

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
    """One drawing.

    Attributes:
        title: What it shows, with the unit.
        summary: The same for those who hear pages.
        ticks: Lines across.
        labels: (x, text) below.
        boxes: Parts of bars.
        path: The line's path data; empty: there is none.
        dots: Its points.
        keys: What the bars' colours mean.
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
        """Whether there is nothing to see."""
        return not self.boxes and not self.dots


def bars(
    title: str, names: Sequence[str], counts: Sequence[Sequence[int]], *, keys: Sequence[Key]
) -> Chart:
    """Return stacked bars.

    Args:
        title: Of the drawing.
        names: Of the bars, from left to right.
        counts: For each bar how many there are of each tone.
        keys: Of the tones, from the bottom up.
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
    """Return a line; it is broken where a night has no value."""
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
    """Return a round number, 1, 2, 4, 5 or 8 times a power of ten, that is not below a value."""
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
    """Return labels of some bars, so that they do not overlap; the newest always has one."""
    every = max(1, ceil(len(names) / _LABELS))
    return tuple(
        (_x(place, len(names)), name)
        for place, name in enumerate(names)
        if (len(names) - 1 - place) % every == 0
    )
