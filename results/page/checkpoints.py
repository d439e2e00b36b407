"""The checkpoint files of all brokers side by side, step by step, as the copies have them.

What lies in `snapshots/<step>/<node>/data` is shown as it stands, but for lines of other
partitions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from results.page.scenes import Place
from results.record.reading import open_file
from results.record.terms import CheckpointFile

_EPOCHS = CheckpointFile.EPOCHS
_MAX_BYTES = 64_000
_MAX_LINES = 12
_HEADER = 2
"""Lines before the entries: version, and how many there are."""


class LineChange(StrEnum):
    """What became of a line since the step before."""

    SAME = ""
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """A line of a file.

    Attributes:
        text: As it stands there.
        change: Since the step before.
        header: Whether it is the version, or the number of entries.
        unlike: Whether the file of another broker that has one lacks it.
    """

    text: str
    change: LineChange
    header: bool = False
    unlike: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAt:
    """One broker's file at a step.

    Attributes:
        lines: What it says of the partition; empty with a `note`.
        note: `no file`, `empty`, `no line of this partition`.
        changed: Since the step before.
    """

    lines: tuple[FileLine, ...]
    note: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One file of all brokers, in the order of the drawing."""

    name: str
    cells: tuple[FileAt, ...]
    differs: bool


_Texts = Mapping[str, str | None]
"""What a file says, by node; None: there is none."""


def checkpoint_rows(
    folders: Sequence[Path], nodes: Sequence[str], *, place: Place
) -> list[list[FileRow]]:
    """Return the files' rows of each step.

    A file that says the same of every broker at every step, and nothing but 0, is left out.

    Args:
        folders: `snapshots/<step>`, in the order of the steps.
        nodes: Which brokers' files.
        place: The partition.
    """
    names = tuple(CheckpointFile)
    read = {name: [_texts(folder, nodes, name, place) for folder in folders] for name in names}
    shown = [name for name in names if name in _ALWAYS or _tells(read[name])]
    return [
        [
            _row(name, nodes, before=read[name][at - 1] if at else None, now=read[name][at])
            for name in shown
        ]
        if any(text is not None for name in names for text in read[name][at].values())
        else []
        for at in range(len(folders))
    ]


_ALWAYS = (CheckpointFile.EPOCHS, CheckpointFile.HIGH_WATERMARKS)


def _tells(steps: Iterable[_Texts]) -> bool:
    said = {text for texts in steps for text in texts.values()}
    return bool({each for each in said if each and not each.endswith(" 0")})


def _texts(folder: Path, nodes: Iterable[str], name: str, place: Place) -> dict[str, str | None]:
    return {node: _text(folder / node / "data", name, place) for node in nodes}


def _text(data: Path, name: str, place: Place) -> str | None:
    path = data / place.folder / name if name == _EPOCHS else data / name
    try:
        with open_file(path, root=data.parent.parent.parent) as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    lines = text.splitlines()
    if name != _EPOCHS:
        own = f"{place.topic} {place.partition} "
        lines = [line for line in lines[_HEADER:] if line.startswith(own)]
    return "\n".join(lines)


def _row(name: str, nodes: Sequence[str], *, before: _Texts | None, now: _Texts) -> FileRow:
    cells = tuple(
        _marked(
            _cell(name, before[node] if before else None, now[node], first=before is None),
            name,
            [text.splitlines() for other, text in now.items() if other != node and text],
        )
        for node in nodes
    )
    return FileRow(name=name, cells=cells, differs=len({now[node] for node in nodes}) > 1)


def _marked(cell: FileAt, name: str, others: Sequence[Sequence[str]]) -> FileAt:
    """Mark the lines of a file that another broker's lacks."""
    lines = tuple(
        replace(
            line,
            unlike=line.change is not LineChange.GONE
            and any(line.text not in _comparable(name, other, at) for other in others),
        )
        for at, line in enumerate(cell.lines)
    )
    return replace(cell, lines=lines)


def _cell(name: str, before: str | None, now: str | None, *, first: bool) -> FileAt:
    changed = not first and before != now
    old, new = (before or "").splitlines(), (now or "").splitlines()
    lines = [
        FileLine(
            text=line,
            change=LineChange.NEW
            if changed and line not in _comparable(name, old, at)
            else LineChange.SAME,
            header=name == _EPOCHS and at < _HEADER,
        )
        for at, line in enumerate(new[:_MAX_LINES])
    ]
    if changed:
        lines += [
            FileLine(text=line, change=LineChange.GONE)
            for line in (old[_HEADER:] if name == _EPOCHS else old)[:_MAX_LINES]
            if line not in new
        ]
    return FileAt(lines=tuple(lines), note=_note(name, now), changed=changed)


def _comparable(name: str, old: Sequence[str], at: int) -> Sequence[str]:
    """Return the old lines that a line may equal: of the head, only the one in its place."""
    return (
        old[at : at + 1]
        if name == _EPOCHS and at < _HEADER
        else old[_HEADER:]
        if name == _EPOCHS
        else old
    )


def _note(name: str, now: str | None) -> str:
    if now is None:
        return "no file"
    if not now:
        return "empty" if name == _EPOCHS else "no line of this partition"
    return ""
