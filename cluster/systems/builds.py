"""A Kafka of yours: an unpacked distribution, a build tree, or jars before those of a release.

What a folder is shows by its jars. A distribution has all of them in `libs/`. A build tree has
those that its modules make in `MODULE/build/libs/`, and what they need in
`core/build/dependant-libs-SCALA/` (as `bin/kafka-run-class.sh` looks for them). The version and the
commit stand in a jar of its own: `kafka/kafka-version.properties` of `kafka-clients`.
"""

import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.files.checkpoints import properties
from cluster.files.damage import DamagedFileError
from cluster.protocol import UserError

_VERSION = "kafka/kafka-version.properties"
_SERVER = "kafka/Kafka.class"
_CLIENTS = "kafka-clients-*.jar"
_NOT_TO_RUN = ("-sources", "-javadoc", "-scaladoc", "-test", "-tests", "-test-sources")
_LAYOUTS = (
    ("libs/*.jar", "*.jar"),
    ("*/build/libs/*.jar", "*/*/build/libs/*.jar", "core/build/dependant-libs-*/*.jar",
     "tools/build/dependant-libs-*/*.jar"),
)  # fmt: skip
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A Kafka in a folder.

    Attributes:
        version: `4.4.0-SNAPSHOT`.
        commit: As the build noted it; empty: it noted none.
        classpath: Its jars: those of its modules before what they need.
    """

    version: str
    commit: str
    classpath: tuple[Path, ...]


def build_in(folder: Path) -> Build:
    """Look at a folder with a Kafka.

    Raises:
        UserError: There is none, or it is not whole.
    """
    if not folder.is_dir():
        raise UserError(
            f"{folder} is no folder: --system kafka:PATH takes an unpacked Kafka, or a tree in"
            " which it was built"
        )
    jars = _jars_of(folder)
    clients = [jar for jar in jars if jar.match(_CLIENTS)]
    if not clients:
        raise UserError(
            f"{folder} has no kafka-clients-*.jar, neither in libs/ nor in clients/build/libs/:"
            " name the folder of an unpacked Kafka, or build it first: ./gradlew jar"
        )
    if len(clients) > 1:
        named = ", ".join(str(jar.relative_to(folder)) for jar in clients[:2])
        raise UserError(
            f"{folder} has more than one Kafka in it ({named}); remove what an earlier build left:"
            " ./gradlew clean jar"
        )
    if not any(_has(jar, _SERVER) for jar in jars):
        raise UserError(
            f"{folder} has no jar with {_SERVER}: the server is not built; type: ./gradlew jar"
        )
    told = version_of(clients[0])
    return Build(
        version=told.get("version", ""), commit=told.get("commitId", ""), classpath=tuple(jars)
    )


def jars_named(jars: Iterable[str]) -> tuple[Path, ...]:
    """Return jars that stand before those of a release.

    Raises:
        UserError: One is not there, or is no jar.
    """
    found = tuple(Path(jar).expanduser().absolute() for jar in jars)
    for jar in found:
        if not (jar.is_dir() or zipfile.is_zipfile(jar)):
            raise UserError(
                f"{jar} is neither a jar nor a folder of classes: --system kafka:4.3.1+JAR takes"
                " what stands before Kafka's own jars"
            )
    return found


def version_of(clients: Path) -> Mapping[str, str]:
    """Return what a jar of `kafka-clients` tells of itself: `version`, `commitId`.

    Raises:
        UserError: It does not.
    """
    try:
        with zipfile.ZipFile(clients) as jar, jar.open(_VERSION) as file:
            told = properties(file.read(_MOST_BYTES).decode("utf-8"))
    except (OSError, KeyError, ValueError, DamagedFileError, zipfile.BadZipFile) as unreadable:
        raise UserError(f"{clients} does not say which Kafka it is: it has no {_VERSION}") from (
            unreadable
        )
    if not told.get("version", "")[:1].isdecimal():
        raise UserError(f"{clients} does not say which Kafka it is: {_VERSION} has no version")
    return told


def hashes_of(jars: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of jars by name; of a folder of classes that of each file in it."""
    return {
        str(file.relative_to(jar.parent)): _digest(file)
        for jar in jars
        for file in ([jar] if jar.is_file() else sorted(jar.rglob("*")))
        if file.is_file()
    }


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _jars_of(folder: Path) -> list[Path]:
    for patterns in _LAYOUTS:
        found = [jar for each in patterns for jar in sorted(folder.glob(each)) if _runs(jar)]
        if any(jar.match(_CLIENTS) for jar in found):
            return _each_once(found)
    return []


def _each_once(jars: Iterable[Path]) -> list[Path]:
    """Leave out what a jar of the same name before it has already."""
    named: dict[str, Path] = {}
    for jar in jars:
        named.setdefault(jar.name, jar.absolute())
    return list(named.values())


def _runs(jar: Path) -> bool:
    return not jar.stem.endswith(_NOT_TO_RUN)


def _has(jar: Path, name: str) -> bool:
    try:
        with zipfile.ZipFile(jar) as opened:
            return name in opened.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
