"""Compare the checkpoint files of all brokers side by side, for each step of a scripted run.

The text comes from the copies in `snapshots/<step>/<node>/data`. Lines of other partitions are left
out.
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
"""Number of lines before the entries: the version and the number of entries."""


class LineChange(StrEnum):
    """The change of a line since the step before."""

    SAME = ""
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """A line of a checkpoint file.

    Attributes:
        text: The line, unchanged.
        change: The change since the step before.
        header: Whether the line is the version or the number of entries.
        unlike: Whether this line is missing in the file of another broker.
    """

    text: str
    change: LineChange
    header: bool = False
    unlike: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAt:
    """One broker's file at a step.

    Attributes:
        lines: The lines about the partition; empty if there is a `note`.
        note: `no file`, `empty` or `no line for this partition`.
        changed: Whether the file changed since the step before.
    """

    lines: tuple[FileLine, ...]
    note: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """The copies of one checkpoint file on all brokers, in the order of the drawing."""

    name: str
    cells: tuple[FileAt, ...]
    differs: bool


_Texts = Mapping[str, str | None]
"""The text of a file on each node; None if the node has no such file."""


def checkpoint_rows(
    folders: Sequence[Path], nodes: Sequence[str], *, place: Place
) -> list[list[FileRow]]:
    """Return the rows of checkpoint files for each step.

    A file is left out if, on all brokers and at all steps, it has no line for the partition or only
    the offset 0. The files of leader epochs and high watermarks are never left out.

    Args:
        folders: The folders `snapshots/<step>`, in the order of the steps.
        nodes: The brokers.
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
    """Mark the lines of a broker's file that are missing in the file of another broker."""
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
    """Return the old lines with which line `at` of the new file is to be compared.

    A header line of the leader epoch file is compared only with the old line at the same index.
    """
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
        return "empty" if name == _EPOCHS else "no line for this partition"
    return ""
