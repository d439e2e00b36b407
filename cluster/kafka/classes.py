"""Kafka's classes as Java keeps them ready-made: `class_keeping.py` has them kept."""

from pathlib import Path

from cluster.java import Java
from cluster.kafka.fetch import Distribution
from cluster.kept_classes import archive_at, flags_of, is_whole
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


def archive_of(java: Java, distribution: Distribution) -> Path:
    """Return where the classes of a version are kept.

    Raises:
        UserError: This user has no folder for a cache.
    """
    name = f"{distribution.version}-{java.major}"
    return archive_at(name, java.path, distribution.classpath)
