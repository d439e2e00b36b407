"""The temporary folder into which a bundle is unpacked before the run moves into the store.

The importing process holds a lock on the folder (flock(2)). If the process ends, the lock ends,
too. So a later import can distinguish an abandoned folder from a folder that is in use.
"""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = ".import-"
_TRIES = 100
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}
"""The errors that flock(2) raises on file systems without locks. On these, no folder is removed."""


@contextmanager
def unpacking_folder(store: Path) -> Iterator[Path]:
    """Create an empty folder in a store, and remove it with its contents at the end.

    Before this, folders are removed that were left by killed imports.
    """
    remove_abandoned(store)
    folder, handle = _made(store)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned(store: Path) -> list[str]:
    """Remove the folders that no running import uses, and return their names."""
    removed = []
    for folder in sorted(store.glob(f"{PREFIX}*")):
        with suppress(OSError):  # The folder belongs to another user, or is already deleted.
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if _locked(handle):
                    shutil.rmtree(folder)
                    removed.append(folder.name)
            finally:
                os.close(handle)
    return removed


def _made(store: Path) -> tuple[Path, int]:
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=store))
        with suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            # Another import may have removed the folder as abandoned before it was locked.
            if _locked(handle, without_locks=True) and folder.is_dir():
                return folder, handle
            os.close(handle)
    raise OSError(errno.EBUSY, "another process deletes each new folder at once", str(store))


def _locked(handle: int, *, without_locks: bool = False) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as refused:
        if refused.errno not in _NO_LOCKS:
            raise
        return without_locks
    return True
