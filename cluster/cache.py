"""The user's cache folder: what was downloaded once and is taken again by later runs."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster.protocol import UserError
from results.record.clock import WaitTimeoutError, wait_until
from results.trust import others_of

LOCK_TIMEOUT_S = 900.0
"""As long as another Logquake may take to fetch a version over a slow line."""


def cache_folder() -> Path:
    """Return `logquake` below `XDG_CACHE_HOME`, or below `~/.cache`; made, if it can be.

    Raises:
        UserError: There is neither: `HOME` is not set, and the user has no home folder. Or somebody
            else can write it: what lies there is run.
    """
    folder = _folder()
    with suppress(OSError):  # First, so that nobody makes it between the look and its use.
        folder.mkdir(parents=True, exist_ok=True)
    if others := others_of(folder):
        raise UserError(
            f"{others} can put any program into the cache {folder}; set XDG_CACHE_HOME to a folder"
            " of yours, or make it and the folders above it yours (chown -R, chmod -R go-w)"
        )
    return folder


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a path that is not absolute is ignored.
    if Path(base).is_absolute():
        return Path(base) / "logquake"
    try:
        return Path.home() / ".cache" / "logquake"
    except RuntimeError as homeless:
        raise UserError(
            "this user has no home folder for the cache; set XDG_CACHE_HOME to a folder"
        ) from homeless


@contextmanager
def locked(path: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold a file's lock, so that two runs that fetch at once do so one after the other.

    The kernel drops the lock with the process that holds it, however it ends.

    Args:
        path: The lock file; it is made, and stays.
        progress: Told when another process holds the lock.

    Raises:
        UserError: It cannot be made, or is held for longer than `LOCK_TIMEOUT_S`.
    """
    with refused(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    with file:
        if not _try_lock(file.fileno()):
            progress("waiting for another Logquake that is fetching")
            try:
                wait_until(
                    lambda: _try_lock(file.fileno()), timeout_s=LOCK_TIMEOUT_S, what="its lock"
                )
            except WaitTimeoutError as held:
                raise UserError(
                    f"another process has held {path} for {LOCK_TIMEOUT_S:g} s; end it, run again"
                ) from held
        yield


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold a file's lock if nobody else does, and tell whether; made as `locked` does.

    Raises:
        OSError: It cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        yield _try_lock(file.fileno())


@contextmanager
def refused(folder: Path) -> Iterator[None]:
    """Turn what the file system refuses into one sentence with the remedy.

    Raises:
        UserError: The disk is full, the folder may not be written, or the like.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{_complaint(error, folder)}; {_remedy(error)}") from error


def _complaint(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder} is full"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{folder} may not be written"
    return f"{folder} cannot be used ({error.strerror or error})"


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room (a version of Kafka takes 50 MB) or set XDG_CACHE_HOME to another disk"
    return "set XDG_CACHE_HOME to a folder that can be written"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
