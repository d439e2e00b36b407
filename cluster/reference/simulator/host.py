"""A simulated machine: disk, clock, links, and the process that runs on it, if any."""

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
    """The storage of a machine that is off, or of a machine that stores nothing."""

    def write(self, effect: Effect) -> None:
        """Raise an error, because such a machine must not write."""
        raise AssertionError(f"there is no disk that could store {effect}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """A state machine and its storage, after a start from the machine's disk.

    Attributes:
        machine: The state machine to run.
        storage: Executes the machine's disk effects.
        said: Lines for the node's log. They say what was found in the files, and what was repaired.
    """

    machine: Machine
    storage: Storage = field(default_factory=NoStorage)
    said: tuple[str, ...] = ()


Boot = Callable[[SimulatedDisk], Booted]
"""A function that reads and repairs a disk, and returns the state machine for this disk."""


@dataclass(slots=True, eq=False, kw_only=True)
class Host:
    """One simulated machine.

    Attributes:
        id: The node's id; negative for a client's machine.
        agenda: Virtual time.
        network: All links.
        random: The machine's own random stream. It decides about power losses, flushes, timers, and
            the time with which the clock begins.
        boot: Creates a state machine from the disk.
        neighbour: Returns the machine with an id.
        incarnation: The number of process starts.
        process: The running process; None if there is none.
        powered: Whether the machine is on.
        said: The log lines of the machine's processes, each with the time that the machine's clock
            showed.
        slow_flush_ns: The longest duration of a flush. Each flush takes a random duration, at least
            half of this time.
        flushed_ns: The start and the duration of a process's last completed flush.
        trace: Called with every event before it is handled.
        watch: Called with the process after every event.
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
        """Start a process with the content of the disk."""
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
        """Write a line to the node's log, with the time of the node's clock."""
        now_ns = self.agenda.now
        self.said.append((now_ns + self.clock.ahead_ns(now_ns), text))

    def set_clock(self, ahead_ns: int, ppm: int = 0) -> None:
        """Set how far the clock is ahead of true time, and the rate at which it runs.

        After a jump forward, timers fire earlier by the same amount. After a jump back, timers keep
        their times. So code that reads the clock when such a timer fires finds that it is too
        early.
        """
        jumped_ns = self.clock.jump(self.agenda.now, ahead_ns, ppm)
        if jumped_ns > 0 and self.process is not None:
            self.process.hasten_timers(self.clock.lasting(jumped_ns))

    def kill(self) -> None:
        """Kill the process. The process's writes are not lost, because the kernel has them."""
        if self.process is not None:
            self.process.die(silently=False)
            self.process = None

    def lose_power(self) -> dict[str, int]:
        """Power the machine off; return how many bytes each file lost."""
        if self.process is not None:
            self.process.die(silently=True)
            self.process = None
        self.powered = False
        return self.disk.lose_power(self.random)

    def flush_ns(self, random: Random | None = None) -> int:
        """Return the random duration of the next flush. If `random` is given, use this stream."""
        if not self.slow_flush_ns:
            return 0
        drawn = (random or self.random).random()
        return self.slow_flush_ns // 2 + int(drawn * (self.slow_flush_ns // 2))
