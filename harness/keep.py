"""The cluster of a run that goes on after the verdict: `--keep`.

The verdict needs brokers that are stopped and files that nobody writes. So what goes on is another
cluster of the same plan, on copies of the files that the run's nodes left (`RUN/kept/`): the
evidence stays as it is. It lives in a process of its own, detached from the terminal, until
`logquake node RUN --end` or `logquake heal` ends it; whatever dies, it dies with it, as in a run.

`python -m harness.keep RUN_FOLDER`, started by `keep_cluster` through the hosts' prefix. How to
reach the nodes is in `RUN/kept.json` as soon as all are up.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.hosts.choose import make_hosts
from cluster.hosts.ledger import mark, read_ledger
from cluster.hosts.leftovers import run_mark
from cluster.hosts.namespace import enter_prefix
from cluster.hosts.signals import environment_of, is_running, process_id
from cluster.kafka.collect import TEMPORARY
from cluster.kafka.zookeeper import FOLDER as ZOOKEEPER_FOLDER
from cluster.nodes import ZOOKEEPER_MACHINE, machines
from cluster.protocol import ClusterError, ProcessId, UserError
from cluster.systems.registry import system_of
from cluster.systems.system import Deployment
from harness.dead_runs import heal_dead_run
from harness.signalled import SignalledEvent
from results.record.atomic import StoreError, write_atomically
from results.record.clock import WaitTimeoutError, wait_until
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.reading import read_bytes
from results.record.world import world
from results.store import is_alive

START_LIMIT_S = 150.0
WITH_AGENTS = frozenset({"namespace", "docker"})
"""Hosts whose machines have an agent on this machine, in a network namespace of their own."""
LEFT_BEHIND = ("logs", TEMPORARY)
"""Folders of a node that are not copied: a kept cluster writes logs of its own."""


class Machine(BaseModel):
    """One machine of a kept cluster.

    Attributes:
        pid, start_ticks: Its agent, which has the machine's namespaces.
        folder: Of the node's files.
        address: Where its broker listens, `host:port`; empty: it has none.
        container: Its name for `docker exec`; empty: it is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    pid: int = Field(gt=1)
    start_ticks: int
    folder: str
    address: str = ""
    container: str = ""

    @property
    def process(self) -> ProcessId:
        """Its agent, as hosts call it."""
        return ProcessId(pid=self.pid, start_ticks=self.start_ticks)

    @property
    def alive(self) -> bool:
        """Whether its agent runs."""
        return is_running(self.process)


class Kept(BaseModel):
    """`kept.json`: how a kept cluster is reached.

    Attributes:
        world: As `results.record.world` has it: in another one the numbers say nothing.
        hosts: As in the plan.
        bootstrap: `host:port,...` of its brokers.
        zookeeper: `host:port`; empty without it.
        machines: By name: n1, n2, ..., n101, ..., zk.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: str
    hosts: str
    bootstrap: str
    zookeeper: str
    machines: Mapping[str, Machine]

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where its brokers and ZooKeeper listen, as a command on a node finds it."""
        return {"BOOTSTRAP": self.bootstrap, "ZOOKEEPER": self.zookeeper}

    @property
    def alive(self) -> bool:
        """Whether all of its machines are still there."""
        here = self.world == world()
        return here and all(each.alive for each in self.machines.values())


def keep_cluster(plan: Plan, paths: RunPaths) -> None:
    """Copy the nodes' files, and start the cluster again from the copies; it outlives this process.

    Args:
        plan: The run's, as it was played.
        paths: The run's; it is judged already.

    Raises:
        ClusterError: There is no room for the copies, or it did not start; nothing of it runs.
    """
    copy_files(plan, paths)
    with ExitStack() as undo:  # Also for Ctrl-C.
        undo.callback(heal_dead_run, paths)
        _start_keeper(plan, paths)
        undo.pop_all()


def _start_keeper(plan: Plan, paths: RunPaths) -> None:
    """Start the process that keeps the cluster; return when all of it is up."""
    prefix = enter_prefix() if plan.hosts == "namespace" else []
    said = paths.kept / "keeper.log"
    with said.open("ab") as log:
        keeper = subprocess.Popen(  # noqa: S603 - our own program
            [*prefix, sys.executable, "-P", "-m", "harness.keep", str(paths.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | mark(paths.processes),
            start_new_session=True,
        )
    try:
        wait_until(
            lambda: paths.keeper.exists() or keeper.poll() is not None,
            timeout_s=START_LIMIT_S,
            what="the kept cluster to start",
        )
    except WaitTimeoutError as late:
        raise ClusterError(f"the cluster could not be kept: {late}") from late
    if keeper.poll() is not None:
        why = _last_line(said) or "it ended at once"
        raise ClusterError(f"the cluster could not be kept: {why}")


def copy_files(plan: Plan, paths: RunPaths) -> None:
    """Copy what the nodes, and ZooKeeper, left, into the folder of the kept cluster.

    Raises:
        ClusterError: There is no room for it; what was copied is removed.
    """
    kept = RunPaths(paths.kept)
    folders = {
        paths.root / ZOOKEEPER_FOLDER: kept.root / ZOOKEEPER_FOLDER,
        **{paths.node(node): kept.node(node) for node in machines(plan)},
    }
    with ExitStack() as undo:  # Also for Ctrl-C.
        undo.callback(shutil.rmtree, kept.root, ignore_errors=True)
        try:
            kept.root.mkdir()
            for source, target in folders.items():
                if source.is_dir():
                    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
        except OSError as failed:
            # Of many files that could not be copied the first says enough.
            why = failed.args[0][0][-1] if isinstance(failed, shutil.Error) else failed
            raise ClusterError(f"the cluster could not be kept: {why}") from failed
        undo.pop_all()


def load_kept(paths: RunPaths) -> Kept:
    """Read how a run's kept cluster is reached.

    Raises:
        StoreError: It was not kept, or has ended.
    """
    try:
        kept = Kept.model_validate_json(read_bytes(paths.keeper))
    except FileNotFoundError as absent:
        raise StoreError(
            f"{paths.run_id} was not kept: logquake run --keep leaves a cluster to look at"
        ) from absent
    except (OSError, ValidationError) as damaged:
        raise StoreError(f"{paths.keeper} cannot be read") from damaged
    if not kept.alive:
        raise StoreError(f"the kept cluster of {paths.run_id} has ended; its files are in kept/")
    marked = run_mark(paths.processes)
    for name, each in kept.machines.items():
        # Whoever runs a command there runs it as the process that the file names.
        if marked not in (environment_of(each.pid) or []):
            raise StoreError(f"{paths.keeper}: process {each.pid} is none of the run; remove it")
        if not Path(each.folder).resolve().is_relative_to(paths.kept.resolve()):
            raise StoreError(f"{paths.keeper}: the folder of {name} is none of the run; remove it")
    return kept


def programs_of(paths: RunPaths) -> dict[str, str]:
    """Return where Kafka's programs lie, as a command on a node finds them in its environment.

    They are looked for on this machine: whoever wrote the run's files could name any others. None
    if the version of the plan is not in the cache, and cannot be fetched.
    """
    try:
        system = system_of(plan_from(load_plan(paths.plan)))
        system.prepare(lambda _: None)
    except (PlanError, UserError):
        return {}
    return dict(system.commands())


def end_kept(paths: RunPaths) -> list[str]:
    """End a run's kept cluster; its files stay. Idempotent.

    Returns:
        What was done, in sentences; none if there was nothing to end.

    Raises:
        StoreError: The run itself is still under way, or not all could be ended.
    """
    if is_alive(paths):
        raise StoreError(f"{paths.run_id} is still under way: stop it with Ctrl-C")
    healed = heal_dead_run(paths)
    if healed.failed:
        raise StoreError("; ".join(healed.failed))
    return list(healed.done)


def main() -> None:
    """Keep the cluster of the run whose folder is the first argument, until SIGTERM."""
    paths = RunPaths(Path(sys.argv[1]))
    stop = SignalledEvent()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ExitStack() as undo:
            _start(paths, undo)
            stop.wait()
    except (ClusterError, UserError, WaitTimeoutError) as failed:
        sys.exit(str(failed))


def _start(paths: RunPaths, undo: ExitStack) -> None:
    """Start the cluster, and write down how it is reached."""
    plan = plan_from(load_plan(paths.plan))
    hosts = make_hosts(
        plan.hosts,
        machines(plan),
        paths.processes,
        image=plan.image,
        own_software=plan.named.is_yours,
    )
    undo.callback(hosts.down)
    hosts.up()
    system = system_of(plan)
    system.prepare(print)
    cluster = system.cluster(hosts, RunPaths(paths.kept))
    undo.callback(cluster.close)
    cluster.start(inherited=True)
    kept = Kept(
        world=world(),
        hosts=plan.hosts,
        bootstrap=cluster.bootstrap(),
        zookeeper=cluster.zookeeper or "",
        machines=_machines(plan, paths, cluster),
    )
    write_atomically(paths.keeper, kept.model_dump_json(indent=1) + "\n")


def _machines(plan: Plan, paths: RunPaths, cluster: Deployment) -> dict[str, Machine]:
    """Return how each machine is entered: by its agent, whose pid is the same outside."""
    agents = {
        entry.node: entry.process
        for entry in read_ledger(paths.processes)
        if entry.what == "agent" and entry.process is not None
    }
    ours = process_id(os.getpid())
    kept = RunPaths(paths.kept)
    found = {}
    for name in machines(plan):
        own = agents.get(name, ours) if plan.hosts in WITH_AGENTS else ours
        folder = kept.root / ZOOKEEPER_FOLDER if name == ZOOKEEPER_MACHINE else kept.node(name)
        at = cluster.endpoints.get(name)
        found[name] = Machine(
            pid=own.pid,
            start_ticks=own.start_ticks,
            folder=str(folder.absolute()),
            address=f"{at.host}:{at.broker_port}" if at else "",
            container=_container(paths.root, name) if plan.hosts == "docker" else "",
        )
    return found


def _container(root: Path, node: str) -> str:
    from cluster.hosts.docker.objects import container_of  # noqa: PLC0415 - as in `choose`

    return container_of(root, node)


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


if __name__ == "__main__":
    main()
