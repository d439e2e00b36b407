"""The disk operations that `files` and `recovery` need: a protocol, and a real folder."""

import os
from pathlib import Path
from typing import BinaryIO, Protocol


class Disk(Protocol):
    """The files of a log dir, by path. A folder exists as long as it has files.

    Only flushed or replaced bytes survive a power loss.
    """

    def append(self, path: str, data: bytes) -> None:
        """Append bytes to a file. Create a missing file, even if there are no bytes to append."""

    def flush(self, path: str) -> None:
        """Flush a whole file to the disk (fsync(2))."""

    def truncate(self, path: str, size: int) -> None:
        """Truncate a file to its first `size` bytes."""

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file atomically: write a new one, flush it and rename it."""

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    def rename(self, folder: str, name: str) -> None:
        """Rename a folder with its files."""

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""


_MAX_OPEN = 256
"""The most files to keep open. Usually only the last segment of each log needs to be open."""


class FolderDisk:
    """The files below a real folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, BinaryIO] = {}
        root.mkdir(parents=True, exist_ok=True)

    def append(self, path: str, data: bytes) -> None:
        """Append bytes to a file."""
        self._file(path).write(data)

    def flush(self, path: str) -> None:
        """Flush a file to the disk."""
        os.fsync(self._file(path).fileno())

    def truncate(self, path: str, size: int) -> None:
        """Truncate a file to its first `size` bytes."""
        self._file(path).truncate(size)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file atomically."""
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
        """Remove a file durably, and also the file's folder if the folder is then empty."""
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
        """Rename a folder."""
        for path in [path for path in self._open if path.startswith(f"{folder}/")]:
            self._close(path)
        (self._root / folder).rename(self._root / name)
        _flush_folder(self._root)

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        return (self._root / path).read_bytes()

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        found = (path for path in self._root.rglob("*") if path.is_file())
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def close(self) -> None:
        """Close all files without flushing them."""
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
            # Unbuffered, so that written bytes survive the end of the process, as with Kafka.
            file = self._open[path] = place.open("ab", buffering=0)
            _flush_folder(place.parent)
        return file


def _flush_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk: rename(2) and creat(2) do not flush it."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
