"""Execute the actions of a step, and describe each result in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from cluster.kafka.asking import NO_ERROR
from cluster.kafka.wire import WireError
from cluster.protocol import ClusterError
from harness.scenarios.actions import (
    Action,
    Answered,
    ArriveLate,
    AskEpochEnd,
    AskLeader,
    BeginTransaction,
    CreateTopics,
    Cut,
    ElectPreferred,
    ElectUnclean,
    EndTransaction,
    Join,
    Kill,
    Pause,
    PowerLoss,
    Produce,
    Read,
    Reassign,
    Resume,
    Start,
    Stop,
)
from harness.scenarios.props import Props
from harness.scenarios.transaction import ScriptedTransaction
from results.record.runtime import Task, start
from results.record.steps import Answer
from results.record.terms import Outcome
from workloads.scripted import SendOutcome

MOST_NAMED = 4
"""A description of more messages than this names only the first and the last message."""
UNANSWERED_S = 2.0
"""The time limit for a question that no broker is expected to answer."""


class ScenarioError(ClusterError):
    """The scenario could not continue as planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """The result of an action.

    Attributes:
        did: A description of what was done.
        answers: The responses of brokers, if the action asked a question.
    """

    did: str
    answers: tuple[Answer, ...] = ()


class Stagehand:
    """An object that executes actions, one at a time, in one thread or task.

    Args:
        props: The objects that the scenario uses: the cluster, the faults and the client.
    """

    def __init__(self, props: Props) -> None:
        self._props = props
        self._sending: tuple[Produce, Task[list[SendOutcome]]] | None = None
        self._transaction: ScriptedTransaction | None = None

    def do(self, action: Action) -> Deed:
        """Execute an action.

        Raises:
            ScenarioError: The result is not what the scenario needs.
            ClusterError, WaitTimeoutError: The action failed.
        """
        props = self._props
        match action:
            case Produce():
                deed = self._produce(action)
            case Answered():
                deed = self._answered()
            case Read():
                found = [each.name or "?" for each in props.script.read(action.within_s)]
                deed = Deed(did=f"read: {listed(found) or 'nothing'}")
            case BeginTransaction() | EndTransaction() | ArriveLate():
                deed = Deed(did=self._transact(action))
            case AskLeader():
                deed = _ask_leader(action, props)
            case AskEpochEnd():
                deed = _ask_epoch_end(action, props)
            case CreateTopics():
                deed = _create_topics(action, props)
            case ElectPreferred() | ElectUnclean() | Reassign():
                deed = _order(action, props)
            case _:
                deed = _fault(action, props)
        return deed

    def finish(self) -> None:
        """Wait for sends in flight; each send has a time limit. Idempotent."""
        if self._sending is not None:
            self._sending[1].join()
        if self._transaction is not None:
            self._transaction.close()

    def _transact(self, action: BeginTransaction | EndTransaction | ArriveLate) -> str:
        if isinstance(action, BeginTransaction):
            self._transaction = ScriptedTransaction(self._props, action)
            return self._transaction.begin()
        if self._transaction is None:
            raise ScenarioError("no transaction has begun")
        if isinstance(action, EndTransaction):
            return self._transaction.end(committed=action.committed)
        said, accepted = self._transaction.arrive_late()
        if accepted is not action.accepted:
            raise ScenarioError(said)
        return said

    def _produce(self, action: Produce) -> Deed:
        if self._sending is not None:
            raise ScenarioError("the previous messages are still unanswered")
        send = partial(
            self._props.script.send,
            action.count,
            acks=action.acks,
            together=action.together,
            within_s=action.within_s,
            only_to=action.only_to,
        )
        if action.wait:
            return _sent(action, send())
        self._sending = (action, start(send, "sends", awaited=True))
        many = f"{action.count} messages" if action.count > 1 else "a message"
        return Deed(did=f"began to send {many} with acks={action.acks}")

    def _answered(self) -> Deed:
        if self._sending is None:
            raise ScenarioError("nothing is unanswered")
        (action, sending), self._sending = self._sending, None
        return _sent(action, sending.result())


def listed(names: Sequence[str]) -> str:
    """Return names as one text: `a and b`, or `message1 to message100 (100)`."""
    if len(names) > MOST_NAMED:
        return f"{names[0]} to {names[-1]} ({len(names)})"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _sent(action: Produce, outcomes: Sequence[SendOutcome]) -> Deed:
    good = [each for each in outcomes if each.outcome is Outcome.OK]
    names = listed([each.name for each in outcomes])
    if action.answered and len(good) < len(outcomes):
        bad = next(each for each in outcomes if each.outcome is not Outcome.OK)
        raise ScenarioError(f"{bad.name} was not acknowledged: {bad.error}")
    if not action.answered and good:
        raise ScenarioError(f"{good[0].name} was acknowledged, but should not have been")
    how = "together " if action.together else ""
    sent = f"sent {how}with acks={action.acks}: {names}"
    return Deed(did=f"{sent}; {_came_of(outcomes) if good else 'no acknowledgement came'}")


def _came_of(outcomes: Iterable[SendOutcome]) -> str:
    offsets = [each.offset for each in outcomes]
    known = [str(offset) for offset in offsets if offset is not None]
    if len(known) < len(offsets):
        return "acknowledged"
    return f"acknowledged at {'offsets' if len(known) > 1 else 'offset'} {listed(known)}"


def _ask_leader(action: AskLeader, props: Props) -> Deed:
    question = f"a client that knows epoch {action.epoch} asks: where does the log end?"
    try:
        said = props.asker.leader_answer(
            action.node, props.place, current_leader_epoch=action.epoch
        )
    except WireError as silent:
        return _asked(action.node, question, f"no answer: {silent}", accepted=False)
    if said.error != NO_ERROR:
        return _asked(action.node, question, said.error, accepted=False)
    epoch = "" if said.leader_epoch is None else f", and I lead in epoch {said.leader_epoch}"
    return _asked(action.node, question, f"at offset {said.offset}{epoch}", accepted=True)


def _ask_epoch_end(action: AskEpochEnd, props: Props) -> Deed:
    known = "" if action.current_epoch is None else f" (asked in epoch {action.current_epoch})"
    question = f"where does epoch {action.epoch} end?{known}"
    try:
        said = props.asker.epoch_end(
            action.node,
            props.place,
            epoch=action.epoch,
            current_leader_epoch=action.current_epoch,
        )
    except WireError as silent:
        return _asked(action.node, question, f"no answer: {silent}", accepted=False)
    if said.error != NO_ERROR:
        return _asked(action.node, question, said.error, accepted=False)
    if said.end_offset is None:
        return _asked(action.node, question, "I do not know that epoch", accepted=True)
    epoch = action.epoch if said.leader_epoch is None else said.leader_epoch
    return _asked(
        action.node, question, f"epoch {epoch} ends at offset {said.end_offset}", accepted=True
    )


def _asked(node: str, question: str, answer: str, *, accepted: bool) -> Deed:
    return Deed(
        did=f"asked {node}: {question} {answer}",
        answers=(Answer(node=node, question=question, answer=answer, accepted=accepted),),
    )


def _create_topics(action: CreateTopics, props: Props) -> Deed:
    names = listed(action.names)
    if action.answered and action.at is None:
        props.cluster.create_topics(action.names, partitions=1, replication=1)
        return Deed(did=f"created {names}")
    node = action.at or props.cluster.nodes[0]
    try:
        props.asker.ask_for_topics(node, action.names, timeout_s=UNANSWERED_S)
    except WireError as silent:
        if action.answered:
            raise ScenarioError(f"{node} did not create {names}: {silent}") from silent
        return Deed(did=f"asked {node} for the topics {names}; no answer came")
    if not action.answered:
        raise ScenarioError(f"{node} answered the request for {names}, but should not have")
    return Deed(did=f"asked {node} for the topics {names}, and got them")


def _order(action: ElectPreferred | ElectUnclean | Reassign, props: Props) -> Deed:
    match action:
        case ElectPreferred():
            props.cluster.elect_preferred(props.place)
            return Deed(did="requested the election of the preferred leader")
        case ElectUnclean():
            props.cluster.elect_unclean(props.place)
            return Deed(did="requested the election of any live replica")
        case Reassign(replicas=replicas):
            props.cluster.reassign(props.place, replicas)
            return Deed(did=f"changed the assignment to {', '.join(replicas)}")


def _fault(
    action: Kill | Stop | Start | Pause | Resume | Cut | Join | PowerLoss, props: Props
) -> Deed:
    faults = props.faults
    match action:
        case Kill(node=node):
            faults.kill(node)
            did = f"killed {node}"
        case Stop(node=node, wait=wait):
            faults.stop(node, wait=wait)
            did = f"stopped {node}" if wait else f"asked {node} to stop"
        case Start(node=node, until_back=until_back):
            faults.start(node, until_back=until_back)
            did = f"started {node}{', and it is registered' if until_back else ''}"
        case Pause(node=node):
            faults.pause(node)
            did = f"paused {node}"
        case Resume(node=node):
            faults.resume(node)
            did = f"resumed {node}"
        case Cut(name=name, links=links):
            faults.cut(name, links)
            words = ", ".join(f"{sender} → {receiver}" for sender, receiver in links)
            did = f"cut {words} ({name})"
        case Join(name=name):
            faults.join(name)
            did = f"healed the cut {name}"
        case PowerLoss(node=node):
            faults.power_loss(node, [props.place])
            did = f"killed {node} and truncated its log to the flushed part"
    return Deed(did=did)
