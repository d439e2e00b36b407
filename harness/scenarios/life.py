"""The phases of a scripted run: those of an ordinary run, but a scenario is the main phase.

1. Start the brokers; a scenario may name brokers to start first.
2. Create the scenario's topic with its replica assignment.
3. Play the scenario step by step.
4. Heal all faults, and wait for a full ISR.
5. Do final reads, note the brokers' state, stop, and collect files.

If the scenario fails, the later phases still follow. After them, the run ends with the error of the
scenario.
"""

from contextlib import ExitStack
from functools import partial

from rich.console import Console

from cluster.kafka.asking import Asker
from cluster.protocol import ClusterError, ClusterView
from cluster.sessions import session_s
from cluster.systems.system import Deployment
from harness.arena import Arena
from harness.healing import Healing
from harness.interrupt import Interrupts
from harness.progress import Progress, Snapshot
from harness.scenarios.choices import scenario_of
from harness.scenarios.deeds import ScenarioError, Stagehand
from harness.scenarios.director import Director
from harness.scenarios.props import Props
from harness.scenarios.sight import ClusterSight
from harness.scenarios.tails import Tails
from harness.scenarios.witness import Witness
from harness.world import World
from nemesis.scripted import ScriptedFaults
from results.record.clock import RunClock, WaitTimeoutError
from results.record.nodes import machines
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.topics import CreatedTopic


class ScriptedLife:
    """The phases of one scripted run, inside the run's network.

    Args:
        plan: The run's plan, with a scenario.
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
        self._plan, self._scenario = plan, scenario_of(plan)
        self._away = frozenset(self._scenario.away(plan))
        self._props: Props | None = None
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
            ScenarioError: The scenario, or a later phase, failed.
            ClusterError, WaitTimeoutError: The brokers did not start as they should.
        """
        arena = self._arena
        arena.undo.enter_context(self._progress)
        cluster = arena.start()
        cluster.start(first=self._scenario.first(self._plan))
        arena.reach("ready")
        topic = self._create_topic(cluster)
        arena.watch(cluster, [topic])
        props = self._props = self._made_props(cluster, topic)
        failed = self._play(props)
        try:
            self._end(props, topic)
        except (ClusterError, WaitTimeoutError) as late:
            raise ScenarioError(f"{failed}; then {late}" if failed else str(late)) from late
        if failed is not None:
            raise failed

    def _create_topic(self, cluster: Deployment) -> CreatedTopic:
        (name,) = self._plan.topic_names
        return cluster.create_topic(
            name,
            assignment={0: self._scenario.assignment(self._plan)},
            configs=self._scenario.topic_settings,
        )

    def _made_props(self, cluster: Deployment, topic: CreatedTopic) -> Props:
        arena, plan = self._arena, self._plan
        asker = Asker(cluster.endpoints, cluster.answers)
        arena.undo.callback(asker.close)
        script = arena.world.script(
            plan, topic, cluster.bootstrap(), clock=arena.clock, live=arena.paths.live
        )
        arena.undo.callback(script.close)
        faults = ScriptedFaults(
            cluster=cluster,
            hosts=arena.hosts,
            clock=arena.clock,
            paths=arena.paths,
            seed=plan.seed,
            machines=machines(plan),
            session_s=session_s(plan),
        )
        arena.undo.callback(faults.close)
        self._healing = Healing(partial(faults.heal_all, away=self._away), arena.reach)
        arena.undo.callback(self._healing.if_not_yet)
        place = (topic.topic, 0)
        nodes = (*cluster.nodes, *cluster.controllers)
        sight = ClusterSight(
            cluster=cluster,
            hosts=arena.hosts,
            asker=asker,
            place=place,
            of_quorum=self._scenario.of_quorum,
            tails=Tails(arena.hosts.disk, nodes),
        )
        assert arena.observer is not None
        return Props(
            scenario=self._scenario,
            cluster=cluster,
            place=place,
            script=script,
            faults=faults,
            asker=asker,
            observer=arena.observer,
            sight=sight,
            clock=arena.clock,
            paths=arena.paths,
        )

    def _play(self, props: Props) -> ScenarioError | None:
        """Play the scenario; return an error if a step failed.

        Raises:
            UserError: The disk is full.
        """
        arena = self._arena
        arena.reach("warmup")
        arena.reach("main")
        self._progress.phase(f"the story: {self._scenario.title}")
        witness, stagehand = Witness(props), Stagehand(props)
        arena.undo.callback(stagehand.finish)

        def begin() -> None:
            arena.refuse_a_full_disk()
            witness.begin()

        director = Director(
            sight=props.sight,
            do=stagehand.do,
            begin=begin,
            look=witness.look,
            clock=arena.clock,
            say=self._progress.say,
            stop=arena.interrupts.finish,
        )
        failed: ScenarioError | None = None
        try:
            director.play(self._scenario.steps(self._plan))
        except ScenarioError as unexpected:
            failed = unexpected
        stagehand.finish()
        arena.reach("main-ended")
        return failed

    def _end(self, props: Props, topic: CreatedTopic) -> None:
        arena, cluster = self._arena, props.cluster
        arena.progress.phase("healing everything")
        arena.note_ended(cluster, away=self._away)
        assert self._healing is not None
        self._healing.now(limit_s=self._plan.budgets.heal_s)
        arena.recover(lambda: self._is_whole(cluster.view()))
        props.script.close()
        if not arena.interrupts.abandon.is_set():
            arena.read_all(cluster, [topic])
            arena.note(cluster, away=self._away)
        arena.stop(cluster)

    def _is_whole(self, view: ClusterView | None) -> bool:
        """Return whether the scenario's partition has a leader and a full ISR.

        The brokers that the scenario does not restart need not be in the ISR. But if the scenario
        ended early, they may still be in it.
        """
        state = view.partitions.get((self._plan.topic_names[0], 0)) if view else None
        if state is None or state.leader is None:
            return False
        return set(state.isr) >= set(state.replicas) - self._away

    def _look(self) -> Snapshot:
        observer, props = self._arena.observer, self._props
        if observer is None or props is None:
            return Snapshot()
        cluster = props.cluster
        states = {node: props.faults.state(node) for node in (*cluster.nodes, *cluster.controllers)}
        return Snapshot(
            faults=tuple(f"{node} is {state}" for node, state in states.items() if state != "up"),
            leaders=tuple(
                f"{topic}-{partition}: {state.leader or 'no leader'} (epoch {state.leader_epoch})"
                for (topic, partition), state in sorted(observer.latest().partitions.items())
            ),
        )
