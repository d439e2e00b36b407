"""Rooms: where a test of hosts runs. Those of namespaces run in a hub of their own, as two users.

A test that asks for `room` is run, for a namespace room, by a second pytest inside a new hub: this
process stays outside, as the one that runs other tests must. For the room of an ordinary user, root
becomes one by setpriv, and sees what root's home folder hides from it (the interpreter, maybe).
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.hosts.choose import HostKind, make_hosts
from cluster.hosts.namespace import enter_prefix
from cluster.protocol import Hosts

INSIDE = "LOGQUAKE_TEST_INSIDE"
REPOSITORY = Path(__file__).parents[2]
PLUGINS = ("-p", "pytest_timeout", "-p", "no:cacheprovider")
NOBODY = 65534
NODES = ("n1", "n2", "n3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where a test runs: the kind of hosts, and as which user."""

    kind: HostKind
    root: bool = False

    @contextmanager
    def hosts(self, folder: Path) -> Iterator[Hosts]:
        """Hosts that are up, and taken down whatever happens."""
        hosts = make_hosts(self.kind, NODES, folder / "processes.jsonl")
        try:
            hosts.up()
            yield hosts
        finally:
            hosts.down()


namespaces = pytest.mark.namespaces
NAMESPACE_ROOMS = [
    pytest.param(
        Room(kind=HostKind.NAMESPACE, root=True),
        id="namespace-root",
        marks=[namespaces, pytest.mark.skipif(os.geteuid() != 0, reason="root only")],
    ),
    pytest.param(Room(kind=HostKind.NAMESPACE), id="namespace-ordinary-user", marks=[namespaces]),
]
ROOMS = [pytest.param(Room(kind=HostKind.PROCESS), id="process"), *NAMESPACE_ROOMS]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "room" in metafunc.fixturenames:
        metafunc.parametrize("room", ROOMS)
    if "namespace_room" in metafunc.fixturenames:
        metafunc.parametrize("namespace_room", NAMESPACE_ROOMS)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not hasattr(pyfuncitem, "callspec") or INSIDE in os.environ:
        return None
    params = pyfuncitem.callspec.params
    room = params.get("room") or params.get("namespace_room")
    if not isinstance(room, Room) or room.kind != HostKind.NAMESPACE:
        return None
    run_inside(room, pyfuncitem.nodeid)
    return True


def run_inside(room: Room, test: str) -> None:
    """Run one test by a pytest of its own inside a hub; fail with its output."""
    with tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True) as scratch:
        pytest_line = [sys.executable, "-m", "pytest", "-q", *PLUGINS]
        pytest_line += ["--basetemp", str(Path(scratch, "pytest")), test]
        inner = [*enter_prefix(root=room.root), *pytest_line]
        done = subprocess.run(
            inner if room.root or os.geteuid() else as_ordinary_user(inner, Path(scratch)),
            env={
                **os.environ,
                INSIDE: "1",
                "HOME": scratch,
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # Importing them takes longer than a test.
            },
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        pytest.fail(f"inside the hub:\n{done.stdout}\n{done.stderr}", pytrace=False)


def as_ordinary_user(argv: list[str], scratch: Path) -> list[str]:
    """Return what root runs so that an ordinary user runs the command, with a writable scratch."""
    os.chown(scratch, NOBODY, NOBODY)
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv]
    script = "\n".join(["set -e", *_uncovered(scratch), "exec " + shlex.join(drop)])
    return ["unshare", "--mount", "sh", "-c", script]


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
