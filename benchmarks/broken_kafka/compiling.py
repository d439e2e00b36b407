"""Compilation of single Kafka classes, in Java or Scala, against the jars of one Kafka version.

The sources come from Maven Central (`-sources.jar`). The Scala compiler comes from Maven Central,
too, because Kafka does not need it at run time. The files are kept in the cache that also holds
Kafka. Their hashes are compared with `jars.sha256` before each use, because their code is executed.
"""

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import requests

from cluster.cache import cache_folder, locked
from cluster.java import find_java
from cluster.kafka.fetch import MAVEN_CENTRAL, REPOSITORY_VARIABLE, TIMEOUT_S, fetch_kafka
from cluster.protocol import UserError

VERSION = "4.3.1"
SCALA = "2.13.18"
"""The Scala version with which the `kafka_2.13` jar of this Kafka version was built."""
_HASHES = Path(__file__).with_name("jars.sha256")
_JAVAC = ("--module", "jdk.compiler/com.sun.tools.javac.Main")
_SCALAC = "scala.tools.nsc.Main"
_SCALA_JARS = ("scala-compiler", "scala-reflect", "scala-library")


class DoesNotCompileError(Exception):
    """A compiler rejected the sources. The message is the compiler's output."""


def compiled(sources: Mapping[str, str], folder: Path, classpath: Sequence[Path] = ()) -> Path:
    """Compile classes into a folder that precedes Kafka's jars: `--system kafka:4.3.1+FOLDER`.

    Args:
        sources: The source texts by their path in the jar: `kafka/cluster/Partition.scala`. All are
            Java, or all are Scala.
        folder: The folder for the compiled classes, laid out as in a jar. An existing folder is
            deleted and recreated. The sources are written beside the folder.
        classpath: The jars to compile against. If empty, the jars of Kafka 4.3.1.

    Returns:
        The folder.

    Raises:
        DoesNotCompileError: A compiler rejected the sources.
        UserError: Java is not installed, or a needed file cannot be downloaded.
    """
    jars = [*classpath] or [*fetch_kafka(VERSION, progress=print).classpath]
    texts, draft = (folder.with_name(f"{folder.name}-{what}") for what in ("sources", "draft"))
    for each in (folder, texts, draft):
        shutil.rmtree(each, ignore_errors=True)
    draft.mkdir(parents=True)
    for path, text in sources.items():
        (texts / path).parent.mkdir(parents=True, exist_ok=True)
        (texts / path).write_text(text, encoding="utf-8")
    files = [str(texts / path) for path in sources]
    options = ["-nowarn", "-encoding", "UTF-8", "-classpath", os.pathsep.join(map(str, jars))]
    argv = [*_compiler(files), *options, "-d", str(draft), *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DoesNotCompileError(done.stdout + done.stderr)
    draft.rename(folder)  # Rename in one step, so that a kill leaves no incomplete file.
    return folder


def _compiler(files: Sequence[str]) -> list[str]:
    java = str(find_java().path)
    if files[0].endswith(".java"):
        return [java, *_JAVAC, "-proc:none"]
    jars = [fetched(f"org/scala-lang/{name}/{SCALA}/{name}-{SCALA}.jar") for name in _SCALA_JARS]
    return [java, "-cp", os.pathsep.join(map(str, jars)), _SCALAC]


def source_of(artifact: str, path: str) -> str:
    """Return the text of one source file of Kafka 4.3.1.

    Args:
        artifact: The Maven artifact that contains the file: `kafka-storage`.
        path: The path in the jar: `org/apache/kafka/storage/internals/log/UnifiedLog.java`.

    Raises:
        UserError: The jar cannot be downloaded.
        KeyError: The jar has no such file.
    """
    jar = fetched(sources_of(artifact))
    with zipfile.ZipFile(jar) as opened:
        return opened.read(path).decode("utf-8")


def sources_of(artifact: str) -> str:
    """Return the path of an artifact's sources jar in a Maven repository."""
    return f"org/apache/kafka/{artifact}/{VERSION}/{artifact}-{VERSION}-sources.jar"


def is_cached(path: str) -> bool:
    """Return whether the cache holds a complete copy of this repository file."""
    file = cache_folder() / "maven" / path
    return file.is_file() and _digest(file.read_bytes()) == _expected(path)


def fetched(path: str) -> Path:
    """Return the path of a repository file, after a download if the cache has no complete copy.

    Raises:
        UserError: The download failed, or the file's hash differs from `jars.sha256`.
    """
    file = cache_folder() / "maven" / path
    if is_cached(path):
        return file
    address = (os.environ.get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL).rstrip("/")
    with locked(cache_folder() / "lock", print):
        try:
            answer = requests.get(f"{address}/{path}", timeout=TIMEOUT_S)
            answer.raise_for_status()
        except requests.RequestException as unreachable:
            raise UserError(
                f"{path} is not in the cache, and {address} cannot be asked ({unreachable});"
                f" connect to the network once, or name a mirror in {REPOSITORY_VARIABLE}"
            ) from unreachable
        if _digest(answer.content) != _expected(path):
            raise UserError(f"{address} has another {path} than {_HASHES.name} says; ask another")
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_bytes(answer.content)
        draft.replace(file)
    return file


def _expected(path: str) -> str:
    lines = (line.split() for line in _HASHES.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, name in lines}[path]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
