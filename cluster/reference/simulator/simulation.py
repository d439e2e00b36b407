"""A simulation: machines in virtual time, from one seed."""

from collections.abc import Callable

from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.host import Boot, Host
from cluster.reference.simulator.network import Latency, Network
from cluster.reference.simulator.process import Process, Trace, Watch
from cluster.reference.simulator.streams import Streams

NS_PER_S = 1_000_000_000
_LONGEST_UPTIME_S = 1_000_000


class Simulation:
    """A whole simulation.

    Args:
        seed: The seed, which determines every random choice.
        latency: The latency of the network.

    Attributes:
        agenda: Virtual time.
        network: Cuts, bad links and connections.
        hosts: The machines by id, in the order in which they were added.
        streams: Random streams for other users.
        watch: A function that gets a node's process after every event. The function observes only
            nodes that are added later.
        between: Wraps the boot function of each node that is added later. The wrapper can observe
            all events and effects of the node.
    """

    def __init__(self, seed: int, *, latency: Latency | None = None) -> None:
        self.streams = Streams(seed)
        self.agenda = Agenda()
        self.network = Network(self.agenda, self.streams.of("network"), latency or Latency())
        self.hosts: dict[int, Host] = {}
        self.watch: Watch | None = None
        self.between: Callable[[Boot], Boot] | None = None

    @property
    def now_ns(self) -> int:
        """Virtual nanoseconds since the beginning."""
        return self.agenda.now

    def add(
        self, number: int, boot: Boot, *, trace: Trace | None = None, watch: Watch | None = None
    ) -> Host:
        """Add a machine, which is off: a node, or a client's machine if the number is negative."""
        random = self.streams.of(f"n{number}" if number >= 0 else f"client{-number}")
        if number >= 0:
            watch = watch or self.watch
            boot = self.between(boot) if self.between else boot
        host = Host(
            id=number,
            agenda=self.agenda,
            network=self.network,
            random=random,
            boot=boot,
            neighbour=self.hosts.__getitem__,
            trace=trace,
            watch=watch,
        )
        host.clock.true_ns = random.randrange(_LONGEST_UPTIME_S) * NS_PER_S
        host.clock.shown_ns = host.clock.true_ns
        self.hosts[number] = host
        return host

    def run(self, seconds: float) -> None:
        """Let the given seconds of virtual time pass."""
        self.agenda.run_until(self.agenda.now + round(seconds * NS_PER_S))

    def process(self, number: int) -> Process | None:
        """Return the process that runs on a machine."""
        return self.hosts[number].process
