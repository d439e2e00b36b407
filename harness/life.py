"""The phases of an ordinary run, i.e. a run without a script.

1. Start the brokers, wait until they are ready, and create the topics.
2. Warm-up: clients without faults.
3. Main phase: clients run while the nemesis injects faults.
4. Heal all faults, and check the heal.
5. Recovery, then final reads.
6. Record leaders, high watermarks and log ends.
7. Stop gracefully, and collect the files.

`harness.arena` has the phases that ordinary and scripted runs share.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from rich.console import Console

from cluster.hosts.abilities import built_for
from cluster.protocol import ClusterError, ClusterView, Summary
from cluster.sessions import hidden_s
from cluster.systems.system import Deployment, why_not
from harness.arena import Arena
from harness.healing import Healing
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.watching import Watching
from harness.world import Clients, World
from nemesis.runner import Nemesis
from nemesis.schedule import deal_schedule
from results.record.clock import RunClock, stopwatch_s
from results.record.declared import load_declared
from results.record.identities import groups
from results.record.milestones import MAIN_ENDED, STOPPING
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.runtime import new_event, start
from results.record.terms import F, Outcome, Phase
from results.record.topics import CreatedTopic
from workloads.fleet import FleetCounts

RECOVERY_TRAFFIC_S = 3.0
"""How long clients run after the recovery, so that there is traffic after the faults."""
LAG_SHOWS_S = 10.0
"""The longest time after the heal for which clients run so that a leader notices a stuck follower.
"""
EDGES_S = 5.0
"""How many seconds clients run beyond the recovery's budget. Failed sends count as evidence only
after this budget."""
IDS_TAKE = 1.5
"""How many times `Plan.hanging_after_s` clients wait for a transactional id that is in doubt."""


class Life:
    """The phases of one ordinary run, inside the run's network.

    Args:
        plan: The run's plan.
        paths: The run's folder.
        clock: The run's clock.
        world: The world of the run: real machines in real time, or simulated ones in virtual time.
        console: The terminal, for the progress.
        interrupts: The first and the second Ctrl-C.
        undo: The stack of cleanups, which run when the run ends.
    """

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        clock: RunClock,
        *,
        world: World,
        console: Console,
        interrupts: Interrupts,
        undo: ExitStack,
    ) -> None:
        self._plan, self._paths, self._clock = plan, paths, clock
        self._interrupts, self._undo = interrupts, undo
        self._fleet: Clients | None = None
        self._nemesis: Nemesis | None = None
        self._healing: Healing | None = None
        self._progress = Progress(console, self._look, draws=world.draws)
        self._arena = Arena(
            plan=plan,
            paths=paths,
            clock=clock,
            world=world,
            progress=self._progress,
            interrupts=interrupts,
            undo=undo,
        )

    def live(self) -> None:
        """Play the run, from the start of the cluster to the collection of its files.

        Raises:
            UserError: An error that the user can fix.
            ClusterError, WaitTimeoutError: The brokers did not reach an expected state in time.
        """
        self._undo.enter_context(self._progress)
        arena = self._arena
        cluster = arena.start()
        cluster.start()
        arena.reach("ready")
        if not self._interrupts.finish.is_set():  # After Ctrl-C there is nothing to play.
            self._play(cluster)
        arena.stop(cluster)

    def _play(self, cluster: Deployment) -> None:
        arena = self._arena
        topics = self._create_topics(cluster)
        arena.watch(cluster, topics)
        if self._interrupts.finish.is_set():
            return
        self._shake(cluster, topics)
        self._recover(cluster)
        self._end_traffic()
        if not self._interrupts.abandon.is_set():
            arena.read_all(cluster, topics)
            arena.note(cluster)

    def _create_topics(self, cluster: Deployment) -> list[CreatedTopic]:
        return cluster.create_topics(
            self._plan.topic_names,
            partitions=self._plan.partitions,
            replication=self._plan.replication,
        )

    def _shake(self, cluster: Deployment, topics: list[CreatedTopic]) -> None:
        plan = self._plan
        fleet = self._arena.world.clients(
            plan, topics, cluster.bootstrap(), clock=self._clock, paths=self._paths
        )
        self._fleet = fleet
        self._undo.callback(lambda: fleet.stop(timeout_s=1.0))
        fleet.start()
        watching = Watching(self._arena, cluster) if plan.stop_on_violation else None
        if watching is not None:
            self._undo.callback(watching.stop)
            watching.start()
        self._progress.phase("warm-up without faults", lasts_s=plan.warmup_s)
        fleet.phase(Phase.WARMUP)
        self._arena.reach("warmup")
        self._arena.pass_s(plan.warmup_s, writers_lost=fleet.died)
        self._arena.await_traffic(  # A fault before the first messages shows nothing.
            lambda: fleet.counts().sent_ok >= plan.minimums.around_faults,
            what="warm-up: the first messages",
            deadline_s=stopwatch_s() + plan.budgets.unavailable_s,
            stop=self._interrupts.finish,
            writers_lost=fleet.died,
        )
        # The stored plan has only faults that these hosts can play (`as_played`).
        cannot = why_not(load_declared(self._paths.system, plan))
        schedule = deal_schedule(plan, abilities=built_for(plan.hosts) - cannot.keys())
        self._nemesis = Nemesis(
            plan=plan,
            schedule=schedule,
            cluster=cluster,
            hosts=self._arena.hosts,
            clock=self._clock,
            paths=self._paths,
        )
        self._undo.callback(self._nemesis.close)
        self._healing = Healing(self._nemesis.heal_all, self._arena.reach)
        self._undo.callback(self._healing.if_not_yet)
        self._progress.phase("main phase: clients and nemesis", lasts_s=plan.time_limit_s)
        fleet.phase(Phase.MAIN)
        self._arena.reach("main")
        self._main_phase(cluster, fleet, self._nemesis, watching)
        self._arena.note_crashes(fleet.crashes())
        self._arena.reach(MAIN_ENDED, **({} if plan.is_simulated else _load()))

    def _main_phase(
        self, cluster: Deployment, fleet: Clients, nemesis: Nemesis, watching: Watching | None
    ) -> None:
        def ends() -> list[str]:
            self._arena.look_for_ends(cluster)
            return [*fleet.died(), *(watching.found() if watching else ())]

        over = new_event()
        faults = start(lambda: nemesis.run(over), "nemesis", awaited=True)
        try:
            try:
                self._arena.pass_s(self._plan.time_limit_s, writers_lost=ends)
            finally:
                over.set()
            if watching is not None:
                watching.keep_moment()
                watching.stop()
        finally:
            faults.join()
        faults.result()  # Raises the error if the nemesis has failed.

    def _recover(self, cluster: Deployment) -> None:
        if self._nemesis is None or self._fleet is None or self._healing is None:
            raise ClusterError("the run was ended before its main phase")
        arena = self._arena
        self._progress.phase("healing everything")
        self._fleet.phase(Phase.RECOVERY)
        arena.note_ended(cluster)  # Before the heal, which restarts servers.
        for sentence in self._healing.now(limit_s=self._plan.budgets.heal_s).done:
            self._progress.say(f"  {sentence}")
        self._fleet.phase(Phase.RECOVERY)  # Count messages from the heal on.
        budgets = self._plan.budgets
        group_s = budgets.group_s if groups(self._plan) else 0
        deadline_s = stopwatch_s() + max(budgets.unavailable_s, group_s) + EDGES_S
        shows_s = stopwatch_s() + self._lag_shows_s()
        left, fleet = self._nemesis.left(), self._fleet

        # A broker that ended is no follower that lags, so ends are noticed all the time.
        def is_whole() -> bool:
            arena.look_for_ends(cluster)
            return whole(cluster.view(), self._plan, left)

        def died() -> Sequence[str]:
            arena.look_for_ends(cluster)
            return fleet.died()

        recovered = arena.recover(is_whole)
        # Between two attempts with an id, its thread has other ops.
        ids_s = stopwatch_s() + IDS_TAKE * self._plan.hanging_after_s + EDGES_S
        traffic_s = max(RECOVERY_TRAFFIC_S, shows_s - stopwatch_s())
        arena.pass_s(traffic_s, stop=self._interrupts.abandon, writers_lost=died)
        arena.await_traffic(
            lambda: not fleet.untouched(),
            what="recovery: a message for every partition and group",
            deadline_s=deadline_s,
            stop=self._interrupts.abandon,
            writers_lost=died,
        )
        arena.await_traffic(
            lambda: not fleet.unended(),
            what="recovery: the end of a transaction with every transactional id",
            deadline_s=ids_s,
            stop=self._interrupts.abandon,
            writers_lost=died,
        )
        in_doubt = stopwatch_s() >= ids_s and fleet.unended()
        if recovered and not self._interrupts.finish.is_set():
            arena.await_isrs(is_whole)
        late = not is_whole() or fleet.untouched() or in_doubt
        if late and not self._interrupts.abandon.is_set():
            arena.note_stacks(cluster)

    def _lag_shows_s(self) -> float:
        """Return the seconds from the heal until a leader must have noticed a stuck follower."""
        plan = self._plan
        struck = plan.nemesis if plan.faults is None else plan.faults
        return min(hidden_s(plan), LAG_SHOWS_S) if struck and plan.replication > 1 else 0.0

    def _end_traffic(self) -> None:
        if self._fleet is None:
            return
        self._arena.note_crashes(self._fleet.crashes())
        self._arena.reach(STOPPING, workers=str(self._plan.crews))
        self._progress.phase("waiting for sends in flight")
        limit_s = 1.0 if self._interrupts.abandon.is_set() else self._plan.delivery_timeout_s + 5
        self._arena.troubles += self._fleet.stop(timeout_s=limit_s)
        self._arena.note_crashes(self._fleet.crashes())

    def _look(self) -> Snapshot:
        fleet, nemesis, observer = self._fleet, self._nemesis, self._arena.observer
        counts = fleet.counts() if fleet else None
        return Snapshot(
            rates=_rates(counts) if counts else {},
            kinds=_kinds(counts) if counts else {},
            total=sum(counts.total.ops.values()) if counts else 0,
            missed=counts.total.missed if counts else 0,
            faults=tuple(
                f"{fault.kind} of {', '.join(fault.targets) or fault.target}: {fault.phase}"
                for fault in (nemesis.in_force() if nemesis else ())
            ),
            leaders=_leaders(observer.latest()) if observer else (),
        )


def _rates(counts: FleetCounts) -> dict[str, int]:
    """Return the number of ops in the last second for each outcome."""
    recent, recent_s = counts.recent, counts.recent_s or 1.0
    return {each.value: round(recent.of_outcome(each) / recent_s) for each in Outcome}


def _kinds(counts: FleetCounts) -> dict[str, int]:
    """Return the number of ops in the last second for each kind that the run has."""
    recent, recent_s = counts.recent, counts.recent_s or 1.0
    kinds = (each for each in (F.SEND, F.TXN, F.POLL) if counts.total.of_f(each))
    return {each.value: round(recent.of_f(each) / recent_s) for each in kinds}


def _leaders(summary: Summary) -> tuple[str, ...]:
    """Return a line for each node with the partitions that it leads: `n2: log-0-1 (epoch 3)`."""
    led: dict[str, list[str]] = {}
    for (topic, partition), state in sorted(summary.partitions.items()):
        words = f"{topic}-{partition} (epoch {state.leader_epoch})"
        led.setdefault(state.leader or "no leader", []).append(words)
    return tuple(f"{node}: {', '.join(places)}" for node, places in sorted(led.items()))


def whole(view: ClusterView | None, plan: Plan, beside: Iterable[tuple[str, int]] = ()) -> bool:
    """Return whether every partition of the plan has a leader and all its replicas in the ISR.

    Args:
        view: The cluster's view.
        plan: The run's plan.
        beside: More partitions to check, in addition to the partitions of the plan.
    """
    if view is None:
        return False
    states = [view.partitions.get(place) for place in (*plan.topic_partitions, *beside)]
    return all(
        state is not None and state.leader is not None and set(state.isr) == set(state.replicas)
        for state in states
    )


def _load() -> dict[str, str]:
    """Return the machine's load in the last minute, and its number of cores; empty if unknown."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return {}
    return {"load": f"{load:.1f}", "cores": str(os.cpu_count() or 1)}
