"""The processes of a cluster: started, hit, and never mistaken for one another."""

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from cluster.nodes import called
from cluster.protocol import ClusterError, Command, Ended, Hosts, ProcessId
from results.record.clock import WaitTimeoutError, wait_until
from results.record.runtime import new_lock

log = logging.getLogger(__name__)

ENDED = frozenset({None, "Z", "X"})
"""Letters of `/proc/PID/stat`: there is no such process, or it waits to be counted."""
STOPPED = "T"
BY_SIGTERM = 128 + signal.SIGTERM
"""With this code a JVM ends that was told to stop, and others that catch the signal."""
_IN_ORDER = frozenset({0, BY_SIGTERM, -signal.SIGTERM, None})
"""How who was told to stop ends; None: nobody knows."""
_KILLED = frozenset({128 + signal.SIGKILL, -signal.SIGKILL, None})
"""How who was killed ends: any other code is of one that ended by itself just before."""
KILL_TIMEOUT_S = 10.0
REAPED_WITHIN_S = 2.0
"""A process that was sent SIGKILL is gone as soon as the kernel has freed its memory."""


@dataclass(slots=True)
class _Broker:
    """What is known of a node's broker. Only its node's methods write it, under the lock."""

    process: ProcessId
    incarnation: int
    paused: bool = False
    ended_by_us: bool = False
    ended_well: bool = False


class Waiting(Protocol):
    """What is known of a process that was told to stop.

    Attributes:
        closed: Whether it is known to have closed its logs, once `waits_in_vain` was true.
    """

    closed: bool

    def waits_in_vain(self) -> bool:
        """Tell whether it is known to wait only, for what will not come; raise nothing."""


class BrokerProcesses:
    """One process a node: a broker, a controller of its own, or ZooKeeper on its machine.

    Args:
        hosts: Where they run.
        command: Makes the command line of a node's process.
        played_by: Names the node whose process plays a node; None: each is played by its own. What
            is done to one of several nodes is done to all, and once: to start it, or to stop it,
            again is no mistake.
        in_order: Whether one that is told to stop ends with 0, or by the signal: any other code
            says that it failed.
    """

    def __init__(
        self,
        hosts: Hosts,
        command: Callable[[str], Command],
        *,
        played_by: Callable[[str], str] | None = None,
        in_order: bool = False,
    ) -> None:
        self._hosts = hosts
        self._command = command
        self._played_by = played_by
        self._in_order = in_order
        self._one_turn = new_lock()
        self._brokers: dict[str, _Broker] = {}
        self._replaced: list[Ended] = []
        self._lock = new_lock()

    def start(self, node: str) -> ProcessId:
        """Start a node's broker.

        Raises:
            ClusterError: It runs already.
        """
        with self._one_turn if self._played_by else nullcontext():
            return self._started(self._player(node))

    def _player(self, node: str) -> str:
        return self._played_by(node) if self._played_by else node

    def _broker(self, node: str) -> _Broker | None:
        return self._brokers.get(self._player(node))

    def _started(self, node: str) -> ProcessId:
        before = self._brokers.get(node)
        if before and self._is_running(before.process):
            if self._played_by:
                return before.process
            raise ClusterError(f"{called(node)} runs already")
        if before and not before.ended_by_us:
            self._replaced.append(self._ended(node, before))
        process = self._hosts.spawn(node, self._command(node))
        with self._lock:
            incarnation = before.incarnation + 1 if before else 1
            self._brokers[node] = _Broker(process, incarnation)
        log.info("%s started (pid %d, incarnation %d)", called(node), process.pid, incarnation)
        return process

    def found(self, node: str, process: ProcessId) -> None:
        """Take a process that runs already for a node's first."""
        with self._lock:
            self._brokers[node] = _Broker(process, 1)

    def is_meant_to_answer(self, node: str) -> bool:
        """Tell whether nobody of ours ended or paused it; without a look at the process."""
        broker = self._brokers.get(node)
        return broker is not None and not broker.paused and not broker.ended_by_us

    def stop(self, node: str, timeout_s: float, waiting: Waiting | None = None) -> bool:
        """SIGTERM, then SIGKILL after the limit; a paused broker is resumed, or it could not end.

        Args:
            node: Whose it is.
            timeout_s: The limit.
            waiting: Tells that it only waits, for what will not come: then it is killed.

        Returns:
            True if it ended by itself after SIGTERM, or was killed as it only waited and had closed
            its logs; False if it had to be killed otherwise, or was gone.
        """
        with self._one_turn if self._played_by else nullcontext():
            return self._stopped(self._player(node), timeout_s, waiting)

    def _stopped(self, node: str, timeout_s: float, waiting: Waiting | None) -> bool:
        broker = self._brokers.get(node)
        if broker is None or not self._is_running(broker.process):
            if broker is not None and self._played_by and broker.ended_well:
                return True
            log.info("%s was not running when it should stop", called(node))
            return False
        broker.ended_by_us = True
        self._hosts.send_signal(broker.process, signal.SIGTERM)
        self.resume(node)
        try:
            in_vain = waiting.waits_in_vain if waiting else None
            self._wait_gone(broker.process, timeout_s, in_vain)
        except WaitTimeoutError:
            log.warning("%s did not stop within %g s and is killed", called(node), timeout_s)
            self.kill(node)
            return False
        if waiting is not None and self._is_running(broker.process):
            closed = "its logs are closed" if waiting.closed else "it has no broker"
            log.info("%s waits for a quorum that is gone; %s", called(node), closed)
            self.kill(node)
            if self._ended(node, broker).code in _KILLED:
                broker.ended_well = waiting.closed
                return waiting.closed
        log.info("%s stopped by itself", called(node))
        broker.ended_well = True
        if self._in_order:
            ended = self._ended(node, broker)
            if ended.code not in _IN_ORDER:
                self._replaced.append(replace(ended, told=True))
        return True

    def kill(self, node: str) -> None:
        """SIGKILL a node's broker and see it gone."""
        broker = self._broker(node)
        if broker is None:
            return
        if not broker.ended_by_us and not self._is_running(broker.process):
            self._replaced.append(self._ended(node, broker))
        broker.ended_by_us = True
        self._hosts.send_signal(broker.process, signal.SIGKILL)
        self._wait_gone(broker.process, KILL_TIMEOUT_S)
        broker.paused = False
        log.info("%s killed (pid %d)", called(node), broker.process.pid)

    def excuse(self, node: str) -> None:
        """Have the end of a node's broker be of our doing, though nothing is sent to it."""
        if broker := self._broker(node):
            broker.ended_by_us = True

    def pause(self, node: str) -> None:
        """SIGSTOP a node's broker.

        Raises:
            ClusterError: There is none to pause.
        """
        broker = self._broker(node)
        if broker is not None:
            broker.paused = True  # Before it stands still, so that nobody takes that for a hit.
        if broker is None or not self._hosts.send_signal(broker.process, signal.SIGSTOP):
            if broker is not None:
                broker.paused = False
            raise ClusterError(f"{called(node)} cannot be paused: it does not run")

    def resume(self, node: str) -> None:
        """SIGCONT a node's broker. Idempotent."""
        if broker := self._broker(node):
            self._hosts.send_signal(broker.process, signal.SIGCONT)
            broker.paused = False

    def send_signal(self, node: str, number: signal.Signals) -> None:
        """Send a signal that ends nobody to a node's process, if there is one."""
        if broker := self._broker(node):
            self._hosts.send_signal(broker.process, number)

    def process(self, node: str) -> ProcessId | None:
        """Return the process that was started last."""
        broker = self._broker(node)
        return broker.process if broker else None

    def incarnation(self, node: str) -> int:
        """Return how often the node's broker was started."""
        broker = self._broker(node)
        return broker.incarnation if broker else 0

    def runs(self, node: str) -> bool:
        """Tell whether the node's broker exists; a paused one does."""
        broker = self._broker(node)
        return broker is not None and self._is_running(broker.process)

    def answers(self, node: str) -> bool:
        """Tell whether it is worth asking: it exists, and is not paused."""
        broker = self._broker(node)
        return broker is not None and not broker.paused and self._is_running(broker.process)

    def exited(self) -> Mapping[str, ProcessId]:
        """Return the brokers that ended though nobody stopped or killed them, by node."""
        with self._lock:
            brokers = dict(self._brokers)
        return {
            node: broker.process
            for node, broker in brokers.items()
            if not broker.ended_by_us and not self._is_running(broker.process)
        }

    def lives(self) -> int:
        """Return how many processes were started."""
        with self._lock:
            return sum(broker.incarnation for broker in self._brokers.values())

    def ended(self) -> Sequence[Ended]:
        """Return what ended, or stands still, by itself or by strangers; earlier lives included."""
        with self._lock:
            brokers = dict(self._brokers)
        found = [*self._replaced]
        for node, broker in brokers.items():
            state = self._hosts.state_of(broker.process)
            if state in ENDED and not broker.ended_by_us:
                found.append(self._ended(node, broker))
            elif state == STOPPED and not broker.paused:
                found.append(Ended(node=node, incarnation=broker.incarnation, stopped=True))
        return found

    def _ended(self, node: str, broker: _Broker) -> Ended:
        def code() -> tuple[int] | None:
            seen = self._hosts.exit_of(node, broker.process)
            return None if seen is None else (seen,)

        # A process whose threads still wait for a disk is a zombie that nobody can reap yet.
        with suppress(WaitTimeoutError):
            (seen,) = wait_until(code, timeout_s=REAPED_WITHIN_S, what="an exit code")
            return Ended(node=node, incarnation=broker.incarnation, code=seen)
        return Ended(node=node, incarnation=broker.incarnation)

    def _is_running(self, process: ProcessId) -> bool:
        return self._hosts.state_of(process) not in ENDED

    def _wait_gone(
        self, process: ProcessId, timeout_s: float, or_else: Callable[[], bool] | None = None
    ) -> None:
        wait_until(
            lambda: not self._is_running(process) or (or_else is not None and or_else()),
            timeout_s=timeout_s,
            what=f"the end of process {process.pid}",
            interval_s=0.02,
        )
