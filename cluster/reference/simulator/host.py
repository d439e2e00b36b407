"""A simulated machine: disk, clock and links, and the process that runs on it, if one does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from cluster.reference.machine import Effect, Machine
from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.badness import MS
from cluster.reference.simulator.clock import NodeClock
from cluster.reference.simulator.disk import SimulatedDisk
from cluster.reference.simulator.network import Network
from cluster.reference.simulator.process import Process, Storage, Trace, Watch


class NoStorage:
    """Of a machine that is off, or keeps nothing."""

    def write(self, effect: Effect) -> None:
        """Refuse: nothing is to be written."""
        raise AssertionError(f"there is no disk for {effect}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """What a start makes of a disk: a machine that knows what is there, and its way to write.

    Attributes:
        machine: It runs from now on.
        storage: Carries its disk effects out.
        said: Lines for the node's log: what was found and repaired.
    """

    machine: Machine
    storage: Storage = field(default_factory=NoStorage)
    said: tuple[str, ...] = ()


Boot = Callable[[SimulatedDisk], Booted]
"""Reads a disk and makes a machine of it; what it repairs there it writes itself."""


@dataclass(slots=True, eq=False, kw_only=True)
class Host:
    """One machine.

    Attributes:
        id: The node's id; below zero: a client's machine.
        agenda: Virtual time.
        network: All links.
        random: The host's own stream: power losses, flushes, where its clock begins.
        boot: Makes a machine of the disk.
        neighbour: Returns the machine with an id.
        incarnation: How often a process was started.
        process: What runs, None: nothing.
        powered: Whether the machine is on.
        said: What its processes said, with the time: the simulation's, as its clock takes it to be.
        slow_flush_ns: How long a flush takes; drawn between a half and all of it.
        flushed_ns: When the last flush of a process began that came to its end, and how long it
            held the process up.
        trace: Told every event before it is taken.
        watch: Shown the process after every event.
    """

    id: int
    agenda: Agenda
    network: Network
    random: Random
    boot: Boot
    neighbour: Callable[[int], "Host"]
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    clock: NodeClock = field(default_factory=NodeClock)
    storage: Storage = field(default_factory=NoStorage)
    incarnation: int = 0
    process: Process | None = None
    powered: bool = True
    said: list[tuple[int, str]] = field(default_factory=list)
    slow_flush_ns: int = MS
    flushed_ns: tuple[int, int] = (-1, 0)
    trace: Trace | None = None
    watch: Watch | None = None

    def start(self) -> None:
        """Start a process on what the disk holds; its clock begins anywhere, as after a boot."""
        assert self.process is None, f"n{self.id} runs already"
        booted = self.boot(self.disk)
        self.powered = True
        self.incarnation += 1
        self.storage = booted.storage
        for text in booted.said:
            self.say(text)
        self.process = Process(self, booted.machine, self.random)
        self.process.start()

    def say(self, text: str) -> None:
        """Write a line into the node's log, with the time that its clock shows."""
        now_ns = self.agenda.now
        self.said.append((now_ns + self.clock.ahead_ns(now_ns), text))

    def set_clock(self, ahead_ns: int, ppm: int = 0) -> None:
        """Have the clock be so far ahead of the truth from now on, and run at another rate.

        At a jump forward what is timed goes off earlier by as much; at one back it keeps its
        moment, and whoever looks at the clock then finds that it is too early.
        """
        jumped_ns = self.clock.jump(self.agenda.now, ahead_ns, ppm)
        if jumped_ns > 0 and self.process is not None:
            self.process.hasten_timers(self.clock.lasting(jumped_ns))

    def kill(self) -> None:
        """Kill the process; what it wrote is the kernel's, and stays."""
        if self.process is not None:
            self.process.die(silently=False)
            self.process = None

    def lose_power(self) -> dict[str, int]:
        """Turn the machine off; return how many bytes each file lost."""
        if self.process is not None:
            self.process.die(silently=True)
            self.process = None
        self.powered = False
        return self.disk.lose_power(self.random)

    def flush_ns(self, random: Random | None = None) -> int:
        """Return how long the next flush takes, drawn from a source of its own if there is one."""
        if not self.slow_flush_ns:
            return 0
        drawn = (random or self.random).random()
        return self.slow_flush_ns // 2 + int(drawn * (self.slow_flush_ns // 2))
