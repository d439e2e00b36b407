"""A file system below a node's data folder that passes everything through, but for one fault.

    python -P faulty_disk.py SOURCE MOUNT SOCKET

Files lie in SOURCE and are seen at MOUNT, which may be the same folder: SOURCE is opened before it
is mounted over. Over the Unix socket SOCKET come orders, a JSON line a connection, and each is
answered with a JSON line; the mount itself is the node's alone. Two faults can be in force side by
side, each set and cleared by itself: one that makes requests late, and one that breaks them.

It is a process of its own in the node's mount namespace (man 7 mount_namespaces): nothing outside
sees the mount, and it goes with the last process of the namespace, whoever killed that.

Needs the standard library and mfusepy only, which needs libfuse; nothing is imported of ours, so
that it starts in a tenth of a second. The kernel caches pages: brokers map their index files with
MAP_SHARED, which `direct_io` would refuse. So a read that the cache answers meets no fault, as on
a real disk. What the kernel writes back of a mapped page is never torn: nobody would learn of it.
"""

# ruff: noqa: D102 - the methods of `Through` are FUSE's, and named as system calls

import contextlib
import ctypes
import errno
import importlib
import json
import mmap
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

READ, WRITE, FLUSH = "read", "write", "fsync"
LATE, REFUSED, TORN, SHORT, LOST = "late", "refused", "torn", "short", "lost"
"""What becomes of a request; the counts are called as these."""
READY = "ready"
TRIAL = "--try"
MAPPED = (".index", ".timeindex")
"""Files that Kafka maps into memory."""
SEGMENT = ".log"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where nodes have a file system of their own
THREADS = 64
"""More requests at a time than a broker has threads: late ones hold up nothing but themselves."""
LINE_BYTES = 1 << 16
_FIRST_WITH_THREADS = (3, 12)
"""The first libfuse that has a limit of threads, of 10."""
_STAT = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_ino")
_TIMES = ("st_atime", "st_mtime", "st_ctime")
_ROOM = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag",
         "f_frsize", "f_namemax")  # fmt: skip
Answer = dict[str, Any]
"""A JSON object: the one place where the two ends of a line need no common type."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is in force.

    Attributes:
        kind: `late`, or what becomes of a request: `refused`, `torn`, `short`, `lost`.
        requests: Which requests it concerns: `read`, `write`, `fsync`.
        seconds: How late they are.
        folders: Of a fault that loses flushes: the folders whose segments it concerns.
    """

    kind: str
    requests: frozenset[str]
    seconds: float = 0.0
    folders: frozenset[str] = frozenset()


class Faults:
    """The faults in force, and how often each did something. Safe to use from several threads."""

    def __init__(self) -> None:
        self._late: Fault | None = None
        self._broken: Fault | None = None
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._flushed: dict[str, int] = {}

    def set(self, fault: Fault, flushed: Mapping[str, int]) -> None:
        """Put a fault in force, in place of another of its sort; what it did is counted anew.

        Args:
            fault: Which.
            flushed: Of a fault that loses flushes: how much of each segment is on disk already.
        """
        with self._lock:
            if fault.kind == LATE:
                self._late = fault
            else:
                self._broken, self._flushed = fault, dict(flushed)
            self._counts = {
                what: count for what, count in self._counts.items() if _sort(what) != fault.kind
            }

    def clear(self, *, late: bool) -> None:
        """Have no such fault be in force. Idempotent."""
        with self._lock:
            if late:
                self._late = None
            else:
                self._broken = None

    def told(self) -> Answer:
        """Return what was done so far, and which part of each segment was on disk at the start."""
        with self._lock:
            return {"counts": dict(self._counts), "flushed": dict(self._flushed)}

    def meet(self, request: str, path: str) -> str:
        """Be late with a request if need be, and return what shall become of it; empty: nothing.

        Raises:
            OSError: EIO, where it is refused.
        """
        late, broken = self._late, self._broken
        if late is not None and request in late.requests:
            self._count(LATE, request)
            time.sleep(late.seconds)  # noqa: TID251 - standard library only, and this is the fault
        if broken is None or request not in broken.requests:
            return ""
        if broken.kind == REFUSED:
            self._count(REFUSED, request)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if broken.kind == LOST and _folder_of_segment(path) not in broken.folders:
            return ""
        if broken.kind in {TORN, SHORT} and path.endswith(MAPPED):
            return ""
        self._count(broken.kind, request)
        return broken.kind

    def _count(self, kind: str, request: str) -> None:
        with self._lock:
            what = f"{kind} {request}"
            self._counts[what] = self._counts.get(what, 0) + 1


def _sort(what: str) -> str:
    return what.partition(" ")[0]


def _folder_of_segment(path: str) -> str:
    """Return the folder of a file that holds records; empty if it does not."""
    folder, _, name = path.strip("/").rpartition("/")
    return folder if name.endswith(SEGMENT) else ""


class Through:
    """The callbacks of FUSE (mfusepy's `Operations`), each done to the folder below.

    Args:
        root: The folder below, open.
        faults: What is in force.
    """

    use_ns = True

    def __init__(self, root: int, faults: Faults) -> None:
        self._root, self._faults = root, faults

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.fstat(fh) if fh else os.stat(_of(path), dir_fd=self._root, follow_symlinks=False)
        times = {name: getattr(found, f"{name}_ns") for name in _TIMES}
        return {**{name: getattr(found, name) for name in _STAT}, **times}

    def access(self, path: str, amode: int) -> int:
        if not os.access(_of(path), amode, dir_fd=self._root):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return 0

    def open(self, path: str, flags: int) -> int:
        # pwrite appends if the file was opened so, whatever its offset (man 2 pwrite).
        return os.open(_of(path), flags & ~(os.O_APPEND | os.O_DIRECT), dir_fd=self._root)

    def create(self, path: str, mode: int, fi: object = None) -> int:
        del fi
        return os.open(_of(path), os.O_RDWR | os.O_CREAT, mode, dir_fd=self._root)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self._faults.meet(READ, path)
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        what = self._faults.meet(WRITE, path)
        if what not in {TORN, SHORT} or len(data) < 2:  # noqa: PLR2004 - a byte has no part
            return os.pwrite(fh, data, offset)
        stored = os.pwrite(fh, data[: len(data) // 2], offset)
        if what == TORN:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return stored

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        with contextlib.ExitStack() as stack:
            os.ftruncate(fh or stack.enter_context(self._opened(path, os.O_WRONLY)), length)
        return 0

    def fallocate(  # noqa: PLR0917 - FUSE's
        self, path: str, mode: int, offset: int, size: int, fh: int
    ) -> int:
        if mode:
            raise OSError(errno.EOPNOTSUPP, path)
        os.posix_fallocate(fh, offset, size)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        if self._faults.meet(FLUSH, path) != LOST:
            (os.fdatasync if datasync else os.fsync)(fh)
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        del datasync, fh
        self._faults.meet(FLUSH, path)
        with self._opened(path, os.O_RDONLY) as folder:
            os.fsync(folder)
        return 0

    def release(self, path: str, fh: int) -> int:
        del path
        os.close(fh)
        return 0

    def readdir(self, path: str, fh: int) -> list[str]:
        del fh
        with self._opened(path, os.O_RDONLY) as folder:
            return [".", "..", *os.listdir(folder)]  # noqa: PTH208 - of an open folder

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(_of(path), mode, dir_fd=self._root)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(_of(path), dir_fd=self._root)
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(_of(path), dir_fd=self._root)
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(_of(old), _of(new), src_dir_fd=self._root, dst_dir_fd=self._root)
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
        os.chmod(_of(path), mode, dir_fd=self._root)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(_of(path), uid, gid, dir_fd=self._root, follow_symlinks=False)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        now = time.time_ns()
        ns = times or (now, now)
        os.utime(_of(path), ns=ns, dir_fd=self._root, follow_symlinks=False)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        del path
        found = os.fstatvfs(self._root)
        return {name: getattr(found, name) for name in _ROOM}

    def flushed(self, folders: Iterable[str]) -> dict[str, int]:
        """Flush each segment, in truth, and return how much of it is on disk now."""
        found = {}
        for folder in folders:
            with contextlib.suppress(NotADirectoryError, FileNotFoundError):
                for path in self._files(folder):
                    with self._opened(path, os.O_RDONLY) as file:
                        found[path] = os.fstat(file).st_size
                        os.fsync(file)
        return found

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


def _of(path: str) -> str:
    """Return a path of the mount as one below the folder."""
    return path.lstrip("/") or "."


class Orders:
    """Hears what is to be in force, on a Unix socket, in a thread of its own.

    Args:
        listener: Listens.
        faults: What is told to.
        through: Knows what is on disk.
    """

    def __init__(self, listener: socket.socket, faults: Faults, through: Through) -> None:
        self._listener, self._faults, self._through = listener, faults, through

    def serve(self) -> None:
        """Answer one order a connection, for as long as the process lives."""
        while True:
            line, _ = self._listener.accept()
            with line, contextlib.suppress(OSError):
                try:
                    answer = self._do(json.loads(line.makefile("rb").readline(LINE_BYTES)))
                except (OSError, ValueError, KeyError, TypeError) as refused:
                    answer = {"error": str(refused)}
                line.sendall(json.dumps(answer).encode() + b"\n")

    def _do(self, order: Answer) -> Answer:
        match order["do"]:
            case "set":
                fault = Fault(
                    kind=order["kind"],
                    requests=frozenset(order["requests"]),
                    seconds=float(order.get("seconds", 0.0)),
                    folders=frozenset(order.get("folders", ())),
                )
                flushed = self._through.flushed(sorted(fault.folders))
                self._faults.set(fault, flushed)
            case "clear":
                self._faults.clear(late=order["kind"] == LATE)
            case "tell":
                pass
            case other:
                raise ValueError(f"nobody knows how to {other}")
        return {"ready": READY, **self._faults.told()}


def library() -> ModuleType:
    """Return mfusepy.

    Raises:
        SystemExit: It is missing, or finds no libfuse.
    """
    try:
        return importlib.import_module("mfusepy")  # Which opens libfuse.
    except (ImportError, OSError) as missing:
        raise SystemExit(f"libfuse, or mfusepy, is missing: {missing}") from missing


def serve(source: str, mount: str, at: str) -> None:
    """Mount, and serve until unmounted or killed.

    Args:
        source: The folder below.
        mount: Where it is seen.
        at: The socket for orders.
    """
    root = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    faults = Faults()
    through = Through(root, faults)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(at)
    listener.listen()
    threading.Thread(target=Orders(listener, faults, through).serve, daemon=True).start()
    mfusepy = library()
    version = (mfusepy.fuse_version_major, mfusepy.fuse_version_minor)
    threads = {"max_threads": THREADS} if version >= _FIRST_WITH_THREADS else {}
    mfusepy.FUSE(
        through, mount, foreground=True, fsname="logquake", hard_remove=True, attr_timeout=0.1,
        entry_timeout=0.1, **threads,
    )  # fmt: skip


def trial() -> None:
    """See that this works here: mount, write, map a file and write to it, see it below.

    Raises:
        OSError, SystemExit: It does not; the message says what.
    """
    library()
    # Nothing of this is seen outside: the trial runs in a mount namespace of its own.
    _mount_tmpfs(SHARED_MEMORY)
    folder = Path(SHARED_MEMORY, "trial")
    folder.mkdir()
    below = os.open(folder, os.O_RDONLY)
    child = os.fork()
    if child == 0:
        serve(os.fspath(folder), os.fspath(folder), f"{folder}.sock")
        os._exit(0)
    try:
        _await_mount(folder, child)
        (folder / "file").write_bytes(bytes(mmap.PAGESIZE))
        with (folder / "file").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:5] = b"wrote"
            mapped.flush()
        if os.pread(os.open("file", os.O_RDONLY, dir_fd=below), 5, 0) != b"wrote":
            raise SystemExit("what is written to a mapped file does not arrive below")
    finally:
        os.kill(child, 9)


def _await_mount(folder: Path, child: int, limit_s: float = 5.0) -> None:
    outside = folder.stat().st_dev
    for _ in range(int(limit_s / 0.02)):
        if folder.stat().st_dev != outside:
            return
        if os.waitpid(child, os.WNOHANG)[0]:
            os._exit(1)  # It has said why.
        time.sleep(0.02)  # noqa: TID251 - standard library only
    raise SystemExit("no file system was mounted")


def _mount_tmpfs(folder: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, None):
        number = ctypes.get_errno()
        raise OSError(number, f"{folder}: {os.strerror(number)}")


if __name__ == "__main__":
    if sys.argv[1:] == [TRIAL]:
        trial()
    else:
        serve(*sys.argv[1:])
