"""Where files lie: the protocol that `files` and `recovery` need, and a real folder."""

import os
from pathlib import Path
from typing import BinaryIO, Protocol


class Disk(Protocol):
    """Files by path relative to the log dir. Folders come with their files, and go with them.

    Only what was flushed or replaced is safe over a loss of power.
    """

    def append(self, path: str, data: bytes) -> None:
        """Add bytes at a file's end; it is made if there is none, even for no bytes."""

    def flush(self, path: str) -> None:
        """Have all of a file reach the disk (fsync(2))."""

    def truncate(self, path: str, size: int) -> None:
        """Cut a file's end off."""

    def replace(self, path: str, data: bytes) -> None:
        """Write a file aside, flush and rename it: there is the old one or the new one."""

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""

    def rename(self, folder: str, name: str) -> None:
        """Give a folder another name, with all that is in it."""

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""

    def paths(self) -> list[str]:
        """Return all files' paths, in order."""


_MAX_OPEN = 256
"""Files held open; of a log mostly the last segment is written to."""


class FolderDisk:
    """The files below a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, BinaryIO] = {}
        root.mkdir(parents=True, exist_ok=True)

    def append(self, path: str, data: bytes) -> None:
        """Add bytes at a file's end."""
        self._file(path).write(data)

    def flush(self, path: str) -> None:
        """Have a file reach the disk."""
        os.fsync(self._file(path).fileno())

    def truncate(self, path: str, size: int) -> None:
        """Cut a file's end off."""
        self._file(path).truncate(size)

    def replace(self, path: str, data: bytes) -> None:
        """Put a new file in the place of the old one, in one step."""
        self._close(path)
        place = self._root / path
        aside = place.with_name(f"{place.name}.tmp")
        self._make_folder(place.parent)
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(place)
        _flush_folder(place.parent)

    def remove(self, path: str) -> None:
        """Remove a file, and its folder if that is empty then; neither comes back."""
        self._close(path)
        place = self._root / path
        if not place.exists():
            return
        place.unlink()
        if place.parent != self._root and not any(place.parent.iterdir()):
            place.parent.rmdir()
            place = place.parent
        _flush_folder(place.parent)

    def rename(self, folder: str, name: str) -> None:
        """Give a folder another name."""
        for path in [path for path in self._open if path.startswith(f"{folder}/")]:
            self._close(path)
        (self._root / folder).rename(self._root / name)
        _flush_folder(self._root)

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        return (self._root / path).read_bytes()

    def paths(self) -> list[str]:
        """Return all files' paths, in order."""
        found = (path for path in self._root.rglob("*") if path.is_file())
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def close(self) -> None:
        """Close all files; none is flushed by that."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _flush_folder(folder.parent)

    def _close(self, path: str) -> None:
        if (file := self._open.pop(path, None)) is not None:
            file.close()

    def _file(self, path: str) -> BinaryIO:
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= _MAX_OPEN:
                self._close(next(iter(self._open)))
            place = self._root / path
            if not place.exists():
                self._make_folder(place.parent)
            # Unbuffered: what was written survives the end of the process, as Kafka's does.
            file = self._open[path] = place.open("ab", buffering=0)
            _flush_folder(place.parent)
        return file


def _flush_folder(folder: Path) -> None:
    """Have a folder's names reach the disk: rename(2) and creat(2) alone do not."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
