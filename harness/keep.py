"""Keep a run's cluster after the verdict: `--keep`.

To judge a run, its brokers must be stopped and no process may write to its files. So Logquake
starts a second cluster with the same plan, on copies of the nodes' files (`RUN/kept/`). The run's
own files stay as they are. The kept cluster runs in a process of its own, detached from the
terminal, until `logquake node RUN --end` or `logquake heal` ends it. If that process dies, its
cluster dies, too.

`keep_cluster` starts `python -m harness.keep RUN_FOLDER` inside the hosts' namespaces. When all
nodes are up, this process writes their addresses to `RUN/kept.json`.
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
from cluster.protocol import ClusterError, ProcessId, UserError
from cluster.systems.registry import system_of
from cluster.systems.system import Deployment
from harness.dead_runs import heal_dead_run
from harness.signalled import SignalledEvent
from results.record.atomic import StoreError, write_atomically
from results.record.clock import WaitTimeoutError, wait_until
from results.record.nodes import ZOOKEEPER_MACHINE, machines
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.reading import read_bytes
from results.record.world import world
from results.store import is_alive

START_LIMIT_S = 150.0
WITH_AGENTS = frozenset({"namespace", "docker"})
"""Kinds of hosts that have an agent process and a network namespace for each machine."""
LEFT_BEHIND = ("logs", TEMPORARY)
"""The folders of a node that are not copied, because a kept cluster writes its own logs."""


class Machine(BaseModel):
    """One machine of a kept cluster.

    Attributes:
        pid, start_ticks: The agent process, which runs in the namespaces of the machine.
        folder: The node's files.
        address: The broker's address, `host:port`; an empty string if the machine has no broker.
        container: The container's name for `docker exec`; an empty string if the machine is no
            container.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    pid: int = Field(gt=1)
    start_ticks: int
    folder: str
    address: str = ""
    container: str = ""

    @property
    def process(self) -> ProcessId:
        """The agent process of the machine, as `cluster.hosts` identifies processes."""
        return ProcessId(pid=self.pid, start_ticks=self.start_ticks)

    @property
    def alive(self) -> bool:
        """Whether the machine's agent process runs."""
        return is_running(self.process)


class Kept(BaseModel):
    """The content of `kept.json`: the addresses and processes of a kept cluster.

    Attributes:
        world: The boot and pid namespace of the process ids, from `results.record.world`. After a
            reboot, or in another pid namespace, the ids have no meaning.
        hosts: The kind of hosts, from the plan.
        bootstrap: The brokers' addresses, `host:port,...`.
        zookeeper: ZooKeeper's address, `host:port`; an empty string if there is none.
        machines: Each machine by its name: n1, n2, ..., n101, ..., zk.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    world: str
    hosts: str
    bootstrap: str
    zookeeper: str
    machines: Mapping[str, Machine]

    @property
    def addresses(self) -> Mapping[str, str]:
        """Environment variables with the addresses of the brokers and of ZooKeeper."""
        return {"BOOTSTRAP": self.bootstrap, "ZOOKEEPER": self.zookeeper}

    @property
    def alive(self) -> bool:
        """Whether all machines still run."""
        here = self.world == world()
        return here and all(each.alive for each in self.machines.values())


def keep_cluster(plan: Plan, paths: RunPaths) -> None:
    """Copy the nodes' files, and start a cluster on the copies. The cluster outlives this process.

    Args:
        plan: The plan that was played.
        paths: The run's folder; the run is judged already.

    Raises:
        ClusterError: There is no room for the copies, or the cluster did not start. No process is
            left.
    """
    copy_files(plan, paths)
    with ExitStack() as undo:  # Also for Ctrl-C.
        undo.callback(heal_dead_run, paths)
        _start_keeper(plan, paths)
        undo.pop_all()


def _start_keeper(plan: Plan, paths: RunPaths) -> None:
    """Start the process that keeps the cluster; return once the whole cluster is up."""
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
        why = _last_line(said) or "the process exited at its start"
        raise ClusterError(f"the cluster could not be kept: {why}")


def copy_files(plan: Plan, paths: RunPaths) -> None:
    """Copy the files of the nodes and of ZooKeeper into the kept cluster's folder.

    Raises:
        ClusterError: There is no room for the copies. The incomplete copies are removed.
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
            # The first file that could not be copied is enough for the message.
            why = failed.args[0][0][-1] if isinstance(failed, shutil.Error) else failed
            raise ClusterError(f"the cluster could not be kept: {why}") from failed
        undo.pop_all()


def load_kept(paths: RunPaths) -> Kept:
    """Read `kept.json` of a run, and check that its cluster still runs.

    Raises:
        StoreError: The run's cluster was not kept, or it has ended.
    """
    try:
        kept = Kept.model_validate_json(read_bytes(paths.keeper))
    except FileNotFoundError as absent:
        raise StoreError(
            f"{paths.run_id} was not kept: use logquake run --keep to keep a cluster"
        ) from absent
    except (OSError, ValidationError) as damaged:
        raise StoreError(f"{paths.keeper} cannot be read") from damaged
    if not kept.alive:
        raise StoreError(f"the kept cluster of {paths.run_id} has ended; its files are in kept/")
    marked = run_mark(paths.processes)
    for name, each in kept.machines.items():
        # A command enters the namespaces of this process, so check whose process it is.
        if marked not in (environment_of(each.pid) or []):
            raise StoreError(
                f"{paths.keeper}: process {each.pid} does not belong to the run; remove this file"
            )
        if not Path(each.folder).resolve().is_relative_to(paths.kept.resolve()):
            raise StoreError(
                f"{paths.keeper}: the folder of {name} does not belong to the run; remove this file"
            )
    return kept


def programs_of(paths: RunPaths) -> dict[str, str]:
    """Return the environment variables that tell a node's command the paths of Kafka's programs.

    The programs come from this machine's cache, because the run's own files could name any program.
    The result is empty if the plan's version is not in the cache and cannot be fetched.
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
        One sentence for each thing that was done; empty if there was nothing to end.

    Raises:
        StoreError: The run itself is still in progress, or a part of the cluster could not be
            ended.
    """
    if is_alive(paths):
        raise StoreError(f"{paths.run_id} is still running: stop it with Ctrl-C")
    healed = heal_dead_run(paths)
    if healed.failed:
        raise StoreError("; ".join(healed.failed))
    return list(healed.done)


def main() -> None:
    """Keep a run's cluster until SIGTERM. The run's folder is the first argument."""
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
    """Start the cluster, and write its addresses to `kept.json`."""
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
    """Return each machine, with the pid that its agent has outside of the pid namespaces."""
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
