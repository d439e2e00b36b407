"""A site of the reference cluster, of processes and in virtual time, which a test works upon."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.protocol import ClusterError, Hosts
from cluster.systems.system import Deployment
from harness.world import world_of
from nemesis.runner import Nemesis
from nemesis.schedule import Schedule
from nemesis.scheduled import ScheduledFault
from results.record.clock import RunClock, pause_until, stopwatch_s
from results.record.paths import RunPaths
from results.record.plan import Plan, plan_from
from results.record.runtime import Task, new_event, start
from results.record.stream import read_stream

WORLDS = ("process", "simulated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Brokers that run, with the plan's topics.

    Attributes:
        plan: What decides the run.
        cluster: Its brokers.
        hosts: Their machines.
        clock: The run's.
        paths: Its folder.
    """

    plan: Plan
    cluster: Deployment
    hosts: Hosts
    clock: RunClock
    paths: RunPaths

    def dealt(
        self,
        *faults: ScheduledFault,
        meanwhile: Callable[[], object] = lambda: None,
        spares_majority: bool = True,
    ) -> dict[int, Mapping[str, Any]]:
        """Play faults in lanes until the last is over, or the plan's main phase is.

        Args:
            faults: Of the schedule.
            meanwhile: Is called once they are under way.
            spares_majority: Of the schedule, too.

        Returns:
            The last row of each fault, with its `spec` told.
        """
        nemesis = Nemesis(
            plan=self.plan,
            schedule=Schedule(faults=faults, overlapping=False, spares_majority=spares_majority),
            cluster=self.cluster,
            hosts=self.hosts,
            clock=self.clock,
            paths=self.paths,
        )
        over, ends_s = new_event(), stopwatch_s() + self.plan.time_limit_s
        task: Task[None] = start(lambda: nemesis.run(over), "nemesis", awaited=True)
        try:
            meanwhile()
            task.join(ends_s - stopwatch_s())
        finally:
            over.set()
            task.join()
            healed = nemesis.heal_all()
            nemesis.close()
        task.result()
        assert healed.healed, healed.failed
        return _last_rows(self.paths)


def on(where: str, root: Path, work: Callable[[Ground], object], **settings: object) -> None:
    """Start brokers, and do a test's work with them.

    Args:
        where: One of `WORLDS`.
        root: The folder of the run.
        work: What is done, in the time of that world.
        settings: Of the plan.
    """
    plan = plan_from({"system": "reference", "hosts": where, **settings})
    paths = RunPaths(root)
    paths.live.mkdir(parents=True)
    world = world_of(plan)

    def life() -> None:
        with ExitStack() as undo:
            hosts = world.hosts(plan, paths)
            undo.callback(hosts.down)
            hosts.up()
            cluster = world.cluster(plan, hosts, paths, say=lambda _: None)
            undo.callback(_end, cluster)
            cluster.start()
            cluster.create_topics(
                plan.topic_names, partitions=plan.partitions, replication=plan.replication
            )
            clock = RunClock.starting_now()
            work(Ground(plan=plan, cluster=cluster, hosts=hosts, clock=clock, paths=paths))

    world.play(life)


def _end(cluster: Deployment) -> None:
    """Kill who runs: nothing of theirs is looked at."""
    for node in cluster.nodes:
        with suppress(ClusterError):
            cluster.kill_node(node)
    cluster.close()


def wait_s(seconds: float) -> None:
    """Let time pass."""
    pause_until(stopwatch_s() + seconds)


def fault(
    fault_id: int, kind: str, target: str, *, at_s: float = 0, hold_s: float = 0.3, lane: int = 0
) -> ScheduledFault:
    """Return a fault that is dealt."""
    return ScheduledFault(
        fault_id=fault_id, kind=kind, target=target, at_s=at_s, hold_s=hold_s, lane=lane
    )


def _last_rows(paths: RunPaths) -> dict[int, Mapping[str, Any]]:
    rows: dict[int, Mapping[str, Any]] = {}
    for batch in read_stream(paths.live / "faults.nemesis.arrows"):
        for row in batch.to_pylist():
            rows[row["fault_id"]] = {**row, "spec": json.loads(row["spec"])}
    return rows
