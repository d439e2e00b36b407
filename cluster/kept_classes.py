"""Creates and checks Java class archives. With an archive, a Java program starts twice as fast.

Java can save the parsed classes of a program, and map them into memory at the next start
(class-data sharing, JEP 350). The cache folder holds the saved archive. Java itself detects an
archive that does not fit, and ignores it. But a truncated archive would crash Java. For this reason
the archive's checksum is compared first.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from cluster.cache import cache_folder
from cluster.protocol import ClusterError

START_S = 60
TRIES = 3
"""If a program ends unexpectedly (this may be chance), it gets this many attempts in total."""
OLD_S = 30 * 24 * 3600
"""When a new archive is made, archives that were unused for this many seconds are deleted."""
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


class NotThisTimeError(Exception):
    """A program ended unexpectedly while making an archive; another attempt may succeed."""


def archive_at(name: str, program: Path, files: Iterable[Path]) -> Path:
    """Return the path of a program's class archive.

    The path depends on the sizes and times of the files of Java and the jars. An update of Java or
    of a jar changes the path.

    Args:
        name: The beginning of the file name, such as the program's version.
        program: The path of the program `java`.
        files: The program's jars.

    Raises:
        UserError: The user has no cache folder.
    """
    java = program.resolve()
    made_of = (java, java.parent.parent / "lib/server/libjvm.so", *files)
    told = hashlib.sha256(os.fsencode("\n".join(f"{file} {_stamp(file)}" for file in made_of)))
    return cache_folder() / "classes" / f"{name}-{told.hexdigest()[:16]}.jsa"


def _stamp(file: Path) -> str:
    with suppress(OSError):
        found = file.stat()
        return f"{found.st_size} {found.st_mtime_ns}"
    return ""


def flags_of(archive: Path) -> tuple[str, ...]:
    """Return the Java flags that load a class archive, without a warning if it does not fit."""
    return f"-XX:SharedArchiveFile={archive}", *_QUIET


def keeping_flags(archive: Path) -> tuple[str, ...]:
    """Return the Java flags that write a class archive when the program ends, without messages."""
    return f"-XX:ArchiveClassesAtExit={archive}", *_QUIET


def noted_of(archive: Path) -> dict[str, str] | None:
    """Return the saved note about an archive: its checksum (`sha256`) or the number of `tries`.

    Returns:
        An empty mapping if the archive cannot be made on this machine; None if there is no note.
    """
    try:
        noted = json.loads(archive.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return {str(name): str(value) for name, value in noted.items()}


def is_settled(archive: Path) -> bool:
    """Return whether an archive exists, cannot be made, or was attempted `TRIES` times.

    In all three cases no further attempt is made.
    """
    noted = noted_of(archive)
    return noted is not None and int(noted.get("tries", TRIES)) >= TRIES


@cache
def is_whole(archive: Path) -> bool:
    """Return whether an archive matches its saved checksum, and mark it as used now."""
    with suppress(OSError):
        os.utime(archive)
    noted = noted_of(archive)
    return bool(noted) and noted == checksum(archive)


def checksum(archive: Path) -> dict[str, str]:
    """Return the note with an archive's checksum; an empty mapping if the file does not exist."""
    with suppress(OSError), archive.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    return {}


def keep(archive: Path, make: Callable[[Path], None], starts: Callable[[Path], bool]) -> None:
    """Make a class archive, and save a note about the result; the caller holds the archive's lock.

    Args:
        archive: The path of the archive.
        make: Makes a Java write the archive to a path in a temporary folder. If it fails, but
            another attempt may succeed, it raises `NotThisTimeError`, a timeout or a disk error.
            Otherwise it raises `ClusterError`.
        starts: Returns whether a Java starts with the archive. An archive that prevents a start is
            not kept.
    """
    with suppress(OSError):
        archive.parent.mkdir(parents=True, exist_ok=True)
        for left in archive.parent.glob(f"{_scratch_of(archive)}*"):  # From a killed process.
            shutil.rmtree(left, ignore_errors=True)
        try:
            noted = _made(archive, make, starts)
        except (NotThisTimeError, OSError, subprocess.TimeoutExpired):
            tries = int((noted_of(archive) or {}).get("tries", 0)) + 1
            noted = {"tries": f"{tries}"}
        except ClusterError:
            noted = {}
        with _scratch(archive) as scratch:
            draft = scratch / "noted"
            draft.write_text(json.dumps(noted), encoding="utf-8")
            draft.replace(archive.with_suffix(".json"))
        if "sha256" in noted:
            _remove_old(archive)
    is_whole.cache_clear()


def _made(
    archive: Path, make: Callable[[Path], None], starts: Callable[[Path], bool]
) -> dict[str, str]:
    """Make a class archive, and return the note about it."""
    with _scratch(archive) as scratch:
        made = scratch / archive.name
        make(made)
        noted = checksum(made) if starts(made) else {}
        if noted:
            made.replace(archive)
        return noted


def _scratch_of(archive: Path) -> str:
    """Return the name prefix of the temporary folders for an archive.

    Each archive has its own prefix, because each has its own lock.
    """
    return f"making-{archive.stem}-"


@contextmanager
def _scratch(archive: Path) -> Iterator[Path]:
    with TemporaryDirectory(
        dir=archive.parent, prefix=_scratch_of(archive), ignore_cleanup_errors=True
    ) as scratch:
        yield Path(scratch)


def _remove_old(archive: Path) -> None:
    """Delete archives of older builds of this program that were unused for `OLD_S` seconds."""
    name, _, _ = archive.stem.rpartition("-")
    since = archive.stat().st_mtime - OLD_S
    for other in archive.parent.glob(f"{name}-*.jsa"):
        if other != archive and other.stat().st_mtime < since:
            other.unlink()
            other.with_suffix(".json").unlink(missing_ok=True)


def starts_with(program: Path, flags: Iterable[str]) -> bool:
    """Return whether a Java starts with the given flags."""
    ended = subprocess.run(  # noqa: S603 - a program of the user's own PATH
        [str(program), *flags, "-version"], capture_output=True, timeout=START_S, check=False
    )
    return not ended.returncode
