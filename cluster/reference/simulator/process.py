"""One process of a machine, from start to end; the process executes the state machine's effects.

While the process is paused or waits for its disk, it handles no event. Events are kept in order and
handled afterwards. A broker with one thread behaves the same way: a flush delays all later events.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from cluster.reference.machine import (
    Answered,
    Append,
    Arrived,
    Asker,
    CancelTimer,
    DiskFailed,
    DropLog,
    Effect,
    End,
    Event,
    Fired,
    Flush,
    Hung,
    Machine,
    RemoveFile,
    Reply,
    Request,
    RollAt,
    Say,
    SetAside,
    SetTimer,
    StopAsked,
    Truncate,
    WriteFile,
)
from cluster.reference.simulator.agenda import Agenda
from cluster.reference.simulator.clock import NodeClock
from cluster.reference.simulator.network import (
    CLIENT,
    END,
    KNOCK,
    NEVER,
    Connection,
    Destination,
    Network,
)

Trace = Callable[[int, int, Event], None]


class Storage(Protocol):
    """Executes a machine's disk effects on a disk."""

    def write(self, effect: Effect) -> None:
        """Execute a disk effect.

        Raises:
            OSError: The disk refused the effect.
        """


class Ground(Protocol):
    """The attributes and methods of a machine (`host.Host`) that the machine's process uses."""

    id: int
    agenda: Agenda
    network: Network
    clock: NodeClock
    storage: Storage
    flushed_ns: tuple[int, int]
    trace: Trace | None
    watch: "Watch | None"

    @property
    def neighbour(self) -> Callable[[int], Destination]:
        """A function that returns the machine with an id."""

    def say(self, text: str) -> None:
        """Write a line to the node's log."""

    def kill(self) -> None:
        """Kill the process."""

    def flush_ns(self) -> int:
        """Return the duration of the next flush."""


class Process:
    """A state machine that runs on a host.

    Args:
        host: The host, whose disk, clock and links the process uses.
        machine: The state machine.
        random: The random stream that chooses the times of timers.
    """

    __slots__ = (
        "_agenda", "_clock", "_doors", "_effects", "_machine", "_network", "_on", "_random",
        "_timers", "_waiting", "alive", "host", "id", "incoming", "outgoing", "paused", "writing",
    )  # fmt: skip

    def __init__(self, host: Ground, machine: Machine, random: Random) -> None:
        self.host, self.id = host, host.id
        self.alive, self.paused, self.writing = True, False, False
        self.outgoing: dict[int, Connection] = {}
        self.incoming: dict[int, Connection] = {}
        self._machine, self._on, self._random = machine, machine.on, random
        self._agenda, self._network, self._clock = host.agenda, host.network, host.clock
        self._timers: dict[str, int] = {}
        self._doors = 0
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        write = host.storage.write
        self._effects: dict[type, Callable[[Any], None]] = {
            Request: self._request, Reply: self._reply, SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer, Say: self._say, End: self._end, Append: write,
            Truncate: write, DropLog: write, SetAside: write, RollAt: write, RemoveFile: write,
            WriteFile: write,
        }  # fmt: skip

    @property
    def machine(self) -> Machine:
        """The state machine, read-only."""
        return self._machine

    def start(self) -> None:
        """Start the state machine."""
        self._carry_out(self._machine.start(self._now()))

    def die(self, *, silently: bool) -> None:
        """End the process at once.

        The kernel closes the process's connections, unless the machine is off (`silently`).
        """
        self.alive = False
        for connection in self.outgoing.values():
            connection.client_open = False
            if not silently:
                self._network.send_there(connection, END, None)
        for connection in self.incoming.values():
            connection.server_open = False
            if not silently:
                self._network.send_back(connection, END, None)

    def ask_to_stop(self) -> None:
        """Ask for a clean end, as SIGTERM does."""
        if self.alive:
            self._later_or_now(self._take, StopAsked())

    def pause(self) -> None:
        """Pause like a process that gets SIGSTOP; keep the events that arrive."""
        self.paused = True

    def resume(self) -> None:
        """Resume, and handle the kept events first."""
        self.paused = False
        self._catch_up()

    def hasten_timers(self, by_ns: int) -> None:
        """Make all timers fire earlier, because the clock has jumped forward."""
        self._agenda.hasten(self._fire, by_ns)

    def wake(self, timer: str) -> None:
        """Fire a timer now, because code outside of the simulation has a command for a client."""
        if self.alive:
            self._later_or_now(self._take, Fired(timer=timer))

    def requested(self, over: Connection, number: int, message: object) -> None:
        """Handle a request, or the end of a connection over which requests came."""
        if self.paused or self.writing or self._waiting:
            self._waiting.append((self.requested, (over, number, message)))
        elif number < 0:
            self._no_request(over, number)
        else:
            self.incoming[over.number] = over
            who = over.client.id
            asker = Asker(
                who=who if who >= 0 else CLIENT, connection=over.number, correlation=number
            )
            self._take(Arrived(asker=asker, message=message))

    def _no_request(self, over: Connection, number: int) -> None:
        if number == KNOCK:
            # In Kafka's words, and without the state machine, as the node process does.
            self.host.say(
                f"[SocketServer] Unexpected error from /client:{over.number}; closing connection:"
                " no request"
            )
            self._network.break_off(over)
        elif self.incoming.pop(over.number, None) is not None:
            over.server_open = False
            self._take(Hung(connection=over.number))

    def answered(self, over: Connection, number: int, message: object) -> None:
        """Handle a response, or the end of a connection that this process opened."""
        if self.paused or self.writing or self._waiting:
            self._waiting.append((self.answered, (over, number, message)))
        elif number == END:
            self._give_up(over)
        elif over.pending.pop(number, None) is not None:
            self._take(Answered(request=number, message=message))

    def _give_up(self, over: Connection) -> None:
        """Close a connection: its open requests get no response."""
        if not over.client_open:
            return
        over.client_open = False
        if self.outgoing.get(over.to.id) is over:
            del self.outgoing[over.to.id]
        numbers = list(over.pending)
        over.pending.clear()
        for number in numbers:
            # If the process waits for its disk meanwhile, the rest of these events is kept.
            self._later_or_now(self._take, Answered(request=number, message=None))

    def _look(self, over: Connection) -> None:
        """As Kafka's clients do, break a connection if the server does not answer in time.

        A connection has one scheduled check at a time, for its earliest deadline.
        """
        now_ns = self._agenda.now
        if not self.alive or over.looks_ns != now_ns:
            return
        over.looks_ns = NEVER
        for number, until_ns in list(over.pending.items()):
            if until_ns <= now_ns:
                self._later_or_now(self._still_overdue, over, number)
        # A paused process keeps its overdue requests.
        following = [until_ns for until_ns in over.pending.values() if until_ns > now_ns]
        if following:
            self._look_at(over, min(following))

    def _look_at(self, over: Connection, until_ns: int) -> None:
        over.looks_ns = until_ns
        self._agenda.at(until_ns, self._look, over)

    def _still_overdue(self, over: Connection, number: int) -> None:
        if number in over.pending and over.client_open:
            self._network.send_there(over, END, None)
            self._give_up(over)

    def _fire(self, timer: str, door: int) -> None:
        if self.alive and self._timers.get(timer) == door:
            if self.paused or self.writing or self._waiting:
                self._waiting.append((self._fire, (timer, door)))
                return
            del self._timers[timer]
            self._take(Fired(timer=timer))

    def _later_or_now(self, call: Callable[..., None], *args: object) -> None:
        if self.paused or self.writing or self._waiting:
            self._waiting.append((call, args))
        else:
            call(*args)

    def _catch_up(self) -> None:
        """Handle the kept events, until none is left or the process must wait again."""
        waiting = self._waiting
        while waiting and self.alive and not (self.paused or self.writing):
            kept, self._waiting = waiting, deque()
            call, args = kept.popleft()
            call(*args)
            # New events come after those that were kept before.
            kept.extend(self._waiting)
            self._waiting = waiting = kept

    def _take(self, event: Event) -> None:
        host, now_ns = self.host, self._agenda.now
        if host.trace is not None:
            host.trace(now_ns, self.id, event)
        effects = self._on(self._clock.read(now_ns), event)
        if effects:
            self._carry_out(effects)
        if host.watch is not None:
            host.watch(self)

    def _now(self) -> int:
        return self._clock.read(self._agenda.now)

    def _carry_out(self, effects: Sequence[Effect], first: int = 0) -> None:
        """Execute effects in order; a flush that takes time delays the rest."""
        carry_out = self._effects
        for place, effect in enumerate(effects[first:] if first else effects, first):
            if type(effect) is Flush:
                if self._flush(effect, effects, place):
                    return
                continue
            try:
                carry_out[type(effect)](effect)
            except OSError as failed:
                self._disk_failed(effect, failed)
                return

    def _flush(self, effect: Flush, effects: Sequence[Effect], place: int) -> bool:
        """Flush; return whether the later effects must wait."""
        try:
            took_ns = self.host.flush_ns()
            if not took_ns:
                self.host.storage.write(effect)
                return False
        except OSError as failed:
            self._disk_failed(effect, failed)
            return True
        self.writing = True
        self._agenda.after(took_ns, self._flushed, effects, place, self._agenda.now)
        return True

    def _flushed(self, effects: Sequence[Effect], place: int, since_ns: int) -> None:
        if not self.alive:
            return
        self.writing = False
        self.host.flushed_ns = since_ns, self._agenda.now - since_ns
        effect = effects[place]
        try:
            self.host.storage.write(effect)
        except OSError as failed:
            self._disk_failed(effect, failed)
        else:
            self._carry_out(effects, place + 1)
        self._catch_up()

    def _disk_failed(self, effect: Effect, failed: OSError) -> None:
        folder = getattr(effect, "folder", None) or getattr(effect, "path", "").split("/")[0]
        event = DiskFailed(folder=folder, reason=failed.strerror or str(failed))
        # Before all kept events: memory is ahead of the disk, so no response may be sent.
        self._take(event)

    def _request(self, effect: Request) -> None:
        over = self.outgoing.get(effect.to)
        if over is None:
            over = self._network.connect(self, self.host.neighbour(effect.to))
            self.outgoing[effect.to] = over
        number = effect.number
        over.pending[number] = until_ns = self._agenda.now + self._clock.lasting(effect.timeout_ns)
        self._network.send_there(over, number, effect.message)
        if until_ns < over.looks_ns:
            self._look_at(over, until_ns)

    def _reply(self, effect: Reply) -> None:
        over = self.incoming.get(effect.asker.connection)
        if over is not None:
            self._network.send_back(over, effect.asker.correlation, effect.message)

    def _set_timer(self, effect: SetTimer) -> None:
        self._doors = door = self._doors + 1
        self._timers[effect.timer] = door
        after_ns, most_ns = effect.after_ns, effect.at_most_ns
        if most_ns > after_ns:
            after_ns += int(self._random.random() * (most_ns - after_ns))
        self._agenda.after(self._clock.lasting(after_ns), self._fire, effect.timer, door)

    def _cancel_timer(self, effect: CancelTimer) -> None:
        self._timers.pop(effect.timer, None)

    def _end(self, effect: End) -> None:  # noqa: ARG002 - all effects are called alike
        self.host.kill()

    def _say(self, effect: Say) -> None:
        self.host.say(effect.text)


Watch = Callable[[Process], None]
