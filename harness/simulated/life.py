"""The life of a run in virtual time, phase by phase, as `harness.life` has it on real hosts."""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from cluster.protocol import ClusterError
from cluster.reference.simulator.host import Boot, Host
from cluster.reference.simulator.simulation import Simulation
from harness.life import EDGES_S, RECOVERY_TRAFFIC_S, whole
from harness.simulated.clock import VirtualClock
from harness.simulated.cluster import ADMINS, SimulatedCluster
from harness.simulated.errands import Errand, Steps, until
from harness.simulated.files import collect_disk
from harness.simulated.nemesis import SimulatedNemesis
from harness.simulated.reads import FinalReads
from harness.simulated.worker import ClientHosts, SimulatedWorker
from nemesis.schedule import Schedule
from results.record.clock import NS_PER_S
from results.record.milestones import INTERRUPTED, Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.terms import Phase
from results.record.topics import CreatedTopic, dump_topics
from workloads.protocol import Key

READY_LIMIT_S = 30.0
FINAL_READS_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
NOTE_LIMIT_S = 5.0
LONGEST_S = 600.0
"""More than all phases but warm-up and main can take together: whoever needs longer hangs."""

Say = Callable[[str], object]


class SimulatedLife:
    """One run's life, from the first start to the last file collected.

    Args:
        plan: The run.
        schedule: Its faults.
        simulation: Where it takes place.
        boots: Makes each node of its disk.
        paths: Its folder.
        say: Tells the user of each phase.
        properties: The nodes' `server.properties`, by node id.
        finish: Is set by Ctrl-C: no new work, but an orderly end.

    Attributes:
        workers: The crews, while there are any.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        schedule: Schedule,
        simulation: Simulation,
        boots: Mapping[int, Boot],
        paths: RunPaths,
        properties: Mapping[int, str],
        say: Say,
        finish: threading.Event | None = None,
    ) -> None:
        self._finish = finish or threading.Event()
        self._may_hasten = self._noted = False
        self._plan, self._schedule, self._simulation = plan, schedule, simulation
        self._paths, self._properties, self._say = paths, properties, say
        self._agenda = simulation.agenda
        self._clock = VirtualClock(agenda=simulation.agenda)
        self.cluster = SimulatedCluster(plan, simulation, boots)
        self.workers: list[SimulatedWorker] = []
        self._topics: list[CreatedTopic] = []
        self._troubles: list[str] = []
        self._live.mkdir(parents=True, exist_ok=True)

    @property
    def _live(self) -> Path:
        return self._paths.live

    def live(self) -> None:
        """Live it.

        Raises:
            ClusterError: The brokers did not do what was waited for.
        """
        story = Errand(self._agenda, self._phases())
        limit_s = self._plan.warmup_s + self._plan.time_limit_s + LONGEST_S
        while not story.over:
            self._simulation.run(1.0)
            if self._heeded() and self._may_hasten:
                story.hasten()
            if self._clock.now_ns() > limit_s * NS_PER_S:
                raise ClusterError(f"the run did not end within {limit_s:g} s of virtual time")

    def _heeded(self) -> bool:
        """Tell whether Ctrl-C was pressed; that is noted once."""
        if self._finish.is_set() and not self._noted:
            self._noted = True
            self._reach(INTERRUPTED)
        return self._noted

    def _phases(self) -> Steps:
        yield from self._start()
        nemesis = SimulatedNemesis(
            self._plan,
            self._schedule,
            cluster=self.cluster,
            whole=self._whole,
            live=self._live,
        )
        yield from self._shake(nemesis)
        yield from self._recover(nemesis)
        yield from self._end_traffic()
        yield from self._read_all()
        yield from self._note()
        yield from self._stop()
        nemesis.close()

    def _start(self) -> Steps:
        self._reach("started")
        self._say(f"starting {self._plan.nodes} nodes in virtual time")
        for node in self.cluster.hosts:
            self.cluster.start_node(node)
        maker = self.cluster.create_topics(self._replicas())
        made = yield from until(self._agenda, lambda: maker.made is not None, limit_s=READY_LIMIT_S)
        if not made or maker.made is None:
            raise ClusterError(f"waited {READY_LIMIT_S:g} s for the topics to be made")
        self._topics = maker.made
        dump_topics(self._topics, self._paths.topics)
        self.cluster.watch(self._topics, self._live)
        ready = yield from until(self._agenda, self._whole, limit_s=READY_LIMIT_S)
        if not ready:
            raise ClusterError(f"waited {READY_LIMIT_S:g} s for leaders and full ISRs")
        self._reach("ready")

    def _shake(self, nemesis: SimulatedNemesis) -> Steps:
        plan = self._plan
        self.workers = [
            SimulatedWorker(
                plan,
                number,
                topics=self._topics,
                hosts=ClientHosts(self._simulation, plan, self.cluster.broker_ids, first=number),
                simulation=self._simulation,
                live=self._live,
            )
            for number in range(plan.crews)
        ]
        self._say(f"warm-up without faults, {plan.warmup_s:g} s")
        self._reach("warmup")
        yield from self._pass(plan.warmup_s)
        if not self._finish.is_set():
            self._say(f"main phase: clients and nemesis, {plan.time_limit_s:g} s")
        self._enter(Phase.MAIN)
        self._reach("main")
        nemesis.start()
        yield from self._pass(plan.time_limit_s)
        self._reach("main-ended")

    def _pass(self, seconds: float) -> Steps:
        """Let time pass; Ctrl-C ends that early."""
        self._may_hasten = True
        yield 0 if self._finish.is_set() else seconds
        self._may_hasten = False

    def _recover(self, nemesis: SimulatedNemesis) -> Steps:
        self._enter(Phase.RECOVERY)
        yield from nemesis.end()
        self._reach("healed", failed="; ".join(nemesis.not_healed()))
        healed_ns = self._agenda.now
        for worker in self.workers:
            worker.crew.taken.clear()
        limit_s = self._plan.budgets.isr_s
        is_whole = yield from until(self._agenda, self._whole, limit_s=limit_s)
        what = "a leader and a full ISR for every partition"
        self._reach("recovered", failed="" if is_whole else f"waited {limit_s:g} s for {what}")
        yield RECOVERY_TRAFFIC_S
        passed_s = (self._agenda.now - healed_ns) / NS_PER_S
        places = set(self._plan.topic_partitions)
        yield from until(
            self._agenda,
            lambda: places <= {each for worker in self.workers for each in worker.crew.taken},
            limit_s=max(0, self._plan.budgets.unavailable_s + EDGES_S - passed_s),
        )

    def _end_traffic(self) -> Steps:
        for worker in self.workers:
            worker.stop()
        yield from until(
            self._agenda,
            lambda: all(worker.crew.in_flight == 0 for worker in self.workers),
            limit_s=self._plan.delivery_timeout_s + 5,
        )
        for worker in self.workers:
            worker.close()

    def _read_all(self) -> Steps:
        self._say("final reads")
        self._reach("final-reads")
        targets = yield from self._leader_ends()
        reads = FinalReads(
            self._plan,
            self._topics,
            targets,
            hosts=ClientHosts(
                self._simulation,
                self._plan,
                self.cluster.broker_ids,
                first=ADMINS + 2,
            ),
            clock=self._clock,
            live=self._live,
        )
        yield from reads.read(FINAL_READS_LIMIT_S)

    def _leader_ends(self) -> Generator[float, None, dict[Key, int]]:
        """Return where a committed record can lie: leaders' ends, all of it committed by now."""
        ends: dict[Key, int] = {}
        since_ns = self._clock.now_ns()

        def known() -> bool:
            view = self.cluster.view()
            for place in self._plan.topic_partitions:
                state = view.partitions.get(place) if view else None
                watcher = self.cluster.watchers.get(state.leader or "") if state else None
                if watcher is None or min(watcher.claimed_ns, watcher.ended_ns) < since_ns:
                    return False
                claim, end = watcher.claimed.get(place), watcher.ends.get(place)
                if claim is None or claim.high_watermark is None:
                    return False
                ends[place] = claim.high_watermark
                if claim.high_watermark != end:
                    return False
            return True

        yield from until(self._agenda, known, limit_s=NOTE_LIMIT_S)
        return ends

    def _note(self) -> Steps:
        for watcher in self.cluster.watchers.values():
            watcher.want("noted")
        yield from until(
            self._agenda,
            lambda: all(watcher.noted for watcher in self.cluster.watchers.values()),
            limit_s=NOTE_LIMIT_S,
        )
        self._troubles += [
            f"{node} did not answer before its stop"
            for node, watcher in self.cluster.watchers.items()
            if not watcher.noted
        ]
        self.cluster.end_watch()
        self._reach("noted", failed="; ".join(self._troubles))

    def _stop(self) -> Steps:
        self._say("stopping the brokers")
        for host in self._hosts():
            if host.process is not None:
                host.process.ask_to_stop()
        yield from until(
            self._agenda,
            lambda: all(host.process is None for host in self._hosts()),
            limit_s=STOP_LIMIT_S,
        )
        detail = {}
        for node, host in self.cluster.hosts.items():
            detail[node] = "clean" if host.process is None else "killed"
            host.kill()
        append_milestone(
            self._paths.milestones,
            Milestone(name="stopped", at_ns=self._clock.now_ns(), detail=detail),
        )
        for node, host in self.cluster.hosts.items():
            collect_disk(host, self._paths.node(node), properties=self._properties[host.id])
        self._reach("collected")

    def _replicas(self) -> Sequence[str]:
        """Return where the topics' replicas are wanted; nobody: wherever."""
        return ()

    def _whole(self) -> bool:
        return bool(self.cluster.watchers) and whole(self.cluster.view(), self._plan)

    def _hosts(self) -> Sequence[Host]:
        return list(self.cluster.hosts.values())

    def _enter(self, phase: Phase) -> None:
        for worker in self.workers:
            worker.phase = phase

    def _reach(self, name: str, *, failed: str = "") -> None:
        detail = {"failed": failed} if failed else {}
        append_milestone(
            self._paths.milestones,
            Milestone(name=name, at_ns=self._clock.now_ns(), detail=detail),
        )
