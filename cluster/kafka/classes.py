"""Kafka's classes as Java keeps them ready-made: with them a broker starts in half the time.

Java can write down what it made of a program's classes, and map that at the next start (class-data
sharing, JEP 350). So once for each version and Java a broker is started on loopback, on an empty
disk, and ended in order; what it leaves is kept beside the jars. Java sees by itself whether that
fits, and does without it if not. A file that was cut would crash it, though, so that its checksum
is compared before.
"""

import hashlib
import json
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from cluster.cache import cache_folder
from cluster.java import Java
from cluster.kafka.fetch import Distribution
from cluster.protocol import UserError


def class_flags(java: Java, distribution: Distribution) -> tuple[str, ...]:
    """Return what tells a Java where the classes of a version are kept; nothing if they are not."""
    if java.elsewhere:  # What is kept here is not there.
        return ()
    try:
        archive = archive_of(java, distribution)
    except UserError:
        return ()
    return flags_of(archive) if is_whole(archive) else ()


def flags_of(archive: Path) -> tuple[str, ...]:
    """Return what tells a Java to use a file of classes, and to say nothing if it does not fit."""
    return f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"


def archive_of(java: Java, distribution: Distribution) -> Path:
    """Return where the classes are kept, by the program and the jars that they are made of.

    An update of either makes others of it: they have another size, or another time.

    Raises:
        UserError: This user has no folder for a cache.
    """
    program = java.path.resolve()
    files = (program, program.parent.parent / "lib/server/libjvm.so", *distribution.classpath)
    parts = [str(java.major), *(f"{file} {_stamp(file)}" for file in files)]
    told = hashlib.sha256(os.fsencode("\n".join(parts))).hexdigest()[:16]
    return cache_folder() / "classes" / f"{distribution.version}-{told}.jsa"


def _stamp(file: Path) -> str:
    with suppress(OSError):
        found = file.stat()
        return f"{found.st_size} {found.st_mtime_ns}"
    return ""


def noted_of(archive: Path) -> dict[str, str] | None:
    """Return what was noted of a file: its checksum (`sha256`), or the number of `tries`.

    Empty: it cannot be made here.
    """
    try:
        noted = json.loads(archive.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return {str(name): str(value) for name, value in noted.items()}


@cache
def is_whole(archive: Path) -> bool:
    """Tell whether a file of classes is what was noted of it."""
    noted = noted_of(archive)
    return bool(noted) and noted == checksum(archive)


def checksum(archive: Path) -> dict[str, str]:
    """Return what is noted of a file of classes; empty if it is not there."""
    with suppress(OSError), archive.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    return {}
