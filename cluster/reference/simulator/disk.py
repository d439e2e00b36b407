"""A simulated disk. A power loss can remove unflushed bytes of the disk's files.

A killed process loses nothing, because the kernel has its writes. After a power loss, a file keeps
its first unflushed bytes, a random number of them, as if the kernel had written these back. So the
last batch is often torn.
"""

import errno
import os
from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    flushed: int = 0
    """How many of the file's first bytes are flushed."""


class SimulatedDisk:
    """The files of a log dir, by path.

    Attributes:
        capacity: The disk's size in bytes; None: unlimited.
        refuses: The `errno` with which every write fails (EIO, EROFS); None: writes succeed.
    """

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._used = 0
        self.capacity: int | None = None
        self.refuses: int | None = None

    @property
    def used(self) -> int:
        """The number of bytes of all files."""
        return self._used

    def append(self, path: str, data: bytes) -> None:
        """Append bytes to a file; create a missing file.

        Raises:
            OSError: The disk is full or refuses writes. Nothing was written.
        """
        if self.refuses is not None or self.capacity is not None:
            self._room_for(len(data))
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _File()
        file.data += data
        self._used += len(data)

    def flush(self, path: str) -> None:
        """Flush a whole file to the disk (fsync)."""
        self._room_for(0)
        if (file := self._files.get(path)) is not None:
            file.flushed = len(file.data)

    def truncate(self, path: str, size: int) -> None:
        """Truncate a file to its first `size` bytes."""
        self._room_for(0)
        if (file := self._files.get(path)) is not None:
            self._used -= max(0, len(file.data) - size)
            del file.data[size:]
            file.flushed = min(file.flushed, size)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file atomically."""
        old = self._files.get(path)
        self._room_for(len(data) - (len(old.data) if old else 0))
        self._used += len(data) - (len(old.data) if old else 0)
        self._files[path] = _File(bytearray(data), len(data))

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""
        if (file := self._files.pop(path, None)) is not None:
            self._used -= len(file.data)

    def rename(self, folder: str, name: str) -> None:
        """Rename a folder."""
        self._room_for(0)
        for path in [path for path in self.paths() if path.startswith(f"{folder}/")]:
            self._files[name + path.removeprefix(folder)] = self._files.pop(path)

    def read(self, path: str) -> bytes:
        """Return a file's bytes.

        Raises:
            FileNotFoundError: There is no such file.
        """
        try:
            return bytes(self._files[path].data)
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def read_flushed(self, path: str) -> bytes:
        """Return the first bytes of a file that would certainly survive a power loss."""
        file = self._files[path]
        return bytes(file.data[: file.flushed])

    def size(self, path: str) -> int:
        """Return the size of a file in bytes; 0 if there is no file."""
        return len(self._files[path].data) if path in self._files else 0

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        return sorted(self._files)

    def lose_power(self, random: Random) -> dict[str, int]:
        """Remove unflushed bytes, but keep a random number of the first unflushed bytes.

        Returns:
            The number of lost bytes, for each file that lost any.
        """
        lost = {}
        for path in self.paths():
            file = self._files[path]
            in_memory = len(file.data) - file.flushed
            if not in_memory:
                continue
            # Usually the kernel has written back none or all, because it writes every few seconds.
            kept = random.choice((0, in_memory, random.randint(0, in_memory)))
            if kept < in_memory:
                lost[path] = in_memory - kept
                self._used -= in_memory - kept
                del file.data[file.flushed + kept :]
            file.flushed = len(file.data)
        return lost

    def _room_for(self, more: int) -> None:
        if self.refuses is not None:
            raise OSError(self.refuses, os.strerror(self.refuses))
        if self.capacity is not None and more > 0 and self._used + more > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
