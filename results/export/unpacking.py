"""Where a bundle is unpacked before its run gets a place in the store.

The folder is locked (flock(2), on the folder itself) by the process that unpacks, so that what one
left that was killed can be told from what one is about to fill: the lock goes with its process.
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
"""What file systems say that have no such locks; on them, folders are left alone."""


@contextmanager
def unpacking_folder(store: Path) -> Iterator[Path]:
    """Make an empty folder in a store; what is still there afterwards is removed.

    Folders of imports that were killed are removed first.
    """
    remove_abandoned(store)
    folder, handle = _made(store)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned(store: Path) -> list[str]:
    """Remove the folders that no living import unpacks into; return their names."""
    removed = []
    for folder in sorted(store.glob(f"{PREFIX}*")):
        with suppress(OSError):  # Somebody else's, or gone by now.
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
            # Another import may have taken it for abandoned before it was locked.
            if _locked(handle, without_locks=True) and folder.is_dir():
                return folder, handle
            os.close(handle)
    raise OSError(errno.EBUSY, "folders vanish as soon as they are made", str(store))


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
