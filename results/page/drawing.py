"""Draw one step of a scripted run: the log of each replica.

All sizes are computed here in units of the drawing, so the template only prints them. Each replica
has a row with a box for each offset. The high watermark is above the boxes and the log end below
them. Epochs and states are also written as text, so that no information depends on colour alone.
"""

from dataclasses import dataclass

from results.page.axis import Axis, Column
from results.page.changes import Change, change_at, log_before
from results.page.logs import Log, Run
from results.page.scenes import DOWN, PAUSED, UP, ReplicaAt, Scene

LEFT = 126.0
_BADGE_CHARACTERS = 18
_RIGHT = 34.0
_HEAD = 22.0
_MARK, _BOX, _STRIP, _END = 20.0, 38.0, 17.0, 19.0
_GAP = 12.0
_LINE = 14.0
_TITLE = 18.0
_INSET = 2.0
_EPOCH_COLOURS = 6
_CHARACTER = 6.2
"""Width of a character in a mark's label."""
_BOLD_CHARACTER = 8.0
_CUT_WIDTH = 22.0
"""Width reserved for the word after a truncated record's name."""
_NARROW = 2 * LEFT

_Word = tuple[str, bool, str]
"""A word: (text, whether it has changed since the step before, CSS class)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The box of one column in one replica's row.

    Attributes:
        x, width: Position and width of the column.
        css: CSS classes: the epoch's colour, `new`, `ghost`, `slot`.
        name, epoch: The two lines of text.
        title: The full text, shown as a tooltip.
        tag: A word at the corner: `new`.
        differs: Whether another replica has a different record at these offsets.
        was: The name of the record that was truncated here. It is shown below the box.
    """

    x: float
    width: float
    css: str
    name: str = ""
    epoch: str = ""
    title: str = ""
    tag: str = ""
    differs: bool = False
    was: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark for a high watermark or a log end."""

    x: float
    text: str
    text_x: float
    hollow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A word next to a replica's row, such as its state."""

    y: float
    text: str
    changed: bool
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The row of one replica."""

    y: float
    height: float
    box_y: float
    title: str
    node: str
    css: str
    leader: bool
    badges: tuple[Badge, ...]
    boxes: tuple[Box, ...]
    high_watermark: Mark | None
    end: Mark
    end_y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The drawing of one step."""

    width: float
    height: float
    offsets: tuple[Column, ...]
    rows: tuple[Row, ...]
    label: str
    left: float = LEFT


def drawing_of(scene: Scene, *, before: Scene | None, axis: Axis) -> Drawing:
    """Compute the drawing of one step.

    Args:
        scene: The replicas at the end of the step.
        before: The replicas at the end of the step before, to mark changes; None for the first
            step.
        axis: The columns of the drawing.
    """
    rows: list[Row] = []
    y = _HEAD
    width = max(axis.right + _RIGHT, _NARROW)
    for replica in scene.replicas:
        row = _row(scene, replica, before=before, axis=axis, y=y, width=width)
        rows.append(row)
        y += row.height + _GAP
    return Drawing(
        width=width,
        height=y - _GAP + 2,
        offsets=axis.columns,
        rows=tuple(rows),
        label=f"The replicas at the end of step {scene.step.number}",
    )


def _row(
    scene: Scene, replica: ReplicaAt, *, before: Scene | None, axis: Axis, y: float, width: float
) -> Row:
    old = before.replica(replica.node) if before else None
    was = log_before(replica, before, scene)
    boxes = tuple(_box(scene, replica, was, column) for column in axis.columns)
    strip = _STRIP if any(box.was for box in boxes) else 0.0
    badges = _badges(replica, old, y=y + _TITLE)
    height = max(_MARK + _BOX + strip + _END, _TITLE + len(badges) * _LINE + 4)
    return Row(
        y=y,
        height=height,
        box_y=y + _MARK,
        title=replica.called,
        node=replica.node if replica.called != replica.node else "",
        css={DOWN: "down", PAUSED: "paused"}.get(replica.state, "up"),
        leader=replica.leader,
        badges=badges,
        boxes=boxes,
        high_watermark=_high_watermark(replica, old, axis=axis, width=width),
        end=_end(replica, old, axis=axis, width=width),
        end_y=y + _MARK + _BOX + strip,
    )


def _box(scene: Scene, replica: ReplicaAt, was: Log, column: Column) -> Box:
    now = replica.log
    run, old = now.at(column.first), was.at(column.first)
    change = change_at(was, now, column.first)
    x, width = column.x + _INSET, column.width - 2 * _INSET
    if run is None:
        if change is not Change.GONE or old is None:
            return Box(x=x, width=width, css="slot")
        name = _names(was, column)
        # A node that is down does not truncate. Its disk lost the records that were not flushed.
        lost = "lost" if replica.state == DOWN else "truncated"
        return Box(
            x=x,
            width=width,
            css="ghost",
            name=_fitting(name, width),
            epoch=lost,
            title=f"{name}: {lost}",
        )
    name, differs = _names(now, column), scene.differing(column.first)
    epoch = _epochs(now, column)
    return Box(
        x=x,
        width=width,
        css=f"{_colour(run)}{' new' if change is not Change.SAME else ''}",
        name=_fitting(name, width),
        epoch=epoch,
        title=f"offset {column.label}: {name}, {epoch}",
        tag="" if change is Change.SAME else "new",
        differs=differs,
        was=_was(was, old, column) if change is Change.REPLACED and old else "",
    )


def _was(log: Log, old: Run, column: Column) -> str:
    name = _names(log, column) or f"epoch {'-' if old.epoch is None else old.epoch}"
    return _fitting(name, column.width - _CUT_WIDTH)


def _fitting(name: str, width: float) -> str:
    """Return a name, cut to the width of its box."""
    room = int(width / _BOLD_CHARACTER)
    return name if len(name) <= room else f"{name[: room - 1]}…"


def _names(log: Log, column: Column) -> str:
    """Return the name of a column's record, or the names of its first and last records.

    If the column has several kinds of records, only one name is returned.
    """
    runs = [run for run in log.runs if run.first <= column.last and run.last >= column.first]
    if len(runs) > 1:
        named = next((run for run in runs if run.name), runs[0])
        return f"{named.name_at(max(named.first, column.first))} …" if named.name else ""
    (run,) = runs
    first, last = run.name_at(column.first), run.name_at(min(column.last, run.last))
    if column.first == column.last or first == last:
        return first
    prefix = run.name if run.number is not None and len(last) > len("message9") else ""
    return f"{first} … {last.removeprefix(prefix)}"


def _epochs(log: Log, column: Column) -> str:
    """Return a column's epochs: `epoch 3`, `epochs 1 … 3` for a range, or `epoch -` if unknown."""
    epochs = [
        run.epoch for run in log.runs if run.first <= column.last and run.last >= column.first
    ]
    first, last = epochs[0], epochs[-1]
    if first is None or last is None:
        return "epoch -"
    return f"epoch {first}" if first == last else f"epochs {first} … {last}"


def _colour(run: Run) -> str:
    return "e-none" if run.epoch is None else f"e{run.epoch % _EPOCH_COLOURS}"


def _badges(replica: ReplicaAt, old: ReplicaAt | None, *, y: float) -> tuple[Badge, ...]:
    words = [
        _state_word(replica, old),
        *(_role_words(replica, old) if replica.role else _leader_words(replica, old)),
        *([] if replica.in_isr is None else [_isr_word(replica, old)]),
        *(
            (f"cannot hear {each}", old is not None and each not in old.deaf_to, "bad")
            for each in replica.deaf_to
        ),
    ]
    return tuple(
        Badge(y=y + _LINE * (number + 1), text=text, changed=changed, css=css)
        for number, (text, changed, css) in enumerate(word for word in words if word[0])
    )


def _state_word(replica: ReplicaAt, old: ReplicaAt | None) -> _Word:
    changed = old is not None and old.state != replica.state
    if replica.state == UP:
        return ("up again" if changed else "", changed, "")
    return (f"now {replica.state}" if changed else replica.state, changed, "bad")


def _role_words(replica: ReplicaAt, old: ReplicaAt | None) -> list[_Word]:
    """Return a controller's role as one line, or as two lines if one line would be too long."""
    changed = old is not None and old.role != replica.role
    lines = replica.role.split(", ") if len(replica.role) > _BADGE_CHARACTERS else [replica.role]
    return [(line, changed, "") for line in lines]


def _leader_words(replica: ReplicaAt, old: ReplicaAt | None) -> list[_Word]:
    changed = old is not None and old.leader != replica.leader
    words: list[_Word] = []
    if replica.leader:
        words.append(("leader now" if changed else "leader", changed, ""))
    elif changed:
        words.append(("leads no more", True, ""))
    if replica.belief:
        words.append((replica.belief, old is not None and old.belief != replica.belief, "bad"))
    return words


def _isr_word(replica: ReplicaAt, old: ReplicaAt | None) -> _Word:
    if old is not None and old.in_isr not in {None, replica.in_isr}:
        return ("back in the ISR" if replica.in_isr else "left the ISR", True, "")
    return ("in the ISR" if replica.in_isr else "not in the ISR", False, "")


def _high_watermark(
    replica: ReplicaAt, old: ReplicaAt | None, *, axis: Axis, width: float
) -> Mark | None:
    if replica.high_watermark is None:
        return None
    number = _moved(old.high_watermark if old else None, replica.high_watermark)
    text = f"high watermark {number}{', on disk' if replica.on_disk else ''}"
    return _mark(axis.x_of(replica.high_watermark), text, hollow=replica.on_disk, width=width)


def _end(replica: ReplicaAt, old: ReplicaAt | None, *, axis: Axis, width: float) -> Mark:
    number = _moved(old.log.end if old else None, replica.log.end)
    return _mark(axis.x_of(replica.log.end), f"log end {number}", hollow=False, width=width)


def _moved(old: int | None, new: int) -> str:
    return str(new) if old in {None, new} else f"{old} → {new}"


def _mark(x: float, text: str, *, hollow: bool, width: float) -> Mark:
    half = len(text) * _CHARACTER / 2
    centre = min(max(x, LEFT + half), width - half - 1)
    return Mark(x=x, text=text, text_x=centre, hollow=hollow)
