"""Open and read files of a run safely, because any user may have written them.

A run's folder may come from another user, for example through a shared store or in an archive. A
file in it may be a link to another place, a pipe that never returns data, or a file that fills the
memory. So all readers open files here. This module follows no links, never waits, and reads only
regular files of a limited size (man 2 open: O_NOFOLLOW, O_NONBLOCK). A folder inside the run may be
a link, too. So a caller that opens a file in such a folder also passes the run's folder.
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
"""Maximum size of a text file, such as a ledger, milestones or notes."""
MAX_VALUES = 4_000_000
"""Maximum number of values in JSON. An empty list has three bytes in the file, and sixty in memory.
"""
MAX_PLAN_BYTES = 1 << 18
"""Maximum size of a plan. In the worst case, a mebibyte of TOML takes seconds."""
MAX_DOTS = 32
"""Maximum number of dots in a line of TOML. The time to parse a dotted key grows with the square of
the number of dots."""
_DOTTED = re.compile(rf"^(?!\s*#)(?:[^.\n]*\.){{{MAX_DOTS + 1}}}", re.MULTILINE)
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class UnsafeFileError(OSError):
    """An error: no run writes a file of this kind or size. The message has a remedy."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            errno.EINVAL,
            (f"the file is {what}, but a run never writes such a file; remove it"),
            str(path),
        )

    def __str__(self) -> str:
        """Return the message: the file name and the problem."""
        return f"{self.filename}: {self.strerror}"


def open_file(path: Path, *, max_bytes: int | None = None, root: Path | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: The file; its last component must not be a link.
        max_bytes: Maximum size; None means no limit, for callers that read the file in pieces.
        root: The run's folder. No folder between this folder and the file may be a link.

    Raises:
        FileNotFoundError: The file does not exist.
        UnsafeFileError: The path is a link, folder, pipe, socket or device, or is too large.
        OSError: The operating system refuses for another reason.
    """
    if root is None:
        return os.fdopen(_opened(path, _FLAGS, max_bytes), "rb")
    folder = open_folder(path.parent, root=root)
    try:
        return os.fdopen(_opened(path, _FLAGS, max_bytes, folder), "rb")
    finally:
        os.close(folder)


def open_folder(path: Path, *, root: Path) -> int:
    """Return a descriptor of a run's folder, with which files in this folder can be opened by name.

    Args:
        path: The folder.
        root: The run's folder, or a folder above it. No folder below `root` may be a link.

    Raises:
        FileNotFoundError: The folder does not exist.
        UnsafeFileError: A component of the path is a link, or not a folder.
    """
    handle = os.open(root, _FOLDER)
    for name in path.relative_to(root).parts:
        root = root / name
        try:
            deeper = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        except NotADirectoryError as linked:
            raise UnsafeFileError(root, "a symbolic link, or not a folder") from linked
        finally:
            os.close(handle)
        handle = deeper
    return handle


def open_lock(path: Path) -> int:
    """Open or create a file for locking (man 2 flock), and return its descriptor.

    Raises:
        UnsafeFileError: The path is a link, folder, pipe, socket or device.
        OSError: The operating system refuses for another reason.
    """
    return _opened(path, _FLAGS | os.O_RDWR | os.O_CREAT, None)


def _opened(path: Path, flags: int, max_bytes: int | None, folder: int | None = None) -> int:
    """Open a regular file of limited size, by path or in an open folder; return a descriptor."""
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
    """Return the content of a regular file; arguments and errors as in `open_file`."""
    with open_file(path, max_bytes=max_bytes, root=root) as file:
        content = file.read(max_bytes + 1)  # The file may grow meanwhile.
    if len(content) > max_bytes:
        raise UnsafeFileError(path, f"larger than {_size(max_bytes)}")
    return content


def read_text(path: Path, *, max_bytes: int = MAX_BYTES, root: Path | None = None) -> str:
    """Return the text of a regular file; errors as in `open_file`, or `UnicodeDecodeError`."""
    return read_bytes(path, max_bytes=max_bytes, root=root).decode("utf-8")


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a regular file without line ends; empty if the file is missing.

    The last item is the text after the last line end. It is empty, or a line that a crash cut off.

    Raises:
        UnsafeFileError, OSError: As in `open_file`.
    """
    try:
        return read_bytes(path).split(b"\n")
    except FileNotFoundError:
        return []


def parse_json(text: str | bytes) -> object:
    """Return the value of a JSON text.

    Raises:
        ValueError: The text is not JSON, or a run never writes so many values or such deep nesting.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if sum(data.count(sign) for sign in b",[{") > MAX_VALUES:
        raise ValueError(f"the text has more than {MAX_VALUES} values")
    try:
        value: object = json.loads(text)
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None
    return value


def parse_toml(text: str) -> dict[str, object]:
    """Return the values of a plan's TOML text.

    Raises:
        ValueError: The text is not TOML, or no run's plan is so long or so deeply nested.
    """
    if len(text) > MAX_PLAN_BYTES:
        raise ValueError(f"the text is longer than {_size(MAX_PLAN_BYTES)}")
    if dotted := _DOTTED.search(text):
        line = text.count("\n", 0, dotted.end()) + 1
        raise ValueError(f"line {line} has more than {MAX_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None
