"""A file system below a node's data folder that passes everything through, but for one fault.

    python -P faulty_disk.py SOURCE MOUNT SOCKET

Files lie in SOURCE and are seen at MOUNT, which may be the same folder: SOURCE is opened before it
is mounted over. Over the Unix socket SOCKET come orders, a JSON line a connection, and each is
answered with a JSON line; the mount itself is the node's alone. Two faults can be in force side by
side, each set and cleared by itself: one that makes requests late, and one that breaks them.

It is a process of its own in the node's mount namespace (man 7 mount_namespaces): nothing outside
sees the mount, and it goes with the last process of the namespace, whoever killed that.

Needs the standard library and mfusepy only, which needs libfuse; of ours it imports `through.py`
alone, so that it starts in a tenth of a second. The kernel caches pages: brokers map their index
files with MAP_SHARED, which `direct_io` would refuse. So a read that the cache answers meets no
fault, as on a real disk. What the kernel writes back of a mapped page is never torn: nobody would
learn of it.
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
"""More requests at a time than a broker has threads: late ones hold up nothing but themselves."""
LINE_BYTES = 1 << 24
SILENT_S = 2.0
"""Who orders sends the whole line at once; others wait meanwhile, 10 s at most."""
SOURCE = "logquake"
"""What the mount is called in lists of mounts."""
BROKEN, OLDEST = "broken", "oldest"
MISTAKES = 20
"""More of them tell nothing new."""
_FIRST_WITH_THREADS = (3, 12)
"""The first libfuse that has a limit of threads, of 10."""
_OURS = {None, errno.EBADF, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors that no disk below causes: mistakes, and want of what this process or machine has."""
_OF_LIBFUSE = ("fuse: ", "fusermount")
"""How lines begin in which libfuse, or its program, says why it does not mount."""
_WARNING = "Ignoring invalid max threads value"
"""What libfuse 3.14 says at each start, whatever it is given."""
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG (man 2 prctl)."""


class Guarded:
    """`Through`, with a watch over what is under way, and over mistakes of its own.

    mfusepy makes EINVAL of an exception that is no OSError, and nobody but who called would learn
    of it. EBADF can only be ours, too: the kernel has found the file already. So is what comes of
    too few handles or too little memory: the broker's own limits were asked before.

    Args:
        through: Does what is asked.
    """

    def __init__(self, through: Through) -> None:
        self._through = through
        self._under_way: dict[int, tuple[str, float]] = {}
        self._broken: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - mfusepy asks for anything
        """Return a callback of `Through` that is watched, or what else that has."""
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
        """Return mistakes, with how often each was made, and the oldest request with its age."""
        now_s = time.monotonic()  # noqa: TID251 - standard library only
        under_way = [(now_s - began_s, name) for name, began_s in list(self._under_way.values())]
        return {BROKEN: dict(self._broken), OLDEST: max(under_way, default=(0.0, ""))}

    def _note(self, mistake: str) -> None:
        if mistake in self._broken or len(self._broken) < MISTAKES:
            self._broken[mistake] = self._broken.get(mistake, 0) + 1


class Orders:
    """Hears what is to be in force, on a Unix socket, in a thread of its own.

    Args:
        listener: Listens.
        faults: What is told to.
        through: Knows what is on disk.
        guarded: Knows how it goes.
    """

    def __init__(
        self, listener: socket.socket, faults: Faults, through: Through, guarded: Guarded
    ) -> None:
        self._listener, self._faults = listener, faults
        self._through, self._guarded = through, guarded

    def serve(self) -> None:
        """Answer one order a connection, for as long as the process lives.

        Who connects and says nothing holds the next one up for `SILENT_S` only.
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
                # In force already: no flush of the broker's comes between, and counts as true.
                self._through.flush_segments(sorted(fault.folders))
            case "clear":
                self._faults.clear(late=order["late"])
            case "tell":
                pass
            case other:
                raise ValueError(f"nobody knows how to {other}")
        return {"ready": READY, **self._faults.told(), **self._guarded.told()}


def library() -> ModuleType:
    """Return mfusepy.

    Raises:
        SystemExit: It is missing, or finds no libfuse, or one that it does not know.
    """
    # Asked for a library that is not there, as libfuse 2, ctypes has gcc look for it, whose
    # temporary files stay behind when both are killed.
    os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
    try:
        return importlib.import_module("mfusepy")  # Which opens libfuse.
    except ImportError as missing:
        raise SystemExit(f"mfusepy is missing ({missing}); type: ./setup") from missing
    except OSError as missing:
        raise SystemExit(
            f"libfuse is missing ({missing}); type: apt-get install fuse3"
        ) from missing
    except AttributeError as unknown:
        raise SystemExit(f"{unknown}") from unknown


def reason(said: str) -> str:
    """Return why a file system did not start, by what it and libfuse wrote to stderr.

    libfuse comes first; the last line is a sentence of ours, or an exception's.
    """
    lines = [line for line in said.strip().splitlines() if not line.startswith(_WARNING)]
    lines = lines or ["it said nothing"]
    return next((line for line in lines if line.startswith(_OF_LIBFUSE)), lines[-1])


def serve(source: str, mount: str, at: str) -> None:
    """Mount, and serve until unmounted or killed.

    Args:
        source: The folder below.
        mount: Where it is seen.
        at: The socket for orders.

    Raises:
        SystemExit: It cannot be mounted.
    """
    # Each file that a broker has open is open here, too, beside what else is.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    root = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    faults = Faults()
    through = Through(root, faults)
    guarded = Guarded(through)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(at)
    listener.listen()
    os.umask(0)  # The kernel has applied the umask of who creates a file.
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
    except RuntimeError as code:  # libfuse has said why.
        raise SystemExit(f"libfuse mounts no file system at {mount} (code {code})") from code


def trial(scratch: str) -> None:
    """See that this works here: mount, write, map a file and write to it, see it below.

    Args:
        scratch: A folder to mount a file system in memory over.

    Raises:
        OSError, SystemExit: It does not; the message says what.
    """
    library()
    # Nothing of this is seen outside: the trial runs in a mount namespace of its own.
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
    if sys.argv[1] == TRIAL:
        trial(sys.argv[2])
    else:
        serve(*sys.argv[1:])
