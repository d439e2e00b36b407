"""The gate of trust: which run folders a command may act on.

A run folder says which processes are the run's, what undoes its faults, where it logged in. Whoever
can write it can say what he likes. So commands that signal, undo, log in, write or play again take
only a folder that is the caller's own, that others cannot write, and that leads nowhere else by a
link. That is not enough: a folder out of an archive belongs to whoever unpacked it. Behind the gate
nothing that a run says of itself is believed without a look of one's own.

Commands that only read take anybody's folder, by `results.record.reading`.
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
"""Folders of a run whose files are written by name, and read to act on."""
_FOR_OWNERS = stat.S_IWGRP | stat.S_IWOTH
_SHARED = stat.S_IWGRP | stat.S_IWOTH | stat.S_ISVTX


class UntrustedRunError(StoreError):
    """A run must not be acted on: one sentence, with the remedy."""


class NotOursError(UntrustedRunError):
    """A run is another user's, or lies elsewhere: nothing is wrong with it, but it is not ours."""


@contextmanager
def closed_to_others() -> Iterator[None]:
    """Have files that are made meanwhile, by child processes too, writable by their owner alone.

    A umask of 002 is usual where each user has a group of his own. Elsewhere it would open each run
    to a whole group, and `refuse_unless_own` would refuse it to the user who made it.
    """
    before = os.umask(_FOR_OWNERS)
    os.umask(before | _FOR_OWNERS)
    try:
        yield
    finally:
        os.umask(before)


def make_shared_as(folder: Path, store: Path) -> None:
    """Make a folder that whoever may write the store may write too, if it is not there.

    Raises:
        UntrustedRunError: It is a link: what is made in it would lie elsewhere.
        OSError: It cannot be made.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        if folder.is_symlink():
            raise UntrustedRunError(f"{folder} is a link, which no store has; remove it") from None
        return
    shared = stat.S_IMODE(store.stat().st_mode) & _SHARED
    if shared:
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | shared)


def refuse_unless_own(paths: RunPaths) -> None:
    """Refuse to act on a run that is not the caller's own, or leads out of its folder.

    Raises:
        NotOursError: Its folder is another user's, or a link to elsewhere.
        UntrustedRunError: A part of it is a link, another user's, or can be written by others; or
            they can put another run in its place.
        StoreError: It cannot be looked at.
    """
    try:
        if paths.root.is_symlink() or paths.root.parent.is_symlink():
            raise NotOursError(
                f"{paths.run_id} is left alone: it is a link; name the folder that it leads to"
            )
        if (owner := paths.root.stat().st_uid) != os.geteuid():
            raise NotOursError(
                f"{paths.run_id} is left alone: it belongs to {_name(owner)}; act as that user, or"
                " copy the run (cp -r) and take the copy"
            )
        for folder in (paths.root.parent, paths.root.parent.parent):
            _refuse_if_replaceable(paths, folder)
        _see(paths, paths.root)
        for name in _INSIDE:
            folder = paths.root / name
            if folder.is_file():
                raise UntrustedRunError(
                    f"{paths.run_id} is left alone: {name} is no folder, as every run's is; remove"
                    " it"
                )
            if folder.is_dir():
                with os.scandir(folder) as entries:
                    for entry in entries:
                        _see(paths, Path(entry.path))
    except OSError as refused:
        raise store_error(paths.root, refused) from refused


def refuse_to_write(paths: RunPaths, *, otherwise: str) -> None:
    """Refuse to write into a run that is not the caller's own.

    Args:
        paths: The run.
        otherwise: What can be done with it all the same, as a clause.

    Raises:
        StoreError: As `refuse_unless_own`.
    """
    try:
        refuse_unless_own(paths)
    except UntrustedRunError as refused:
        raise StoreError(f"{refused}; {otherwise}") from refused


def is_own_file(path: Path) -> bool:
    """Tell whether a file that a user keeps, link or not, is the caller's or root's alone."""
    try:
        return _is_own(path.stat(), path)
    except OSError:
        return False


def read_own_text(path: Path) -> str:
    """Return the text of a file that a user keeps, link or not, and that decides what is done.

    Raises:
        PermissionError: It is another user's, or others can write it; the remedy.
        OSError, UnicodeDecodeError: As `results.record.reading.read_text`.
    """
    with open_file(path.resolve(), max_bytes=MAX_BYTES) as file:
        if not _is_own(os.fstat(file.fileno()), file.fileno()):
            raise PermissionError(
                errno.EPERM,
                "it can be a stranger's: make it yours (chown), and writable by you only"
                " (chmod go-w)",
                str(path),
            )
        return file.read(MAX_BYTES).decode("utf-8")


def _is_own(found: os.stat_result, at: Path | int) -> bool:
    whose = found.st_uid in (os.geteuid(), 0)
    return stat.S_ISREG(found.st_mode) and whose and not _open_to(found, at)


def refuse_nights_unless_own(folder: Path) -> None:
    """Refuse to go on with nights that are not the caller's own, or lead out of their folder.

    Their journals say which runs are healed and dropped, and their suites what is played.

    Args:
        folder: Of a suite's nights, `STORE/.suites/<suite>`; it need not exist.

    Raises:
        UntrustedRunError: It, or a file in it, is a link, another user's, or can be written by
            others.
        StoreError: It cannot be looked at.
    """
    try:
        if folder.parent.is_symlink():
            raise UntrustedRunError(f"{folder.parent} is a link, which no store has; remove it")
        for path in (folder, *folder.glob("*"), *folder.glob("*/*")):
            if os.path.lexists(path) and (why := _distrust(path, folder)):
                raise UntrustedRunError(f"the nights in {folder} are left alone: {why}")
    except OSError as refused:
        raise store_error(folder, refused) from refused


def others_of(folder: Path) -> str:
    """Return who else than the caller and root can write a folder or what is in it, or swap it.

    Args:
        folder: One that programs are taken from, a link or not.

    Returns:
        A user's name, or "everybody". Empty: nobody, or there is no such folder.
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
            except FileNotFoundError:  # Another process's scratch.
                continue
            if others:
                return others
    return ""


def is_closed(path: Path) -> bool:
    """Tell whether nobody but the caller and root owns or can write a file or folder, link or not.

    Raises:
        FileNotFoundError: There is none.
    """
    return not _others(path.stat(), path)


def _swappers(folder: Path) -> str:
    """Return who else can put another folder in the place of one in a folder."""
    found = folder.stat()
    known = found.st_uid in (os.geteuid(), 0) or _is_unseen(found.st_uid)
    if not known:
        return _name(found.st_uid)
    # Where it is sticky, only who owns what is in it (man 1 chmod), and that is looked at, too.
    return "" if found.st_mode & stat.S_ISVTX or not _open_to(found, folder) else "everybody"


def _is_unseen(uid: int) -> bool:
    """Tell whether a user namespace hides who an owner is (man 7 user_namespaces), root for one.

    What runs in one was started from outside, where the same folders were looked at.
    """
    maps = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    mapped = any(int(first) <= uid < int(first) + int(count) for first, _, count in maps)
    return not mapped and uid == int(Path("/proc/sys/kernel/overflowuid").read_text())


def _others(found: os.stat_result, at: Path) -> str:
    if found.st_uid not in (os.geteuid(), 0):
        return _name(found.st_uid)
    return "everybody" if not stat.S_ISLNK(found.st_mode) and _open_to(found, at) else ""


def confined(folder: Path, relative: str) -> Path | None:
    """Return a file below a folder, with no link on the way to it; None if there is none.

    Args:
        folder: Of a run.
        relative: As a file of the run names it, which anybody may have written.
    """
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts:
        return None
    ways = [folder.joinpath(*parts[:end]) for end in range(len(parts) + 1)]
    try:
        modes = [way.lstat() for way in ways]
    except (OSError, ValueError):  # There is none; or a name that no file can have.
        return None
    file = modes.pop()
    plain = stat.S_ISREG(file.st_mode) and file.st_nlink == 1
    return ways[-1] if plain and all(stat.S_ISDIR(each.st_mode) for each in modes) else None


def is_own(paths: RunPaths) -> bool:
    """Tell whether `refuse_unless_own` lets a run through."""
    try:
        refuse_unless_own(paths)
    except StoreError:
        return False
    return True


def _refuse_if_replaceable(paths: RunPaths, folder: Path) -> None:
    """Refuse a run that others can rename: they could put a link in its place at any moment."""
    found = folder.stat()
    if _open_to(found, folder) and not found.st_mode & stat.S_ISVTX:
        raise UntrustedRunError(
            f"{paths.run_id} is left alone: others can replace what lies in {folder}; type:"
            f" chmod +t {shlex.quote(str(folder))}"
        )


def _see(paths: RunPaths, path: Path) -> None:
    """Refuse a run for one of its files or folders."""
    if why := _distrust(path, paths.root):
        raise UntrustedRunError(f"{paths.run_id} is left alone: {why}")


def _distrust(path: Path, root: Path) -> str:
    """Return why a file or folder below a root, or that root, is not trusted; empty if it is."""
    found = path.lstat()
    where = f"{path.relative_to(root.parent)}"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "neither a file nor a folder"
        return f"{where} is {what}, which no run makes; remove it"
    if found.st_uid != os.geteuid():
        return f"{where} belongs to {_name(found.st_uid)}; remove it, or take it over (chown -R)"
    open_ = _open_to(found, path)
    return f"others can write {where}; type: chmod -R go-w {root}" if open_ else ""


def _open_to(found: os.stat_result, at: Path | int | None = None) -> bool:
    """Tell whether others than the owner can write a file.

    Args:
        found: What the file is.
        at: Its path or descriptor, so that an access control list of it is seen.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False  # It bounds what a list grants (man 5 acl).
    return not _is_private(found.st_uid, found.st_gid) or _has_list(at)


def _has_list(at: Path | int | None) -> bool:
    """Tell whether an access control list names more users or groups than a file's own."""
    try:
        return at is not None and bool(os.getxattr(at, "system.posix_acl_access"))
    except OSError:  # There is none, or the file system has none.
        return False


@cache
def _is_private(uid: int, gid: int) -> bool:
    """Tell whether a user's group has no other member: many systems give each user such a group."""
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    own = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    # Whose first group it is stands with the user alone (man 5 group).
    return own and all(each.pw_gid != gid or each.pw_uid == uid for each in pwd.getpwall())


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
