"""Faults that are drawn, for simulations without a plan."""

import itertools
from collections.abc import Callable, Sequence
from random import Random

from cluster.reference.simulator.badness import MS, Badness
from cluster.reference.simulator.host import Host
from cluster.reference.simulator.simulation import Simulation


class DrawnFaults:
    """Does something to somebody, or undoes it, each time it is asked.

    Args:
        simulation: Whose hosts are hit; those with numbers above zero.
        random: Draws.
        deeds: What is drawn from, by the names of methods.
    """

    ALL = ("start", "start", "kill", "power", "pause", "cut", "join", "bad", "clock", "slow")

    def __init__(self, simulation: Simulation, random: Random, deeds: Sequence[str] = ALL) -> None:
        self._simulation, self._random, self._deeds = simulation, random, deeds

    def strike(self, favourites: Sequence[int] = ()) -> None:
        """Hit somebody; favourites are hit more often."""
        nodes = self._nodes()
        host = self._simulation.hosts[self._random.choice([*nodes, *favourites])]
        deed: Callable[[Host], None] = getattr(self, self._random.choice(self._deeds))
        deed(host)

    def heal(self) -> None:
        """Undo everything."""
        for number in self._nodes():
            host = self._simulation.hosts[number]
            self.start(host)
            host.slow_flush_ns = MS
            host.clock.drift(self._simulation.now_ns, 0)
        self.join(host)

    def start(self, host: Host) -> None:
        if host.process is None:
            host.start()
        else:
            host.process.resume()

    def kill(self, host: Host) -> None:
        host.kill()

    def power(self, host: Host) -> None:
        host.lose_power()

    def pause(self, host: Host) -> None:
        if host.process is not None:
            host.process.pause()

    def cut(self, host: Host) -> None:
        self._simulation.network.cut([self._link(host)])

    def isolate(self, host: Host) -> None:
        others = [number for number in self._nodes() if number != host.id]
        self._simulation.network.cut([(host.id, each) for each in others])
        self._simulation.network.cut([(each, host.id) for each in others])

    def join(self, host: Host) -> None:  # noqa: ARG002 - all links, whoever was drawn
        network = self._simulation.network
        for link in itertools.permutations(self._nodes(), 2):
            while network.is_cut(*link):
                network.join([link])
            network.make_good([link])

    def bad(self, host: Host) -> None:
        bad = Badness(delay_ns=50 * MS, spread_ns=50 * MS, loss=0.2)
        self._simulation.network.make_bad([self._link(host)], bad)

    def clock(self, host: Host) -> None:
        ppm = self._random.choice((-300_000, 0, 250_000))
        host.clock.drift(self._simulation.now_ns, ppm)

    def slow(self, host: Host) -> None:
        host.slow_flush_ns = self._random.choice((MS, 50 * MS, 500 * MS))

    def _nodes(self) -> list[int]:
        return [number for number in sorted(self._simulation.hosts) if number > 0]

    def _link(self, host: Host) -> tuple[int, int]:
        others = [number for number in self._nodes() if number != host.id]
        return host.id, self._random.choice(others)
