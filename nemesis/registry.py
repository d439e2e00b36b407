"""The faults by name. To add one: its module, its test, and a line in `KINDS`."""

from collections.abc import Collection
from dataclasses import dataclass

from cluster.protocol import Ability
from nemesis.claims import Aspect
from nemesis.halves import halves
from nemesis.isolate import isolate
from nemesis.kill import Kill
from nemesis.one_way import one_way_in, one_way_out
from nemesis.pause import Pause
from nemesis.power_loss import PowerLoss
from nemesis.protocol import FaultMaker
from nemesis.stop import Stop
from results.record.plan import PlanError

PARTITION = "partition"
"""The family of faults of the network; every other family is one of processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault.

    Attributes:
        family: What a plan's `nemesis` lists: `partition` has several kinds.
        make: Makes one.
        settle_s: How long it usually takes after the heal until all is as before, in seconds; a
            broker of Kafka 4 on two cores starts in 5 to 8. Leaves room in a schedule, no limit.
        needs: What hosts must be able to do.
        aims: The roles that it is dealt to; none: the common deck's.
        aspect: What of a node it takes in hand: two faults of one aspect exclude each other there.
    """

    family: str
    make: FaultMaker
    settle_s: float
    needs: frozenset[Ability] = frozenset()
    aims: tuple[str, ...] = ()
    aspect: Aspect = Aspect.PROCESS


def _cut(make: FaultMaker) -> Kind:
    cut = frozenset({Ability.CUT})
    return Kind(family=PARTITION, make=make, settle_s=1, needs=cut, aspect=Aspect.LINKS)


KINDS: dict[str, Kind] = {
    "isolate": _cut(isolate),
    "halves": _cut(halves),
    "one-way-in": _cut(one_way_in),
    "one-way-out": _cut(one_way_out),
    "kill": Kind(family="kill", make=Kill, settle_s=6),
    "stop": Kind(family="stop", make=Stop, settle_s=7),
    "pause": Kind(family="pause", make=Pause, settle_s=1),
    # Written by hand only: a plan's `nemesis` cannot ask for it, since what it loses is no bug.
    "power-loss": Kind(family="power-loss", make=PowerLoss, settle_s=7),
}


def kind_named(name: str) -> Kind:
    """Return a kind of fault.

    Raises:
        PlanError: There is none of that name.
    """
    if name not in KINDS:
        raise PlanError(f"fault {name!r} is none of {', '.join(KINDS)}")
    return KINDS[name]


def kinds_of(family: str, abilities: Collection[Ability]) -> tuple[str, ...]:
    """Return the names of a family's kinds that hosts with these abilities can do, in order."""
    able = frozenset(abilities)
    return tuple(
        name for name, kind in KINDS.items() if kind.family == family and kind.needs <= able
    )
