"""The one way to read a file of a run, which anybody may have written.

A run folder may be a stranger's: in a shared store, out of an archive. A name in it may be a link
that leads elsewhere, a pipe that never answers, or a file that fills the memory. So each reader
opens a file here: no link is followed, nothing waits, only a regular file of a bounded size is
read (man 2 open: O_NOFOLLOW, O_NONBLOCK). A folder of a run may be a link, too: whoever opens a
file below one names the run's folder, too.
"""

import errno
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 16 << 20
"""Of a text: a ledger, milestones, notes."""
MAX_VALUES = 4_000_000
"""Of JSON: an empty list is three bytes, and sixty in memory."""
MAX_PLAN_BYTES = 1 << 18
"""Of a plan: the slowest TOML takes seconds a mebibyte."""
MAX_DOTS = 32
"""Of a line of TOML: the time that a dotted key takes grows with the square of its parts."""
_DOTTED = re.compile(rf"^(?!\s*#)(?:[^.\n]*\.){{{MAX_DOTS + 1}}}", re.MULTILINE)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class UnsafeFileError(OSError):
    """A file of a run is not what a run writes: one sentence, with the remedy."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EINVAL, f"it is {what}, which no run writes; remove it", str(path))

    def __str__(self) -> str:
        """Return the sentence."""
        return f"{self.filename}: {self.strerror}"


def open_file(path: Path, *, max_bytes: int | None = None, root: Path | None = None) -> BinaryIO:
    """Open a regular file for reading, unbuffered data at its start.

    Args:
        path: Of the file; the last part of the path is no link.
        max_bytes: So large it may be; None: of any size, for who reads it piece by piece.
        root: The run's folder: no folder between it and the file is a link either.

    Raises:
        FileNotFoundError: There is none.
        UnsafeFileError: It is a link, a folder, a pipe, a socket or a device, or too large.
        OSError: The system refuses otherwise.
    """
    if root is None:
        return os.fdopen(_opened(path, _FLAGS, max_bytes), "rb")
    folder = open_folder(path.parent, root=root)
    try:
        return os.fdopen(_opened(path, _FLAGS, max_bytes, folder), "rb")
    finally:
        os.close(folder)


def open_folder(path: Path, *, root: Path) -> int:
    """Return a descriptor of a folder of a run, for what lies in it to be opened by name.

    Args:
        path: Of the folder.
        root: The run's folder, or one above it: no folder below it is a link.

    Raises:
        FileNotFoundError: There is none.
        UnsafeFileError: One of them is a link, or no folder.
    """
    handle = os.open(root, _FOLDER)
    for name in path.relative_to(root).parts:
        root = root / name
        try:
            deeper = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        except NotADirectoryError as linked:
            raise UnsafeFileError(root, "a symbolic link, or no folder") from linked
        finally:
            os.close(handle)
        handle = deeper
    return handle


def open_lock(path: Path) -> int:
    """Open a file to be locked (man 2 flock), made if there is none; return its descriptor.

    Raises:
        UnsafeFileError: It is a link, a folder, a pipe, a socket or a device.
        OSError: The system refuses otherwise.
    """
    return _opened(path, _FLAGS | os.O_RDWR | os.O_CREAT, None)


def _opened(path: Path, flags: int, max_bytes: int | None, folder: int | None = None) -> int:
    """Return the descriptor of a plain file of bounded size; its folder may be open already."""
    try:
        handle = os.open(path if folder is None else path.name, flags, 0o644, dir_fd=folder)
    except OSError as refused:
        raise _explained(path, refused) from refused
    try:
        _refuse_unless_plain(path, os.fstat(handle), max_bytes)
    except UnsafeFileError:
        os.close(handle)
        raise
    return handle


def _explained(path: Path, refused: OSError) -> OSError:
    known = {errno.ELOOP: "a symbolic link", errno.ENXIO: "a socket", errno.EISDIR: "a folder"}
    what = known.get(refused.errno or 0)
    return refused if what is None else UnsafeFileError(path, what)


def _refuse_unless_plain(path: Path, found: os.stat_result, max_bytes: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFileError(path, _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file"))
    if max_bytes is not None and found.st_size > max_bytes:
        raise UnsafeFileError(path, f"larger than {_size(max_bytes)}")


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >> 20 else f"{count >> 10} KiB"


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES, root: Path | None = None) -> bytes:
    """Return the content of a regular file; arguments and errors as of `open_file`."""
    with open_file(path, max_bytes=max_bytes, root=root) as file:
        content = file.read(max_bytes + 1)  # It may grow meanwhile.
    if len(content) > max_bytes:
        raise UnsafeFileError(path, f"larger than {_size(max_bytes)}")
    return content


def read_text(path: Path, *, max_bytes: int = MAX_BYTES, root: Path | None = None) -> str:
    """Return the text of a regular file; raise as `open_file`, and `UnicodeDecodeError`."""
    return read_bytes(path, max_bytes=max_bytes, root=root).decode("utf-8")


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a regular file without their ends; none if there is no file.

    The last one is what follows the last end of a line: empty, or cut off by a crash.

    Raises:
        UnsafeFileError, OSError: As `open_file`.
    """
    try:
        return read_bytes(path).split(b"\n")
    except FileNotFoundError:
        return []


def parse_json(text: str | bytes) -> object:
    """Return what JSON says.

    Raises:
        ValueError: It is none, or of more values, or nested deeper, than any that a run wrote.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if sum(data.count(sign) for sign in b",[{") > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES} values")
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def parse_toml(text: str) -> dict[str, object]:
    """Return what the TOML of a plan says.

    Raises:
        ValueError: It is none, or longer, or nested deeper, than any plan that a run wrote.
    """
    if len(text) > MAX_PLAN_BYTES:
        raise ValueError(f"it is longer than {_size(MAX_PLAN_BYTES)}")
    if dotted := _DOTTED.search(text):
        line = text.count("\n", 0, dotted.end()) + 1
        raise ValueError(f"line {line} has more than {MAX_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
