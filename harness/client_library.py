"""Fetch the version of confluent-kafka that a plan names, for the run's workers.

The wheels of each confluent-kafka version contain one version of librdkafka. Each fetched version
gets a folder in the cache. The worker processes have this folder first on their Python path.
Logquake's own process keeps the installed version.
"""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from cluster.cache import cache_folder, locked, refused
from cluster.protocol import UserError
from results.record.plan import Plan

PACKAGE = "confluent-kafka"
_LIMIT_S = 600.0
"""The time limit of a download. It is enough for four megabytes over a slow line."""
_NO_WHEEL = ("No matching distribution", "Could not find a version")
Say = Callable[[str], None]


def client_library(plan: Plan, say: Say = lambda _: None) -> Path | None:
    """Return the folder with the plan's version of confluent-kafka; fetch the version if necessary.

    Args:
        plan: The run's plan.
        say: The function that prints a message while a version is fetched.

    Returns:
        The folder, or None if the plan names no version.

    Raises:
        UserError: There is no such version, there is no wheel for this Python and machine, or the
            download failed.
    """
    version = plan.client_version
    if version is None:
        return None
    folder = cache_folder() / "clients" / f"{PACKAGE}-{version}-{_python()}"
    if not folder.is_dir():
        with locked(folder.parent / "lock", say):
            if not folder.is_dir():
                say(f"fetching {PACKAGE} {version}")
                _fetch(version, folder)
    return folder


def _python() -> str:
    return f"py{sys.version_info.major}{sys.version_info.minor}"


def _fetch(version: str, folder: Path) -> None:
    with refused(folder.parent):
        made = Path(mkdtemp(prefix="making-", dir=folder.parent))
    try:
        _install(version, made)
        with refused(folder.parent):
            made.rename(folder)
    finally:
        with suppress(OSError):
            rmtree(made)


def _install(version: str, folder: Path) -> None:
    """Install a wheel with pip. A build from source would need librdkafka's own sources."""
    argv = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary=:all:", "--target", str(folder), f"{PACKAGE}=={version}",
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            argv, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise UserError(
            f"{PACKAGE} {version} could not be installed within {_LIMIT_S:g} s"
        ) from late
    if done.returncode == 0:
        return
    if any(each in done.stderr for each in _NO_WHEEL):
        raise UserError(
            f"there is no {PACKAGE} {version} with a wheel for Python"
            f" {sys.version_info.major}.{sys.version_info.minor} on this machine; use a version"
            " from the package's page, 2.0.2 or later"
        )
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    why = lines[-1].removeprefix("ERROR: ") if lines else f"pip exited with {done.returncode}"
    raise UserError(f"{PACKAGE} {version} cannot be fetched: {why}")
