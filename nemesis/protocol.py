"""The interface of a fault, and of the site (cluster, hosts, network) that faults act on."""

import itertools
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, Self, runtime_checkable

from cluster.protocol import (
    CanPartition,
    Cluster,
    ClusterError,
    Disk,
    HasControllers,
    HasKeeper,
    HasLogs,
    Hosts,
    Link,
    Logs,
    ProcessId,
    SharesProcesses,
)
from cluster.sessions import OUR_SESSION_S
from nemesis.effects import Effect, HealEffect
from nemesis.network import Network
from nemesis.undo import Undo
from results.record.runtime import Event

FAILURES = (ClusterError, OSError, subprocess.SubprocessError)
"""The errors that hosts or clusters raise. They report failures outside of Logquake's code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The cluster, hosts and network that faults act on.

    Attributes:
        cluster: The brokers. Use `isinstance` to check their abilities (`CanKill`, `CanPause`).
        network: The network between nodes. None if links cannot be cut.
        state_of: Returns the letter of a process's state in `/proc`. None if the process does not
            exist.
        hosts: The machines. Use `isinstance` to check their abilities (`CanShape`, ...).
        disk_of: Returns the files of a node's folder, for disk faults. None if they cannot be
            accessed.
        controllers: The separate controllers and ZooKeeper that keep the metadata, if there are
            any.
        machines: All machines that have links. Empty if only the nodes and controllers have links.
        session_s: Seconds for which the cluster counts an ended broker as alive.
    """

    cluster: Cluster
    network: Network | None
    state_of: Callable[[ProcessId], str | None]
    hosts: Hosts | None = None
    disk_of: Callable[[str], Disk] | None = None
    controllers: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    session_s: float = OUR_SESSION_S

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        hosts: Hosts,
        state_of: Callable[[ProcessId], str | None] | None = None,
        *,
        machines: Sequence[str] = (),
        session_s: float = OUR_SESSION_S,
    ) -> Self:
        """Return the site of a run. Without `state_of`, the hosts report process states."""
        return cls(
            cluster=cluster,
            network=Network(hosts) if isinstance(hosts, CanPartition) else None,
            state_of=state_of or hosts.state_of,
            hosts=hosts,
            disk_of=hosts.disk,
            controllers=_beside(cluster),
            machines=tuple(machines),
            session_s=session_s,
        )

    @property
    def logs(self) -> Logs | None:
        """Return the reader of replicas' files, or None if the files cannot be accessed."""
        return self.cluster.logs if isinstance(self.cluster, HasLogs) and self.disk_of else None

    def together(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes and all other nodes in the same processes. A signal hits all of them."""
        if not isinstance(self.cluster, SharesProcesses):
            return tuple(nodes)
        shared = map(self.cluster.played_with, nodes)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(shared)))


def _beside(cluster: Cluster) -> tuple[str, ...]:
    """Return the separate controllers and the ZooKeeper of a cluster."""
    apart = tuple(cluster.controllers) if isinstance(cluster, HasControllers) else ()
    keeper = cluster.keeper if isinstance(cluster, HasKeeper) else None
    return apart if keeper is None else (*apart, keeper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The data of one scheduled fault at its start.

    Attributes:
        fault_id: The number of the fault in the run, from 1.
        targets: The nodes that the fault hits, chosen at its start (`nemesis.targets`,
            `nemesis.aftermath`).
        rng: The random source of this fault, seeded by the run's seed and the fault's number.
        stop: An event that is set when the main phase ends. Then a slow injection ends early, and a
            background task stops.
        place: The topic and partition that the role expression names. For a fault that moves a
            coordinator, the internal partition with its data. Otherwise None.
    """

    fault_id: int
    targets: tuple[str, ...]
    rng: Random
    stop: Event | None = None
    place: tuple[str, int] | None = None

    @property
    def is_late(self) -> bool:
        """Return whether the main phase has ended.

        The main phase can end before the heal, for example after an error.
        """
        return self.stop is not None and self.stop.is_set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The time limit of a confirmation.

    Attributes:
        limit_s: The limit in seconds.
        stop: An event that ends the wait early when set.
    """

    limit_s: float
    stop: Event | None = field(default=None)


class Fault(Protocol):
    """One fault with its targets. Every failure raises one of `FAILURES`.

    If a background task of the fault fails, this counts as a failure of the fault
    (`nemesis.background`).
    """

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the nodes that the fault hits."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Return the directed links that the fault cuts, degrades or stalls.

        Empty for faults on processes.
        """

    def undo(self) -> tuple[Undo, ...]:
        """Return the undo steps of the fault. This call changes nothing."""

    def inject(self) -> None:
        """Measure the state before the fault, and then inject the fault."""

    def confirm(self, patience: Patience) -> Effect | None:
        """Measure the effect. Return None if there is no effect within the time limit."""

    def heal(self) -> None:
        """Undo the fault. Idempotent, and possible even if `inject` failed or was not called."""

    def confirm_healed(self, patience: Patience) -> HealEffect | None:
        """Measure whether the fault has ended. Return None if this is not confirmed in time."""


@runtime_checkable
class OfPartition(Protocol):
    """A fault on one partition, which the fault may have chosen at random."""

    @property
    def place(self) -> tuple[str, int]:
        """Return the topic and the partition."""


@runtime_checkable
class LeavesTopics(Protocol):
    """A fault that leaves topics behind. After the heal, their replicas must be in sync."""

    @property
    def places(self) -> Sequence[tuple[str, int]]:
        """Return topics and partitions. Empty until the topics have their final form."""


FaultMaker = Callable[[Aim, Site], Fault]
"""A function that makes a fault, but does not inject it. It raises `ClusterError` if the site does
not support the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The fixed targets of a scripted fault. They need no role and no kind.

    Attributes:
        nodes: The target nodes.
        make: The function that makes the fault.
    """

    nodes: tuple[str, ...]
    make: FaultMaker
