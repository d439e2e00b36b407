"""Decide which run folders a command may act on.

Files in a run's folder list the run's processes, the undo actions of its faults, and the logins. A
user who can write to the folder can change all of these lists. So some commands require a safe
folder: those that signal, undo, log in, write, or execute a run again. The caller must own the
folder, other users must not be able to write it, and its files must not be links.

These conditions alone are not enough, because a folder from an archive belongs to the user who
unpacked the archive. So commands also verify each fact from the run's files before they use this
fact.

Commands that only read accept any folder, and read it through `results.record.reading`.
"""

import errno
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from results.record.atomic import StoreError, store_error
from results.record.paths import RunPaths
from results.record.reading import MAX_BYTES, open_file

_INSIDE = ("", "record", "record/live", "statistics")
"""The folders of a run in which commands write files by name, or read files before they act."""
_FOR_OWNERS = stat.S_IWGRP | stat.S_IWOTH
_SHARED = stat.S_IWGRP | stat.S_IWOTH | stat.S_ISVTX


class UntrustedRunError(StoreError):
    """An error: commands must not act on this run. The message is one sentence with a remedy."""


class NotOursError(UntrustedRunError):
    """An error: the run is intact, but belongs to another user or is in another place."""


@contextmanager
def closed_to_others() -> Iterator[None]:
    """In this block, also in child processes, create only files that no other user can write.

    With a umask of 002, the owner's group can write new files. On some systems, this group has
    other members. `refuse_unless_own` would then refuse the run, even for the user who made it.
    """
    before = os.umask(_FOR_OWNERS)
    os.umask(before | _FOR_OWNERS)
    try:
        yield
    finally:
        os.umask(before)


def make_shared_as(folder: Path, store: Path) -> None:
    """Create a folder with the store's write permissions, if it is missing.

    Raises:
        UntrustedRunError: The folder is a link, so its files would be stored elsewhere.
        OSError: The folder cannot be created.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        if folder.is_symlink():
            raise UntrustedRunError(
                f"{folder} is a link, but a store has no links; remove it"
            ) from None
        return
    shared = stat.S_IMODE(store.stat().st_mode) & _SHARED
    if shared:
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | shared)


def refuse_unless_own(paths: RunPaths) -> None:
    """Refuse a run that the caller does not own, or that has links instead of files.

    Raises:
        NotOursError: The folder belongs to another user, or is a link to another place.
        UntrustedRunError: A file or folder of the run is a link, belongs to another user, or is
            writable by other users; or other users can replace the run's folder.
        StoreError: The folder cannot be checked.
    """
    try:
        if paths.root.is_symlink() or paths.root.parent.is_symlink():
            raise NotOursError(
                f"{paths.run_id} is not used: it is a link; name the folder that the link leads to"
            )
        if (owner := paths.root.stat().st_uid) != os.geteuid():
            raise NotOursError(
                f"{paths.run_id} is not used: it belongs to {_name(owner)}; run Logquake as that"
                " user, or copy the run (cp -r) and use the copy"
            )
        for folder in (paths.root.parent, paths.root.parent.parent):
            _refuse_if_replaceable(paths, folder)
        _see(paths, paths.root)
        for name in _INSIDE:
            folder = paths.root / name
            if folder.is_file():
                raise UntrustedRunError(
                    f"{paths.run_id} is not used: {name} must be a folder, but is a file; remove it"
                )
            if folder.is_dir():
                with os.scandir(folder) as entries:
                    for entry in entries:
                        _see(paths, Path(entry.path))
    except OSError as refused:
        raise store_error(paths.root, refused) from refused


def refuse_to_write(paths: RunPaths, *, otherwise: str) -> None:
    """Refuse to write into a run that the caller does not own.

    Args:
        paths: The run.
        otherwise: A clause for the error message: a remedy for the user.

    Raises:
        StoreError: As in `refuse_unless_own`.
    """
    try:
        refuse_unless_own(paths)
    except UntrustedRunError as refused:
        raise StoreError(f"{refused}; {otherwise}") from refused


def is_own_file(path: Path) -> bool:
    """Return whether only the caller or root owns a file and can write it; links are followed."""
    try:
        return _is_own(path.stat(), path)
    except OSError:
        return False


def read_own_text(path: Path) -> str:
    """Return the text of a user's configuration file, if other users cannot write it.

    Raises:
        PermissionError: The file belongs to another user, or other users can write it. The message
            has a remedy.
        OSError, UnicodeDecodeError: As in `results.record.reading.read_text`.
    """
    with open_file(path.resolve(), max_bytes=MAX_BYTES) as file:
        if not _is_own(os.fstat(file.fileno()), file.fileno()):
            raise PermissionError(
                errno.EPERM,
                "another user may have written it: make it yours (chown), and writable only by"
                " you (chmod go-w)",
                str(path),
            )
        return file.read(MAX_BYTES).decode("utf-8")


def _is_own(found: os.stat_result, at: Path | int) -> bool:
    whose = found.st_uid in (os.geteuid(), 0)
    return stat.S_ISREG(found.st_mode) and whose and not _open_to(found, at)


def refuse_nights_unless_own(folder: Path) -> None:
    """Refuse to continue a suite's nightly runs in a folder that the caller does not own.

    The journals of nightly runs decide which runs are healed and deleted. The suite files decide
    which commands are run.

    Args:
        folder: Folder of a suite's nightly runs, `STORE/.suites/<suite>`; it need not exist.

    Raises:
        UntrustedRunError: The folder, or a file in it, is a link, belongs to another user, or is
            writable by other users.
        StoreError: The folder cannot be checked.
    """
    try:
        if folder.parent.is_symlink():
            raise UntrustedRunError(
                f"{folder.parent} is a link, but a store has no links; remove it"
            )
        for path in (folder, *folder.glob("*"), *folder.glob("*/*")):
            if os.path.lexists(path) and (why := _distrust(path, folder)):
                raise UntrustedRunError(f"the nights in {folder} are not used: {why}")
    except OSError as refused:
        raise store_error(folder, refused) from refused


def others_of(folder: Path) -> str:
    """Return a user who can change a folder or its contents; the caller and root do not count.

    Args:
        folder: A folder with programs that Logquake runs; it may be a link.

    Returns:
        A user's name, or "everybody". The result is "" if there is no such user, or if the folder
        is missing.
    """
    above = {*folder.absolute().parents, *folder.resolve().parents}
    try:
        known = [_others(folder.stat(), folder), *map(_swappers, above)]
    except OSError:
        return ""
    if any(known):
        return next(filter(None, known))
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                path = Path(where, name)
                others = _others(path.lstat(), path)
            except FileNotFoundError:  # Another process removed its temporary file.
                continue
            if others:
                return others
    return ""


def is_closed(path: Path) -> bool:
    """Return whether only the caller or root owns a path and can write it; links are followed.

    Raises:
        FileNotFoundError: The path does not exist.
    """
    return not _others(path.stat(), path)


def _swappers(folder: Path) -> str:
    """Return the name of another user who can replace a folder's subfolders; "" if none can."""
    found = folder.stat()
    known = found.st_uid in (os.geteuid(), 0) or _is_unseen(found.st_uid)
    if not known:
        return _name(found.st_uid)
    # In a sticky folder only owners can replace entries (man 1 chmod), and owners are checked, too.
    return "" if found.st_mode & stat.S_ISVTX or not _open_to(found, folder) else "everybody"


def _is_unseen(uid: int) -> bool:
    """Return whether a user namespace (man 7 user_namespaces) hides the real owner's id.

    A process in such a namespace was started by a process outside of the namespace. The outer
    process had already checked the folders.
    """
    maps = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    mapped = any(int(first) <= uid < int(first) + int(count) for first, _, count in maps)
    return not mapped and uid == int(Path("/proc/sys/kernel/overflowuid").read_text())


def _others(found: os.stat_result, at: Path) -> str:
    if found.st_uid not in (os.geteuid(), 0):
        return _name(found.st_uid)
    return "everybody" if not stat.S_ISLNK(found.st_mode) and _open_to(found, at) else ""


def confined(folder: Path, relative: str) -> Path | None:
    """Return a file below a folder, or None if it is missing or its path contains a link.

    Args:
        folder: A run's folder.
        relative: A path from one of the run's files, so it may be malicious.
    """
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts:
        return None
    ways = [folder.joinpath(*parts[:end]) for end in range(len(parts) + 1)]
    try:
        modes = [way.lstat() for way in ways]
    except (OSError, ValueError):  # The file is missing, or its name is impossible.
        return None
    file = modes.pop()
    plain = stat.S_ISREG(file.st_mode) and file.st_nlink == 1
    return ways[-1] if plain and all(stat.S_ISDIR(each.st_mode) for each in modes) else None


def is_own(paths: RunPaths) -> bool:
    """Return whether `refuse_unless_own` accepts a run."""
    try:
        refuse_unless_own(paths)
    except StoreError:
        return False
    return True


def _refuse_if_replaceable(paths: RunPaths, folder: Path) -> None:
    """Refuse a run if other users can rename its folder and put a link in its place."""
    found = folder.stat()
    if _open_to(found, folder) and not found.st_mode & stat.S_ISVTX:
        raise UntrustedRunError(
            f"{paths.run_id} is not used: other users can replace the contents of {folder}; type:"
            f" chmod +t {shlex.quote(str(folder))}"
        )


def _see(paths: RunPaths, path: Path) -> None:
    """Refuse a run if the given file or folder in it is not trusted."""
    if why := _distrust(path, paths.root):
        raise UntrustedRunError(f"{paths.run_id} is not used: {why}")


def _distrust(path: Path, root: Path) -> str:
    """Return why a file or folder of a run is not trusted; "" if it is trusted."""
    found = path.lstat()
    where = f"{path.relative_to(root.parent)}"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "neither a file nor a folder"
        return f"{where} is {what}, but a run never creates one; remove it"
    if found.st_uid != os.geteuid():
        return f"{where} belongs to {_name(found.st_uid)}; remove it, or make it yours (chown -R)"
    open_ = _open_to(found, path)
    return f"other users can write {where}; type: chmod -R go-w {root}" if open_ else ""


def _open_to(found: os.stat_result, at: Path | int | None = None) -> bool:
    """Return whether users other than the owner can write a file.

    Args:
        found: Status of the file.
        at: Path or descriptor of the file, by which the access control list is checked, too.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False  # Without group write, no list entry can grant it (man 5 acl).
    return not _is_private(found.st_uid, found.st_gid) or _has_list(at)


def _has_list(at: Path | int | None) -> bool:
    """Return whether a file has an access control list for further users or groups."""
    try:
        return at is not None and bool(os.getxattr(at, "system.posix_acl_access"))
    except OSError:  # There is no list, or the file system has no lists.
        return False


@cache
def _is_private(uid: int, gid: int) -> bool:
    """Return whether the user is the only member of a group. On many systems, this is usual."""
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    own = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    # /etc/group omits users whose primary group it is (man 5 group), so all users are checked.
    return own and all(each.pw_gid != gid or each.pw_uid == uid for each in pwd.getpwall())


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
