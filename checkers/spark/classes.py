"""Cache Spark's Java classes in an archive (class data sharing), which halves Spark's start time.

The first session that ends normally writes the archive. The Java process of that session then takes
about ten seconds longer to end.
"""

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from cluster.cache import locked_if_free
from cluster.kept_classes import (
    NotThisTimeError,
    archive_at,
    flags_of,
    is_settled,
    is_whole,
    keep,
    keeping_flags,
    starts_with,
)
from cluster.protocol import UserError

_LEFT = "classes.jsa"


@contextmanager
def kept_classes(java: Path, scratch: Path) -> Iterator[tuple[str, ...]]:
    """Yield the Java flags that use the class archive, or the flags that write a new archive.

    Args:
        java: The Java program.
        scratch: The session's folder.

    Yields:
        Flags for Java; empty if no archive can be used or written. Java must end before the `with`
        block ends. When the block ends, a new archive is stored. The archive is not stored after a
        call of `drop_classes`, or after an exception.
    """
    with ExitStack() as held:
        try:
            archive = archive_at(f"spark-{pyspark.__version__}", java, _jars())
            free = (
                _can_be_named(archive)
                and not is_settled(archive)
                and held.enter_context(locked_if_free(archive.parent / "spark.lock"))
            )
        except (UserError, OSError):  # There is no cache folder.
            yield ()
            return
        if not _can_be_named(archive):
            yield ()
            return
        if not free:
            yield flags_of(archive) if is_whole(archive) else ()
            return
        left = scratch / _LEFT
        yield keeping_flags(left)
        keep(
            archive, lambda made: _take(left, made), lambda made: starts_with(java, flags_of(made))
        )


def drop_classes(scratch: Path) -> None:
    """Remove the class archive that a Java process wrote before it ended abnormally."""
    (scratch / _LEFT).unlink(missing_ok=True)


def _can_be_named(archive: Path) -> bool:
    """Return whether Spark and Java can read this path in an option.

    Spark splits options at blanks, and Java splits a list of archives at the path separator.
    """
    return shlex.quote(str(archive)) == str(archive) and os.pathsep not in str(archive)


def _take(left: Path, made: Path) -> None:
    if not left.exists():
        raise NotThisTimeError("Java left no classes")
    shutil.move(left, made)


def _jars() -> list[Path]:
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return sorted((Path(home) / "jars").glob("*.jar"))
