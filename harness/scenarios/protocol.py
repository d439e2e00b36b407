"""The types from which a scenario is built."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.scenarios.actions import Action
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Validity


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSight:
    """The scenario's partition in the cluster's current metadata.

    Attributes:
        leader: The leading node; None if there is no leader.
        leader_epoch: The leader's epoch.
        isr: The nodes in sync, in the order of their numbers.
        controller: The node of the active controller (with KRaft, the leader of the quorum).
        registered: The brokers that are registered and not fenced.
    """

    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    controller: str | None
    registered: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSight:
    """One replica, as its own running broker reports it.

    Attributes:
        log_end: The log end offset.
        high_watermark: The replica's own high watermark; None if the broker does not report it.
        last_stable_offset: The replica's last stable offset; None if the broker does not report it.
    """

    log_end: int | None
    high_watermark: int | None
    last_stable_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSight:
    """One replica, as its files show it. Its broker may run or not.

    Attributes:
        high_watermark: The offset in `replication-offset-checkpoint`; None if it is not there.
        recovery_point: The offset in `recovery-point-offset-checkpoint`; None if it is not there.
        epochs: The pairs (epoch, start offset) in `leader-epoch-checkpoint`; None without this
            file.
        log_end: The offset after the last whole batch of the segments.
    """

    high_watermark: int | None
    recovery_point: int | None
    epochs: tuple[tuple[int, int], ...] | None
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSight:
    """The controllers' quorum, according to a node's report or to the node's `quorum-state` file.

    Attributes:
        leader: The leading node; None if this node knows no leader.
        epoch: The quorum's epoch.
        voted_for: The node that got this node's vote. Only the file has it.
        high_watermark, log_end: Offsets of the metadata log; None if the node does not report them.
    """

    leader: str | None
    epoch: int
    voted_for: str | None = None
    high_watermark: int | None = None
    log_end: int | None = None


class Sight(Protocol):
    """The state that conditions check. A method returns None if the cluster does not respond."""

    def partition(self) -> PartitionSight | None:
        """Read the partition's state from the cluster's metadata."""

    def replica(self, node: str) -> ReplicaSight | None:
        """Ask a broker about its own replica."""

    def files(self, node: str) -> FilesSight | None:
        """Read a replica's files; in a scenario about the quorum, read the metadata log's files."""

    def belief(self, node: str) -> tuple[str | None, int | None] | None:
        """Ask a broker for the partition's leader and epoch. A missing epoch is None."""

    def quorum(self, node: str) -> QuorumSight | None:
        """Ask a node about the controllers' quorum."""

    def quorum_file(self, node: str) -> QuorumSight | None:
        """Read a node's file `quorum-state`."""

    def lines(self, node: str, pattern: str) -> Sequence[str]:
        """Return the lines that a node has logged in this step and that match a regex."""

    def running(self, node: str) -> bool:
        """Return whether a node's process exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result of one check of a condition.

    Attributes:
        holds: Whether the condition is met.
        saw: The actual state in words: `1`, `n1, n3`, `no answer`.
    """

    holds: bool
    saw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A state that a step waits for.

    Attributes:
        what: A description of the state. It completes the sentence `waiting for …`.
        look: The function that checks the condition once.
        within_s: The time limit.
    """

    what: str
    look: Callable[[Sight], Seen]
    within_s: float = 40.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a scenario.

    Attributes:
        tells: A sentence that tells readers what happens in the step.
        moves: The actions and conditions, in order.
        why: The explanation of the step.
        lines: A regex of the broker log lines that the page shows with this step.
    """

    tells: str
    moves: tuple[Action | Condition, ...] = ()
    why: str = ""
    lines: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The end that a scenario expects.

    Attributes:
        valid: The verdict.
        anomalies: The names of all anomalies that the verdict must have, allowed ones included.
        lost: The names of the messages that the verdict must report as lost: `message2`.
        read: The messages that the final read must return, in order; None means any messages.
        moral: The lesson of the scenario, in a few sentences for the page.
    """

    valid: Validity
    anomalies: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    read: tuple[str, ...] | None = None
    moral: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An option of a scenario.

    Attributes:
        values: The allowed values; the first is the default.
        only_with: The other choices without which this option is not allowed: `{"form": "clean"}`.
    """

    values: tuple[str, ...]
    only_with: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scripted run.

    Attributes:
        name: A name like `leader-epoch-1`.
        title: A few words.
        about: The subject of the scenario and its source (KIP, article).
        systems: The systems on which the scenario is known to work, in the form of `--system`; the
            first is the default. Some choices work on fewer systems: see `systems_of`.
        choices: The options by name (`rule`, `form`, `way`, `late`, `elr`).
        plan: A function that returns the plan's values for choices and a system.
        assignment: A function that returns the partition's replicas. The first is the preferred
            leader.
        first: A function that returns, in order, the nodes that start before all others.
        steps: A function that returns the steps of the scenario.
        expected: A function that returns the expected end.
        systems_of: A function that returns the systems for given choices. If it is None, all
            of `systems` are possible.
        of_quorum: Whether the scenario is about the controllers' quorum. If so, conditions check
            the controllers' metadata log instead of the brokers' partition.
        transactions: Whether the scenario writes in transactions.
        topic_settings: Settings of the scenario's topic that differ from the brokers' defaults.
        away: A function that returns the brokers that stay down. The end does not wait for them.
        roles: A function that returns the names of nodes in the scenario: `{"n1": "A", "n2": "B"}`.
    """

    name: str
    title: str
    about: str
    systems: tuple[str, ...]
    plan: Callable[[ScenarioPlan, str], dict[str, object]]
    assignment: Callable[[Plan], tuple[str, ...]]
    steps: Callable[[Plan], tuple[Step, ...]]
    expected: Callable[[Plan], Expected]
    choices: Mapping[str, Choice] = field(default_factory=dict)
    first: Callable[[Plan], tuple[str, ...]] = lambda _plan: ()
    systems_of: Callable[[ScenarioPlan], tuple[str, ...]] | None = None
    of_quorum: bool = False
    transactions: bool = False
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    away: Callable[[Plan], tuple[str, ...]] = lambda _plan: ()
    roles: Callable[[Plan], Mapping[str, str]] = lambda _plan: {}
