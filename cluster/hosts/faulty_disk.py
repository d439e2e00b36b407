"""A FUSE file system below a node's data folder, which can delay requests and let them fail.

    python -P faulty_disk.py SOURCE MOUNT SOCKET

The files are in SOURCE and are visible at MOUNT. SOURCE and MOUNT may be the same folder, because
the program opens SOURCE before it mounts. Orders come over the Unix socket SOCKET. Each connection
carries one JSON line with an order, and one JSON line with the answer. Only the node uses the
mount. Two faults can be in force at once: one fault delays requests, and the other fault breaks
requests. Each fault is set and cleared separately.

The program runs in the node's mount namespace (man 7 mount_namespaces). No process outside of this
namespace sees the mount. The mount vanishes when the last process of the namespace ends for any
reason.

The program needs the standard library, mfusepy and libfuse. From Logquake it imports only
`through.py`, so that it starts in a tenth of a second.

The kernel caches pages, because brokers map their index files with MAP_SHARED. (`direct_io` does
not allow such mappings.) So, as on a real disk, a fault does not affect a read from the cache. The
kernel's writes of mapped pages are never torn, because no process would see the error.
"""

import contextlib
import ctypes
import errno
import functools
import importlib
import json
import mmap
import os
import resource
import socket
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, os.fspath(Path(__file__).resolve().parents[2]))

from cluster.hosts.through import Answer, Fault, Faults, Through

READY = "ready"
TRIAL = "--try"
THREADS = 64
"""The number of threads. A broker has fewer threads, so a delayed request does not delay others."""
LINE_BYTES = 1 << 24
SILENT_S = 2.0
"""The seconds to wait for the line of an order. Meanwhile, other clients wait (at most 10 s)."""
SOURCE = "logquake"
"""The name of the file system in lists of mounts."""
BROKEN, OLDEST = "broken", "oldest"
MISTAKES = 20
"""The maximum number of different internal errors to record. More errors would not help."""
_FIRST_WITH_THREADS = (3, 12)
"""The first version of libfuse with a limit of 10 threads."""
_OURS = {None, errno.EBADF, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors that no faulty disk causes. They show bugs of this program, or missing resources."""
_OF_LIBFUSE = ("fuse: ", "fusermount")
"""The prefixes of stderr lines in which libfuse or fusermount explains why a mount failed."""
_WARNING = "Ignoring invalid max threads value"
"""The warning that libfuse 3.14 prints at each start, for any number of threads."""
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG (man 2 prctl)."""


class Guarded:
    """A wrapper around `Through` that records open requests, and errors of this program itself.

    mfusepy turns every exception except OSError into EINVAL, which only the caller would see. EBADF
    also means a bug of this program, because the kernel has found the file already. A lack of
    handles or memory is also an error of this program, because the kernel checks the broker's
    limits first.

    Args:
        through: The object that executes the requests.
    """

    def __init__(self, through: Through) -> None:
        self._through = through
        self._under_way: dict[int, tuple[str, float]] = {}
        self._broken: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - mfusepy asks for anything
        """Return a callback of `Through` that also records requests; return any other attribute."""
        deed = getattr(self._through, name)
        if not callable(deed):
            return deed

        @functools.wraps(deed)
        def watched(*args: object) -> object:
            me = threading.get_ident()
            self._under_way[me] = (name, time.monotonic())  # noqa: TID251 - standard library only
            try:
                return deed(*args)
            except Exception as failed:
                if not isinstance(failed, OSError) or failed.errno in _OURS:
                    self._note(f"{name}: {failed!r}")
                raise
            finally:
                del self._under_way[me]

        return watched

    def told(self) -> Answer:
        """Return the count of each internal error, and the oldest open request with its age."""
        now_s = time.monotonic()  # noqa: TID251 - standard library only
        under_way = [(now_s - began_s, name) for name, began_s in list(self._under_way.values())]
        return {BROKEN: dict(self._broken), OLDEST: max(under_way, default=(0.0, ""))}

    def _note(self, mistake: str) -> None:
        if mistake in self._broken or len(self._broken) < MISTAKES:
            self._broken[mistake] = self._broken.get(mistake, 0) + 1


class Orders:
    """A separate thread that receives orders over a Unix socket, and sets and clears faults.

    Args:
        listener: The socket.
        faults: The faults to set and clear.
        through: The object that flushes segments when a fault that loses flushes begins.
        guarded: The object that reports internal errors and the oldest request.
    """

    def __init__(
        self, listener: socket.socket, faults: Faults, through: Through, guarded: Guarded
    ) -> None:
        self._listener, self._faults = listener, faults
        self._through, self._guarded = through, guarded

    def serve(self) -> None:
        """Answer one order on each connection, until the process ends.

        A client that connects and sends nothing blocks the next client for `SILENT_S` seconds.
        """
        while True:
            line, _ = self._listener.accept()
            with line, contextlib.suppress(OSError):
                line.settimeout(SILENT_S)
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
                self._faults.set(fault)
                # The fault is in force first, so that no real flush by the broker comes between.
                self._through.flush_segments(sorted(fault.folders))
            case "clear":
                self._faults.clear(late=order["late"])
            case "tell":
                pass
            case other:
                raise ValueError(f"{other} is an unknown request")
        return {"ready": READY, **self._faults.told(), **self._guarded.told()}


def library() -> ModuleType:
    """Import and return mfusepy.

    Raises:
        SystemExit: mfusepy is missing, libfuse is missing, or mfusepy does not know the version of
            libfuse.
    """
    # If the named library is missing, such as libfuse 2, ctypes calls gcc to find it. The temporary
    # files of gcc would stay if both are killed.
    os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
    try:
        return importlib.import_module("mfusepy")  # This import opens libfuse.
    except ImportError as missing:
        raise SystemExit(f"mfusepy is missing ({missing}); type: ./setup") from missing
    except OSError as missing:
        raise SystemExit(
            f"libfuse is missing ({missing}); type: apt-get install fuse3"
        ) from missing
    except AttributeError as unknown:
        raise SystemExit(f"{unknown}") from unknown


def reason(said: str) -> str:
    """Return the reason why a file system did not start, as stderr shows it.

    A line of libfuse is the best explanation. Without such a line, the function returns the last
    line: a message of this program, or an exception.
    """
    lines = [line for line in said.strip().splitlines() if not line.startswith(_WARNING)]
    lines = lines or ["the program printed nothing"]
    return next((line for line in lines if line.startswith(_OF_LIBFUSE)), lines[-1])


def serve(source: str, mount: str, at: str) -> None:
    """Mount the file system, and serve it until it is unmounted or the process is killed.

    Args:
        source: The folder with the files.
        mount: The folder at which the files are visible.
        at: The path of the socket for orders.

    Raises:
        SystemExit: The file system cannot be mounted.
    """
    # This process opens each file that the broker has open, besides its own files.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    root = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    faults = Faults()
    through = Through(root, faults)
    guarded = Guarded(through)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(at)
    listener.listen()
    os.umask(0)  # The kernel has already applied the umask of the process that creates a file.
    orders = Orders(listener, faults, through, guarded)
    threading.Thread(target=orders.serve, daemon=True).start()
    mfusepy = library()
    version = (mfusepy.fuse_version_major, mfusepy.fuse_version_minor)
    threads = {"max_threads": THREADS} if version >= _FIRST_WITH_THREADS else {}
    try:
        mfusepy.FUSE(
            guarded,
            mount,
            foreground=True,
            fsname=SOURCE,
            attr_timeout=0.1,
            entry_timeout=0.1,
            **threads,
        )
    except RuntimeError as code:  # libfuse has printed the reason.
        raise SystemExit(f"libfuse cannot mount a file system at {mount} (code {code})") from code


def trial(scratch: str) -> None:
    """Test this file system here: mount it, write, map and change a file, and check SOURCE.

    Args:
        scratch: A folder over which the test mounts a file system in memory.

    Raises:
        OSError, SystemExit: The test failed. The message contains the reason.
    """
    library()
    # The trial runs in its own mount namespace, so nothing of it is visible outside.
    _mount_tmpfs(scratch)
    folder = Path(scratch, "trial")
    folder.mkdir()
    below = os.open(folder, os.O_RDONLY)
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, 9)
        serve(os.fspath(folder), os.fspath(folder), f"{folder}.sock")
        os._exit(0)
    try:
        _await_mount(folder, child)
        (folder / "file").write_bytes(bytes(mmap.PAGESIZE))
        with (folder / "file").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:5] = b"wrote"
            mapped.flush()
        if os.pread(os.open("file", os.O_RDONLY, dir_fd=below), 5, 0) != b"wrote":
            raise SystemExit(
                "data written to a memory-mapped file does not reach the file system below"
            )
    finally:
        os.kill(child, 9)


def _await_mount(folder: Path, child: int, limit_s: float = 5.0) -> None:
    outside = folder.stat().st_dev
    for _ in range(int(limit_s / 0.02)):
        if folder.stat().st_dev != outside:
            return
        if os.waitpid(child, os.WNOHANG)[0]:
            os._exit(1)  # The child has printed the reason.
        time.sleep(0.02)  # noqa: TID251 - standard library only
    raise SystemExit("no file system was mounted")


def _mount_tmpfs(folder: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, None):
        number = ctypes.get_errno()
        raise OSError(number, f"{folder}: {os.strerror(number)}")


if __name__ == "__main__":
    if sys.argv[1] == TRIAL:
        trial(sys.argv[2])
    else:
        serve(*sys.argv[1:])
