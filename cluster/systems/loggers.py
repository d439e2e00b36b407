"""What a server logs by, where a build tree lacks it: without, its brokers would say nothing.

Kafka's modules need slf4j, and only its distribution, or its tools, bring what slf4j calls. Since
4.0 that is log4j2 (KIP-653), before it was reload4j.
"""

import re
from pathlib import Path

from cluster.kafka.fetch import fetch_kafka
from cluster.protocol import UserError
from cluster.systems.builds import Build
from cluster.systems.system import Say
from results.record.plan import NEWEST

_BINDINGS = ("log4j-slf4j", "slf4j-reload4j", "slf4j-log4j12", "logback-classic", "slf4j-simple")
"""How the names of jars begin that slf4j calls."""
_PARTS = ("log4j-", "slf4j-", "reload4j-")
_LAST_WITH_RELOAD4J = "3.9.1"
_FIRST_WITH_LOG4J2 = 4


def with_logging(build: Build, say: Say) -> tuple[Path, ...]:
    """Return the class path of a build, with what a server logs by.

    Args:
        build: A Kafka of the user's.
        say: Is told in a few words how far it is.

    Raises:
        UserError: The build lacks it, and so does the cache, and it cannot be fetched.
    """
    if any(jar.name.startswith(_BINDINGS) for jar in build.classpath):
        return build.classpath
    release = NEWEST if logs_by_log4j2(build) else _LAST_WITH_RELOAD4J
    has = {_artifact(jar) for jar in build.classpath}
    try:
        lent = fetch_kafka(release, progress=say).classpath
    except UserError as absent:
        raise UserError(
            f"the build of Kafka {build.version} has no logging library (./gradlew jar builds it"
            f" with its tools), and that of Kafka {release} cannot be lent: {absent}"
        ) from absent
    say(f"the build has no logging library: that of Kafka {release} is lent to it")
    more = [jar for jar in lent if jar.name.startswith(_PARTS) and _artifact(jar) not in has]
    return (*build.classpath, *more)


def logs_by_log4j2(build: Build) -> bool:
    """Tell whether a build logs by log4j2: by its jars, for a snapshot's version is that of later.

    Before KIP-653 was done, snapshots of 4.0 still logged by reload4j.
    """
    names = [jar.name for jar in build.classpath]
    if any(name.startswith("log4j-core") for name in names):
        return True
    old = any(name.startswith(("reload4j-", "slf4j-reload4j")) for name in names)
    return not old and int(build.version.partition(".")[0]) >= _FIRST_WITH_LOG4J2


def _artifact(jar: Path) -> str:
    """Return `slf4j-api` of `slf4j-api-1.7.36.jar`."""
    return re.sub(r"-\d.*", "", jar.name)
