"""What faults on leadership, topics and clocks did, as measured: a part of `effects`.

Who leads what is told by the cluster's own metadata, from the node that `asked` names.
"""

from dataclasses import dataclass

from nemesis.link_effects import QualityEffect

Place = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """One partition at one moment.

    Attributes:
        leader: A node; None: it has none.
        leader_epoch: In which it leads.
        replicas: In the order of their assignment: the first is the preferred leader.
        isr: Those in sync.
        asked: The node whose word it is.
    """

    leader: str | None
    leader_epoch: int
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElectionEffect:
    """A partition that its first replica leads now, and another led before.

    Attributes:
        reordered: Whether the order of its replicas had to be changed for that.
    """

    took_s: float
    place: Place
    before: Led
    after: Led
    reordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentEffect:
    """A partition that has other replicas, or another order of them."""

    took_s: float
    place: Place
    before: Led
    after: Led


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedAgainEffect:
    """A partition that has its replicas back, in their order; all are in the ISR."""

    took_s: float
    place: Place
    after: Led


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFailoverEffect:
    """A controller that is gone, and the one that leads in its place.

    Attributes:
        before, epoch_before: Who led, and in which epoch.
        after, epoch_after: Who leads, in a later one.
        gone: The process that was killed, by its number.
        asked: The node whose word it is.
    """

    took_s: float
    before: str
    epoch_before: int
    after: str
    epoch_after: int
    gone: int
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterStruck:
    """A voter that was killed in the moment after it had granted its vote, and started again.

    Attributes:
        node: Whose vote.
        epoch: Of the quorum.
        voted_for: Who had asked for it, by the voter's own log.
    """

    node: str
    epoch: int
    voted_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedElectionEffect:
    """Elections over slow links, whose voters do not live long.

    Attributes:
        struck: In order, until this was measured.
        slow: The links between them.
    """

    took_s: float
    struck: tuple[VoterStruck, ...]
    slow: QualityEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionEffect:
    """A leader that was not in the ISR, while all that were are gone.

    Attributes:
        place: Its partition.
        last_isr: The ISR, before its members were killed.
        before: When nobody led.
        after: With the new leader.
    """

    took_s: float
    place: Place
    last_isr: tuple[str, ...]
    before: Led
    after: Led


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChurnEffect:
    """Topics that come and go.

    Attributes:
        seen: The first that another broker knew.
        by: That broker.
    """

    took_s: float
    seen: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsGoneEffect:
    """No topic of the churn is left, as every broker says that answers.

    Attributes:
        created, deleted: How many there were, and how many of them were deleted before the heal.
        refused: How many orders failed, which happens under other faults.
        asked: The brokers that know of none.
    """

    took_s: float
    created: int
    deleted: int
    refused: int
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockShifted:
    """A broker's clock, by the timestamps of lines that the broker wrote into its own log.

    Attributes:
        node: Whose.
        before_s: By how much it was ahead of ours before the fault.
        during_s: And then, each time it was asked.
    """

    node: str
    before_s: float
    during_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockEffect:
    """Clocks that are wrong.

    Attributes:
        offset_s: By how much they were to be ahead; of strobes, from time to time.
        rate: How many seconds pass for them in one of ours.
        clocks: What the brokers said.
    """

    took_s: float
    offset_s: float
    rate: float
    clocks: tuple[ClockShifted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockTrueEffect:
    """Clocks that are right again, by the same measurement.

    Attributes:
        ahead_s: By how much each is ahead of ours more than before the fault.
        unasked: Nodes whose broker is not there to be asked, ended by another fault: it starts
            with the true time.
    """

    took_s: float
    ahead_s: dict[str, float]
    unasked: tuple[str, ...]


ClusterEffect = (
    PreferredElectionEffect
    | ReassignmentEffect
    | ControllerFailoverEffect
    | DisputedElectionEffect
    | UncleanElectionEffect
    | TopicChurnEffect
    | ClockEffect
)
ClusterHeal = AssignedAgainEffect | TopicsGoneEffect | ClockTrueEffect
