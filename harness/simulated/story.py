"""The life of a scripted run in virtual time, as `harness.scenarios.life` has it on real hosts.

The story is played from outside: whoever waits lets virtual time pass. What is looked at in files
is looked at in files here, too: the simulated disks are written into the nodes' folders first.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from cluster.protocol import ClusterError, UserError
from cluster.reference.simulator.host import Boot
from cluster.reference.simulator.simulation import Simulation
from harness.scenarios.actions import (
    CreateTopics,
    ElectPreferred,
    ElectUnclean,
    Read,
    Reassign,
    Stop,
)
from harness.scenarios.choices import scenario_of
from harness.scenarios.deeds import ScenarioError, Stagehand
from harness.scenarios.director import Director
from harness.scenarios.props import Props
from harness.scenarios.protocol import FilesSight, QuorumSight
from harness.scenarios.sight import ClusterSight
from harness.scenarios.tails import FreshLine, Tails
from harness.scenarios.witness import Witness
from harness.simulated.asker import SimulatedAsker, came, passed
from harness.simulated.clock import VirtualClock
from harness.simulated.files import mirror_disk
from harness.simulated.life import Say, SimulatedLife
from harness.simulated.scripted import Aside, SimulatedFaults, SimulatedScript
from harness.simulated.worker import ClientHosts
from nemesis.schedule import Schedule
from results.record.clock import NS_PER_S, WaitTimeoutError
from results.record.paths import RunPaths
from results.record.plan import Plan

ASKER = 97
"""Which of those who make clients."""
_NOT_SIMULATED = (Read, ElectPreferred, ElectUnclean, Reassign)

Mirror = Callable[[str], None]


def refuse_unsimulated_story(plan: Plan) -> None:
    """Refuse a story with a step that cannot be played in virtual time.

    Raises:
        UserError: Which.
    """
    scenario = scenario_of(plan)
    if not scenario.simulated:
        raise UserError(
            f"the story of {plan.name} cannot be simulated: what a cut held back comes late there;"
            f" take other hosts"
        )
    if away := sorted(scenario.away(plan)):
        raise UserError(
            f"the story of {plan.name} cannot be simulated: it leaves {', '.join(away)} down;"
            f" take other hosts"
        )
    for number, step in enumerate(scenario.steps(plan), 1):
        for move in step.moves:
            orderly = isinstance(move, Stop) and not move.wait
            made = isinstance(move, CreateTopics) and move.answered
            if orderly or made or isinstance(move, _NOT_SIMULATED):
                raise UserError(
                    f"the story of {plan.name} cannot be simulated: step {number} has a"
                    f" {type(move).__name__}; take other hosts"
                )


@dataclass(slots=True, kw_only=True)
class MirroredSight(ClusterSight):
    """Looks at simulated nodes.

    Attributes:
        mirror: Writes a node's disk into its folder.
    """

    mirror: Mirror

    def files(self, node: str) -> FilesSight | None:
        """Read a replica's files."""
        self.mirror(node)
        return ClusterSight.files(self, node)

    def quorum_file(self, node: str) -> QuorumSight | None:
        """Read a node's `quorum-state`."""
        self.mirror(node)
        return ClusterSight.quorum_file(self, node)

    def running(self, node: str) -> bool:
        """Tell whether a node's process exists."""
        cluster: Any = self.cluster
        return cluster.state_of(node) is not None


@dataclass(slots=True)
class MirroredTails(Tails):
    """The ends of what simulated nodes said."""

    mirror: Mirror = field(kw_only=True)

    def mark(self) -> None:
        """Take this moment for the beginning."""
        for node in self.nodes:
            self.mirror(node)
        Tails.mark(self)

    def fresh(self, node: str, pattern: str) -> Iterator[FreshLine]:
        """Yield the whole lines since the mark that match a regex."""
        self.mirror(node)
        yield from Tails.fresh(self, node, pattern)


class _Observer:
    """Has the watchers write a whole round, as the observer of real hosts does."""

    def __init__(self, life: "SimulatedStory") -> None:
        self._life = life

    def snapshot(self, name: str, limit_s: float) -> None:
        """Write a round; then the files are copied."""
        life = self._life
        cluster = life.cluster
        asked = [w for node, w in cluster.watchers.items() if cluster.state_of(node) == "S"]
        for watcher in asked:
            watcher.want(name)
        came(cluster.simulation, lambda: all(each.noted for each in asked), limit_s=limit_s)
        for node in cluster.hosts:
            life.mirror(node)


class SimulatedStory(SimulatedLife):
    """One scripted run's life; see `SimulatedLife`.

    Args:
        plan: The run; it has a scenario.
        simulation: Where it takes place.
        boots: Makes each node of its disk.
        paths: Its folder.
        say: Tells the user of each step.
        properties: The nodes' `server.properties`, by node id.
        finish: Is set by Ctrl-C, and ends the story.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        simulation: Simulation,
        boots: Mapping[int, Boot],
        paths: RunPaths,
        properties: Mapping[int, str],
        say: Say,
        schedule: Schedule,
        finish: threading.Event | None = None,
    ) -> None:
        super().__init__(
            plan,
            schedule=schedule,
            simulation=simulation,
            boots=boots,
            paths=paths,
            properties=properties,
            say=say,
            finish=finish,
        )
        self._scenario = scenario_of(plan)

    def mirror(self, node: str) -> None:
        """Write a node's disk, and what it said, into its folder."""
        host = self.cluster.hosts[node]
        mirror_disk(host, self._paths.node(node), properties=self._properties[host.id])

    def live(self) -> None:
        """Live it.

        Raises:
            ScenarioError: The story did not come to its end.
            ClusterError: The brokers did not do what was waited for.
        """
        simulation = self._simulation
        passed(simulation, self._start())
        faults = SimulatedFaults(self.cluster, self._paths, self._plan.seed)
        script = SimulatedScript(
            self._plan, self._topics[0], cluster=self.cluster, paths=self._paths
        )
        try:
            failed = self._play(self._props(faults, script), Aside(script.begin_to_send))
            try:
                self._end(faults, script)
            except ClusterError as late:
                raise ScenarioError(f"{failed}; then {late}" if failed else str(late)) from late
        finally:
            faults.close()
        self._heeded()
        if failed is not None:
            raise failed

    def _end(self, faults: SimulatedFaults, script: SimulatedScript) -> None:
        simulation = self._simulation
        self._reach("healed", failed="; ".join(faults.heal_all()))
        limit_s = self._plan.budgets.isr_s
        is_whole = came(simulation, self._whole, limit_s=limit_s)
        late = f"waited {limit_s:g} s for a leader and a full ISR for every partition"
        self._reach("recovered", failed="" if is_whole else late)
        script.close()
        for steps in (self._read_all(), self._note(), self._stop()):
            passed(simulation, steps)

    def _replicas(self) -> Sequence[str]:
        return self._scenario.assignment(self._plan)

    def _props(self, faults: SimulatedFaults, script: SimulatedScript) -> Props:
        cluster, plan = self.cluster, self._plan
        place = (self._topics[0].topic, 0)
        clients = ClientHosts(self._simulation, plan, cluster.broker_ids, first=ASKER)
        asker: Any = SimulatedAsker(cluster, clients)
        sight = MirroredSight(
            cluster=cast("Any", cluster),
            asker=asker,
            paths=self._paths,
            place=place,
            of_quorum=self._scenario.of_quorum,
            tails=MirroredTails(self._paths, tuple(cluster.hosts), mirror=self.mirror),
            mirror=self.mirror,
        )
        return Props(
            scenario=self._scenario,
            cluster=cast("Any", cluster),
            place=place,
            script=script,
            faults=cast("Any", faults),
            asker=asker,
            observer=cast("Any", _Observer(self)),
            sight=sight,
            clock=VirtualClock(agenda=self._simulation.agenda),
            paths=self._paths,
        )

    def _play(self, props: Props, aside: Aside) -> ScenarioError | None:
        self._reach("warmup")
        self._reach("main")
        self._say(f"the story: {self._scenario.title}")
        witness, stagehand = Witness(props), Stagehand(props, aside)
        director = Director(
            sight=props.sight,
            do=stagehand.do,
            begin=witness.begin,
            look=witness.look,
            clock=props.clock,
            say=self._say,
            stop=self._finish,
            wait=self._wait,
            stopwatch_s=lambda: self._simulation.now_ns / NS_PER_S,
        )
        failed: ScenarioError | None = None
        try:
            director.play(self._scenario.steps(self._plan))
        except ScenarioError as unexpected:
            failed = unexpected
        stagehand.finish()
        self._heeded()
        self._reach("main-ended")
        return failed

    def _wait(
        self,
        probe: Callable[[], bool],
        *,
        timeout_s: float,
        what: str,
        interval_s: float,
        stop: threading.Event,
    ) -> None:
        # A look writes whole disks down: as seldom as on real hosts.
        waited = came(
            self._simulation,
            lambda: stop.is_set() or probe(),
            limit_s=timeout_s,
            interval_s=interval_s,
        )
        if stop.is_set():
            raise WaitTimeoutError(f"was stopped while waiting for {what}")
        if not waited:
            raise WaitTimeoutError(f"waited {timeout_s:g} s for {what}")
