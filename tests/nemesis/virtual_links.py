"""Three simulated machines whose links stall in virtual time, and shapers that do it wrong."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from cluster.protocol import Link, Quality, ShapeEnd
from cluster.reference.simulator.machines import SimulatedMachines
from cluster.reference.simulator.series import SentVolley
from cluster.reference.simulator.simulation import Simulation
from cluster.reference.simulator.tasks import Tasks
from nemesis.link_effects import ClearEffect, QualityEffect
from nemesis.network import Network
from nemesis.protocol import Aim, Patience, Site
from nemesis.stalls import StalledLinks
from results.record.clock import pause_until, stopwatch_s
from tests.nemesis.conftest import FakeCluster

NODES = ["n1", "n2", "n3"]
IN, OUT = {("n1", "n2"), ("n3", "n2")}, {("n2", "n1"), ("n2", "n3")}
SOON = Patience(limit_s=5)
T = TypeVar("T")


class Machines(SimulatedMachines):
    """Machines that shape as they are told."""


class NeverUnshaped(Machines):
    """What stalls, stalls on."""

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        return {sender: ShapeEnd() for sender, _ in self._shapes.get(shape_id, ())}


class SeenOpenOnly(NeverUnshaped):
    """What stalls, stalls on, and whoever looks is held up until it is open."""

    def volley(self, links: Iterable[Link], *, count: int, flows: int = 1) -> SentVolley:
        while self._simulation.network._stalled:
            pause_until(stopwatch_s() + 0.01)
        return super().volley(links, count=count, flows=flows)


class NeverShaped(Machines):
    """Nothing stalls."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        """Do nothing."""


class Reversed(Machines):
    """Links stall the other way."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        super().shape(shape_id, [(b, a) for a, b in links], quality)


class BothWays(Machines):
    """Links stall the other way, too."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        super().shape(shape_id, [*links, *((b, a) for a, b in links)], quality)


class OneIsLeftOut(Machines):
    """One of the links does not stall."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        super().shape(shape_id, sorted(links)[1:], quality)


class WholeLinks(Machines):
    """All connections stall."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        super().shape(shape_id, links, replace(quality, stall_share=1))


class HalfOfThem(Machines):
    """Half of the connections stall."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        super().shape(shape_id, links, replace(quality, stall_share=0.5))


class Lossy(Machines):
    """Links lose a part of what they hold."""

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        super().shape(shape_id, links, replace(quality, loss=0.3))


class LossyAfterwards(Machines):
    """Links stall no more, and lose all but a few packets."""

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        links = self._shapes.get(shape_id, ())
        ends = super().unshape(shape_id)
        if links:
            self.shape("loss", links, Quality(loss=0.9, seed=1))
        return ends


class Killed(Machines):
    """What links hold is gone with their shapers, which had to be killed."""

    def unshape(self, shape_id: str) -> Mapping[str, ShapeEnd]:
        stalled = self._simulation.network._stalled
        for link in stalled:
            stalled[link].clear()
        ends = super().unshape(shape_id)
        return {node: ShapeEnd(killed=True, dropped=3) for node in ends}


class OneAfterTheOther(Machines):
    """Each link begins to stall a while behind the last one, as shapers do on a busy machine."""

    between_s = 0.0

    def shape(self, shape_id: str, links: Iterable[Link], quality: Quality) -> None:
        super().shape(shape_id, links, Quality())
        for number, link in enumerate(self._shapes[shape_id]):
            at_s = number * self.between_s
            again = partial(self._begin, shape_id, link, quality)
            self._simulation.agenda.after(round(at_s * 1e9), again)

    def _begin(self, shape_id: str, link: Link, quality: Quality) -> None:
        if shape_id in self._shapes:
            shapes = self._shapes
            self._shapes = {}
            SimulatedMachines.shape(self, shape_id, [link], quality)
            self._shapes = shapes


class VirtualLinks:
    """A site whose links are simulated.

    Args:
        folder: Of the machines.
        machines: How they shape.
        seed: Of the simulation.
    """

    def __init__(
        self, folder: Path, machines: type[SimulatedMachines] = Machines, *, seed: int = 1
    ) -> None:
        self.simulation = Simulation(seed)
        self.hosts = machines(self.simulation, NODES, folder.joinpath)
        self.hosts.up()
        self.network = self.play(lambda: Network(self.hosts))  # Its lock is of virtual time.
        cluster = FakeCluster(NODES)
        self.site = Site(
            cluster=cluster, network=self.network, state_of=cluster.state_of, hosts=self.hosts
        )

    def play(self, work: Callable[[], T]) -> T:
        """Do something in virtual time; return what it returns."""
        told: list[T] = []
        Tasks(self.simulation.agenda).run(lambda: told.append(work()))
        return told[0]

    def proven(self, make: Callable[[Aim, Site], StalledLinks], seed: int = 0) -> bool:
        """Tell whether a fault finds itself confirmed."""
        return self.play(lambda: begun(make, self.site, seed)[1] is not None)


def aim(*targets: str, seed: int = 0) -> Aim:
    """Return that some nodes, or n2, are meant."""
    return Aim(fault_id=1, targets=targets or ("n2",), rng=Random(seed))


def begun(
    make: Callable[[Aim, Site], StalledLinks], site: Site, seed: int = 0
) -> tuple[StalledLinks, QualityEffect | None]:
    """Return a fault that was injected, and what it says that it did."""
    fault = make(aim(seed=seed), site)
    fault.inject()
    return fault, fault.confirm(SOON)


def healed(fault: StalledLinks) -> ClearEffect | None:
    """Heal a fault, twice; return how its end is known."""
    fault.heal()
    fault.heal()
    return fault.confirm_healed(SOON)
