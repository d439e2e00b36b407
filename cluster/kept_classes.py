"""Classes of a program as Java keeps them ready-made: with them it starts in half the time.

Java can write down what it made of a program's classes, and map that at the next start (class-data
sharing, JEP 350). What it wrote is kept in the cache. Java sees by itself whether that fits, and
does without it if not. A file that was cut would crash it, though, so that its checksum is compared
before.
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
"""So often a program that did not come to its end is tried: that may have been by chance."""
OLD_S = 30 * 24 * 3600
"""A file that was not used for so long goes when another one of its program is made."""
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


class NotThisTimeError(Exception):
    """A program did not live as it should; another time it may."""


def archive_at(name: str, program: Path, files: Iterable[Path]) -> Path:
    """Return where the classes of a program are kept, by the Java and the jars they are made of.

    An update of either makes others of it: they have another size, or another time.

    Args:
        name: What it begins with; the version of the program, say.
        program: Java's own.
        files: The jars.

    Raises:
        UserError: This user has no folder for a cache.
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
    """Return what tells a Java to use a file of classes, and to say nothing if it does not fit."""
    return f"-XX:SharedArchiveFile={archive}", *_QUIET


def keeping_flags(archive: Path) -> tuple[str, ...]:
    """Return what tells a Java to write its classes as it ends, and to say nothing of it."""
    return f"-XX:ArchiveClassesAtExit={archive}", *_QUIET


def noted_of(archive: Path) -> dict[str, str] | None:
    """Return what was noted of a file: its checksum (`sha256`), or the number of `tries`.

    Empty: it cannot be made here.
    """
    try:
        noted = json.loads(archive.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return {str(name): str(value) for name, value in noted.items()}


def is_settled(archive: Path) -> bool:
    """Tell whether a file of classes was made, or can never be, or was tried often enough."""
    noted = noted_of(archive)
    return noted is not None and int(noted.get("tries", TRIES)) >= TRIES


@cache
def is_whole(archive: Path) -> bool:
    """Tell whether a file of classes is what was noted of it; it counts as used now."""
    with suppress(OSError):
        os.utime(archive)
    noted = noted_of(archive)
    return bool(noted) and noted == checksum(archive)


def checksum(archive: Path) -> dict[str, str]:
    """Return what is noted of a file of classes; empty if it is not there."""
    with suppress(OSError), archive.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    return {}


def keep(archive: Path, make: Callable[[Path], None], starts: Callable[[Path], bool]) -> None:
    """Have a file of classes made, and note what came of it. Its lock is held meanwhile.

    Args:
        archive: Where it shall lie.
        make: Has a Java write it to a path in a folder of its own, which goes afterwards. It raises
            `NotThisTimeError`, a time-out, or an error of the disk, if another try may do;
            `ClusterError` if none does.
        starts: Tells whether a Java starts with it: it must not hinder any.
    """
    with suppress(OSError):
        archive.parent.mkdir(parents=True, exist_ok=True)
        for left in archive.parent.glob(f"{_scratch_of(archive)}*"):  # By who was killed.
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
    """Have a file of classes made, and return what is noted of it."""
    with _scratch(archive) as scratch:
        made = scratch / archive.name
        make(made)
        noted = checksum(made) if starts(made) else {}
        if noted:
            made.replace(archive)
        return noted


def _scratch_of(archive: Path) -> str:
    """Return how folders are called in which a file is made: its own, as each has its own lock."""
    return f"making-{archive.stem}-"


@contextmanager
def _scratch(archive: Path) -> Iterator[Path]:
    with TemporaryDirectory(
        dir=archive.parent, prefix=_scratch_of(archive), ignore_cleanup_errors=True
    ) as scratch:
        yield Path(scratch)


def _remove_old(archive: Path) -> None:
    """Remove files of the same program's earlier updates that nobody has used for long."""
    name, _, _ = archive.stem.rpartition("-")
    since = archive.stat().st_mtime - OLD_S
    for other in archive.parent.glob(f"{name}-*.jsa"):
        if other != archive and other.stat().st_mtime < since:
            other.unlink()
            other.with_suffix(".json").unlink(missing_ok=True)


def starts_with(program: Path, flags: Iterable[str]) -> bool:
    """Tell whether a Java starts with flags."""
    ended = subprocess.run(  # noqa: S603 - a program of the user's own PATH
        [str(program), *flags, "-version"], capture_output=True, timeout=START_S, check=False
    )
    return not ended.returncode
