"""The fault `few-handles`: a broker can open only a few more files and connections.

This happens if the limit of file descriptors has its default value, or if many clients connect at
once. The fault lowers the broker's soft limit `RLIMIT_NOFILE` (prlimit(2)). Below the new limit, 0
to 8 descriptor numbers are free. Then Logquake opens connections that use up the free descriptors.
The broker's next attempt to open a file or accept a connection fails with EMFILE. If Kafka cannot
open a file, such as a checkpoint, it takes the log folder offline. A broker without another log
folder halts.

In about half of all cases, Logquake closes its connections as soon as no descriptor is left. Then
the broker may continue with the few descriptors. The heal restores the limit, and starts a broker
that has ended.

The fault does not imitate the limit of the whole machine (ENFILE).
"""

import socket
from collections.abc import Iterator
from contextlib import suppress

from cluster.protocol import ClusterError, Handles
from nemesis.in_words import InWords
from nemesis.protocol import Aim, Patience, Site
from nemesis.resource_effects import FreedEffect, HandlesEffect
from nemesis.resources import StarvedBrokers
from nemesis.undo import FreeResources, Restart
from results.record.clock import WaitTimeoutError, stopwatch_s, wait_until
from results.record.terms import NO_HANDLE

MOST_SPARE = 8
MOST_MORE = 4
"""The maximum number of extra connections, because the broker may close descriptors meanwhile."""
CONNECT_S = ACCEPT_S = 1.0


class FewHandles:
    """A fault that leaves brokers without a free file descriptor.

    Args:
        aim: The fault's id and targets.
        site: The run's cluster and hosts. The hosts must be able to limit resources.

    Raises:
        ClusterError: The hosts do not limit resources, or a target has no broker process.
    """

    links = ()

    def __init__(self, aim: Aim, site: Site) -> None:
        self.targets = aim.targets
        self._site = site
        self._hit = StarvedBrokers(aim, site)
        self._spare = aim.rng.randint(0, MOST_SPARE)
        self._lasting = aim.rng.choice((False, True))
        self._before: dict[str, Handles] = {}
        self._limits: dict[str, tuple[int, int]] = {}
        self._crowd: dict[str, list[socket.socket]] = {}
        self._felt: set[str] = set()
        self._started_s = stopwatch_s()

    def undo(self) -> tuple[FreeResources | Restart, ...]:
        """Return the undo steps: restore the limits, and start the brokers that are down."""
        return self._hit.undo()

    def inject(self) -> None:
        """Lower the limits, and then open connections until no descriptor is left.

        Raises:
            ClusterError: A broker already had no free descriptor, or its address is unknown.
        """
        self._started_s = stopwatch_s()
        for node in self._hit.each():
            process = self._hit.brokers.before[node]
            before = self._before[node] = self._hit.hosts.handles(process)
            free = before.free(self._spare + 1)
            if not free:
                raise ClusterError(f"the broker of {node} had no free file handle before the fault")
            soft = free[-1]
            self._limits[node] = (before.soft, soft)
            self._hit.hosts.limit_handles(process, soft)
            self._fill(node)

    def confirm(self, patience: Patience) -> HandlesEffect | None:
        """Confirm that each broker has no descriptor left, or has ended for this reason."""
        try:
            wait_until(
                lambda: all(self._has_none_left(node) for node in self._hit.each()),
                timeout_s=patience.limit_s,
                what="all file descriptors to be in use",
                interval_s=0.02,
                stop=patience.stop,
            )
        except WaitTimeoutError:
            return None
        crowd = {node: len(connections) for node, connections in self._crowd.items()}
        if not self._lasting:
            self._disperse()
        return HandlesEffect(
            took_s=stopwatch_s() - self._started_s,
            open_before={node: len(each.numbers) for node, each in self._before.items()},
            limits=self._limits,
            spare=self._spare,
            crowd=crowd,
            lasting=self._lasting,
            processes=self._hit.brokers.changes(),
        )

    def heal(self) -> None:
        """Restore the limits, and start the brokers that ended. Idempotent."""
        self._disperse()
        self._hit.free(self._limited(), self._free)

    def confirm_healed(self, patience: Patience) -> FreedEffect | None:
        """Confirm that the limits are restored, and that the brokers are registered."""
        if not all(self._is_free(node) for node in self._limited()):
            return None
        return self._hit.wait_back(patience)

    def _free(self, node: str) -> None:
        process, soft = self._hit.brokers.before[node], self._limits[node][0]
        try:
            self._hit.hosts.limit_handles(process, soft)
        except (ClusterError, OSError):
            if self._hit.lives(node):
                raise

    def _is_free(self, node: str) -> bool:
        """Return whether a broker has its old limits again, or has ended."""
        before = self._before[node]
        try:
            now = self._hit.hosts.handles(self._hit.brokers.before[node])
        except ClusterError:
            return not self._hit.lives(node)
        return (now.soft, now.hard) == (before.soft, before.hard)

    def _limited(self) -> Iterator[str]:
        return (node for node in self._hit.living() if node in self._limits)

    def _has_none_left(self, node: str) -> bool:
        """Return whether a broker has no descriptor left now, or had none at an earlier check.

        If a broker ended before such a check, its own output must contain the reason.
        """
        if node in self._felt:
            return True
        if self._hit.lives(node):
            with suppress(ClusterError):  # The broker is ending now.
                if not self._hit.hosts.handles(self._hit.brokers.before[node]).free(1):
                    self._felt.add(node)
        elif node in self._limits and any(NO_HANDLE in line for line in self._hit.said(node)):
            self._felt.add(node)
        return node in self._felt

    def _fill(self, node: str) -> None:
        """Open connections to a broker, one by one, until the broker has no descriptor left.

        Stop at that point: a Kafka broker that cannot accept a connection retries all the time, and
        logs a stack trace each time.
        """
        crowd = self._crowd.setdefault(node, [])
        address = self._address(node)
        while not self._has_none_left(node) and len(crowd) < self._spare + MOST_MORE:
            before = self._open(node)
            try:
                crowd.append(socket.create_connection(address, timeout=CONNECT_S))
            except OSError:
                return  # The broker has ended, or accepts no connection.
            self._wait_accepted(node, before)

    def _wait_accepted(self, node: str, before: int) -> None:
        with suppress(WaitTimeoutError):
            wait_until(
                lambda: self._has_none_left(node) or self._open(node) > before,
                timeout_s=ACCEPT_S,
                what="the connection to be accepted",
                interval_s=0.01,
            )

    def _open(self, node: str) -> int:
        try:
            return len(self._hit.hosts.handles(self._hit.brokers.before[node]).numbers)
        except ClusterError:
            return 0

    def _address(self, node: str) -> tuple[str, int]:
        cluster = self._site.cluster
        places = dict(zip(cluster.nodes, cluster.bootstrap().split(","), strict=False))
        host, _, port = places.get(node, "").rpartition(":")
        if not port.isdigit():
            raise ClusterError(
                f"{node} has no address for connections that would use up its file handles"
            )
        return host, int(port)

    def _disperse(self) -> None:
        for connections in self._crowd.values():
            while connections:
                connections.pop().close()


SAYS = {
    "few-handles": InWords(
        does="a broker cannot open another file or connection; it halts if it needs a file",
        injected=(
            "prlimit: 0 to 8 descriptor numbers are free below the limit; Logquake's connections"
            " use these up"
        ),
        proven=(
            "`/proc/PID/fd` has no free number below the limit, or the broker's last output shows"
            " the error"
        ),
        undone="the old limit; a start if the broker has exited",
    ),
}
