"""`environment.json`: the machine and software versions that a run used.

A reader needs these facts to rerun or explain the run. The file does not identify the machine's
owner: it contains no user name, host name or address.
"""

import dataclasses
import json
import os
import platform
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import psutil

from results.record.atomic import StoreError, write_atomically
from results.record.clock import NS_PER_S, RunClock, unix_s, utc_now_text
from results.record.paths import RunPaths
from results.record.reading import parse_json, read_text

SCHEMA_VERSION = 1
LIBRARIES = (
    "confluent-kafka", "cramjam", "jgo", "kio", "matplotlib", "networkx", "numpy", "pandas",
    "pyarrow", "pydantic", "pyspark", "rich",
)  # fmt: skip
_GIT_TIMEOUT_S = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Facts that a system under test reports about itself.

    Attributes:
        java, java_version: The JVM of the brokers. None if the brokers use no JVM.
        brokers: The broker's version and jars, as in `Environment.brokers`.
    """

    java: str | None = None
    java_version: str | None = None
    brokers: Mapping[str, object] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The contents of `environment.json`.

    Attributes:
        logquake: Logquake's version.
        git_commit: The commit of Logquake's source folder, with `-dirty` if it has changed files.
            None if Logquake is an installed package.
        python, platform, kernel: Versions.
        cores: Number of logical processors that this process may use.
        memory_bytes: Memory of the machine.
        java, java_version: The JVM of the brokers. None if the brokers use no JVM.
        brokers: Facts about the broker: `version`, `commit` and `jars`. `jars` has the name and the
            SHA-256 of each jar that the user supplied.
        system: Name of the system under test in the plan: `kafka:4.3.1`.
        hosts: The kind of hosts: namespace, process, ...
        libraries: The version of each installed library. `kafka-clients` is listed only if the
            workload uses Kafka's own Java client.
        started_utc: Start of the run on the wall clock, `20261121T104500Z`. It is only for display.
        started_unix_s: Start of the run in seconds since 1970. With it, times in brokers' logs are
            converted to times of the run.
        clock_start_ns: `CLOCK_MONOTONIC` at the run's start. All times in the record are counted
            from this time.
        doctor: One sentence for each topic that `logquake doctor` checked on this machine.
    """

    schema_version: int = SCHEMA_VERSION
    logquake: str
    git_commit: str | None
    python: str
    platform: str
    kernel: str
    cores: int
    memory_bytes: int
    java: str | None
    java_version: str | None
    brokers: dict[str, object]
    system: str | None
    hosts: str | None
    libraries: dict[str, str]
    started_utc: str
    started_unix_s: float
    clock_start_ns: int
    doctor: dict[str, str]


def collect_environment(
    paths: RunPaths,
    *,
    clock: RunClock,
    told: Told | None = None,
    doctor: Mapping[str, str] | None = None,
    started_unix_s: float | None = None,
) -> Environment:
    """Collect the facts about this machine and write the run's `environment.json`.

    Args:
        paths: The run. If the run's plan exists already, the system and the hosts are taken from
            the plan.
        clock: The run's clock.
        told: Facts that the system under test reports about itself.
        doctor: One sentence for each topic that `logquake doctor` checked on this machine.
        started_unix_s: Start of the run on the brokers' clocks; None if brokers use this machine's
            clock.

    Raises:
        StoreError: The file cannot be written.
    """
    plan, told = _plan_values(paths.plan), told or Told()
    environment = Environment(
        logquake=_version("logquake") or "unknown",
        git_commit=_git_commit(Path(__file__).resolve().parent.parent),
        python=platform.python_version(),
        platform=platform.platform(),
        kernel=platform.release(),
        cores=_cores(),
        memory_bytes=psutil.virtual_memory().total,
        java=told.java,
        java_version=told.java_version,
        brokers=dict(told.brokers),
        system=plan.get("system"),
        hosts=plan.get("hosts"),
        libraries=_libraries(plan),
        started_utc=utc_now_text(),
        started_unix_s=round(unix_s() - clock.now_ns() / NS_PER_S, 3)
        if started_unix_s is None
        else started_unix_s,
        clock_start_ns=clock.start_ns,
        doctor=dict(doctor or {}),
    )
    write_environment(environment, paths.environment)
    return environment


def write_environment(environment: Environment, path: Path) -> None:
    """Write a run's `environment.json`.

    Raises:
        StoreError: The file cannot be written.
    """
    text = json.dumps(dataclasses.asdict(environment), indent=1, sort_keys=True)
    write_atomically(path, text + "\n")


def read_environment(path: Path) -> dict[str, object]:
    """Return `environment.json` as a plain dictionary; empty if the file is missing.

    Raises:
        StoreError: The file exists, but is not a JSON object.
    """
    try:
        values = parse_json(read_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as unreadable:
        raise StoreError(f"{path} cannot be read ({unreadable}); remove it") from unreadable
    if not isinstance(values, dict):
        raise StoreError(f"{path} cannot be read (it is not a JSON object); remove it")
    return values


def _plan_values(path: Path) -> dict[str, str]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in values.items() if isinstance(value, str)}


def _libraries(plan: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of installed libraries, and of Kafka's Java client if the run uses it."""
    found = {name: version for name in LIBRARIES if (version := _version(name))}
    kind, _, version = plan.get("client_kind", "").partition(":")
    return {**found, "kafka-clients": version} if kind == "java" else found


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return psutil.cpu_count() or 1


def _git_commit(root: Path) -> str | None:
    git = shutil.which("git")
    # A package installed inside another project's checkout must not report that project's commit.
    if not git or not (root / ".git").exists() or not (root / "pyproject.toml").exists():
        return None
    argv = [git, "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            argv, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
