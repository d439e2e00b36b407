"""The life of a run, phase by phase, as the design has it.

start, wait until ready → topics → warm-up → main phase: clients and nemesis side by side → heal,
and see that it is healed → recovery → final reads → note leaders, high watermarks and log ends →
stop gracefully → collect. What must be undone is registered with the caller's `ExitStack` before
it is done, so that it is undone on every way out: on a way out by an error, the faults are undone
with the hosts, which take their brokers, their networks and so every cut and pause along.
"""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from rich.console import Console

from cluster.hosts.choose import make_hosts
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.collect import collect
from cluster.kafka.fetch import fetch_kafka
from cluster.kafka.java import find_java
from cluster.kafka.observer import Observer, Summary
from cluster.kafka.versions import machines
from cluster.protocol import ClusterError, ClusterView, UserError
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from nemesis.runner import Nemesis
from nemesis.schedule import deal_schedule
from results.record.clock import (
    RunClock,
    WaitTimeoutError,
    pause_until,
    stopwatch_s,
    wait_until,
)
from results.record.milestones import Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.terms import Outcome, Phase
from results.record.topics import CreatedTopic, dump_topics
from workloads.final_reads import read_to_end
from workloads.fleet import Fleet, FleetCounts

RECOVERY_TRAFFIC_S = 3.0
"""Clients go on for so long after the recovery: there must be traffic after the faults too."""
FINAL_READS_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
NOTE_LIMIT_S = 5.0
WATCH_INTERVAL_S = 0.5
ENOUGH_DISK_BYTES = 4 << 20
"""With less than this left, brokers halt and records are cut."""


class Life:
    """One run's life, inside of its network.

    Args:
        plan: The run.
        paths: Its folder.
        clock: Its clock.
        console: Where the progress is shown.
        interrupts: Ctrl-C, once and twice.
        undo: Takes what must be undone.
    """

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        clock: RunClock,
        *,
        console: Console,
        interrupts: Interrupts,
        undo: ExitStack,
    ) -> None:
        self._plan, self._paths, self._clock = plan, paths, clock
        self._interrupts, self._undo = interrupts, undo
        self._fleet: Fleet | None = None
        self._nemesis: Nemesis | None = None
        self._troubles: list[str] = []
        self._observer: Observer | None = None
        self._progress = Progress(console, self._look)

    def live(self) -> None:
        """Live it, from start to collection.

        Raises:
            UserError: What the user can mend.
            ClusterError, WaitTimeoutError: The brokers did not do what was waited for.
        """
        self._undo.enter_context(self._progress)
        cluster = self._start()
        topics = self._create_topics(cluster)
        self._watch(cluster, topics)
        self._shake(cluster, topics)
        self._recover(cluster)
        self._end_traffic()
        if not self._interrupts.abandon.is_set():
            self._read_all(cluster, topics)
            self._note(cluster)
        self._stop(cluster)

    def _start(self) -> KafkaCluster:
        self._reach("started")
        plan = self._plan
        self._progress.phase(f"starting {plan.nodes} nodes of {plan.system} ({plan.hosts})")
        distribution = fetch_kafka(plan.kafka_version, progress=self._progress.say)
        self._hosts = make_hosts(plan.hosts, machines(plan), self._paths.processes)
        self._undo.callback(self._hosts.down)
        self._hosts.up()
        cluster = KafkaCluster(
            plan, self._hosts, distribution=distribution, java=find_java(), paths=self._paths
        )
        cluster.start()
        self._reach("ready")
        return cluster

    def _create_topics(self, cluster: KafkaCluster) -> list[CreatedTopic]:
        topics = cluster.create_topics(
            self._plan.topic_names,
            partitions=self._plan.partitions,
            replication=self._plan.replication,
        )
        dump_topics(topics, self._paths.topics)
        return topics

    def _watch(self, cluster: KafkaCluster, topics: list[CreatedTopic]) -> None:
        self._observer = Observer(cluster, topics, clock=self._clock, live=self._paths.live)
        self._undo.callback(self._observer.stop)
        self._observer.start()

    def _shake(self, cluster: KafkaCluster, topics: list[CreatedTopic]) -> None:
        plan = self._plan
        self._fleet = Fleet(plan, topics, cluster.bootstrap(), clock=self._clock, paths=self._paths)
        self._undo.callback(lambda: self._fleet.stop(timeout_s=1.0) if self._fleet else None)
        self._fleet.start()
        self._progress.phase("warm-up without faults", lasts_s=plan.warmup_s)
        self._fleet.phase(Phase.WARMUP)
        self._reach("warmup")
        self._pass_s(plan.warmup_s)
        schedule = deal_schedule(plan, can_partition=plan.hosts == "namespace")
        self._nemesis = Nemesis(
            plan=plan,
            schedule=schedule,
            cluster=cluster,
            hosts=self._hosts,
            clock=self._clock,
            paths=self._paths,
        )
        self._undo.callback(self._nemesis.close)
        self._progress.phase("main phase: clients and nemesis", lasts_s=plan.time_limit_s)
        self._fleet.phase(Phase.MAIN)
        self._reach("main")
        self._main_phase(self._nemesis)
        self._reach("main-ended")

    def _main_phase(self, nemesis: Nemesis) -> None:
        over = threading.Event()
        with ThreadPoolExecutor(1, thread_name_prefix="nemesis") as thread:
            faults = thread.submit(nemesis.run, over)
            try:
                self._pass_s(self._plan.time_limit_s)
            finally:
                over.set()
        faults.result()  # A bug of the nemesis is one of the run.

    def _recover(self, cluster: KafkaCluster) -> None:
        if self._nemesis is None or self._fleet is None:
            raise ClusterError("the run was ended before its main phase")
        self._progress.phase("healing everything")
        self._fleet.phase(Phase.RECOVERY)
        # Before the heal, which starts again whoever is down.
        self._troubles += [f"the broker of {node} ended by itself" for node in cluster.exited()]
        report = self._nemesis.heal_all()
        self._reach("healed", failed="; ".join(report.failed))
        for sentence in report.done:
            self._progress.say(f"  {sentence}")
        limit_s = self._plan.budgets.isr_s
        self._progress.phase("recovery: a leader and a full ISR for every partition")
        try:
            wait_until(
                lambda: whole(cluster.view(), self._plan),
                timeout_s=limit_s,
                what="a leader and a full ISR for every partition",
                stop=self._interrupts.abandon,
            )
            self._reach("recovered")
        except WaitTimeoutError as late:
            self._reach("recovered", failed=str(late))
        self._pass_s(RECOVERY_TRAFFIC_S, stop=self._interrupts.abandon)

    def _end_traffic(self) -> None:
        if self._fleet is None:
            return
        self._progress.phase("waiting for the sends in flight")
        limit_s = 1.0 if self._interrupts.abandon.is_set() else self._plan.delivery_timeout_s + 5
        self._troubles += self._fleet.stop(timeout_s=limit_s)

    def _read_all(self, cluster: KafkaCluster, topics: list[CreatedTopic]) -> None:
        self._progress.phase("final reads")
        self._reach("final-reads")
        # The last stable offset, taken after the last send ended: where a committed record can lie.
        targets = cluster.leader_ends(
            self._plan.topic_partitions, committed=True, timeout_s=NOTE_LIMIT_S
        )
        read_to_end(
            self._plan,
            topics,
            cluster.bootstrap(),
            targets=targets,
            clock=self._clock,
            live=self._paths.live,
            timeout_s=FINAL_READS_LIMIT_S,
        )

    def _note(self, cluster: KafkaCluster) -> None:
        if self._observer is not None:
            noted = self._observer.note(NOTE_LIMIT_S)
            silent = sorted(set(cluster.nodes) - noted)
            self._troubles += [f"{node} did not answer before its stop" for node in silent]
            self._observer.stop()
            self._troubles += self._observer.failures()
        self._reach("noted", failed="; ".join(self._troubles))

    def _stop(self, cluster: KafkaCluster) -> None:
        self._progress.phase("stopping the brokers")
        ended = cluster.stop(STOP_LIMIT_S)
        detail = {node: "clean" if clean else "killed" for node, clean in ended.items()}
        self._hosts.down()
        append_milestone(
            self._paths.milestones,
            Milestone(name="stopped", at_ns=self._clock.now_ns(), detail=detail),
        )
        for node in (*cluster.nodes, *cluster.controllers):
            collect(self._paths.node(node))
        self._reach("collected")

    def _pass_s(self, seconds: float, *, stop: threading.Event | None = None) -> None:
        """Let time pass, until it is over, somebody stops it, or not all can be recorded any more.

        Raises:
            UserError: The disk is full.
        """
        stop = stop or self._interrupts.finish
        deadline_s = stopwatch_s() + seconds
        while (now_s := stopwatch_s()) < deadline_s:
            if pause_until(min(deadline_s, now_s + WATCH_INTERVAL_S), stop):
                return
            self._refuse_a_full_disk()
            if self._writers_lost():
                return  # What there is is still read, stopped and judged: as unknown at best.

    def _writers_lost(self) -> list[str]:
        lost = self._fleet.died() if self._fleet else []
        return lost + (self._observer.failures() if self._observer else [])

    def _refuse_a_full_disk(self) -> None:
        free = shutil.disk_usage(self._paths.root).free
        if free < ENOUGH_DISK_BYTES:
            raise UserError(
                f"the disk of {self._paths.root} is full ({free >> 20} MiB left); free some room (a"
                " default run takes about 100 MiB), or name another folder with --store"
            )

    def _reach(self, name: str, *, failed: str = "") -> None:
        detail = {"failed": failed} if failed else {}
        append_milestone(
            self._paths.milestones, Milestone(name=name, at_ns=self._clock.now_ns(), detail=detail)
        )

    def _look(self) -> Snapshot:
        fleet, nemesis, observer = self._fleet, self._nemesis, self._observer
        counts = fleet.counts() if fleet else None
        return Snapshot(
            rates=_per_second(counts) if counts else {},
            total=sum(counts.total.ops.values()) if counts else 0,
            missed=counts.total.missed if counts else 0,
            faults=tuple(
                f"{fault.kind} of {', '.join(fault.targets) or fault.target}: {fault.phase}"
                for fault in (nemesis.in_force() if nemesis else ())
            ),
            leaders=_leaders(observer.latest()) if observer else (),
        )


def _per_second(counts: FleetCounts) -> dict[str, int]:
    recent_s = counts.recent_s or 1.0
    return {
        outcome.value: round(counts.recent.of_outcome(outcome) / recent_s) for outcome in Outcome
    }


def _leaders(summary: Summary) -> tuple[str, ...]:
    """Return who leads what, a line a node: `n2: log-0-1 (epoch 3), log-1-0 (epoch 0)`."""
    led: dict[str, list[str]] = {}
    for (topic, partition), state in sorted(summary.partitions.items()):
        words = f"{topic}-{partition} (epoch {state.leader_epoch})"
        led.setdefault(state.leader or "nobody", []).append(words)
    return tuple(f"{node}: {', '.join(places)}" for node, places in sorted(led.items()))


def whole(view: ClusterView | None, plan: Plan) -> bool:
    """Tell whether every partition of the plan has a leader and all of its replicas in the ISR."""
    if view is None:
        return False
    states = [view.partitions.get(place) for place in plan.topic_partitions]
    return all(
        state is not None and state.leader is not None and set(state.isr) == set(state.replicas)
        for state in states
    )
