"""Kills a harness at a chosen moment, heals what it left, and looks for what is still there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cluster.hosts.audit import differences, local_traces
from cluster.hosts.choose import make_hosts
from cluster.hosts.heal import Healed
from cluster.hosts.ledger import RUN_MARK, mark, read_ledger
from cluster.hosts.leftovers import leftovers
from cluster.hosts.local import LocalHosts
from cluster.hosts.signals import is_running
from cluster.hosts.ssh.run import id_of
from cluster.hosts.ssh.undoing import MARK, WARDEN
from cluster.hosts.ssh.warden import FIRST_LEASE_S
from cluster.protocol import CanAudit
from harness.heal import heal_store
from results.record.clock import WaitTimeoutError, pause_until, stopwatch_s, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan, dump_plan
from results.store import Store
from tests.cluster_hosts.small_harness import DEEDS, GO, HOLD, NODES, ONLY

PLACES = ("tmp", "home", "cwd")
REPOSITORY = Path(__file__).parents[2]
START_LIMIT_S = 120.0
UNTIL_FIRST_HEAL = 2 + len(NODES) + 1
"""Hosts go up, each node has its broker, a fault begins; before its heal the harness waits."""
MOST_DEEDS = 24
"""A life of hosts and a half: one has some 15 deeds."""
WITHIN_S = 0.15
UNDO_LIMIT_S = 30.0
UP_S = 2.0
"""How long after the beginning of a deed the blow falls, at most; to make hosts takes longer."""
PARTS = ("session", "session", "frozen", "stage", "agent")
"""Who is hit; the session, which is what people kill, more often than others. `frozen`: it too, but
all else of the run on this machine was stopped before, and so can notice nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """One kill, and what came of it.

    Attributes:
        part: Who was killed.
        deed: What was under way.
        healed: What `heal` said.
        left: What is there all the same, in sentences; none: all is as before.
        took_s: How long the heal took, or the hosts to do it themselves.
    """

    part: str
    deed: str
    healed: Healed
    left: tuple[str, ...]
    took_s: float


def crash(
    plan: Plan,
    folder: Path,
    rng: Random,
    *,
    part: str | None = None,
    lease_s: float = 0,
    fault: str = "",
) -> Crash:
    """Start a harness, kill it, heal, and look.

    Args:
        plan: Which hosts.
        folder: An empty one; all of the victim's temporary files are to lie in it, too.
        rng: Chooses who is hit, and when.
        part: Who is hit, if that is not chosen.
        lease_s: Of ssh hosts that are to undo all by themselves before the heal; 0: they are not.
        fault: The only fault that it injects: the blow falls while that is in force. Empty: chance
            decides.
    """
    part = part or rng.choice(PARTS)
    before, network = _links(), local_traces(folder / "no-run")
    moment = Moment(deeds=rng.randint(1, MOST_DEEDS), then=rng.random())
    moment = Moment(deeds=UNTIL_FIRST_HEAL, then=0) if fault else moment
    with Running(plan, folder, rng.randrange(1 << 20), moment, fault=fault) as running:
        begun = running.wait_for(moment.deeds)
        namespaces = running.namespaces()
        if not fault:
            running.go()
        pause_until(stopwatch_s() + moment.then * (UP_S if begun == "up" else WITHIN_S))
        deed = running.deeds()[-1]
        running.kill(part)
    paths = running.paths
    begun_s = stopwatch_s()
    late = _not_undone(plan, paths, FIRST_LEASE_S + lease_s) if lease_s else ()
    healed = heal_store(paths.root.parent.parent)
    took_s = stopwatch_s() - begun_s
    left = [*late, *remains(plan, paths, network), *litter_in(folder)]
    left += namespaces_left(namespaces)
    left += [f"the link {each}" for each in _links() - before]
    again = heal_store(paths.root.parent.parent)
    left += [f"a second heal said {again}"] if again != Healed() else []
    return Crash(part=part, deed=deed, healed=healed, left=tuple(left), took_s=took_s)


def _not_undone(plan: Plan, paths: RunPaths, limit_s: float) -> list[str]:
    """Wait until hosts have undone all by themselves; return what they have not."""
    hosts = make_hosts(plan.hosts, NODES, paths.processes, image=plan.image)
    assert isinstance(hosts, CanAudit)
    try:
        wait_until(
            lambda: not hosts.traces(),
            timeout_s=limit_s + UNDO_LIMIT_S,
            what="the hosts to undo all",
            interval_s=0.5,
        )
    except WaitTimeoutError:
        return [f"{what} without a heal" for what in hosts.traces()]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When the blow falls.

    Attributes:
        deeds: After so many things were begun, of which the last has to wait until all is ready.
        then: Which part of the longest time after that, 0 to 1.
    """

    deeds: int
    then: float


class Running:
    """A victim that runs; whatever happens to the test, nothing of it runs afterwards."""

    def __init__(
        self, plan: Plan, folder: Path, seed: int, moment: Moment, *, fault: str = ""
    ) -> None:
        environment = places(folder)
        (folder / "plan.toml").write_text(dump_plan(plan), encoding="utf-8")
        store = folder / "runs"
        line = [sys.executable, "-m", "tests.cluster_hosts.small_harness", "session"]
        with (folder / "said").open("wb") as said:
            self._session = subprocess.Popen(
                [*line, str(folder / "plan.toml"), str(store), str(seed)],
                env={
                    **os.environ,
                    **environment,
                    HOLD: str(moment.deeds),
                    **({ONLY: fault} if fault else {}),
                },
                cwd=folder / "cwd",
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self._said = folder / "said"
        self._store = Store(store)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *error: object) -> None:
        self._session.kill()
        self._session.wait()

    @property
    def paths(self) -> RunPaths:
        """The run that it plays."""
        return self._store.runs()[0]

    def deeds(self) -> list[str]:
        """Return what it has begun so far."""
        runs = self._store.runs()
        file = runs[0].root / DEEDS if runs else None
        return file.read_text().splitlines() if file and file.exists() else []

    def wait_for(self, count: int) -> str:
        """Wait until it has begun so many things; return the last."""

        def begun() -> bool:
            if self._session.poll() is not None:
                raise AssertionError(f"the victim ended by itself: {self._said.read_text()}")
            return len(self.deeds()) >= count

        wait_until(begun, timeout_s=START_LIMIT_S, what=f"{count} deeds", interval_s=0.01)
        return self.deeds()[-1]

    def go(self) -> None:
        """Let it go on with the deed at which it waits."""
        (self.paths.root / GO).touch()

    def namespaces(self) -> set[str]:
        """Return the network namespaces of its processes, other than this process's own."""
        wanted = f"{RUN_MARK}={mark(self.paths.processes)[RUN_MARK]}".encode()
        found = {name for folder, name in namespaces_in_use() if wanted in _environment(folder)}
        own = Path(f"/proc/{self._session.pid}/ns/net").readlink()
        return found - {str(own)}

    def kill(self, part: str) -> None:
        """SIGKILL a part of it; then, if that was not the session, the session as well."""
        paths = self.paths
        if part == "stage":
            _send(int((paths.root / "stage.pid").read_text()), signal.SIGKILL)
        elif part == "agent":
            agents = [each for each in read_ledger(paths.processes) if each.what == "agent"]
            here = [each.process for each in agents if each.process and not each.machine]
            for each in [each for each in here if is_running(each)][:1]:
                _send(each.pid, signal.SIGKILL)
        elif part == "warden":
            for pid in _with(f"{MARK}={id_of(paths.root)}", f"{WARDEN}=1")[:1]:
                _send(pid, signal.SIGKILL)
        elif part == "frozen":
            for left in leftovers(paths.processes):
                _send(left.process.pid, signal.SIGSTOP)
        self._session.kill()
        self._session.wait()


def places(folder: Path) -> dict[str, str]:
    """Make folders for what a victim leaves outside of its store; return the environment for it."""
    for name in PLACES:
        (folder / name).mkdir(parents=True)
    return {
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(folder / "tmp"),
        "HOME": str(folder / "home"),
        # Caches of libraries, which are no run's: matplotlib's of fonts; Hypothesis's, which a
        # library of ours imports where it is installed.
        "MPLCONFIGDIR": str(folder / "caches"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "caches"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
    }


def litter_in(folder: Path) -> list[str]:
    """Return the files that a victim left outside of its store."""
    return [f"the file {each}" for name in PLACES for each in (folder / name).rglob("*")]


def _with(*settings: str) -> list[int]:
    """Return the processes with settings in their environment, on machines of this kernel."""
    wanted = {each.encode() for each in settings}
    folders = Path("/proc").glob("[0-9]*")
    return [int(each.name) for each in folders if wanted <= set(_environment(each))]


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def remains(plan: Plan, paths: RunPaths, network: Mapping[str, str]) -> Iterator[str]:
    """Return what there is of a run, on this machine and on its hosts.

    Args:
        plan: The run's.
        paths: The run's.
        network: Links and tables that are called like ours, and were there before.
    """
    for left in leftovers(paths.processes):
        yield f"process {left.process.pid}: {left.what}"
    for what, how in differences(network, local_traces(paths.processes)).items():
        yield f"{what} {how}"
    for listing in Path("/proc").glob("[0-9]*/mountinfo"):
        if str(paths.root) in _read(listing):
            yield f"a mount in {listing.parent.name}"
    hosts = make_hosts(plan.hosts, NODES, paths.processes, image=plan.image)
    if isinstance(hosts, CanAudit) and not isinstance(hosts, LocalHosts):
        for what, which in hosts.traces().items():
            yield f"{what}: {which}"


def namespaces_in_use() -> Iterator[tuple[Path, str]]:
    """Yield each process's folder in /proc with the network namespace that it is in."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield folder, str((folder / "ns" / "net").readlink())
        except OSError:  # It ended meanwhile, or is another user's.
            continue


def namespaces_left(namespaces: Set[str]) -> list[str]:
    """Wait until no process is in them; return which still is, in sentences.

    A process that went with another one has no environment from the beginning of its end, so no
    heal finds it, and it leaves its namespace at the end of it.
    """
    with suppress(WaitTimeoutError):
        wait_until(
            lambda: all(name not in namespaces for _, name in namespaces_in_use()),
            timeout_s=UNDO_LIMIT_S,
            what="its namespaces to go",
        )
    return [
        f"the namespace {name}, with process {folder.name}: {_read(folder / 'stat')}"
        for folder, name in namespaces_in_use()
        if name in namespaces
    ]


def _environment(folder: Path) -> list[bytes]:
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _links() -> set[str]:
    """Return our kinds of links in this namespace; others come and go as they like."""
    listed = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True)
    return {each["ifname"] for each in json.loads(listed.stdout) if each["ifname"].startswith("lq")}
