"""Record each step of a scenario, with the state of every replica at the end of the step."""

from collections.abc import Iterator

from harness.scenarios.director import Scene
from harness.scenarios.props import Props
from harness.scenarios.quorum_look import QuorumLook
from harness.scenarios.sight import partition_folder
from harness.scenarios.snapshot import copy_replicas
from results.record.nodes import node_id
from results.record.steps import Belief, Line, NodeAtStep, Step, append_step, step_name

ANSWER_LIMIT_S = 3.0
MOST_LINES = 12
"""A step stores at most this number of log lines of each node: the last ones."""
MOST_LETTERS = 400


class Witness:
    """A recorder of the end of each step.

    Args:
        props: The objects that the scenario uses.
    """

    def __init__(self, props: Props) -> None:
        self._props = props
        cluster = props.cluster
        self._nodes = (*cluster.nodes, *cluster.controllers)
        voters = cluster.controllers or cluster.nodes
        of_quorum = props.scenario.of_quorum
        self._quorum = QuorumLook(props.sight, props.paths, voters) if of_quorum else None

    def begin(self) -> None:
        """Begin a step. Log lines from now on belong to this step."""
        self._props.sight.tails.mark()

    def look(self, scene: Scene) -> None:
        """Ask the brokers for their state, copy all nodes' files, and record the step."""
        props, name = self._props, step_name(scene.number)
        props.observer.snapshot(name, ANSWER_LIMIT_S)
        if self._quorum:
            self._quorum.ask()
        places = list(dict.fromkeys([props.place, props.sight.log_place]))
        snapshot = props.paths.snapshots / name
        copy_replicas(props.sight.hosts.disk, snapshot, nodes=self._nodes, places=places)
        append_step(props.paths.steps, self._step(scene, name))

    def _step(self, scene: Scene, name: str) -> Step:
        leader, epoch, isr = self._leadership()
        return Step(
            number=scene.number,
            name=name,
            tells=scene.step.tells,
            why=scene.step.why,
            did=tuple(scene.did),
            waited=tuple(scene.waited),
            begun_ns=scene.begun_ns,
            ended_ns=self._props.clock.now_ns(),
            nodes=tuple(self._node(node) for node in self._nodes),
            leader=leader,
            leader_epoch=epoch,
            isr=isr,
            beliefs=tuple(self._beliefs()),
            answers=tuple(scene.answers),
            lines=tuple(self._lines(scene.step.lines)),
            logs=tuple(self._quorum.logs(name)) if self._quorum else (),
            quorum=tuple(self._quorum.states(self._nodes)) if self._quorum else (),
            failed=scene.failed,
        )

    def _leadership(self) -> tuple[int | None, int | None, tuple[int, ...]]:
        """Return the leader, the epoch and the ISR of the scenario's partition or of the quorum."""
        if self._props.scenario.of_quorum:
            told = (self._props.sight.quorum(node) for node in self._nodes)
            state = max((each for each in told if each), key=lambda it: it.epoch, default=None)
            if state is None:
                return None, None, ()
            return _number(state.leader), state.epoch, ()
        seen = self._props.sight.partition()
        if seen is None:
            return None, None, ()
        return _number(seen.leader), seen.leader_epoch, tuple(node_id(node) for node in seen.isr)

    def _node(self, node: str) -> NodeAtStep:
        props = self._props
        return NodeAtStep(
            node=node,
            state=props.faults.state(node),
            incarnation=props.cluster.incarnation(node),
            deaf_to=tuple(sorted(props.faults.deaf_to(node))),
        )

    def _beliefs(self) -> Iterator[Belief]:
        for node in self._props.cluster.nodes:
            said = self._props.sight.believed(node)
            if said is not None:
                yield Belief(
                    node=node,
                    leader=said.leader if said.leader >= 0 else None,
                    leader_epoch=said.leader_epoch,
                    isr=said.isr,
                )

    def _lines(self, wanted: str) -> Iterator[Line]:
        """Yield the log lines that the step shows, and all log lines about truncations."""
        place = partition_folder(self._props.sight.log_place)
        cut = rf"[Tt]runcat.*\b{place}\b|\b{place}\b.*[Tt]runcat"
        pattern = f"(?:{wanted})|{cut}" if wanted else cut
        for node in self._nodes:
            for line in list(self._props.sight.tails.fresh(node, pattern))[-MOST_LINES:]:
                text = line.text.replace(f"{self._props.paths.root.absolute()}/", "")
                yield Line(node=node, file=line.file, text=text[:MOST_LETTERS])


def _number(node: str | None) -> int | None:
    return None if node is None else node_id(node)
