"""Logquake's command as a user types it, and what its newest run left."""

import json
import subprocess
import sys
from pathlib import Path

import psutil

from results.record.paths import RunPaths

LOGQUAKE = str(Path(sys.executable).parent / "logquake")
RUN_LIMIT_S = 560
HERE = ("--engine", "local")
"""Where Spark's start is not what a test is about: both engines judge alike, as others show."""


def logquake(
    *words: str, store: Path, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, LOGQUAKE, *words, "--store", str(store)],
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )


def verdict_of(done: "subprocess.CompletedProcess[str]") -> dict[str, object]:
    assert done.stdout.startswith("{"), done.stdout[-2000:] + done.stderr[-3000:]
    verdict: dict[str, object] = json.loads(done.stdout)
    return verdict


def reasons(verdict: dict[str, object]) -> str:
    said = verdict["unknown_because"]
    assert isinstance(said, list)
    return " ".join(said)


def why_not_valid(verdict: dict[str, object]) -> str:
    """Return what a failed test should say first: the reasons, and each anomaly with an example."""
    anomalies = verdict["anomalies"]
    assert isinstance(anomalies, dict)
    told = [
        f"{name}: {found['count']}, allowed {found['allowed']}, trusted {found['trusted']}:"
        f" {[each['sentence'] for each in found['examples'][:2]]}"
        for name, found in anomalies.items()
    ]
    return "\n".join([str(verdict["valid"]), str(verdict["unknown_because"]), *told])


def newest(store: Path) -> RunPaths:
    return RunPaths((store / "latest").resolve())


def belongs_to(process: psutil.Process, root: Path) -> bool:
    """Tell by the command line (brokers, workers) or the mark in the environment (agents)."""
    try:
        words = [*process.cmdline(), *process.environ().values()]
    except psutil.Error:
        return False
    return any(str(root) in word for word in words)


def running(root: Path) -> list[int]:
    """Return the processes whose command line or environment names the run's folder."""
    return [process.pid for process in psutil.process_iter() if belongs_to(process, root)]
