"""Finds the Java class archive of a Kafka version, which `class_keeping.py` creates."""

from pathlib import Path

from cluster.java import Java
from cluster.kafka.fetch import Distribution
from cluster.kept_classes import archive_at, flags_of, is_whole
from cluster.protocol import UserError


def class_flags(java: Java, distribution: Distribution) -> tuple[str, ...]:
    """Return the Java flags that load a version's class archive; no flags if it has no archive."""
    if java.elsewhere:  # The archive is on this machine only.
        return ()
    try:
        archive = archive_of(java, distribution)
    except UserError:
        return ()
    return flags_of(archive) if is_whole(archive) else ()


def archive_of(java: Java, distribution: Distribution) -> Path:
    """Return the path of the class archive of a version.

    Raises:
        UserError: The user has no cache folder.
    """
    name = f"{distribution.version}-{java.major}"
    return archive_at(name, java.path, distribution.classpath)
