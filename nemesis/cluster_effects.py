"""The measured effects of faults on leadership, topics and clocks: a section of `effects`.

The leaders come from the metadata of one node of the cluster. `asked` is the name of this node.
"""

from dataclasses import dataclass

from nemesis.link_effects import QualityEffect

Place = tuple[str, int]
"""A topic and a partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """The state of a partition at one moment.

    Attributes:
        leader: The leading node. None if there is no leader.
        leader_epoch: The leader epoch.
        replicas: The replicas in the order of their assignment. The first is the preferred leader.
        isr: The in-sync replicas.
        asked: The node that reported this metadata.
    """

    leader: str | None
    leader_epoch: int
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElectionEffect:
    """A partition whose leader is now its first replica. Before, another replica was the leader.

    Attributes:
        reordered: Whether the fault first had to change the order of the replicas.
    """

    took_s: float
    place: Place
    before: Led
    after: Led
    reordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentEffect:
    """A partition that now has other replicas, or the same replicas in another order."""

    took_s: float
    place: Place
    before: Led
    after: Led


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedAgainEffect:
    """A partition that has its old replicas again, in the old order.

    After a `reassignment`, all of them are in the ISR. After a `preferred-election`, the partition
    has a leader, but its ISR may be incomplete.
    """

    took_s: float
    place: Place
    after: Led


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFailoverEffect:
    """A controller that was killed, and the controller that leads in its place.

    Attributes:
        before, epoch_before: The old controller and its epoch.
        after, epoch_after: The new controller and its later epoch.
        gone: The id of the killed process.
        asked: The node that reported this metadata.
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
    """A voter that was killed just after it granted its vote, and was started again.

    Attributes:
        node: The voter.
        epoch: The epoch of the quorum.
        voted_for: The candidate, from the voter's own log.
    """

    node: str
    epoch: int
    voted_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedElectionEffect:
    """Elections over slow links. Meanwhile voters are killed soon after they vote.

    Attributes:
        struck: The voters that were killed after a vote, before this measurement, in order. Killed
            leaders of the quorum are not listed.
        slow: The slow links between the voters.
    """

    took_s: float
    struck: tuple[VoterStruck, ...]
    slow: QualityEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionEffect:
    """A leader that was elected from outside the ISR, while all in-sync replicas were down.

    Attributes:
        place: The partition.
        last_isr: The ISR before its members were killed.
        before: The state without a leader.
        after: The state with the new leader.
    """

    took_s: float
    place: Place
    last_isr: tuple[str, ...]
    before: Led
    after: Led


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChurnEffect:
    """Topics that the fault creates and deletes all the time.

    Attributes:
        seen: The first topic that another broker knew.
        by: The broker that knew this topic.
    """

    took_s: float
    seen: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsGoneEffect:
    """The effect of a healed `topic-churn`: all brokers that answer report the topics as deleted.

    Attributes:
        created, deleted: How many topics the fault created, and how many of them it deleted before
            the heal.
        refused: The number of failed requests. Other faults that are active can make requests fail.
        asked: The brokers that report no such topic.
    """

    took_s: float
    created: int
    deleted: int
    refused: int
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockShifted:
    """A broker's clock, measured by the timestamps of lines that the broker wrote into its own log.

    Attributes:
        node: The broker's node.
        before_s: Seconds by which the clock was ahead of Logquake's clock before the fault.
        during_s: For each request during the fault, the seconds that the clock had gained since the
            measurement of `before_s`.
    """

    node: str
    before_s: float
    during_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockEffect:
    """Clocks that are wrong.

    Attributes:
        offset_s: The planned number of seconds by which the clocks are ahead. Strobing clocks
            alternate between 0 and this offset. 0 for drifting clocks.
        rate: The seconds that pass for the brokers in one real second.
        clocks: The measured clocks.
    """

    took_s: float
    offset_s: float
    rate: float
    clocks: tuple[ClockShifted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockTrueEffect:
    """Clocks that are right again, measured as in `ClockEffect`.

    Attributes:
        ahead_s: The seconds that each clock has gained since the measurement before the fault.
        unasked: Nodes whose broker is down, for example because of another fault. These brokers
            will start with the true time.
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
