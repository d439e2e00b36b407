"""A simulated disk: files of bytes, of which what was never flushed goes with the power.

A process that is killed loses nothing: what it wrote is the kernel's. A power loss leaves of what
was not flushed as much as the kernel happened to have written back: some of its first bytes, so
that the last batch is often torn.
"""

import errno
import os
from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    flushed: int = 0
    """How many of its first bytes are safe."""


class SimulatedDisk:
    """Files by path, relative to the log dir.

    Attributes:
        capacity: Bytes that it has room for; None: enough.
        refuses: The `errno` that every write gets (EIO, EROFS); None: none.
    """

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._used = 0
        self.capacity: int | None = None
        self.refuses: int | None = None

    @property
    def used(self) -> int:
        """How many bytes all files have."""
        return self._used

    def append(self, path: str, data: bytes) -> None:
        """Add bytes at a file's end; it is made if there is none.

        Raises:
            OSError: The disk is full, or takes no writes; nothing was written.
        """
        if self.refuses is not None or self.capacity is not None:
            self._room_for(len(data))
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _File()
        file.data += data
        self._used += len(data)

    def flush(self, path: str) -> None:
        """Have all of a file on the platter (fsync)."""
        self._room_for(0)
        if (file := self._files.get(path)) is not None:
            file.flushed = len(file.data)

    def truncate(self, path: str, size: int) -> None:
        """Cut a file's end off."""
        self._room_for(0)
        if (file := self._files.get(path)) is not None:
            self._used -= max(0, len(file.data) - size)
            del file.data[size:]
            file.flushed = min(file.flushed, size)

    def replace(self, path: str, data: bytes) -> None:
        """Write a file aside, flush and rename it: there is the old one or the new one."""
        old = self._files.get(path)
        self._room_for(len(data) - (len(old.data) if old else 0))
        self._used += len(data) - (len(old.data) if old else 0)
        self._files[path] = _File(bytearray(data), len(data))

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""
        if (file := self._files.pop(path, None)) is not None:
            self._used -= len(file.data)

    def rename(self, folder: str, name: str) -> None:
        """Give a folder another name."""
        self._room_for(0)
        for path in [path for path in self.paths() if path.startswith(f"{folder}/")]:
            self._files[name + path.removeprefix(folder)] = self._files.pop(path)

    def read(self, path: str) -> bytes:
        """Return a file's bytes.

        Raises:
            FileNotFoundError: There is none.
        """
        try:
            return bytes(self._files[path].data)
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def read_flushed(self, path: str) -> bytes:
        """Return what of a file would certainly outlive a power loss."""
        file = self._files[path]
        return bytes(file.data[: file.flushed])

    def size(self, path: str) -> int:
        """Return how many bytes a file has; 0 if there is none."""
        return len(self._files[path].data) if path in self._files else 0

    def paths(self) -> list[str]:
        """Return all files' paths, in order."""
        return sorted(self._files)

    def lose_power(self, random: Random) -> dict[str, int]:
        """Forget what was never flushed, but for some first bytes of it.

        Returns:
            How many bytes each file lost, of those that lost any.
        """
        lost = {}
        for path in self.paths():
            file = self._files[path]
            in_memory = len(file.data) - file.flushed
            if not in_memory:
                continue
            # Mostly nothing or all had been written back: the kernel does so every few seconds.
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
