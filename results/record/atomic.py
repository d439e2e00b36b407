"""Files and lines that are either whole or not there, and sentences for what the disk refuses."""

import errno
import os
import tempfile
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space, or choose another disk with --store",
    errno.EDQUOT: "your disk quota is used up; free some, or choose another disk with --store",
    errno.EACCES: "no permission; choose another folder with --store, or change its owner",
    errno.EPERM: "no permission; choose another folder with --store, or change its owner",
    errno.EROFS: "the file system is read-only; choose another folder with --store",
    errno.ENOTDIR: "a part of the path is a file, not a folder; choose another one with --store",
    errno.ENAMETOOLONG: "the path is too long; choose a shorter one with --store",
    errno.ELOOP: "its symbolic links run in a circle; remove the link",
}


class StoreError(Exception):
    """The store or a file of a run cannot be used: one sentence, with the remedy."""


def store_error(path: Path, refused: OSError) -> StoreError:
    """Return the sentence for what the operating system refused at a path."""
    remedy = _REMEDIES.get(refused.errno or 0, refused.strerror or str(refused))
    return StoreError(f"{path} cannot be used: {remedy}")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file by way of a temporary one beside it; readers see the old or the new, never half.

    Raises:
        StoreError: No permission, no space, or another refusal of the disk.
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
            # mkstemp makes files that only their owner reads; a report is there to be shown.
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as refused:
        raise store_error(path, refused) from refused


def append_synced(path: Path, text: bytes) -> None:
    """Append to a file of lines; the text is on disk when this returns.

    Without text nothing is written, and no file is created. A last line without its end was cut off
    by a crash. It stays as it is, and the text begins a new line: readers leave out what they
    cannot read.

    Raises:
        StoreError: No permission, no space, or another refusal of the disk.
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
