"""The store: one folder for each run, `STORE/<name>/<UTC time>-<seed>/`, and `STORE/latest`.

While a run is in progress, its process (the controller) holds an flock on the `lock` file. When the
process ends in any way, the kernel releases the lock. So other processes can see whether a run is
running, even from another container with the same store. A forked child process would keep the
lock, so the child releases the lock first.

The lock file contains the pid of the controller (for people), the boot and PID namespace of the
controller (`results.record.world`), and the file's inode number. A copy of the run has another
inode number.
"""

import contextlib
import fcntl
import fnmatch
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import TracebackType

from results.record.atomic import StoreError, store_error
from results.record.clock import WaitTimeoutError, utc_now_text, wait_until
from results.record.paths import RunPaths
from results.record.reading import MAX_BYTES, open_file, open_lock, read_text
from results.record.world import world
from results.samples import SAMPLE_PREFIX, find_sample, is_sample
from results.trust import make_shared_as

__all__ = [
    "RunInUseError",
    "RunLock",
    "Store",
    "StoreError",
    "hold_run",
    "is_alive",
    "is_copy",
    "lock_run",
    "process_of",
    "typed",
]

DEFAULT_STORE = Path("runs")
LATEST = "latest"
LOCK_WAIT_S = 1.0
"""Seconds to wait for a lock. A process that checks whether a run is alive holds the run's lock for
microseconds."""

_RUN_FOLDER = re.compile(r"(\d{8}T\d{6}Z)-(\d+)(?:-(\d+))?")
_NAMED = 5


def typed(paths: RunPaths) -> str:
    """Return a run's name for the command line: its id, or its path if it is in another store."""
    if is_sample(paths):
        return SAMPLE_PREFIX + paths.root.name
    root = paths.root.resolve()
    if root.parent.parent == DEFAULT_STORE.resolve():
        return shlex.quote(paths.run_id)
    below = root.is_relative_to(Path.cwd())
    return shlex.quote(str(root.relative_to(Path.cwd()) if below else root))


class RunInUseError(StoreError):
    """An error: another process holds a run's lock."""


_held: set[int] = set()


def _let_go() -> None:
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


class RunLock:
    """The lock of a run in progress, as a context manager.

    If the process ends, the lock is also released.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        _held.add(handle)

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._handle in _held:
            _held.remove(self._handle)
            os.close(self._handle)
        self._handle = -1

    def __enter__(self) -> "RunLock":
        """Return the lock, which is already held."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock."""
        self.release()


def lock_run(paths: RunPaths) -> RunLock:
    """Lock a run's folder for this process.

    Raises:
        RunInUseError: Another process holds the lock.
        StoreError: The folder cannot be written.
    """
    try:
        handle = open_lock(paths.lock)
    except OSError as refused:
        raise store_error(paths.lock, refused) from refused
    _take(handle, paths)
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()} {world()} {os.fstat(handle).st_ino}\n".encode())
    return RunLock(handle)


def hold_run(paths: RunPaths) -> contextlib.AbstractContextManager[object]:
    """Lock a dead run's folder for a command. No file is changed.

    Raises:
        RunInUseError: Another process holds the lock.
        StoreError: The lock file cannot be read, or is not a lock file.
    """
    try:
        with open_file(paths.lock) as file:
            handle = os.dup(file.fileno())
    except FileNotFoundError:
        return contextlib.nullcontext()  # The run never ran in this folder.
    except OSError as refused:
        raise store_error(paths.lock, refused) from refused
    _take(handle, paths)
    return RunLock(handle)


def _take(handle: int, paths: RunPaths) -> None:
    try:
        wait_until(
            lambda: _try_lock(handle, fcntl.LOCK_EX), timeout_s=LOCK_WAIT_S, what="the run's lock"
        )
    except WaitTimeoutError as held:
        os.close(handle)
        pid = process_of(paths)
        owner = f"process {pid}" if pid else "another process"
        raise RunInUseError(
            f"the run {paths.run_id} is in use by {owner}: wait for its end, or stop it"
        ) from held


def is_alive(paths: RunPaths) -> bool:
    """Return whether a process holds a run's lock, i.e. whether the run's controller still runs.

    Raises:
        StoreError: The lock file exists, but cannot be read or is not a lock file.
    """
    try:
        with open_file(paths.lock) as file:
            return not _try_lock(file.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    except OSError as refused:
        raise store_error(paths.lock, refused) from refused


def process_of(paths: RunPaths) -> int | None:
    """Return the pid of the controller that last locked the run; None if it is not valid here.

    A pid is not valid after a reboot, or in another PID namespace. Before the first lock, there is
    no pid.
    """
    try:
        pid, where, *_ = read_text(paths.lock).split()
        return int(pid) if where == world() else None
    except (OSError, ValueError):
        return None


def is_copy(paths: RunPaths) -> bool:
    """Return whether a run's files are a copy. The original's controller may still be alive."""
    try:
        with open_file(paths.lock, max_bytes=MAX_BYTES) as file:
            _pid, _world, number = file.read().split()
            return int(number) != os.fstat(file.fileno()).st_ino
    except (OSError, ValueError):
        return False  # Unknown: the run never ran, or an older Logquake wrote its lock file.


class Store:
    """A store of runs.

    Args:
        root: The store's folder; created with the first run.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def check_usable(self) -> None:
        """Create the store's folder and write a test file, before a cluster is started.

        Raises:
            StoreError: The folder cannot be created or written, or brokers cannot use the folder's
                name.
        """
        try:
            str(self.root.absolute()).encode("utf-8")
        except UnicodeEncodeError as unnamed:
            raise StoreError(
                f"{os.fsencode(self.root.absolute())!r} is not UTF-8 text, but brokers' settings"
                " must be UTF-8; choose another folder with --store"
            ) from unnamed
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            # The name is random, because another user could place a link under a known name.
            with tempfile.NamedTemporaryFile(prefix=".probe-", dir=self.root) as probe:
                # Some bytes are written, because an empty file fits on a full disk.
                probe.write(b"0" * 4096)
                probe.flush()
        except FileExistsError as file:
            raise StoreError(
                f"{self.root} is a file, not a folder; choose another folder with --store"
            ) from file
        except OSError as refused:
            raise store_error(self.root, refused) from refused

    @contextlib.contextmanager
    def create(self, name: str, seed: int) -> Iterator[RunPaths]:
        """Create and lock the folder of a new run, and point `latest` to this folder.

        The lock is held until the end of the `with` block.

        Args:
            name: The plan's name.
            seed: The plan's seed, which is part of the folder's name.

        Raises:
            StoreError: The store cannot be written.
        """
        self.check_usable()
        # In a container only the run's own folder exists, so a path with `x/..` does not work.
        root = self.root.resolve() if ".." in self.root.parts else self.root
        parent = root / name
        stem = f"{utc_now_text()}-{seed}"
        try:
            make_shared_as(parent, root)
            paths = RunPaths(_make_unique(parent, stem))
            for folder in (paths.live, paths.statistics, paths.nodes):
                folder.mkdir(parents=True)
            self._point_latest(paths)
        except OSError as refused:
            raise store_error(parent / stem, refused) from refused
        with lock_run(paths):
            yield paths

    def runs(self) -> list[RunPaths]:
        """Return the runs of the store, newest first.

        Raises:
            StoreError: The store cannot be read.
        """
        try:
            if not self.root.exists():
                return []
            if not self.root.is_dir():
                raise StoreError(
                    f"{self.root} is a file, not a folder; choose another folder with --store"
                )
            # glob treats an unreadable folder as an empty one.
            next(self.root.iterdir(), None)
            found = [path for path in self.root.glob("[!.]*/*") if _is_run(path)]
        except OSError as refused:
            raise store_error(self.root, refused) from refused
        linked = self.root / LATEST
        folders = [path for path in found if path.parent != linked]
        return [RunPaths(path) for path in sorted(folders, key=_age, reverse=True)]

    def latest(self) -> RunPaths | None:
        """Return the newest run, or None if the store is empty."""
        link = self.root / LATEST
        if link.is_dir() and not self.root.stat().st_mode & stat.S_ISVTX:
            return RunPaths(link.resolve())
        return next(iter(self.runs()), None)

    def find(self, text: str) -> RunPaths:
        """Return the run that an argument on the command line stands for.

        Args:
            text: `latest`, `sample:NAME`, the path of a folder, the id of a run, or a part that
                only one id contains.

        Raises:
            StoreError: No run matches, or more than one.
        """
        if text.startswith(SAMPLE_PREFIX):
            return RunPaths(find_sample(text))
        if text == LATEST and (newest := self.latest()):
            return newest
        if text and _is_run(Path(text)):
            return RunPaths(Path(text).resolve())
        return self._find_by_id(text)

    def find_all(self, text: str) -> list[RunPaths]:
        """Return all runs that match a pattern (`log/2026*`, `runs/*/*`) or a name.

        Raises:
            StoreError: No run matches.
        """
        if not any(sign in text for sign in "*?["):
            return [self.find(text)]
        runs = [paths for paths in self.runs() if fnmatch.fnmatchcase(paths.run_id, text)]
        base, pattern = (Path("/"), text[1:]) if text.startswith("/") else (Path(), text)
        runs += [RunPaths(path.resolve()) for path in sorted(base.glob(pattern)) if _is_run(path)]
        if not runs:
            raise StoreError(f"no run matches {text!r}; `logquake runs` lists all runs")
        return list(dict.fromkeys(runs))

    def _find_by_id(self, text: str) -> RunPaths:
        runs = self.runs()
        if not runs:
            raise StoreError(
                f"there is no run {text!r}, because {self.root} has no runs; start one with"
                " `logquake run`, or use `sample:valid`"
            )
        whole = [paths for paths in runs if text in (paths.run_id, paths.root.name)]
        meant = whole or [paths for paths in runs if text and text in paths.run_id]
        if not meant:
            raise StoreError(
                f"there is no run {text!r} in {self.root}; `logquake runs` lists all runs"
            )
        if len(meant) > 1:
            named = ", ".join(paths.run_id for paths in meant[:_NAMED])
            more = f" and {len(meant) - _NAMED} more" if len(meant) > _NAMED else ""
            raise StoreError(f"{text!r} could mean {named}{more}; write more of the name")
        return meant[0]

    def _point_latest(self, paths: RunPaths) -> None:
        temporary = self.root / f".{LATEST}-{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(Path(paths.root.parent.name) / paths.root.name)
        try:
            temporary.replace(self.root / LATEST)
        except PermissionError:  # Another user's link, in a sticky store.
            temporary.unlink()


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}-{number}" for number in count(2))


def _make_unique(parent: Path, stem: str) -> Path:
    for name in _candidates(stem):
        with contextlib.suppress(FileExistsError):
            (parent / name).mkdir()
            return parent / name
    raise AssertionError("unreachable: the candidates never end")


def _is_run(path: Path) -> bool:
    if not path.is_dir():
        return False
    return bool(_RUN_FOLDER.fullmatch(path.name)) or (path / "plan.toml").is_file()


def _age(path: Path) -> tuple[str, int, str]:
    """Return the time in a folder's name and the run's number in that second, as a sort key."""
    if match := _RUN_FOLDER.fullmatch(path.name):
        return match[1], int(match[3] or 1), path.name
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return changed.strftime("%Y%m%dT%H%M%SZ"), 0, path.name
