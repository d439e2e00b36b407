"""The FUSE callbacks that pass requests to the folder below a node's data, and apply faults.

The code needs the standard library only. The program `faulty_disk.py` uses these callbacks. Two
faults can be in force at once: one delays requests, the other breaks requests. Each fault is set
and cleared separately.
"""

# ruff: noqa: D102 - the methods of `Through` are FUSE's, and named as system calls

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

READ, WRITE, FLUSH = "read", "write", "fsync"
LATE, REFUSED, TORN, SHORT, LOST = "late", "refused", "torn", "short", "lost"
"""The effects of faults on requests. The counts of the effects have the same names."""
MAPPED = {".index", ".timeindex"}
"""Suffixes of files that Kafka maps into memory; `.cleaned`, `.swap` or `.deleted` may follow."""
SEGMENT, SWAP = ".log", ".log.swap"
PROBE = ".logquake-probe"
"""Prefix of the names of probe files, which are written to test a disk."""
OF_PROBE = "probe's"
"""If the name of a count contains this text, the count is about requests on probe files."""
CLEAR_S = 5.0
"""After a fault is cleared, its last request must end within this many seconds."""
HIDDEN = ".fuse_hidden"
"""The prefix of the names that libfuse gives to deleted files that are still open. Each name is
unique in a mount."""
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
"""Special times: the first means "now", the second means "unchanged" (man 2 utimensat)."""
_STAT = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino")
_TIMES = ("st_atime", "st_mtime", "st_ctime")
_ROOM = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag",
         "f_frsize", "f_namemax")  # fmt: skip
Answer = dict[str, Any]
"""A JSON object: the only type that the two ends of the connection share."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in force.

    Attributes:
        kind: `late`, or the effect on a request: `refused`, `torn`, `short`, `lost`.
        requests: The kinds of requests that the fault affects: `read`, `write`, `fsync`.
        seconds: The delay of each request.
        folders: For a fault that loses flushes: the folders whose segments the fault affects.
    """

    kind: str
    requests: frozenset[str]
    seconds: float = 0.0
    folders: frozenset[str] = frozenset()


class Faults:
    """The faults in force, and how often each took effect. Thread-safe."""

    def __init__(self) -> None:
        self._late: Fault | None = None
        self._broken: Fault | None = None
        self._lock = threading.Condition()
        self._under_way = 0
        self._counts: dict[str, int] = {}
        self._flushed: dict[str, int] = {}

    def set(self, fault: Fault) -> None:
        """Activate a fault. For this kind of fault, all counts restart at zero.

        A delay replaces an earlier delay. A fault of any other kind replaces the current fault that
        breaks requests.
        """
        with self._lock:
            if fault.kind == LATE:
                self._late = fault
            else:
                self._broken, self._flushed = fault, {}
            self._counts = {
                what: count for what, count in self._counts.items() if _sort(what) != fault.kind
            }

    def note_flushed(self, path: str, size: int) -> None:
        """Record how many bytes of a segment were on disk when the loss of flushes began."""
        with self._lock:
            self._flushed[path] = size

    def note_truncated(self, path: str, size: int) -> None:
        """Record that a file was truncated; bytes written after that point are not on disk."""
        with self._lock:
            path = path.strip("/")
            if path in self._flushed:
                self._flushed[path] = min(size, self._flushed[path])

    def note_moved(self, old: str, new: str, *, flushed: int = 0) -> None:
        """Record that a file or folder was renamed, or deleted if `new` is empty.

        A segment keeps its recorded size while it stays in the fault's folders. Kafka may give the
        old name to a new file. `flushed` is the size that a segment has on disk by its new name.
        """
        with self._lock:
            old, new = old.strip("/"), new.strip("/")
            lost = self._broken.folders if self._broken else ()
            if new in self._flushed or (flushed and _folder_of_segment(new) in lost):
                self._flushed[new] = flushed
            for path in [each for each in self._flushed if f"{each}/".startswith(f"{old}/")]:
                size, self._flushed[path] = self._flushed[path], 0
                there = new + path.removeprefix(old)
                if _folder_of_segment(there) in lost:
                    self._flushed[there] = size

    def clear(self, *, late: bool) -> None:
        """Clear a fault, and wait until no request is being broken by it. Idempotent.

        Raises:
            TimeoutError: A request that the fault breaks does not end.
        """
        with self._lock:
            if late:
                self._late = None
                return
            self._broken = None
            if not self._lock.wait_for(lambda: not self._under_way, timeout=CLEAR_S):
                raise TimeoutError(f"{self._under_way} failing requests are still in progress")

    def told(self) -> Answer:
        """Return how often each fault took effect, and how many bytes each segment has on disk."""
        with self._lock:
            return {"counts": dict(self._counts), "flushed": dict(self._flushed)}

    @contextlib.contextmanager
    def met(self, request: str, path: str, *, parts: bool = True) -> Iterator[str]:
        """Delay a request if a fault requires it; yield the fault's effect, or an empty string.

        Args:
            request: The kind of request.
            path: The file's path.
            parts: Whether a fault can do only a part of the request; false if the request is for
                one byte.

        Raises:
            OSError: EIO, if the fault refuses the request.
        """
        late = self._late
        if late is not None and request in late.requests:
            with self._lock:
                self._count(LATE, request)
            time.sleep(late.seconds)  # noqa: TID251 - standard library only, and this is the fault
        with self._lock:  # Read the fault again: it may have been cleared during the delay.
            what = self._what(request, path, parts=parts)
            if what:
                # Probe requests are counted apart: only the broker's own requests explain its
                # behavior.
                self._count(f"{what} {OF_PROBE}" if PROBE in path else what, request)
                self._under_way += 1
        try:
            if what == REFUSED:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            yield what
        finally:
            if what:
                with self._lock:
                    self._under_way -= 1
                    self._lock.notify_all()

    def _what(self, request: str, path: str, *, parts: bool) -> str:
        broken = self._broken
        if broken is None or request not in broken.requests:
            return ""
        if broken.kind == LOST and _folder_of_segment(path) not in broken.folders:
            return ""
        is_mapped = bool(MAPPED & {*PurePosixPath(path).suffixes})
        if broken.kind in {TORN, SHORT} and (is_mapped or not parts):
            return ""
        return broken.kind

    def _count(self, kind: str, request: str) -> None:
        what = f"{kind} {request}"
        self._counts[what] = self._counts.get(what, 0) + 1


def _sort(what: str) -> str:
    return what.partition(" ")[0]


def _folder_of_segment(path: str) -> str:
    """Return the folder of a file that contains records; an empty string for other files."""
    folder, _, name = path.strip("/").rpartition("/")
    return folder if name.endswith(SEGMENT) else ""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file: the path by which it was opened, and its identity, which survives a rename."""

    path: str
    inode: tuple[int, int]


class Through:
    """The callbacks of FUSE (mfusepy's `Operations`). Each passes its request to the folder below.

    An open file has no path any more after it was unlinked, or after another file was renamed to
    its path. For such a file, the kernel's fstat(2) and mfusepy's ftruncate(2) pass no handle. So
    by default libfuse first renames the file to a hidden name. This class treats the hidden name as
    a name of the open file. A hidden name never appears in the folder below, because Kafka could
    not remove a folder that contains a hidden file.

    So when another file is renamed over an open file, the open file disappears from the folder
    below before the new file appears. A process that reads the folder below may find no file at
    that moment. A process that reads through the mount always finds a file, because the kernel
    locks the folder. If the process found the old file just before the rename, it gets the old
    file. If the old file is already closed, this class returns ESTALE, and the kernel looks up the
    name again (`do_filp_open` of fs/namei.c).

    Args:
        root: The folder below, as an open file descriptor.
        faults: The faults in force.
    """

    use_ns = True

    def __init__(self, root: int, faults: Faults) -> None:
        self._root, self._faults = root, faults
        self._open: dict[int, Opened] = {}
        self._hidden: dict[str, tuple[int, int]] = {}
        """For each hidden name, the identity of its file."""
        self._closed: set[str] = set()
        """The hidden names of closed files, which the kernel may still use for a while."""
        self._lock = threading.Lock()
        """Held while a handle of a hidden file is used or closed: handle numbers are reused."""

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        with self._kept(path, fh) as handle:
            if handle is None:
                found = os.stat(_of(path), dir_fd=self._root, follow_symlinks=False)
            else:
                found = os.fstat(handle)
        times = {name: getattr(found, f"{name}_ns") for name in _TIMES}
        return {**{name: getattr(found, name) for name in _STAT}, **times}

    def access(self, path: str, amode: int) -> int:
        with self._kept(path) as handle:
            allowed = os.access(_of(path, handle), amode, dir_fd=self._root)
        if not allowed:
            locked = amode & os.W_OK and os.fstatvfs(self._root).f_flag & os.ST_RDONLY
            number = errno.EROFS if locked else errno.EACCES
            raise OSError(number, os.strerror(number))
        return 0

    def open(self, path: str, flags: int) -> int:
        # With O_APPEND, pwrite appends whatever its offset (man 2 pwrite).
        flags &= ~(os.O_APPEND | os.O_DIRECT)
        with self._kept(path) as handle:
            opened = self._noted(os.open(_of(path, handle), flags, dir_fd=self._root), path)
        if flags & os.O_TRUNC:
            self._faults.note_truncated(path, 0)
        return opened

    def create(self, path: str, mode: int, fi: object = None) -> int:
        del fi
        opened = os.open(_of(path), os.O_RDWR | os.O_CREAT, mode, dir_fd=self._root)
        return self._noted(opened, path)

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        with self._faults.met(READ, self._name(path, fh)):
            return os.pread(fh, size, offset)

    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        with self._faults.met(WRITE, self._name(path, fh), parts=len(data) > 1) as what:
            if what not in {TORN, SHORT}:
                return os.pwrite(fh, data, offset)
            stored = os.pwrite(fh, data[: len(data) // 2], offset)
            if what == TORN:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return stored

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        with self._kept(path, fh, write=True) as handle:
            if handle is None:
                with self._opened(path, os.O_WRONLY) as opened:
                    os.ftruncate(opened, length)
            else:
                os.ftruncate(handle, length)
        if not self._is_hidden(path):
            self._faults.note_truncated(path, length)
        return 0

    def fallocate(  # noqa: PLR0917 - FUSE's
        self, path: str | None, mode: int, offset: int, size: int, fh: int
    ) -> int:
        del path
        if mode:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        os.posix_fallocate(fh, offset, size)
        return 0

    def fsync(self, path: str | None, datasync: int, fh: int) -> int:
        with self._faults.met(FLUSH, self._name(path, fh)) as what:
            if what != LOST:
                (os.fdatasync if datasync else os.fsync)(fh)
        return 0

    def opendir(self, path: str) -> int:
        return self._noted(
            os.open(_of(path), os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._root), path
        )

    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> int:
        return self.fsync(path, datasync, fh)

    def release(self, path: str | None, fh: int) -> int:
        del path
        with self._lock:
            gone = self._open.pop(fh, None)
            os.close(fh)
            if gone and gone.inode not in {each.inode for each in list(self._open.values())}:
                closed = [name for name, inode in self._hidden.items() if inode == gone.inode]
                self._forget(closed)
        return 0

    def releasedir(self, path: str | None, fh: int) -> int:
        return self.release(path, fh)

    def readdir(self, path: str | None, fh: int) -> list[str]:
        del path
        return [".", "..", *os.listdir(fh)]

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(_of(path), mode, dir_fd=self._root)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(_of(path), dir_fd=self._root)
        return 0

    def unlink(self, path: str) -> int:
        if self._is_hidden(path):
            with self._lock:
                self._forget([_name_in(path)])
        else:
            os.unlink(_of(path), dir_fd=self._root)
            self._faults.note_moved(path, "")
        return 0

    def rename(self, old: str, new: str) -> int:
        hidden, flushed = _name_in(new), 0
        if hidden.startswith(HIDDEN):
            found = os.stat(_of(old), dir_fd=self._root, follow_symlinks=False)
            with self._lock:
                self._hidden[hidden] = (found.st_dev, found.st_ino)
            os.unlink(_of(old), dir_fd=self._root)
        else:
            os.rename(_of(old), _of(new), src_dir_fd=self._root, dst_dir_fd=self._root)
            # Kafka flushes a cleaned segment under another name, which loses no flush.
            if old.endswith(SWAP):
                flushed = os.stat(_of(new), dir_fd=self._root).st_size
        self._faults.note_moved(old, new, flushed=flushed)
        return 0

    def link(self, target: str, source: str) -> int:
        os.link(_of(source), _of(target), src_dir_fd=self._root, dst_dir_fd=self._root)
        return 0

    def symlink(self, target: str, source: str) -> int:
        os.symlink(source, _of(target), dir_fd=self._root)
        return 0

    def readlink(self, path: str) -> str:
        return os.readlink(_of(path), dir_fd=self._root)

    def chmod(self, path: str, mode: int) -> int:
        with self._kept(path) as handle:
            if handle is None:
                os.chmod(_of(path), mode, dir_fd=self._root)
            else:
                os.fchmod(handle, mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        with self._kept(path) as handle:
            if handle is None:
                os.chown(_of(path), uid, gid, dir_fd=self._root, follow_symlinks=False)
            else:
                os.fchown(handle, uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        now, found = time.time_ns(), self.getattr(path)
        was = (found["st_atime"], found["st_mtime"])
        told = times or (UTIME_NOW, UTIME_NOW)
        ns = [
            {UTIME_NOW: now, UTIME_OMIT: old}.get(new, new)
            for new, old in zip(told, was, strict=True)
        ]
        with self._kept(path) as handle:
            if handle is None:
                os.utime(_of(path), ns=(ns[0], ns[1]), dir_fd=self._root, follow_symlinks=False)
            else:
                os.utime(handle, ns=(ns[0], ns[1]))
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        del path
        found = os.fstatvfs(self._root)
        return {name: getattr(found, name) for name in _ROOM}

    def flush_segments(self, folders: Iterable[str]) -> None:
        """Flush each segment in the folders to disk; record how many bytes are then on disk."""
        gone = (NotADirectoryError, FileNotFoundError)
        for folder in folders:
            paths: list[str] = []
            with contextlib.suppress(*gone):
                paths = self._files(folder)
            for path in paths:
                # Kafka renames segments before it deletes them. The other segments still exist
                # then.
                with contextlib.suppress(*gone), self._opened(path, os.O_RDONLY) as file:
                    # Record the size first: the segment may be truncated during the flush.
                    self._faults.note_flushed(path, os.fstat(file).st_size)
                    os.fsync(file)

    def _noted(self, opened: int, path: str) -> int:
        found = os.fstat(opened)
        self._open[opened] = Opened(path, (found.st_dev, found.st_ino))
        return opened

    def _name(self, path: str | None, fh: int) -> str:
        """Return the path of an open file; return its last path if the file was deleted."""
        if path is not None and not self._is_hidden(path):
            return path
        return self._open[fh].path if fh in self._open else ""

    def _is_hidden(self, path: str) -> bool:
        name = _name_in(path)
        return name in self._hidden or name in self._closed

    def _forget(self, names: Iterable[str]) -> None:
        """Forget hidden names that no longer belong to a file. The caller must hold the lock."""
        for name in names:
            self._closed.add(name)  # First, so that a name is always in one of both.
            self._hidden.pop(name, None)

    @contextlib.contextmanager
    def _kept(
        self, path: str, fh: int | None = None, *, write: bool = False
    ) -> Iterator[int | None]:
        """Yield a handle of an open file that has only a hidden name; None for any other file.

        Raises:
            OSError: ESTALE: the file is closed.
        """
        if fh is not None or not self._is_hidden(path):
            yield fh
            return
        with self._lock:
            inode = self._hidden.get(_name_in(path))
            for handle, each in list(self._open.items()):
                if each.inode == inode and (not write or _is_writable(handle)):
                    yield handle
                    return
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def _files(self, folder: str) -> list[str]:
        with self._opened(folder, os.O_RDONLY | os.O_DIRECTORY) as opened:
            names = os.listdir(opened)  # noqa: PTH208 - of an open folder
        return [f"{folder}/{name}" for name in names if name.endswith(SEGMENT)]

    @contextlib.contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        opened = os.open(_of(path), flags, dir_fd=self._root)
        try:
            yield opened
        finally:
            os.close(opened)


def _is_writable(handle: int) -> bool:
    return bool(fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE)


def _name_in(path: str) -> str:
    """Return a file's name without its folder."""
    return path.rpartition("/")[2]


def _of(path: str, handle: int | None = None) -> str:
    """Translate a path in the mount into a path relative to the folder below.

    If a handle is given, return the path in `/proc` of the open file instead.
    """
    return (path.lstrip("/") or ".") if handle is None else f"/proc/self/fd/{handle}"
