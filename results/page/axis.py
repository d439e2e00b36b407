"""The offsets of a drawing as columns: one an offset where there are few, else spans of them."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from results.page.changes import change_at, log_before
from results.page.scenes import Scene

FEW_OFFSETS = 6
"""So many offsets have a column each, whatever lies there."""
MAX_COLUMNS = 6
"""Of more, neighbours that look alike are joined, the oldest first."""
SINGLE_WIDTH, SPAN_WIDTH = 88.0, 142.0
SHORT_NAME = 10
"""A longer name needs the wider column."""
_SPLIT = 2
"""A stretch of so many offsets is drawn one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Offsets that are drawn as one box.

    Attributes:
        first, last: Both inclusive.
        x, width: In units of the drawing.
    """

    first: int
    last: int
    x: float
    width: float

    @property
    def label(self) -> str:
        """`7`, or `0 … 99`."""
        return str(self.first) if self.first == self.last else f"{self.first} … {self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The columns of a drawing, from the left."""

    columns: tuple[Column, ...]
    left: float

    @property
    def right(self) -> float:
        """Where the last column ends."""
        return self.columns[-1].x + self.columns[-1].width if self.columns else self.left

    def x_of(self, offset: int) -> float:
        """Return where an offset begins; inside of a span, in proportion."""
        for column in self.columns:
            if offset <= column.first:
                return column.x
            if offset <= column.last:
                share = (offset - column.first) / (column.last + 1 - column.first)
                return column.x + column.width * share
        return self.right


def story_axis(scenes: Iterable[Scene], *, left: float) -> Axis | None:
    """Return an axis for all scenes of a story, or None if they need too many columns for one."""
    known = list(scenes)
    stretches = _stretches(known)
    return _axis(stretches, known, left=left) if len(stretches) <= MAX_COLUMNS else None


def scene_axis(scene: Scene, *, before: Scene | None, left: float) -> Axis:
    """Return an axis for a scene and the one before, with what looks alike joined.

    Args:
        scene: To be drawn.
        before: The step before, whose logs may have reached further.
        left: Where the first column begins.
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
    """Return what a drawing shows at an offset, but for the records' names."""
    look: list[object] = [scene.differing(offset)]
    for replica in scene.replicas:
        run = replica.log.at(offset)
        was = log_before(replica, before, scene)
        look.append((run and run.epoch, run is None, change_at(was, replica.log, offset)))
    return look


def _stretches(scenes: Iterable[Scene]) -> list[tuple[int, int]]:
    """Return (first, last) of each stretch of offsets that no replica of no scene tells apart."""
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
