"""Rooms: where a test of hosts runs. Those of namespaces run inside of hubs, as two users.

A second pytest inside a new hub runs all tests of a module that ask for the same namespace room
(see `tests/cluster_hosts/hubs.py`). This process stays outside, for the sake of other tests.

For the ssh room one lab of machines with sshd is made; a test's thread is on its network meanwhile.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from tests.cluster_hosts.hubs import report_outside, run_inside
from tests.docker_lab import container_of_process, daemon, pid_outside
from tests.images.java_image import java_image
from tests.machine import INSIDE, needs
from tests.ssh_lab import Lab, LabMachine

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

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
    late = getattr(metafunc.module, "IN_THE_NIGHT", ())
    for fixture, rooms in (("room", ROOMS), ("namespace_room", NAMESPACE_ROOMS)):
        if fixture in metafunc.fixturenames:
            cases = [_at_night(each) if each.id in late else each for each in rooms]
            metafunc.parametrize(fixture, cases)


def _at_night(room: "ParameterSet") -> "ParameterSet":
    return pytest.param(*room.values, id=room.id, marks=[*room.marks, pytest.mark.night])


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if INSIDE in os.environ or _namespace_room(pyfuncitem) is None:
        return None
    told = pyfuncitem.session.stash.setdefault(HUBS, Hubs(pyfuncitem.session.items))
    if why := told.failure(pyfuncitem.nodeid, _hub_of(pyfuncitem)):
        pytest.fail(f"inside the hub:\n{why}", pytrace=False)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    report_outside(report)


HUBS = pytest.StashKey["Hubs"]()
HubOf = tuple[Path, bool]
"""A module, and whether root is in the hub."""


class Hubs:
    """What became of tests inside of hubs: all tests of a module in a room share one.

    Args:
        tests: Those of the session.
    """

    def __init__(self, tests: Iterable[pytest.Item]) -> None:
        self._tests: dict[HubOf, list[str]] = {}
        for each in tests:
            if isinstance(each, pytest.Function) and _namespace_room(each) is not None:
                self._tests.setdefault(_hub_of(each), []).append(each.nodeid)
        self._failures: dict[str, str] = {}

    def failure(self, test: str, hub: HubOf) -> str:
        """Return why a test failed in its hub; empty if it passed."""
        if test not in self._failures:
            self._failures |= run_inside(self._tests[hub], root=hub[1])
        return self._failures[test]


def _namespace_room(test: pytest.Function) -> Room | None:
    params = test.callspec.params if hasattr(test, "callspec") else {}
    room = params.get("room") or params.get("namespace_room")
    return room if isinstance(room, Room) and room.kind == HostKind.NAMESPACE else None


def _hub_of(test: pytest.Function) -> HubOf:
    room = _namespace_room(test)
    assert room is not None
    return test.path, room.root
