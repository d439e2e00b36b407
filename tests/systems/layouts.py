"""Folders that look as a distribution of Kafka, or as a tree in which it was built."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

from cluster.kafka.fetch import fetch_kafka

VERSION_FILE = "kafka/kafka-version.properties"
SERVER = "kafka/Kafka.class"
MODULES = {
    "kafka-clients": "clients",
    "kafka_2.13": "core",
    "kafka-storage": "storage",
    "kafka-storage-api": "storage/api",
    "kafka-server-common": "server-common",
}
"""Folders of a tree, by what the jars of their modules are called."""


def jar(path: Path, *members: str, text: str = "") -> Path:
    """Make a jar with some members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, text)
    return path


def clients_jar(folder: Path, version: str, *, commit: str = "abc123") -> Path:
    """Make a jar of `kafka-clients` that says which it is."""
    text = f"commitId={commit}\nversion={version}"
    return jar(folder / f"kafka-clients-{version}.jar", VERSION_FILE, text=text)


def distribution(folder: Path, version: str = "4.4.0") -> Path:
    """Make what an archive of Kafka holds, as far as a build is known by it."""
    libs = folder / "libs"
    clients_jar(libs, version)
    jar(libs / f"kafka_2.13-{version}.jar", SERVER)
    for name in ("slf4j-api-1.7.36", "log4j-slf4j-impl-2.25.4", f"kafka-storage-{version}"):
        jar(libs / f"{name}.jar", "some.class")
    return folder


def tree(folder: Path, version: str = "4.4.0-SNAPSHOT", *, scala: str = "2.13.18") -> Path:
    """Make what `./gradlew jar` leaves in a tree, as far as a build is known by it."""
    clients_jar(folder / "clients/build/libs", version)
    needed = folder / f"core/build/dependant-libs-{scala}"
    for name, module in MODULES.items():
        if name != "kafka-clients":
            jar(
                folder / module / "build/libs" / f"{name}-{version}.jar",
                SERVER if module == "core" else "some.class",
            )
        if name not in {"kafka-clients", "kafka_2.13"}:
            jar(needed / f"{name}-{version}.jar", "as.copied")
    for name in ("slf4j-api-1.7.36", f"scala-library-{scala}"):
        jar(needed / f"{name}.jar", "some.class")
    tools = folder / "tools/build"
    jar(tools / f"libs/kafka-tools-{version}.jar", "some.class")
    jar(tools / f"dependant-libs-{scala}/log4j-slf4j-impl-2.25.4.jar", "some.class")
    jar(tools / f"dependant-libs-{scala}/slf4j-api-1.7.36.jar", "some.class")
    settings = f"group=org.apache.kafka\nversion={version}\nscalaVersion={scala}\n"
    (folder / "gradle.properties").write_text(settings)
    (folder / "build.gradle").touch()
    return folder


def real_distribution(folder: Path) -> Path:
    """Lay Kafka 4.3.1 out as its archive does; its jars are links."""
    release = fetch_kafka("4.3.1", progress=print)
    _link([*release.classpath, *release.tools], folder / "libs")
    return folder


def real_tree(folder: Path) -> Path:
    """Lay Kafka 4.3.1 out as `./gradlew jar` does, next to what an earlier build left."""
    release = fetch_kafka("4.3.1", progress=print)
    for each in release.classpath:
        module = MODULES.get(each.name.removesuffix("-4.3.1.jar"))
        if module is not None:
            _link([each], folder / module / "build/libs")
        if module not in {"clients", "core"}:
            _link([each], folder / "core/build/dependant-libs-2.13.18")
    _link(release.tools, folder / "tools/build/libs")
    jar(folder / "core/build/dependant-libs-2.13.18/kafka-storage-4.3.0.jar", SERVER)
    (folder / "gradle.properties").write_text("version=4.3.1\nscalaVersion=2.13.18\n")
    (folder / "build.gradle").touch()
    return folder


def _link(jars: Iterable[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in jars:
        (folder / each.name).symlink_to(each)
