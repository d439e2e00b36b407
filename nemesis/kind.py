"""The properties of a kind of fault: where it works, its targets, and its duration."""

from collections.abc import Callable
from dataclasses import dataclass

from cluster.protocol import Ability
from nemesis.claims import TAKING, Aspect
from nemesis.protocol import FaultMaker
from nemesis.targets import COORDINATOR
from results.record.plan import SIMULATED, Plan

START_S = 5.0
"""The minimum seconds that a Kafka 4 broker needs to start on two cores. Simulation is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault.

    Attributes:
        family: The family that a plan's `nemesis` lists. A family has one or several kinds.
        family_on_hosts: The family that schedules this kind on real hosts. Empty if this is also
            `family`.
        make: The function that makes a fault of this kind.
        confirm_s: The usual number of seconds until the effect is confirmed, if this takes long. A
            schedule reserves this time.
        settle_s: The usual seconds from the heal until all is normal again, including starts of
            brokers. If the injection takes long, this includes its time. A schedule reserves this
            time, but it is not a limit.
        needs: The required abilities. These abilities alone decide on which hosts and systems the
            kind works.
        aims: The roles that random schedules use as targets. If empty, they use the roles of the
            common deck. Runs without groups and transactions do not use the role `coordinator`.
        aspect: The aspect of a node that this kind changes. Two faults on one aspect of a node
            exclude each other, except for the aspects in `claims.COMPOSING`.
        least_nodes: The smallest cluster in which this kind has an effect.
        least_targets: The smallest number of targets.
        when_whole: True if this kind destroys the records of a replica. These records are lost if
            no other replica has them. A random schedule starts this kind alone, after every
            partition had a full ISR for a while (`nemesis.turns`). In a plan written by hand, the
            fault starts at the given time.
        suits: A function that returns whether the runs of a plan can use this kind.
        unless: The reason, as text, if `suits` returns False.
        only: The roles that this kind can target. If empty, it can target any role except `keeper`.
            A node's name is possible too, unless the kind needs several or all nodes.
        on_controllers: Whether this kind also works on separate controllers.
        spares: Whether this kind needs a node besides the targets.
        starts: The number of successive starts of brokers within `settle_s`.
        divides: True if no other fault may disable a node meanwhile. This kind disables a majority,
            all nodes or ZooKeeper, or divides the whole cluster instead of cutting off its targets.
        by_hand: True if random schedules for real hosts leave this kind out. A plan can still list
            it.
        ends: True if a random schedule holds the fault, for a limited time, until other brokers
            lead the targets' partitions. The targets' brokers are down during such a fault.
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
        """Return the seconds from the start of the fault until all is normal again."""
        return self.confirm_s + hold_s + self.settles_s(hosts)

    def settles_s(self, hosts: str) -> float:
        """Return the seconds from the heal until all is normal again, on a plan's hosts."""
        return self.settle_s - (self.starts * START_S if hosts == SIMULATED else 0.0)

    @property
    def families(self) -> tuple[str, ...]:
        """Return all families that schedule this kind on any hosts."""
        return tuple(filter(None, (self.family, self.family_on_hosts)))

    def family_for(self, hosts: str) -> str:
        """Return the family that schedules this kind on a plan's hosts."""
        return self.family if hosts == SIMULATED else self.families[-1]

    def is_dealt(self, hosts: str) -> bool:
        """Return whether random schedules use this kind on a plan's hosts."""
        return not self.by_hand or hosts == SIMULATED

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """Return all aspects of a node that this kind of fault changes."""
        shapes = (Aspect.QUALITY,) if Ability.SHAPE in self.needs else ()
        return tuple(dict.fromkeys((self.aspect, *shapes)))

    @property
    def takes(self) -> bool:
        """Return whether this kind of fault may disable its targets while it lasts."""
        return self.aspect in TAKING

    @property
    def moves_coordinators(self) -> bool:
        """Return whether this kind of fault moves the partition of a coordinator.

        For such a kind, the role `coordinator` means a partition of an internal topic. This
        partition has the coordinator's data.
        """
        return self.aspect is Aspect.CLUSTER and COORDINATOR in self.aims

    @property
    def asks(self) -> bool:
        """Return whether the targets' own brokers must report the effect, and so must run."""
        return self.aspect is Aspect.CLOCK
