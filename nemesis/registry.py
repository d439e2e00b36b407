"""The faults by name. To add one: its module, its test, and a line in `KINDS`."""

from dataclasses import dataclass

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
    """

    family: str
    make: FaultMaker
    settle_s: float


KINDS: dict[str, Kind] = {
    "isolate": Kind(family=PARTITION, make=isolate, settle_s=1),
    "halves": Kind(family=PARTITION, make=halves, settle_s=1),
    "one-way-in": Kind(family=PARTITION, make=one_way_in, settle_s=1),
    "one-way-out": Kind(family=PARTITION, make=one_way_out, settle_s=1),
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


def kinds_of(family: str) -> tuple[str, ...]:
    """Return the names of a family's kinds, in order."""
    return tuple(name for name, kind in KINDS.items() if kind.family == family)
