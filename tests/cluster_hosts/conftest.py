"""Rooms: where a test of hosts runs. Those of namespaces run in a hub of their own, as two users.

A test that asks for `room` is run, for a namespace room, by a second pytest inside a new hub: this
process stays outside, as the one that runs other tests must. For the room of an ordinary user, root
becomes one by setpriv, and sees what root's home folder hides from it (the interpreter, maybe).

For the ssh room one lab of machines with sshd is made; a test's thread is on its network meanwhile.
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cluster.hosts.choose import HostKind, make_hosts
from cluster.hosts.docker.objects import heal_docker
from cluster.hosts.leftovers import kill_leftovers
from cluster.hosts.namespace import enter_prefix
from cluster.hosts.signals import process_id, state_of
from cluster.hosts.ssh.heal import heal_ssh
from cluster.protocol import Hosts, ProcessId
from results.record.clock import wait_until
from results.record.paths import RunPaths
from tests.docker_lab import container_of_process, daemon, pid_outside
from tests.images.java_image import java_image
from tests.machine import INSIDE, needs
from tests.ssh_lab import Lab, LabMachine

REPOSITORY = Path(__file__).parents[2]
PLUGINS = ("-p", "pytest_timeout", "-p", "no:cacheprovider")
NOBODY = 65534
EVERYBODYS = 0o666
"""The mode that udev gives the TUN device."""
NODES = ("n1", "n2", "n3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where a test runs: the kind of hosts, and as which user."""

    kind: HostKind
    root: bool = False

    @property
    def where(self) -> str:
        """The hosts, as `make_hosts` takes them."""
        return self.kind

    @property
    def where_soon(self) -> str:
        """The same, where what a dead harness left ends after seconds."""
        return self.where

    @property
    def prefix(self) -> list[str]:
        """What another harness is started through."""
        return enter_prefix() if self.kind == HostKind.NAMESPACE else []

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of a process's state, without asking its hosts."""
        return state_of(process)

    def start_ticks(self, process: ProcessId) -> int:
        """Return when the process with this number on this machine began."""
        return process_id(process.pid).start_ticks

    @property
    def image(self) -> str | None:
        """Of the containers."""
        return None

    def stray(self, leader: ProcessId, pid: int) -> ProcessId:
        """Return a process that calls its own number `pid`, on the machine of another one."""
        other = replace(leader, pid=pid)
        return replace(other, start_ticks=self.start_ticks(other))

    def hit(self, process: ProcessId, number: signal.Signals) -> None:
        """Signal a process, without asking its hosts."""
        os.kill(process.pid, number)

    def runs(self, process: ProcessId) -> bool:
        """Tell whether a process exists and has not ended, without asking its hosts."""
        return self.state_of(process) not in {None, "Z", "X"}

    def wait_gone(self, processes: Iterable[ProcessId], timeout_s: float = 20) -> None:
        """Wait until none of the processes runs any more."""
        those = list(processes)
        wait_until(
            lambda: not any(self.runs(process) for process in those),
            timeout_s=timeout_s,
            what=f"the end of {those}",
            interval_s=0.02,
        )

    def heal(self, folder: Path) -> list[str]:
        """Undo what a dead run left."""
        return kill_leftovers(folder / "processes.jsonl")

    @contextmanager
    def hosts(self, folder: Path) -> Iterator[Hosts]:
        """Hosts that are up, and taken down whatever happens."""
        hosts = make_hosts(self.where, NODES, folder / "processes.jsonl", image=self.image)
        try:
            hosts.up()
            yield hosts
        finally:
            hosts.down()


LEASE_S = 5.0
"""How long a host waits for a dead harness, where a test waits for that."""
_labs: list[Lab] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class SshRoom(Room):
    """Machines of a lab, that look like machines of their own."""

    @property
    def lab(self) -> Lab:
        """The lab that all tests share."""
        return _labs[0]

    @property
    def where(self) -> str:
        """The hosts, as `make_hosts` takes them."""
        return f"ssh:{self.lab.hosts_file()}"

    @property
    def where_soon(self) -> str:
        """The same, with a short lease."""
        return f"ssh:{self.lab.hosts_file('SOON.toml', ttl_s=LEASE_S)}"

    def machine(self, process: ProcessId) -> LabMachine:
        """The machine of a process."""
        return self.lab.machines[NODES.index(process.machine)]

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of a process's state, without asking its hosts."""
        return self.machine(process).state_of(process)

    def start_ticks(self, process: ProcessId) -> int:
        """Return when the process with this number on this machine began."""
        return self.machine(process).start_ticks(process.pid)

    def hit(self, process: ProcessId, number: signal.Signals) -> None:
        """Signal a process, without asking its hosts."""
        self.machine(process).run("kill", f"-{number.value}", str(process.pid))

    def heal(self, folder: Path) -> list[str]:
        """Undo what a dead run left."""
        return heal_ssh(Path(self.where.partition(":")[2]), RunPaths(folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerRoom(Room):
    """Containers of an image with Java, seen from outside by Docker's own command."""

    @property
    def image(self) -> str | None:
        """Of the containers."""
        return java_image()

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of a process's state, without asking its hosts."""
        state = state_of(replace(process, machine=""))
        container = container_of_process(process.pid) if state and process.machine else None
        return "T" if container and container["State"]["Paused"] else state

    def stray(self, leader: ProcessId, pid: int) -> ProcessId:
        """Return a process that calls its own number `pid`, on the machine of another one."""
        return Room.stray(self, leader, pid_outside(pid, leader.pid))

    def heal(self, folder: Path) -> list[str]:
        """Undo what a dead run left."""
        return [*kill_leftovers(folder / "processes.jsonl"), *heal_docker(folder)]


@pytest.fixture(scope="session")
def session_daemon() -> Iterator[None]:
    with daemon():
        yield


@pytest.fixture
def java(session_daemon: None) -> str:
    """An image with Java, and a daemon that has it."""
    assert session_daemon is None
    return java_image()


@pytest.fixture(scope="session")
def session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        _labs.append(lab)
        yield lab
        _labs.clear()


@pytest.fixture
def lab(session_lab: Lab) -> Iterator[Lab]:
    """The lab, on whose network the test's thread is."""
    with session_lab.inside():
        yield session_lab


@pytest.fixture(autouse=True)
def _in_the_lab(request: pytest.FixtureRequest) -> None:
    """Let a test of the ssh room find the lab."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and isinstance(callspec.params.get("room"), SshRoom):
        request.getfixturevalue("lab")


@pytest.fixture(autouse=True)
def _beside_the_daemon(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have a daemon run during a test of the docker room, and remove what the test left there."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is None or not isinstance(callspec.params.get("room"), DockerRoom):
        yield
        return
    request.getfixturevalue("java")
    folder = request.getfixturevalue("tmp_path")
    yield
    heal_docker(folder)


namespaces = pytest.mark.namespaces
SSH_ROOM = pytest.param(SshRoom(kind=HostKind.SSH), id="ssh", marks=[pytest.mark.ssh])
DOCKER_ROOM = pytest.param(
    DockerRoom(kind=HostKind.DOCKER), id="docker", marks=[pytest.mark.docker]
)
NAMESPACE_ROOMS = [
    pytest.param(
        Room(kind=HostKind.NAMESPACE, root=True),
        id="namespace-root",
        marks=[namespaces, needs("root")],
    ),
    pytest.param(Room(kind=HostKind.NAMESPACE), id="namespace-ordinary-user", marks=[namespaces]),
]
ROOMS = [
    pytest.param(Room(kind=HostKind.PROCESS), id="process"),
    *NAMESPACE_ROOMS,
    DOCKER_ROOM,
    SSH_ROOM,
]


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
