"""What simulated machines hold, as a node's folder has it: `data/` and `logs/`."""

import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cluster.reference.process.journal import SERVER_LOG, STATE_CHANGE_LOG, STATE_CHANGES
from cluster.reference.simulator.clock import WALL_CLOCK_S
from cluster.reference.simulator.host import Host

_DATA, _LOGS = "data", "logs"


@dataclass(frozen=True, slots=True)
class MachineFiles:
    """Implements `cluster.protocol.Disk`: `data/...` is the disk, `logs/...` what was said.

    Attributes:
        host: Whose.
        folder: What was prepared for it, such as its settings.
    """

    host: Host
    folder: Path

    def files(self, pattern: str = "**/*") -> list[PurePosixPath]:
        """Return the files whose path matches, in order."""
        there = [f"{_DATA}/{path}" for path in self.host.disk.paths()]
        there += [f"{_LOGS}/{name}" for name in _said(self.host)]
        wanted = pattern.removeprefix("**/")
        paths = sorted(map(PurePosixPath, there))
        return [path for path in paths if wanted == "*" or path.match(wanted)]

    def size(self, path: PurePosixPath | str) -> int:
        """Return the size of a file in bytes."""
        return len(self._whole(path))

    def read(self, path: PurePosixPath | str, *, at: int = 0, size: int = -1) -> bytes:
        """Return bytes of a file, from an offset on; -1: to its end."""
        found = self._whole(path)
        return bytes(found[at:] if size < 0 else found[at : at + size])

    def _whole(self, path: PurePosixPath | str) -> bytes | bytearray:
        folder, _, rest = str(path).partition("/")
        if folder == _LOGS and rest in (said := _said(self.host)):
            return said[rest]
        if folder == _DATA:
            return self.host.disk.read(rest)
        if not rest:
            return (self.folder / folder).read_bytes()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    def write(self, path: PurePosixPath | str, data: bytes, *, at: int = 0) -> None:
        """Write bytes into a file of the disk that may exist; what lies around them stays."""
        own = self._own(path)
        there = own in self.host.disk.paths()
        before = self.host.disk.read(own) if there else b""
        self.host.disk.replace(own, before[:at].ljust(at, b"\0") + data + before[at + len(data) :])

    def truncate(self, path: PurePosixPath | str, size: int) -> None:
        """Cut a file to its first bytes."""
        self.host.disk.truncate(self._own(path), size)

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file, or a folder with all that is in it. Idempotent."""
        own = self._own(path)
        for each in self.host.disk.paths():
            if each == own or each.startswith(f"{own}/"):
                self.host.disk.remove(each)

    def _own(self, path: PurePosixPath | str) -> str:
        folder, _, rest = str(path).partition("/")
        if folder != _DATA:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return rest


def collect_disk(host: Host, folder: Path) -> None:
    """Write what a machine holds into a node's folder as it is now; what it lost goes there, too.

    Args:
        host: The machine.
        folder: `RunPaths.node(node)`.
    """
    data, there = folder / _DATA, set(host.disk.paths())
    for file in [each for each in data.rglob("*") if each.is_file()]:
        if file.relative_to(data).as_posix() not in there:
            file.unlink()
    for path in there:
        place = data / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(host.disk.read(path))
    logs = folder / _LOGS
    logs.mkdir(parents=True, exist_ok=True)
    for name, text in _said(host).items():
        (logs / name).write_bytes(text)


def _said(host: Host) -> dict[str, bytearray]:
    """Return the logs; what was written before is kept, since they are read again and again."""
    logs = host.logs
    for name in (SERVER_LOG, STATE_CHANGE_LOG):
        logs.setdefault(name, bytearray())
    for at_ns, text in host.said[host.logged :]:
        name = STATE_CHANGE_LOG if text.endswith(STATE_CHANGES) else SERVER_LOG
        logs[name] += f"[{_stamp(at_ns)}] INFO {text}\n".encode()
    host.logged = len(host.said)
    return logs


def _stamp(at_ns: int) -> str:
    ms = 1000 * WALL_CLOCK_S + at_ns // 1_000_000
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(ms / 1000))},{ms % 1000:03d}"
