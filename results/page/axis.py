"""The columns of a drawing of logs: one column for each offset or, if there are many, each span."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results.page.changes import change_at, log_before
from results.page.scenes import Scene

FEW_OFFSETS = 6
"""If there are at most this many offsets, each offset has its own column."""
MAX_COLUMNS = 6
"""Maximum number of columns. If there are more, neighbours that look alike are joined, the oldest
first."""
SINGLE_WIDTH, SPAN_WIDTH = 88.0, 142.0
SHORT_NAME = 10
"""A record name longer than this needs a wide column."""
_SPLIT = 2
"""In a range of at most this many offsets, each offset has its own column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Offsets that are drawn as one box.

    Attributes:
        first, last: First and last offset, both inclusive.
        x, width: Position and width in units of the drawing.
    """

    first: int
    last: int
    x: float
    width: float

    @property
    def label(self) -> str:
        """The column's label: `7` for one offset, `0 … 99` for a span."""
        return str(self.first) if self.first == self.last else f"{self.first} … {self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The columns of a drawing, from left to right."""

    columns: tuple[Column, ...]
    left: float

    @property
    def right(self) -> float:
        """The right edge of the last column."""
        return self.columns[-1].x + self.columns[-1].width if self.columns else self.left

    def x_of(self, offset: int) -> float:
        """Return the left edge of an offset; inside a span, a proportional position."""
        for column in self.columns:
            if offset <= column.first:
                return column.x
            if offset <= column.last:
                share = (offset - column.first) / (column.last + 1 - column.first)
                return column.x + column.width * share
        return self.right


def story_axis(scenes: Iterable[Scene], *, left: float) -> Axis | None:
    """Return one axis for all steps of a scripted run, or None if this needs too many columns."""
    known = list(scenes)
    stretches = _stretches(known)
    return _axis(stretches, known, left=left) if len(stretches) <= MAX_COLUMNS else None


def scene_axis(scene: Scene, *, before: Scene | None, left: float) -> Axis:
    """Return the axis for one step and the step before it; offsets that look alike share a column.

    Args:
        scene: The step to draw.
        before: The step before. Its logs may be longer than the logs of `scene`.
        left: Left edge of the first column.
    """
    known = [each for each in (before, scene) if each]
    stretches = _stretches(known)
    while len(stretches) > MAX_COLUMNS:
        looks = [_look(scene, before, first) for first, _ in stretches]
        unlike = [
            sum(one != other for one, other in zip(*pair, strict=True))
            for pair in itertools.pairwise(looks)
        ]
        at = unlike.index(min(unlike))
        stretches[at : at + 2] = [(stretches[at][0], stretches[at + 1][1])]
    return _axis(stretches, known, left=left)


def _look(scene: Scene, before: Scene | None, offset: int) -> list[object]:
    """Return a list of the visible features of an offset in a drawing, without record names."""
    look: list[object] = [scene.differing(offset)]
    for replica in scene.replicas:
        run = replica.log.at(offset)
        was = log_before(replica, before, scene)
        look.append((run and run.epoch, run is None, change_at(was, replica.log, offset)))
    return look


def _stretches(scenes: Iterable[Scene]) -> list[tuple[int, int]]:
    """Return (first, last) of each range of offsets in which every replica's log looks uniform."""
    edges: set[int] = set()
    for scene in scenes:
        for replica in scene.replicas:
            edges |= replica.log.edges
            edges |= {replica.high_watermark} if replica.high_watermark is not None else set()
    if not edges or max(edges) == min(edges):
        return []
    ordered = sorted(edges)
    if ordered[-1] - ordered[0] <= FEW_OFFSETS:
        return [(offset, offset) for offset in range(ordered[0], ordered[-1])]
    stretches = []
    for first, behind in itertools.pairwise(ordered):
        if behind - first <= _SPLIT:
            stretches += [(offset, offset) for offset in range(first, behind)]
        else:
            stretches.append((first, behind - 1))
    return stretches


def _axis(stretches: Iterable[tuple[int, int]], scenes: Sequence[Scene], *, left: float) -> Axis:
    columns, x = [], left
    for first, last in stretches:
        width = SINGLE_WIDTH if first == last else SPAN_WIDTH
        if first == last and _longest_name(scenes, first) > SHORT_NAME:
            width = SPAN_WIDTH
        columns.append(Column(first=first, last=last, x=x, width=width))
        x += width
    return Axis(columns=tuple(columns), left=left)


def _longest_name(scenes: Iterable[Scene], offset: int) -> int:
    names = [
        len(run.name_at(offset))
        for scene in scenes
        for replica in scene.replicas
        if (run := replica.log.at(offset))
    ]
    return max(names, default=0)
