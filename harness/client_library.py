"""Another version of the client library than Logquake's own, for the workers of a run.

A version of confluent-kafka is one of librdkafka, which its wheels hold. It lies in a folder of its
own in the cache, and comes first on the path of the workers' processes; the harness keeps its own.
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
"""As long as a slow line may take for four megabytes."""
_NO_WHEEL = ("No matching distribution", "Could not find a version")
Say = Callable[[str], None]


def client_library(plan: Plan, say: Say = lambda _: None) -> Path | None:
    """Return the folder of the version that a plan wants, fetched if it is not there.

    Args:
        plan: Of the run.
        say: Told when it is fetched.

    Returns:
        None: the plan wants Logquake's own.

    Raises:
        UserError: There is no such version, or none with a wheel for this Python and machine; or it
            cannot be fetched.
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
    """Have pip unpack a wheel; what is built from sources would need librdkafka's own."""
    argv = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary=:all:", "--target", str(folder), f"{PACKAGE}=={version}",
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            argv, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise UserError(f"{PACKAGE} {version} was not there after {_LIMIT_S:g} s") from late
    if done.returncode == 0:
        return
    if any(each in done.stderr for each in _NO_WHEEL):
        raise UserError(
            f"there is no {PACKAGE} {version} with a wheel for Python"
            f" {sys.version_info.major}.{sys.version_info.minor} on this machine; the package's"
            " page lists its versions, and --client-version takes any from 2.0.2 on"
        )
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    why = lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {done.returncode}"
    raise UserError(f"{PACKAGE} {version} cannot be fetched: {why}")
