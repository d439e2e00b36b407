"""Add a logging library to a build tree that has none. Otherwise the brokers would log nothing.

Kafka's modules need slf4j. Only Kafka's distribution or tools bring the backend of slf4j. Since 4.0
the backend is log4j2 (KIP-653). Before 4.0 it was reload4j.
"""

import re
from pathlib import Path

from cluster.kafka.fetch import fetch_kafka
from cluster.protocol import UserError
from cluster.systems.builds import Build
from cluster.systems.system import Say
from results.record.plan import NEWEST

_BINDINGS = ("log4j-slf4j", "slf4j-reload4j", "slf4j-log4j12", "logback-classic", "slf4j-simple")
"""The prefixes of jars that are backends of slf4j."""
_PARTS = ("log4j-", "slf4j-", "reload4j-")
_LAST_WITH_RELOAD4J = "3.9.1"
_FIRST_WITH_LOG4J2 = 4


def with_logging(build: Build, say: Say) -> tuple[Path, ...]:
    """Return the class path of a build, with a logging library.

    Args:
        build: The user's Kafka.
        say: Gets short messages about the progress.

    Raises:
        UserError: The build and the cache have no logging library, and the download fails.
    """
    if any(jar.name.startswith(_BINDINGS) for jar in build.classpath):
        return build.classpath
    release = NEWEST if logs_by_log4j2(build) else _LAST_WITH_RELOAD4J
    has = {_artifact(jar) for jar in build.classpath}
    try:
        lent = fetch_kafka(release, progress=say).classpath
    except UserError as absent:
        raise UserError(
            f"the build of Kafka {build.version} has no logging library (./gradlew jar builds the"
            f" library together with the tools), and the library of Kafka {release} is not"
            f" available: {absent}"
        ) from absent
    say(f"the build has no logging library, so the library of Kafka {release} is used")
    more = [jar for jar in lent if jar.name.startswith(_PARTS) and _artifact(jar) not in has]
    return (*build.classpath, *more)


def logs_by_log4j2(build: Build) -> bool:
    """Return whether the jars of a build show that it logs with log4j2.

    The version of a snapshot is not enough: early snapshots of 4.0 still used reload4j.
    """
    names = [jar.name for jar in build.classpath]
    if any(name.startswith("log4j-core") for name in names):
        return True
    old = any(name.startswith(("reload4j-", "slf4j-reload4j")) for name in names)
    return not old and int(build.version.partition(".")[0]) >= _FIRST_WITH_LOG4J2


def _artifact(jar: Path) -> str:
    """Return a jar's artifact, such as `slf4j-api` for `slf4j-api-1.7.36.jar`."""
    return re.sub(r"-\d.*", "", jar.name)
