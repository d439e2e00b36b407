"""Makes the images that tests of containers use, from this machine's own Java: in seconds, offline.

    python -m tests.images.java_image        makes them, and prints their names

Each has a shell, some programs of coreutils and all libraries that these need, and nothing else: no
Python, no nft, no ip. An image is named by what it was made from, so that it is made once.
"""

import hashlib
import io
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import docker

from cluster.java import find_java

REPOSITORY = "logquake-test"
PROGRAMS = ("sh", "cat", "env", "id", "ls", "mkdir", "rm", "sleep", "setsid", "stat", "touch")
LEFT_OUT = frozenset({"jmods", "include", "man", "legal", "docs", "demo", "src.zip"})
"""Of a Java: what no program needs to run."""
FOLDERS = ("/tmp", "/etc", "/proc", "/sys", "/dev", "/run", "/root")  # noqa: S108 - of an image


def java_image() -> str:
    """Return the name of an image with Java, made if there is none."""
    home = find_java().path.resolve().parent.parent
    changes = [f"ENV JAVA_HOME={home}", f"ENV PATH={home}/bin:/usr/bin:/bin"]
    return _made("java", [*_of_java(home), *_programs()], changes)


def image_without_java() -> str:
    """Return the name of an image that has all but Java."""
    return _made("no-java", _programs(), ["ENV PATH=/usr/bin:/bin"])


def image_without_programs() -> str:
    """Return the name of an image without any program."""
    return _made("empty", [], ["ENV PATH=/usr/bin:/bin"], extra={"/file": b"something"})


def image_with_old_java() -> str:
    """Return the name of an image whose `java` says that it is Java 11."""
    says = b"#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n"
    return _made("old-java", _programs(), ["ENV PATH=/usr/bin:/bin"], extra={"/usr/bin/java": says})


def image_with_kafka(jars: Sequence[Path], version: str) -> str:
    """Return the name of an image that has a Kafka of its own, where the official ones have it.

    Args:
        jars: What goes to `/opt/kafka/libs`.
        version: For the name of the image.
    """
    name = f"{REPOSITORY}:kafka-{version}-{java_image().partition(':')[2]}"
    if _exists(name):
        return name
    with tempfile.TemporaryDirectory() as folder, Path(folder, "context.tar").open("w+b") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _add_text(
                tar, "Dockerfile", f"FROM {java_image()}\nCOPY libs /opt/kafka/libs\n".encode()
            )
            for jar in jars:
                tar.add(jar, f"libs/{jar.name}")
        file.seek(0)
        with closing(_client()) as client:
            client.images.build(fileobj=file, custom_context=True, tag=name, rm=True)
    return name


def _client() -> docker.DockerClient:
    return docker.from_env(timeout=300)


def _exists(name: str) -> bool:
    with closing(_client()) as client:
        return bool(client.images.list(name))


def _made(
    kind: str, files: Iterable[Path], changes: list[str], *, extra: dict[str, bytes] | None = None
) -> str:
    """Import a file system of some files of this machine, at their own paths."""
    listed = sorted(set(files))
    text = f"{listed} {changes} {extra} {Path(__file__).read_text(encoding='utf-8')}"
    name = f"{REPOSITORY}:{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if _exists(name):
        return name
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w", dereference=True) as tar:
            for folder in FOLDERS:
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "/tmp" else 0o755  # noqa: S108 - of an image
                tar.addfile(entry)
            for place, text_of in (extra or {}).items():
                _add_text(tar, place, text_of)
            for path in listed:
                tar.add(path)
        file.flush()
        with closing(_client()) as client:
            repository, _, tag = name.partition(":")
            client.api.import_image_from_file(
                file.name, repository=repository, tag=tag, changes=changes
            )
    return name


def _add_text(tar: tarfile.TarFile, path: str, text: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(text), 0o755
    tar.addfile(entry, io.BytesIO(text))


def _of_java(home: Path) -> list[Path]:
    parts = [part for part in home.iterdir() if part.name not in LEFT_OUT and part.exists()]
    files = [
        path
        for part in parts
        for path in ([part] if part.is_file() else part.rglob("*"))
        if path.is_file() and path.name not in LEFT_OUT
    ]
    linked = [home / "bin" / "java", *home.glob("lib/**/*.so")]
    return [*files, *_libraries(linked)]


def _programs() -> list[Path]:
    found = [Path("/bin", program) for program in PROGRAMS]
    return [*found, *_libraries(found)]


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """Return what the loader needs to run some programs (man 1 ldd), itself included."""
    listing = subprocess.run(
        ["ldd", *map(str, programs)], capture_output=True, text=True, check=False
    ).stdout
    absolute = re.findall(r"(?:^|=>)\s+(/\S+) \(0x", listing, flags=re.MULTILINE)
    return {Path(os.path.normpath(path)) for path in absolute}  # Java's say `bin/../lib`.


if __name__ == "__main__":
    for make in (java_image, image_without_java, image_with_old_java):
        print(make())  # noqa: T201 - a script's result
