"""Starts, stops and signals the processes of a cluster, and detects unexpected ends."""

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from cluster.protocol import ClusterError, Command, Ended, Hosts, ProcessId
from results.record.clock import WaitTimeoutError, wait_until
from results.record.nodes import called
from results.record.runtime import new_lock

log = logging.getLogger(__name__)

ENDED = frozenset({None, "Z", "X"})
"""The states in `/proc/PID/stat` that mean an ended process: none, zombie or dead."""
STOPPED = "T"
BY_SIGTERM = 128 + signal.SIGTERM
"""The exit code after SIGTERM of a JVM, and of any other program that handles SIGTERM."""
_IN_ORDER = frozenset({0, BY_SIGTERM, -signal.SIGTERM, None})
"""The exit codes of a regular end after SIGTERM; None means that the code is unknown."""
_KILLED = frozenset({128 + signal.SIGKILL, -signal.SIGKILL, None})
"""The exit codes after SIGKILL.

Any other code means that the process ended just before the signal.
"""
KILL_TIMEOUT_S = 10.0
REAPED_WITHIN_S = 2.0
"""After SIGKILL, the kernel frees the memory of a process within this many seconds."""


@dataclass(slots=True)
class _Broker:
    """The known state of a node's process; changed only by calls for this node, under the lock."""

    process: ProcessId
    incarnation: int
    paused: bool = False
    ended_by_us: bool = False
    ended_well: bool = False


class Waiting(Protocol):
    """Observes a process that is stopping, to detect a useless wait.

    Attributes:
        closed: Whether the process has closed its logs; valid after `waits_in_vain` returned true.
    """

    closed: bool

    def waits_in_vain(self) -> bool:
        """Return whether the process waits for an event that cannot occur.

        Never raises an error.
        """


class BrokerProcesses:
    """The processes of all nodes: one broker, separate controller or ZooKeeper per node.

    Args:
        hosts: The machines that run the processes.
        command: Returns the command line of a node's process, given the node and the incarnation.
        played_by: Returns the node whose process runs a given node's broker. Nodes that share a
            process start and stop together. A second start or stop of the process is then not an
            error. None means that each node has its own process.
        in_order: Whether an unexpected exit code after SIGTERM is reported as a failure.
    """

    def __init__(
        self,
        hosts: Hosts,
        command: Callable[[str, int], Command],
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
            ClusterError: The broker is already running.
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
        incarnation = before.incarnation + 1 if before else 1
        process = self._hosts.spawn(node, self._command(node, incarnation))
        with self._lock:
            self._brokers[node] = _Broker(process, incarnation)
        log.info("%s started (pid %d, incarnation %d)", called(node), process.pid, incarnation)
        return process

    def found(self, node: str, process: ProcessId) -> None:
        """Register an already running process. It becomes the node's first process."""
        with self._lock:
            self._brokers[node] = _Broker(process, 1)

    def is_meant_to_answer(self, node: str) -> bool:
        """Return whether Logquake expects the node to answer; the node's process is not checked.

        The result is false if Logquake has ended or paused the node.
        """
        broker = self._brokers.get(node)
        return broker is not None and not broker.paused and not broker.ended_by_us

    def stop(self, node: str, timeout_s: float, waiting: Waiting | None = None) -> bool:
        """Stop a node's broker: SIGTERM first, then SIGKILL after the time limit.

        A paused broker is resumed, because it could not end otherwise.

        Args:
            node: The broker's node.
            timeout_s: The time limit in seconds.
            waiting: Detects that the process waits for an event that cannot occur. The process is
                then killed early.

        Returns:
            True if the broker ended by itself after SIGTERM. True also if the broker had closed its
                logs, and was then killed because it waited for an event that cannot occur. False if
                the broker was killed in another case, or was not running.
        """
        with self._one_turn if self._played_by else nullcontext():
            return self._stopped(self._player(node), timeout_s, waiting)

    def _stopped(self, node: str, timeout_s: float, waiting: Waiting | None) -> bool:
        broker = self._brokers.get(node)
        if broker is None or not self._is_running(broker.process):
            if broker is not None and self._played_by and broker.ended_well:
                return True
            log.info("%s was not running when it was asked to stop", called(node))
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
            closed = (
                "the broker has closed its logs" if waiting.closed else "the process has no broker"
            )
            log.info("%s waits for a quorum that no longer exists; %s", called(node), closed)
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
        """Kill a node's broker with SIGKILL, and wait for its end."""
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
        """Send no signal, but treat a later end of the node's broker as intended."""
        if broker := self._broker(node):
            broker.ended_by_us = True

    def pause(self, node: str) -> None:
        """Pause a node's broker with SIGSTOP.

        Raises:
            ClusterError: The broker is not running.
        """
        broker = self._broker(node)
        if broker is not None:
            broker.paused = True  # Set first: no check may report an unexpected halt.
        if broker is None or not self._hosts.send_signal(broker.process, signal.SIGSTOP):
            if broker is not None:
                broker.paused = False
            raise ClusterError(f"{called(node)} cannot be paused, because it does not run")

    def resume(self, node: str) -> None:
        """Resume a node's broker with SIGCONT. Idempotent."""
        if broker := self._broker(node):
            self._hosts.send_signal(broker.process, signal.SIGCONT)
            broker.paused = False

    def send_signal(self, node: str, number: signal.Signals) -> None:
        """Send a signal to a node's process, if it exists; the signal must not end the process."""
        if broker := self._broker(node):
            self._hosts.send_signal(broker.process, number)

    def process(self, node: str) -> ProcessId | None:
        """Return the node's most recently started process."""
        broker = self._broker(node)
        return broker.process if broker else None

    def incarnation(self, node: str) -> int:
        """Return the number of starts of the node's broker."""
        broker = self._broker(node)
        return broker.incarnation if broker else 0

    def runs(self, node: str) -> bool:
        """Return whether the node's broker process exists, running or paused."""
        broker = self._broker(node)
        return broker is not None and self._is_running(broker.process)

    def answers(self, node: str) -> bool:
        """Return whether the node's broker exists and is not paused, so that it can answer."""
        broker = self._broker(node)
        return broker is not None and not broker.paused and self._is_running(broker.process)

    def exited(self) -> Mapping[str, ProcessId]:
        """Return, by node, the broker processes that have ended, but not through Logquake."""
        with self._lock:
            brokers = dict(self._brokers)
        return {
            node: broker.process
            for node, broker in brokers.items()
            if not broker.ended_by_us and not self._is_running(broker.process)
        }

    def lives(self) -> int:
        """Return the total number of process starts of all nodes."""
        with self._lock:
            return sum(broker.incarnation for broker in self._brokers.values())

    def ended(self) -> Sequence[Ended]:
        """Return all processes that ended or halted by themselves; include earlier incarnations."""
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

        # A process with threads that wait for a disk is a zombie and has no exit code yet.
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
