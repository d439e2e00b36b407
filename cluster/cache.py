"""The user's cache folder, which keeps downloaded files for later runs."""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster.protocol import UserError
from results.record.clock import WaitTimeoutError, wait_until
from results.trust import others_of

LOCK_TIMEOUT_S = 900.0
"""The maximum wait for another Logquake process that downloads a version over a slow line."""


def cache_folder() -> Path:
    """Return the cache folder `logquake`, and create it if possible.

    The folder lies below `XDG_CACHE_HOME`, or below `~/.cache`.

    Raises:
        UserError: `XDG_CACHE_HOME` is not set and the user has no home folder. Another reason:
            another user can write to the folder. This is unsafe, because Logquake runs programs
            from the folder.
    """
    folder = _folder()
    with suppress(OSError):  # Created before the check, so that no other user can create it later.
        folder.mkdir(parents=True, exist_ok=True)
    if others := others_of(folder):
        raise UserError(
            f"{others} can put any program into the cache {folder}; set XDG_CACHE_HOME to a"
            " folder that only you can write, or make the cache and its parent folders yours"
            " (chown -R, chmod -R go-w)"
        )
    return folder


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    if Path(base).is_absolute():
        return Path(base) / "logquake"
    try:
        return Path.home() / ".cache" / "logquake"
    except RuntimeError as homeless:
        raise UserError(
            "this user has no home folder for the cache; set XDG_CACHE_HOME to a folder"
        ) from homeless


@contextmanager
def locked(
    path: Path, progress: Callable[[str], None], *, doing: str = "fetching"
) -> Iterator[None]:
    """Hold a file lock, so that only one of several processes downloads or builds at a time.

    The kernel releases the lock when the process ends, even after a crash.

    Args:
        path: The lock file. This function creates the file and never deletes it.
        progress: A function that is called with a message if another process holds the lock.
        doing: The work of the other process, for the message.

    Raises:
        UserError: The lock file cannot be created, or another process holds the lock for longer
            than `LOCK_TIMEOUT_S`.
    """
    with refused(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    with file:
        if not _try_lock(file.fileno()):
            progress(f"waiting for another Logquake that is {doing}")
            try:
                wait_until(
                    lambda: _try_lock(file.fileno()), timeout_s=LOCK_TIMEOUT_S, what="its lock"
                )
            except WaitTimeoutError as held:
                raise UserError(
                    f"another process has held {path} for {LOCK_TIMEOUT_S:g} s; end that process"
                    " and run again"
                ) from held
        yield


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """If a file lock is free, take the lock; yield whether the lock was free.

    The lock file is created if it is missing.

    Raises:
        OSError: The lock file cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        yield _try_lock(file.fileno())


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Protect a folder from `remove_unused` in other processes."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def remove_unused(folder: Path) -> None:
    """Remove a folder if no process protects it with `in_use`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if _try_lock(descriptor):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


@contextmanager
def refused(folder: Path) -> Iterator[None]:
    """Convert an `OSError` of the file system to a `UserError` with a remedy.

    Raises:
        UserError: The disk is full, the folder is not writable, or a similar error occurred.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{_complaint(error, folder)}; {_remedy(error)}") from error


def _complaint(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder} is full"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{folder} is not writable"
    return f"{folder} cannot be used ({error.strerror or error})"


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            "free some space (a version of Kafka takes 50 MB), or set XDG_CACHE_HOME to"
            " another disk"
        )
    return "set XDG_CACHE_HOME to a writable folder"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
