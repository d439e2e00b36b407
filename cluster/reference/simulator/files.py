"""The files of simulated machines, as in a node's folder: `data/` and `logs/`."""

import errno
import os
import re
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath

from cluster.reference.process.journal import SERVER_LOG, STATE_CHANGE_LOG, STATE_CHANGES
from cluster.reference.simulator.clock import WALL_CLOCK_S
from cluster.reference.simulator.host import Host

_DATA, _LOGS = "data", "logs"
_SAID = (SERVER_LOG, STATE_CHANGE_LOG)
_WILD = {"**/": "(?:[^/]+/)*", "*": "[^/]*"}


@dataclass(slots=True, eq=False)
class MachineFiles:
    """Implements `cluster.protocol.Disk`: `data/` has the disk's files, and `logs/` the log lines.

    Attributes:
        host: The machine.
        folder: The folder with files that were prepared for the machine, such as its settings.
    """

    host: Host
    folder: Path
    _texts: dict[str, bytearray] = field(
        default_factory=lambda: {name: bytearray() for name in _SAID}
    )
    _heard: int = 0

    def files(self, pattern: str = "**/*") -> list[PurePosixPath]:
        """Return the paths of the files that match a pattern (`*`, `**`), sorted."""
        there = [f"{_DATA}/{path}" for path in self.host.disk.paths()]
        there += [f"{_LOGS}/{name}" for name in _SAID]
        return sorted(map(PurePosixPath, filter(_matching(pattern).fullmatch, there)))

    def size(self, path: PurePosixPath | str) -> int:
        """Return the size of a file in bytes."""
        return len(self._whole(path))

    def read(self, path: PurePosixPath | str, *, at: int = 0, size: int = -1) -> bytes:
        """Return `size` bytes of a file from offset `at`; if `size` is -1, all bytes to the end."""
        found = self._whole(path)
        return bytes(found[at:] if size < 0 else found[at : at + size])

    def write(self, path: PurePosixPath | str, data: bytes, *, at: int = 0) -> None:
        """Write bytes into a file of the disk at an offset.

        Create a missing file. Other bytes do not change.
        """
        own = self._own(path)
        there = own in self.host.disk.paths()
        before = self.host.disk.read(own) if there else b""
        self.host.disk.replace(own, before[:at].ljust(at, b"\0") + data + before[at + len(data) :])

    def truncate(self, path: PurePosixPath | str, size: int) -> None:
        """Truncate a file to its first `size` bytes."""
        self.host.disk.truncate(self._own(path), size)

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file, or a folder with its contents. Idempotent."""
        own = self._own(path)
        for each in self.host.disk.paths():
            if each == own or each.startswith(f"{own}/"):
                self.host.disk.remove(each)

    def copy_to(self, folder: Path) -> None:
        """Write all files into a node's folder. Delete files there that the machine no longer has.

        Args:
            folder: `RunPaths.node(node)`.
        """
        data, there = folder / _DATA, set(self.host.disk.paths())
        for file in [each for each in data.rglob("*") if each.is_file()]:
            if file.relative_to(data).as_posix() not in there:
                file.unlink()
        for path in self.files():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.read(path))

    def _whole(self, path: PurePosixPath | str) -> bytes | bytearray:
        folder, _, rest = str(path).partition("/")
        if folder == _LOGS and rest in _SAID:
            return self._said()[rest]
        if folder == _DATA:
            return self.host.disk.read(rest)
        if not rest:
            return (self.folder / folder).read_bytes()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def _own(self, path: PurePosixPath | str) -> str:
        folder, _, rest = str(path).partition("/")
        if folder != _DATA:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return rest

    def _said(self) -> dict[str, bytearray]:
        """Return the logs, including the lines since the last call."""
        said = self.host.said
        for at_ns, text in said[self._heard :]:
            name = STATE_CHANGE_LOG if text.endswith(STATE_CHANGES) else SERVER_LOG
            self._texts[name] += f"[{_stamp(at_ns)}] INFO {text}\n".encode()
        self._heard = len(said)
        return self._texts


@lru_cache
def _matching(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for the paths that a `Path.glob` pattern finds."""
    words = re.split(r"(\*\*/|\*)", pattern)
    return re.compile("".join(_WILD.get(word, re.escape(word)) for word in words))


def _stamp(at_ns: int) -> str:
    ms = 1000 * WALL_CLOCK_S + at_ns // 1_000_000
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(ms / 1000))},{ms % 1000:03d}"
