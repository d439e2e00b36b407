"""A user's Kafka: an unpacked distribution, a build tree, or jars in front of a release's jars.

The jars in a folder show which kind of Kafka it is. A distribution has all jars in `libs/`. In a
build tree, Gradle puts each module's jars into `MODULE/build/libs/`. All jars that the server
needs, including the jars of other modules, are in `core/build/dependant-libs-SCALA/`.
`bin/kafka-run-class.sh` puts these jars on the class path.

A module's own jar comes before the copy in that folder, because `./gradlew :storage:jar` rebuilds
the module's own jar, not the copy. Jars of unneeded modules are left out, such as the benchmarks'
jar, which contains copies of all classes.

`kafka/kafka-version.properties` in `kafka-clients` has the version and the commit.
"""

import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.files.checkpoints import properties
from cluster.files.damage import DamagedFileError
from cluster.protocol import UserError
from results.record.systems import (
    VERSION,
    SystemKind,
    SystemName,
    known_numbers,
    system_named,
)

_VERSION = "kafka/kafka-version.properties"
_SERVER = "kafka/Kafka.class"
_CLIENTS = "kafka-clients-*.jar"
_NOT_TO_RUN = (
    "-sources", "-src", "-javadoc", "-scaladoc", "-test", "-tests", "-test-sources",
    "-test-fixtures",
)  # fmt: skip
_OF_KAFKA = re.compile(r"(?:kafka|connect|trogdor)[-_]")
"""The prefix of the names of jars that belong to Kafka's own modules."""
_MODULES = ("*/build/libs/*.jar", "*/*/build/libs/*.jar")
_BUILD = "./gradlew jar"
_CLEAN = "./gradlew clean jar"
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A Kafka in a folder.

    Attributes:
        version: The version, such as `4.4.0-SNAPSHOT`.
        commit: The commit that the build recorded; an empty string if the build recorded no commit.
        classpath: The absolute paths of its jars.
    """

    version: str
    commit: str
    classpath: tuple[Path, ...]


def build_in(folder: Path) -> Build:
    """Return the Kafka in a folder.

    Raises:
        UserError: The folder has no Kafka, an incomplete Kafka, or several Kafkas.
    """
    folder = folder.absolute()
    if ":" in str(folder):
        raise UserError(
            f"{folder} has a colon, which would split Java's class path; rename the folder"
        )
    if folder.is_file():
        raise UserError(f"{folder} is a file: unpack it, and name the unpacked folder")
    if not folder.is_dir():
        raise UserError(
            f"{folder} is not a folder: --system kafka:PATH needs the folder of an unpacked"
            " Kafka, or of a built source tree"
        )
    if _is_distribution(folder):
        jars = _of_distribution(folder)
    elif _is_tree(folder):
        jars = _of_tree(folder)
    else:
        raise UserError(_elsewhere(folder))
    _see_server(folder, jars)
    told = version_of(next(jar for jar in jars if jar.match(_CLIENTS)))
    return Build(version=told["version"], commit=told.get("commitId", ""), classpath=tuple(jars))


def version_in(named: SystemName) -> str | None:
    """Return the version of the jars in a system's folder; None if the system has no folder.

    Raises:
        UserError: The jars contain no version.
    """
    return build_in(Path(named.path).expanduser()).version if named.path else None


def as_release(system: str) -> str:
    """For a user's own Kafka, return the release that it counts as; return other systems unchanged.

    `kafka:4.3.1+my.jar` counts as `kafka:4.3.1`. A folder with a build of 3.9.2 counts as
    `kafka:3.9.2`. A build newer than every known release counts as the newest one.

    Raises:
        UserError: The jars contain no version.
    """
    try:
        named = system_named(system)
    except ValueError:
        return system  # An invalid system is refused where the plan is made.
    if named.kind is not SystemKind.KAFKA or not named.is_yours:
        return system
    version = named.version or ".".join(map(str, known_numbers(version_in(named) or "")))
    return replace(named, version=version, path="", jars=()).text


def jars_named(jars: Iterable[str]) -> tuple[Path, ...]:
    """Return jars, or folders of classes, that come before a release's own jars on the class path.

    Raises:
        UserError: A path does not exist, is not a jar, or contains no class.
    """
    found = tuple(Path(jar).expanduser().absolute() for jar in jars)
    for jar in found:
        if not jar.exists():
            raise UserError(
                f"{jar} does not exist: --system kafka:4.3.1+A.jar,B.jar needs jars or folders of"
                " classes, separated by commas"
            )
        if not _has_classes(jar):
            raise UserError(
                f"{jar} has no classes: --system kafka:4.3.1+JAR needs a jar or a folder of"
                " classes, which comes before Kafka's own jars on the class path"
            )
    return found


def version_of(clients: Path) -> Mapping[str, str]:
    """Return the `version` and `commitId` in a `kafka-clients` jar.

    Raises:
        UserError: The jar does not contain this data.
    """
    try:
        with zipfile.ZipFile(clients) as jar, jar.open(_VERSION) as file:
            told = properties(file.read(_MOST_BYTES).decode("utf-8"))
    except (OSError, zipfile.BadZipFile) as unreadable:
        raise UserError(f"{clients} cannot be read as a jar: {unreadable}") from unreadable
    except (KeyError, ValueError, DamagedFileError) as absent:
        raise UserError(
            f"{clients} does not contain its Kafka version: {_VERSION} is missing; build it with"
            f" {_CLEAN}"
        ) from absent
    if not re.fullmatch(VERSION, told.get("version", "")):
        raise UserError(
            f"{clients} does not contain its Kafka version: {_VERSION} has no valid version"
        )
    return told


def hashes_of(jars: Iterable[Path]) -> dict[str, str]:
    """Return, by name, the SHA-256 of each jar and of each file in a folder of classes."""
    found: dict[str, str] = {}
    for jar in jars:
        for file in [jar] if jar.is_file() else sorted(jar.rglob("*")):
            if file.is_file():
                name = str(file.relative_to(jar.parent))
                # Two folders may each have a jar with the same name.
                found[f"{name} ({len(found)})" if name in found else name] = _digest(file)
    return found


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _is_distribution(folder: Path) -> bool:
    return any(_jars(folder, f"libs/{_CLIENTS}"))


def _is_tree(folder: Path) -> bool:
    return any(_jars(folder, f"clients/build/libs/{_CLIENTS}")) or (
        (folder / "build.gradle").is_file() and (folder / "clients").is_dir()
    )


def _elsewhere(folder: Path) -> str:
    """Return a message: the folder is not a Kafka folder, and where a Kafka nearby is, if any."""
    near = [folder.parent, folder.parent.parent, folder.parent.parent.parent]
    with suppress(OSError):
        near += sorted(each for each in folder.iterdir() if each.is_dir())
    for each in near:
        if _is_distribution(each) or _is_tree(each):
            return f"{folder} is not a Kafka folder, but {each} is: use --system kafka:{each}"
    return (
        f"{folder} has no {_CLIENTS}, neither in libs/ nor in clients/build/libs/: name the"
        f" folder of an unpacked Kafka, or of a source tree built with {_BUILD}"
    )


def _of_distribution(folder: Path) -> list[Path]:
    jars = list(_jars(folder, "libs/*.jar"))
    clients = [jar for jar in jars if jar.match(_CLIENTS)]
    if len(clients) > 1:
        raise _several(folder, clients, "unpack one version into an empty folder")
    return jars


def _of_tree(folder: Path) -> list[Path]:
    """Return the jars with which `bin/kafka-run-class.sh` would run a server of a build tree."""
    settings = _gradle(folder)
    clients = _built(folder, list(_jars(folder, f"clients/build/libs/{_CLIENTS}")), settings)
    ending = clients.name.removeprefix("kafka-clients")  # -4.4.0-SNAPSHOT.jar
    servers = list(_jars(folder, f"core/build/libs/kafka_*{ending}"))
    needed = _needed(folder, servers, settings)
    scala = needed.name.removeprefix("dependant-libs-")
    server = [jar for jar in servers if scala.startswith(_scala_of(jar))]
    modules = {jar.name: jar for pattern in _MODULES for jar in _jars(folder, pattern)}
    wanted = [
        *server,
        clients,
        *_jars(needed, "*.jar"),
        *_jars(folder, f"tools/build/libs/kafka-tools{ending}"),
        *_jars(folder, f"tools/build/{needed.name}/*.jar"),
    ]
    chosen = [
        modules.get(jar.name, jar)
        for jar in wanted
        # Other versions' jars are from earlier builds, because Gradle copies jars and deletes none.
        if jar.name.endswith(ending) or not _OF_KAFKA.match(jar.name)
    ]
    once: dict[str, Path] = {}
    for jar in chosen:
        once.setdefault(jar.name, jar)
    return list(once.values())


def _built(folder: Path, clients: Sequence[Path], settings: Mapping[str, str]) -> Path:
    """Return the clients' jar of a build tree. Among several jars, choose the tree's version."""
    if not clients:
        raise UserError(
            f"{folder} is a Kafka source tree that was not built; type in that folder: {_BUILD}"
        )
    now = f"kafka-clients-{settings.get('version')}.jar"
    chosen = [jar for jar in clients if jar.name == now] or list(clients)
    if len(chosen) > 1:
        raise _several(folder, chosen, f"remove the files of an earlier build: {_CLEAN}")
    return chosen[0]


def _needed(folder: Path, servers: Sequence[Path], settings: Mapping[str, str]) -> Path:
    """Return the folder, inside a build tree, that contains the jars for the server."""
    if not servers:
        raise UserError(
            f"the server in {folder} was not built, or not together with its clients:"
            f" core/build/libs has no jar of the clients' version; type in {folder}: {_BUILD}"
        )
    found = sorted(each for each in folder.glob("core/build/dependant-libs-*") if each.is_dir())
    scala = settings.get("scalaVersion") or (_scala_of(servers[0]) if len(servers) == 1 else "")
    now = [each for each in found if each.name.startswith(f"dependant-libs-{scala}")]
    if not now:
        raise UserError(
            f"{folder} has no core/build/dependant-libs-{scala or 'SCALA'}, which has the"
            f" libraries of the server; type in {folder}: {_BUILD}"
        )
    if len(now) > 1:
        raise _several(folder, now, f"remove the files of an earlier build: {_CLEAN}")
    return now[0]


def _scala_of(server: Path) -> str:
    """Return the Scala version of a server jar, such as 2.13 for `kafka_2.13-4.3.1.jar`."""
    return server.name.removeprefix("kafka_").partition("-")[0]


def _gradle(folder: Path) -> Mapping[str, str]:
    try:
        return properties((folder / "gradle.properties").read_text("utf-8"))
    except (OSError, ValueError, DamagedFileError):
        return {}


def _several(folder: Path, found: Sequence[Path], remedy: str) -> UserError:
    named = ", ".join(str(each.relative_to(folder)) for each in found[:2])
    return UserError(f"{folder} contains more than one Kafka ({named}); {remedy}")


def _see_server(folder: Path, jars: Sequence[Path]) -> None:
    likely = sorted(jars, key=lambda jar: not jar.name.startswith("kafka_"))
    servers = [jar for jar in likely if jar.name.startswith("kafka_") and _has(jar, _SERVER)]
    if len(servers) > 1:
        raise _several(folder, servers, "unpack or build only one version")
    if not servers and not any(_has(jar, _SERVER) for jar in likely):
        raise UserError(
            f"{folder} has no jar with {_SERVER}, the server; unpack Kafka again, or build it"
            f" with {_CLEAN}"
        )


def _jars(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the jars to run, sorted, without jars of tests, sources or documentation."""
    for jar in sorted(folder.glob(pattern)):
        if not jar.stem.endswith(_NOT_TO_RUN) and jar.is_file():
            yield jar


def _has(jar: Path, name: str) -> bool:
    try:
        with zipfile.ZipFile(jar) as opened:
            return name in opened.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _has_classes(jar: Path) -> bool:
    if jar.is_dir():
        return any(jar.rglob("*.class"))
    try:
        with zipfile.ZipFile(jar) as opened:
            return any(name.endswith(".class") for name in opened.namelist())
    except (OSError, zipfile.BadZipFile):
        return False
