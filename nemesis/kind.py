"""What is known of a kind of fault: where it works, whom it hits, and how long it takes."""

from collections.abc import Callable
from dataclasses import dataclass

from cluster.protocol import Ability
from nemesis.claims import TAKING, Aspect
from nemesis.protocol import FaultMaker
from nemesis.targets import COORDINATOR
from results.record.plan import SIMULATED, Plan

START_S = 5.0
"""So much a broker of Kafka 4 takes to start on two cores, at least; a simulated one: a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault.

    Attributes:
        family: What a plan's `nemesis` lists: `partition` has several kinds.
        family_on_hosts: The one that deals it on real hosts, where that is another; empty: none is.
        make: Makes one.
        confirm_s: How long it takes until its effect is confirmed, where that is long, in seconds.
            Leaves room in a schedule.
        settle_s: How long it usually takes after the heal until all is as before, in seconds, with
            the starts of brokers. Leaves room in a schedule, no limit.
        needs: What hosts and system must be able to do; that alone decides where it works.
        aims: The roles that it is dealt to; none: the common deck's. A coordinator is none in runs
            without groups and transactions.
        aspect: What of a node it takes in hand: two faults of one aspect exclude each other there.
        least_nodes: In a smaller cluster there is nothing for it to do.
        least_targets: So many nodes it takes.
        when_whole: Dealt alone, when every partition has had a full ISR for a while
            (`nemesis.turns`): it takes what a replica has from it, and what no other replica has
            would be lost. By hand it comes as written.
        suits: Whether it can come to be in a run of a plan at all.
        unless: What would make a plan suit it, in words.
        only: The roles that it can be about; none: any. A node may be named all the same.
        on_controllers: Whether it works on controllers of their own as on brokers.
        spares: Whether it needs somebody beside its targets.
        starts: How many starts of brokers, one after the other, are among `settle_s`.
        divides: Whether it takes or parts all nodes, and not only some from the others: beside a
            node that another fault has, no majority would be whole.
        by_hand: Whether a plan for real hosts has to write it: no schedule deals it there.
        ends: Whether its targets' brokers are gone as long as it is held: dealt, it is held until
            others have taken over what they led.
    """

    family: str
    make: FaultMaker
    settle_s: float
    family_on_hosts: str = ""
    needs: frozenset[Ability] = frozenset()
    aims: tuple[str, ...] = ()
    aspect: Aspect = Aspect.PROCESS
    least_nodes: int = 1
    least_targets: int = 1
    when_whole: bool = False
    suits: Callable[[Plan], bool] = lambda _: True
    unless: str = ""
    only: tuple[str, ...] = ()
    on_controllers: bool = False
    spares: bool = False
    starts: int = 0
    divides: bool = False
    by_hand: bool = False
    ends: bool = False
    confirm_s: float = 0.0

    def lasts_s(self, hold_s: float, hosts: str) -> float:
        """Return how long it takes altogether, from its beginning until all is as before."""
        return self.confirm_s + hold_s + self.settles_s(hosts)

    def settles_s(self, hosts: str) -> float:
        """Return how long it takes to be over, after its heal, on a plan's hosts."""
        return self.settle_s - (self.starts * START_S if hosts == SIMULATED else 0.0)

    @property
    def families(self) -> tuple[str, ...]:
        """All families that deal it somewhere."""
        return tuple(filter(None, (self.family, self.family_on_hosts)))

    def family_for(self, hosts: str) -> str:
        """Return the family that deals it on a plan's hosts."""
        return self.family if hosts == SIMULATED else self.families[-1]

    def is_dealt(self, hosts: str) -> bool:
        """Tell whether schedules deal it on a plan's hosts."""
        return not self.by_hand or hosts == SIMULATED

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """All of a node that it takes in hand: who makes links bad has them beside the rest."""
        shapes = (Aspect.QUALITY,) if Ability.SHAPE in self.needs else ()
        return tuple(dict.fromkeys((self.aspect, *shapes)))

    @property
    def takes(self) -> bool:
        """Whether its targets cannot be counted upon as long as it lasts."""
        return self.aspect in TAKING

    @property
    def moves_coordinators(self) -> bool:
        """Whether a coordinator stands for the partition of an internal topic that makes it one."""
        return self.aspect is Aspect.CLUSTER and COORDINATOR in self.aims

    @property
    def asks(self) -> bool:
        """Whether its effect is told by the targets' brokers themselves, which must be there."""
        return self.aspect is Aspect.CLOCK
