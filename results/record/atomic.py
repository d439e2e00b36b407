"""Write files and lines completely or not at all, and describe disk errors in sentences."""

import errno
import os
import tempfile
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space, or choose another disk with --store",
    errno.EDQUOT: (
        "your disk quota is used up; free some space, or choose another disk with --store"
    ),
    errno.EACCES: "no permission; choose another folder with --store, or change its owner",
    errno.EPERM: "no permission; choose another folder with --store, or change its owner",
    errno.EROFS: "the file system is read-only; choose another folder with --store",
    errno.ENOTDIR: (
        "a part of the path is a file, not a folder; choose another folder with --store"
    ),
    errno.ENAMETOOLONG: "the path is too long; choose a shorter path with --store",
    errno.ELOOP: "its symbolic links form a loop; remove a link",
}


class StoreError(Exception):
    """An error: the store or a file of a run cannot be used. The message includes a remedy."""


def store_error(path: Path, refused: OSError) -> StoreError:
    """Return a `StoreError` that explains an error of the operating system for a path."""
    remedy = _REMEDIES.get(refused.errno or 0, refused.strerror or str(refused))
    return StoreError(f"{path} cannot be used: {remedy}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file through a temporary file, so that readers see the old or the new content.

    Raises:
        StoreError: The file cannot be written: no permission, no space, or another disk error.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp makes files that only their owner can read, but others may read a report.
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as refused:
        raise store_error(path, refused) from refused


def append_synced(path: Path, text: bytes) -> None:
    """Append text to a file of lines, and return when the text is on disk.

    An empty text writes nothing and creates no file. If a crash cut off the file's last line, this
    line stays, and the new text begins on the next line. Readers skip lines that they cannot parse.

    Raises:
        StoreError: The file cannot be written: no permission, no space, or another disk error.
    """
    if not text:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and not _ends_a_line(path)
        with path.open("ab") as file:
            file.write(b"\n" * torn + text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as refused:
        raise store_error(path, refused) from refused


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
