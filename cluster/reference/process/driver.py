"""Run a machine: pass events in one at a time, and execute effects in order."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from cluster.reference.machine import (
    Append,
    CancelTimer,
    DiskFailed,
    DropLog,
    Effect,
    End,
    Event,
    Fired,
    Flush,
    Machine,
    RemoveFile,
    Reply,
    Request,
    RollAt,
    Say,
    SetAside,
    SetTimer,
    Truncate,
    WriteFile,
)
from cluster.reference.process.cuts import Cuts
from cluster.reference.process.doors import Door
from cluster.reference.process.journal import Journal
from cluster.reference.process.links import Address, Links
from results.record.clock import RunClock

NS_PER_S = 1e9


class Storage(Protocol):
    """Executes disk effects: `log.files.LogFiles`."""

    def write(self, effect: Effect) -> None:
        """Execute a disk effect."""


class Driver:
    """Runs one machine in this process's event loop.

    Args:
        node: The node's id.
        storage: The node's files.
        key: The cluster's key (`wire.peers`).
        journal: The node's log.
        find: Returns the address of another node.

    Attributes:
        cuts: The links from this node that the node itself cuts.
        ended: An event that is set when the machine has returned `End` or has failed.
        failure: The exception with which the machine failed; None if it has not failed.
    """

    def __init__(
        self,
        node: int,
        storage: Storage,
        *,
        key: bytes,
        journal: Journal,
        find: Callable[[int], Address | None],
    ) -> None:
        self.cuts, self.key = Cuts(), key
        self.ended = asyncio.Event()
        self.failure: Exception | None = None
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._clock = RunClock(start_ns=0)
        self._random = Random()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._doors: dict[int, Door] = {}
        self._connections = 0
        self._links = Links(node, key, self.cuts, find=find, take=self.take)
        self._machine: Machine | None = None
        self._effects: dict[type, Callable[[Any], None]] = {
            Request: self._links.ask, Reply: self._reply, SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer, Say: self._say, End: self._end,
            Append: storage.write, Flush: storage.write, Truncate: storage.write,
            DropLog: storage.write, SetAside: storage.write, RollAt: storage.write,
            RemoveFile: storage.write, WriteFile: storage.write,
        }  # fmt: skip

    def start(self, machine: Machine) -> None:
        """Start the machine."""
        self._machine = machine
        self._carry_out(machine.start(self._clock.now_ns()))

    def door(self) -> Door:
        """Return the protocol for one more incoming connection."""
        self._connections += 1
        return Door(self, self._connections, self._doors)

    def take(self, event: Event) -> None:
        """Pass an event to the machine, and execute its effects."""
        if self._machine is None or self.ended.is_set():
            return
        try:
            effects = self._machine.on(self._clock.now_ns(), event)
        except Exception as failed:  # noqa: BLE001 - the interpreter of machines
            # Memory and files may differ now, so no further event is handled.
            self.failure = failed
            self.ended.set()
            return
        self._carry_out(effects)

    def complain(self, sentence: str) -> None:
        """Log a client's mistake."""
        self._journal.say(sentence, level="WARN")

    def close(self) -> None:
        """Close all connections."""
        for timer in self._timers.values():
            timer.cancel()
        self._links.close()
        for door in list(self._doors.values()):
            door.close()

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        carry_out = self._effects
        for effect in effects:
            try:
                carry_out[type(effect)](effect)
            except OSError as failed:
                self._disk_failed(effect, failed)
                return

    def _disk_failed(self, effect: Effect, failed: OSError) -> None:
        folder = getattr(effect, "folder", None) or getattr(effect, "path", "").rpartition("/")[0]
        reason = failed.strerror or str(failed)
        self._journal.say(f"{type(effect).__name__} of {folder} failed: {reason}", level="ERROR")
        # Before all later events, because the machine's memory is ahead of its disk.
        self.take(DiskFailed(folder=folder, reason=reason))

    def _reply(self, effect: Reply) -> None:
        door = self._doors.get(effect.asker.connection)
        if door is not None:
            door.reply(effect.asker.correlation, effect.message)

    def _set_timer(self, effect: SetTimer) -> None:
        if (before := self._timers.get(effect.timer)) is not None:
            before.cancel()
        spread_ns = effect.at_most_ns - effect.after_ns
        after_ns = effect.after_ns + (self._random.random() * spread_ns if spread_ns > 0 else 0)
        self._timers[effect.timer] = self._loop.call_later(
            after_ns / NS_PER_S, self._fire, effect.timer
        )

    def _cancel_timer(self, effect: CancelTimer) -> None:
        if (timer := self._timers.pop(effect.timer, None)) is not None:
            timer.cancel()

    def _fire(self, timer: str) -> None:
        del self._timers[timer]
        self.take(Fired(timer=timer))

    def _say(self, effect: Say) -> None:
        self._journal.say(effect.text)

    def _end(self, _effect: End) -> None:
        self.ended.set()
