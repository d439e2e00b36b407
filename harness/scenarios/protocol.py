"""What a scenario is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.scenarios.actions import Action
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Validity


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSight:
    """The partition of the story, as the cluster's metadata have it now.

    Attributes:
        leader: Node; None: nobody leads.
        leader_epoch: Of that leader.
        isr: Nodes, in the order of their numbers.
        controller: The node that is the controller, or leads the controllers' quorum.
        registered: Brokers that are registered and not fenced.
    """

    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    controller: str | None
    registered: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSight:
    """One replica, as its running broker tells when asked by itself.

    Attributes:
        log_end: Log end offset.
        high_watermark: The replica's own; None where it does not tell.
        last_stable_offset: Where its first open transaction begins; None likewise.
    """

    log_end: int | None
    high_watermark: int | None
    last_stable_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSight:
    """One replica, as its files have it now, whether its broker runs or not.

    Attributes:
        high_watermark: In `replication-offset-checkpoint`; None: no line, or no file.
        recovery_point: In `recovery-point-offset-checkpoint`; None likewise.
        epochs: Lines of `leader-epoch-checkpoint`, (epoch, start offset); None: no file.
        log_end: The offset behind the last whole batch of the segments.
    """

    high_watermark: int | None
    recovery_point: int | None
    epochs: tuple[tuple[int, int], ...] | None
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSight:
    """The controllers' quorum, as one node tells, or as its `quorum-state` file has it.

    Attributes:
        leader: Node; None: it knows none.
        epoch: Of the quorum.
        voted_for: Node; file only.
        high_watermark, log_end: Of the metadata log; None where not told.
    """

    leader: str | None
    epoch: int
    voted_for: str | None = None
    high_watermark: int | None = None
    log_end: int | None = None


class Sight(Protocol):
    """What conditions look at. Every method looks anew, and returns None if nobody answers."""

    def partition(self) -> PartitionSight | None:
        """Look at the cluster's metadata."""

    def replica(self, node: str) -> ReplicaSight | None:
        """Ask a broker about its own replica."""

    def files(self, node: str) -> FilesSight | None:
        """Read a replica's files; those of the metadata log in a story of the quorum."""

    def belief(self, node: str) -> tuple[str | None, int | None] | None:
        """Ask a broker who leads, and in which epoch (None where its version does not tell)."""

    def quorum(self, node: str) -> QuorumSight | None:
        """Ask a node about the quorum."""

    def quorum_file(self, node: str) -> QuorumSight | None:
        """Read a node's `quorum-state`."""

    def lines(self, node: str, pattern: str) -> Sequence[str]:
        """Return the lines that a node's logs got since the step began and that match a regex."""

    def running(self, node: str) -> bool:
        """Tell whether a node's process exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a condition saw.

    Attributes:
        holds: Whether it is as wanted.
        saw: What is there, in words: `1`, `n1, n3`, `no answer`.
    """

    holds: bool
    saw: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A state that a step waits for.

    Attributes:
        what: In words, so that `waiting for <what>` reads well.
        look: Looks once.
        within_s: The limit.
    """

    what: str
    look: Callable[[Sight], Seen]
    within_s: float = 40.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a story.

    Attributes:
        tells: What happens, a sentence for people.
        moves: Actions to do and conditions to wait for, in order.
        why: What there is to learn from it.
        lines: A regex of broker log lines that are worth showing with this step.
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
        anomalies: Names that the verdict must have, and no others; allowed ones too.
        lost: Messages that must be named as lost, by name: `message2`.
        read: What the final read must return, in order; None: not looked at.
        moral: What the story shows, a few sentences for the page.
    """

    valid: Validity
    anomalies: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    read: tuple[str, ...] | None = None
    moral: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An option that a scenario has.

    Attributes:
        values: What it can be; the first is the default.
        only_with: Other choices without which there is no such one: `{"form": "clean"}`.
    """

    values: tuple[str, ...]
    only_with: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scripted run.

    Attributes:
        name: `leader-epoch-1`.
        title: In a few words.
        about: What it shows, and where it comes from (KIP, article), a paragraph.
        systems: What it is known to work on, as `--system` takes it; the first is the default. For
            some choices there may be fewer: `systems_of`.
        choices: Options by name (`rule`, `form`, `way`, `late`, `elr`).
        plan: Returns the plan's values for choices and a system: settings, nodes, judge, ...
        assignment: Replicas of the story's partition for a plan, the preferred leader first.
        first: Nodes to be started before all others, in order.
        steps: The story.
        expected: Its end.
        systems_of: Which systems some choices work on; None: all of `systems`.
        of_quorum: Whether the story is about the controllers' quorum: what is looked at then is
            the metadata log of controllers, not the partition of brokers.
        transactions: Whether it writes in transactions.
        topic_settings: Settings of the story's topic, beside the brokers' defaults.
        away: Brokers that do not come back, so that nobody waits for them at the end.
        roles: How the story calls its nodes: `{"n1": "A", "n2": "B"}`.
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
