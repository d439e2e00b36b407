"""Runs tests inside a hub of network namespaces, as root or as an ordinary user.

A second pytest runs there and writes one line for each failure to a file, which the first one
reads. For an ordinary user, root becomes one by setpriv; what root's home folder hides from others
(the interpreter, maybe) is mounted where they see it.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cluster.hosts.namespace import enter_prefix
from tests.machine import INSIDE

REPOSITORY = Path(__file__).parents[2]
PLUGINS = ("-p", "pytest_timeout", "-p", "no:cacheprovider")
NOBODY = 65534
EVERYBODYS = 0o666
"""The mode that udev gives the TUN device."""
LIMIT_S = 560.0
"""Of a module's tests together: below the limit of the one test that waits for them."""
REPORTS = "LOGQUAKE_TEST_REPORTS"
"""Environment variable: the file that reports go to."""


def run_inside(tests: Sequence[str], *, root: bool) -> Mapping[str, str]:
    """Run tests by a pytest of its own inside a hub.

    Args:
        tests: Their node ids.
        root: Whether as root; otherwise as an ordinary user.

    Returns:
        Why each failed; empty if it passed.
    """
    with tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True) as scratch:
        reports = Path(scratch, "reports")
        line = [sys.executable, "-m", "pytest", "-q", *PLUGINS]
        line += ["--basetemp", str(Path(scratch, "pytest")), *tests]
        inner = [*enter_prefix(root=root), *line]
        done = subprocess.run(
            inner if root or os.geteuid() else as_ordinary_user(inner, Path(scratch)),
            env={
                **os.environ,
                INSIDE: "1",
                REPORTS: str(reports),
                "HOME": scratch,
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # Importing them takes longer than a test.
            },
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        lines = reports.read_text().splitlines() if reports.exists() else []
    failures = dict.fromkeys(tests, f"it did not run:\n{done.stdout}\n{done.stderr}")
    for test, outcome, why in map(json.loads, lines):
        before = failures[test] if failures[test].startswith("failed") else ""
        failures[test] = before if outcome == "passed" else f"{before}failed: {why}\n"
    return failures


def report_outside(report: pytest.TestReport) -> None:
    """Write down how a part of a test ended, for the pytest outside of the hub."""
    if REPORTS in os.environ and (report.when == "call" or not report.passed):
        line = json.dumps([report.nodeid, report.outcome, str(report.longreprtext)])
        with Path(os.environ[REPORTS]).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def as_ordinary_user(argv: list[str], scratch: Path, *, tun: int | None = EVERYBODYS) -> list[str]:
    """Return what root runs so that an ordinary user runs the command, with a writable scratch.

    Args:
        argv: The command.
        scratch: A folder that the user shall own.
        tun: The mode of the TUN device that the command sees; None: it sees none.
    """
    os.chown(scratch, NOBODY, NOBODY)
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv]
    lines = ["set -e", *_uncovered(scratch), _own_tun(scratch, tun), "exec " + shlex.join(drop)]
    return ["unshare", "--mount", "sh", "-c", "\n".join(lines)]


def _own_tun(scratch: Path, mode: int | None) -> str:
    """Return a command that gives the mount namespace a TUN device of its own.

    With udev everybody may open it, elsewhere it is root's alone. The machine's own one stays as it
    is. Where the kernel allows no new node, the test sees the machine's.
    """
    if mode is None:
        return "[ ! -e /dev/net ] || mount -t tmpfs tmpfs /dev/net"
    make = f"mkdir -p {scratch}/dev; mount -t tmpfs tmpfs {scratch}/dev; cd {scratch}/dev"
    make += f"; mknod tun c 10 200; chmod {mode:o} tun; mount --bind tun /dev/net/tun"
    return f"( [ ! -e /dev/net/tun ] || {{ {make}; }} ) || true"


def _uncovered(scratch: Path) -> list[str]:
    """Return commands that let everybody see our interpreter and the repository.

    In a mount namespace, a folder that is closed to others is covered by an empty one that is open,
    in which only what is needed appears again.
    """
    needed = {Path(path).resolve() for path in (sys.base_prefix, sys.prefix, REPOSITORY)}
    lines = []
    for number, path in enumerate(sorted(needed)):
        lines.append(f"mkdir -p {scratch}/{number}; mount --bind {path} {scratch}/{number}")
    closed = {
        next(folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001)
        for path in needed
        if any(not folder.stat().st_mode & 0o001 for folder in path.parents)
    }
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in sorted(closed)]
    for number, path in enumerate(sorted(needed)):
        if closed & set(path.parents):
            lines.append(f"mkdir -p {path}; mount --bind {scratch}/{number} {path}")
    return lines
